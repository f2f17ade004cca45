// What one room sees: ALLOWED is a header of a room that it may see, FORBIDDEN one of a room that
// it may not.
#if !__has_include(ALLOWED)
#error "this header should be found here"
#endif

#ifdef FORBIDDEN
#include FORBIDDEN
#endif

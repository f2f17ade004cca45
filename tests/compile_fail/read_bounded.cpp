#include "privgrad/privacy.hpp"

// What has no noise yet can be asked for its bound, and for nothing else.
double peek(const privgrad::Bounded& sum) {
#ifdef FORBIDDEN
  return sum.values_.front();
#else
  return sum.l2_bound();
#endif
}

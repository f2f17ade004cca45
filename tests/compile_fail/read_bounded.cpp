#include "privgrad/privacy.hpp"

// Only the bound of a sum without noise can be read.
double peek(const privgrad::Bounded& sum) {
#ifdef FORBIDDEN
  return sum.values_.front();
#else
  return sum.l2_bound();
#endif
}

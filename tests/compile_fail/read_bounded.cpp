#include "privgrad/privacy.hpp"

// A sum without noise only gives its bound.
double peek(const privgrad::Bounded& sum) {
#ifdef FORBIDDEN
  return sum.values_.front();
#else
  return sum.l2_bound();
#endif
}

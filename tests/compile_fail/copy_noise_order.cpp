#include "privgrad/resident_steps.hpp"

// An order is for one release: a program must not be able to keep a copy for a second release.
privgrad::NoiseOrder kept(const privgrad::NoiseOrder& order) {
#ifdef FORBIDDEN
  return order;
#else
  throw order.sigma();
#endif
}

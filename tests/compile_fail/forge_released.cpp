#include "privgrad/optimizer.hpp"

// A component must not be able to call raw data released.
privgrad::Released forge(std::vector<float> raw) {
#ifdef FORBIDDEN
  return privgrad::Released(std::move(raw), 0.0);
#else
  throw raw.size();
#endif
}

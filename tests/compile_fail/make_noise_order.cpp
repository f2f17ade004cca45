#include "privgrad/resident_steps.hpp"

// A program gets noise from the core, after the charge: it must not be able to make its own orders.
privgrad::NoiseOrder order(std::span<const std::uint8_t, 16> key) {
#ifdef FORBIDDEN
  return privgrad::NoiseOrder(key, 1.0, 0);
#else
  throw key.size();
#endif
}

#include "privgrad/resident_steps.hpp"

#include <algorithm>

namespace privgrad {

ResidentSteps::~ResidentSteps() = default;
ResidentSteps::Memory::~Memory() = default;

NoiseOrder::NoiseOrder(std::span<const std::uint8_t, 16> key, double sigma, unsigned shift)
    : key_{}, sigma_(sigma), shift_(shift) {
  std::ranges::copy(key, key_.begin());
}

}  // namespace privgrad

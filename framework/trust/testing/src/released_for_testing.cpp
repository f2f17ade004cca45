#include <utility>

#include "privgrad/trust/testing.hpp"
#include "trust_base.hpp"

namespace privgrad::core {

Released released_for_testing(std::vector<float> values, double noise_stddev) {
  return TrustBase::released(std::move(values), noise_stddev);
}

std::vector<std::int64_t> cells_for_testing(const BoundedOnGrid& sum) {
  return TrustBase::copy(sum);
}

}  // namespace privgrad::core

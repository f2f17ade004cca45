// Makes released values without a charge, for tests of components without the core.
#pragma once

#include <utility>
#include <vector>

#include "privgrad/privacy.hpp"

// Only privgrad::TrustBase, which the core defines, can make released values. Tests of components
// that take released values are built without the core, so they define their own TrustBase. Never
// include this where privgrad::core is linked: the class would be defined twice.
namespace privgrad {
class TrustBase {
 public:
  static Released release(std::vector<float> values, double noise_stddev = 0.0) {
    return Released(std::move(values), noise_stddev);
  }
};
}  // namespace privgrad

#include "layers/make_step.hpp"

#include <variant>

namespace privgrad::cpu {

std::unique_ptr<Step> make_step(const Layer& layer, const Place& place) {
  return std::visit([&](const auto& one) { return step_of_kind(one, place); }, layer);
}

}  // namespace privgrad::cpu

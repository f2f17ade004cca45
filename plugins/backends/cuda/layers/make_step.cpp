// Makes the step of a layer, whichever kind it is.
#include "layers/make_step.hpp"

#include <string>
#include <variant>

#include "privgrad/error.hpp"

namespace privgrad::cuda {

std::unique_ptr<Step> step_of(const Opaque&, const Place&) { return nullptr; }

std::unique_ptr<Step> make_step(const Layer& layer, std::size_t index, const Place& place) {
  auto step = std::visit([&](const auto& one) { return step_of(one, place); }, layer);
  if (step == nullptr) {
    throw ConfigError("backend cuda: layer " + std::to_string(index) +
                      " has mathematics of its model's own (opaque), which no backend can execute");
  }
  return step;
}

}  // namespace privgrad::cuda

// Convolutions on a device.
#include "layers/convolution.hpp"

#include "layers/kind.hpp"

namespace privgrad::cuda {

std::unique_ptr<Step> step_of(const Conv2d& layer, const Place& place) {
  return std::make_unique<ConvStep>(layer, place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const Conv2d&, const Place&);

}  // namespace privgrad::cuda

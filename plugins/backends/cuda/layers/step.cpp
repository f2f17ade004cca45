#include "layers/step.hpp"

namespace privgrad::cuda {

Step::Step(const Shape& in, const Shape& out)
    : inputs_(element_count(in)), outputs_(element_count(out)) {}

void Step::allocate(const std::shared_ptr<Device>&, std::size_t, PassUse, StepPass&) const {}

}  // namespace privgrad::cuda

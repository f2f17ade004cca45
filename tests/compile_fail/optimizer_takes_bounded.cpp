#include "privgrad/optimizer.hpp"

// An optimizer that asks for what has no noise yet cannot stand in for one that takes what has.
#ifdef FORBIDDEN
using Gradient = privgrad::Bounded;
#else
using Gradient = privgrad::Released;
#endif

class Peeking : public privgrad::Optimizer {
 public:
  void step(std::span<float>, const Gradient&, const privgrad::StepContext&) override;
};

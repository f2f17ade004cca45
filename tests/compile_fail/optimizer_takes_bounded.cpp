#include "privgrad/optimizer.hpp"

// An optimizer that accepts sums without noise cannot replace one that accepts released values.
#ifdef FORBIDDEN
using Gradient = privgrad::Bounded;
#else
using Gradient = privgrad::Released;
#endif

class Peeking : public privgrad::Optimizer {
 public:
  void step(std::span<float>, const Gradient&, const privgrad::StepContext&) override;
};

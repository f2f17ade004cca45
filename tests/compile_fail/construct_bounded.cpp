#include "privgrad/privacy.hpp"

// A component must not be able to state its own bound for a sum: only the core, which clips, knows
// that the bound holds.
privgrad::Bounded claim(std::vector<float> sum) {
#ifdef FORBIDDEN
  return privgrad::Bounded(std::move(sum), 1e-9, privgrad::PrivacyUnit::example);
#else
  throw sum.size();
#endif
}

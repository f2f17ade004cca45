#include <utility>

#include "privgrad/privacy.hpp"

// A sum must not be released twice.
privgrad::Bounded keep(privgrad::Bounded& sum) {
#ifdef FORBIDDEN
  return sum;
#else
  return std::move(sum);
#endif
}

#include <utility>

#include "privgrad/privacy.hpp"

// A sum that was released once must not be there to be released again.
privgrad::Bounded keep(privgrad::Bounded& sum) {
#ifdef FORBIDDEN
  return sum;
#else
  return std::move(sum);
#endif
}

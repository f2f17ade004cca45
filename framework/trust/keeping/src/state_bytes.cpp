#include "privgrad/trust/state_bytes.hpp"

#include "privgrad/error.hpp"

namespace privgrad::core {

void StateReader::fail(const std::string& what) const {
  throw IoError(name_ + ": is not a checkpoint that this program wrote: " + what);
}

}  // namespace privgrad::core

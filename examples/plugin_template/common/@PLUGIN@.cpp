@INCLUDES@#include "privgrad/plugin.hpp"

namespace @NAMESPACE@ {
namespace {

void register_components(privgrad::Registrar& registrar) {
@REGISTRATIONS@}

}  // namespace
}  // namespace @NAMESPACE@

// The third text lists what is registered above; it is read without running anything.
PRIVGRAD_PLUGIN("@VENDOR@.@PLUGIN@", "0.1.0",
                @LIST@,
                @NAMESPACE@::register_components)

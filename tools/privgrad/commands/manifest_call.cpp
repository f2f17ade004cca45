#include "manifest_call.hpp"

namespace privgrad::tool {

Option set_option() {
  return {.name = "set",
          .value = "KEY=VALUE",
          .doc =
              "Override one value of the manifest; KEY is dotted (schedules.clip_norm), VALUE is "
              "YAML.",
          .repeatable = true};
}

}  // namespace privgrad::tool

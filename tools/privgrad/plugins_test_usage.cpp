#include "plugins_test_usage.hpp"

namespace privgrad::tool {

Usage plugins_test_usage() {
  return {.name = "plugins test",
          .summary =
              "Checks that the components of a plugin keep every promise of their "
              "interface.",
          .operands = {"FILE"},
          .options = {{.name = "params",
                       .value = "NAME=YAML",
                       .doc = "Parameters to make the component NAME with, in place of its "
                              "declared examples and defaults.",
                       .repeatable = true},
                      {.name = "json", .value = "", .doc = "Print the findings as JSON."}},
          .details =
              "Runs the plugin's code in this process. Rules that were not checked "
              "are listed as skipped, with the\nreason.\n\nexit codes: 0 done, 1 a "
              "promise is broken or the file is no plugin, 2 the call is wrong or the "
              "file\nis not named like a plugin, 4 there is no such file",
          .examples = {"privgrad plugins test "
                       "build/lib/privgrad/plugins/schedules/warm_up.privgrad.so",
                       "privgrad plugins test idx.privgrad.so --params 'idx={train: {images: "
                       "i.gz, labels: l.gz}}'"}};
}

}  // namespace privgrad::tool

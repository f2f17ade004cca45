#include "data_fetch_usage.hpp"

namespace privgrad::tool {

Usage data_fetch_usage() {
  return {
      .name = "data fetch",
      .summary =
          "Downloads a public data set, checks it, and keeps it for manifests that name it:\n"
          "`data: {kind: dataset, name: NAME}`.",
      .operands = {"DATASET"},
      .options = {{"timeout", "SECONDS",
                   "Give up an address that sends nothing for this long; default 30."},
                  {"json", "", "Print where it is as JSON and nothing else on standard output."},
                  quiet_option()},
      .details =
          "The files go to PRIVGRAD_CACHE_DIR, else to XDG_CACHE_HOME/privgrad/datasets, else to\n"
          "~/.cache/privgrad/datasets, each set in a folder of its name. Every file is checked by "
          "its SHA-256\nbefore it appears there under its name. A download that Ctrl-C or a lost "
          "connection\ninterrupts is kept, and the next fetch continues it; a fetch that finds "
          "all files checks them and\ndownloads nothing.\n\nexit codes: 0 done, 1 interrupted, 2 "
          "the call is "
          "wrong, 4 no address gave the file, or the disk failed",
      .examples = {"privgrad data fetch mnist",
                   "privgrad data fetch cifar10 --timeout 120 --quiet"}};
}

}  // namespace privgrad::tool

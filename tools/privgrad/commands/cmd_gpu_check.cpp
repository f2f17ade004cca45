#include "command.hpp"
#include "companion.hpp"

namespace privgrad::tool {
namespace {

int do_gpu_check(const Arguments&) {
  become_companion("check-cuda.sh", {"here", (installation() / "bin/privgrad").string()});
}

}  // namespace

Command gpu_check_command() {
  return {
      .usage = {.name = "gpu check",
                .summary = "Says whether the GPU of this machine computes the right bits, and "
                           "how long a private step takes.",
                .operands = {},
                .options = {},
                .details =
                    "A small seeded run must leave the same model with the backends cpu and "
                    "cuda, byte for byte. A step is\none of FedAvg's CNN with 4096 examples; "
                    "its ratio to steps of PyTorch, Opacus and JAX Privacy is shown for\nthose "
                    "that python3 on the path can import. It takes a minute or two, and reads no "
                    "data of yours.\n\n"
                    "exit codes: 0 the bits are right, 1 they are not, 2 there is no GPU that "
                    "can be used, 4 a run failed",
                .examples = {"privgrad gpu check"}},
      .run = do_gpu_check};
}

}  // namespace privgrad::tool

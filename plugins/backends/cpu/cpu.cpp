#include "privgrad/backend.hpp"
#include "privgrad/plugin.hpp"
#include "program.hpp"

namespace {

class Cpu final : public privgrad::Backend {
 public:
  explicit Cpu(const privgrad::Params&) {}

  std::unique_ptr<privgrad::Program> compile(const privgrad::Network& network,
                                             privgrad::Executor& executor) override {
    return std::make_unique<privgrad::cpu::CpuProgram>(network, executor);
  }
};

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::Backend, Cpu>({
      .name = "cpu",
      .summary =
          "The processor: norms, cells and their sums by one backward pass of matrix products, "
          "the same bits on any number of threads and any processor.",
      .reference = "Bu et al. 2023, Algorithm 1; Goodfellow 2015",
      .params = {},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.cpu", "0.1.0", "backend/cpu", register_components)

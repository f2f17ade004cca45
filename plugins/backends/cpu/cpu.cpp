#include "privgrad/backend.hpp"
#include "privgrad/plugin.hpp"
#include "program.hpp"

namespace {

class Cpu final : public privgrad::Backend {
 public:
  explicit Cpu(const privgrad::Params&) {}

  std::unique_ptr<privgrad::Program> compile(const privgrad::Network& network,
                                             privgrad::Executor&) override {
    return std::make_unique<privgrad::cpu::CpuProgram>(network);
  }
};

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::Backend, Cpu>({
      .name = "cpu",
      .summary = "The processor: per-example gradients as rows, bitwise the same in every batch.",
      .reference = "none: back-propagation, written out per example",
      .params = {},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.cpu", "0.1.0", register_components)

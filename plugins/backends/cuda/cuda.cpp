#include "device.hpp"
#include "pass.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/plugin.hpp"
#include "program.hpp"
#include "resident_program.hpp"

namespace {

class Cuda final : public privgrad::Backend {
 public:
  explicit Cuda(const privgrad::Params& params)
      : number_(static_cast<std::size_t>(params.integer("device"))),
        on_host_twin_(params.boolean("host_twin")),
        keeps_steps_(params.text("steps") == "device") {}

  std::unique_ptr<privgrad::Program> compile(const privgrad::Network& network,
                                             privgrad::Executor& executor) override {
    if (const std::string why = missing_hardware(); !why.empty()) privgrad::cuda::refuse(why);
    auto device = on_host_twin_ ? privgrad::cuda::make_host_twin(executor)
                                : privgrad::cuda::open_gpu(number_);
    if (keeps_steps_)
      return std::make_unique<privgrad::cuda::ResidentProgram>(network, std::move(device),
                                                               executor);
    return std::make_unique<privgrad::cuda::CudaProgram>(network, std::move(device));
  }

  std::string missing_hardware() const override {
    return on_host_twin_ ? std::string() : privgrad::cuda::why_no_gpu(number_);
  }

 private:
  std::size_t number_;
  bool on_host_twin_, keeps_steps_;
};

void register_components(privgrad::Registrar& registrar) {
  using namespace privgrad;
  registrar.add<Backend, Cuda>({
      .name = "cuda",
      .summary = "Trains on an NVIDIA GPU (compute capability 8.0 or newer); the gradient of "
                 "each example has the same bits as on the processor.",
      .reference = "Bu et al. 2023, Algorithm 1; docs/exactness.md",
      .params =
          {
              param::integer("device", "The number of the GPU in the list of nvidia-smi.")
                  .at_least(0)
                  .defaults_to(0),
              param::text("precision",
                          "The precision of matrix products. The only one is float32: fused "
                          "multiply-adds, with the same bits as on the processor.")
                  .one_of({"float32"})
                  .defaults_to("float32"),
              param::text("steps",
                          "Where noise is added and the optimizer runs. device: on the GPU, beside "
                          "the sums, so a step copies nothing of the parameters' length to the "
                          "processor; the plugin receives the key of each release's noise, and the "
                          "core recomputes a sample of each step. host: on the processor, as with "
                          "`cpu`; the key stays in the trust base.")
                  .one_of({"device", "host"})
                  .defaults_to("device"),
              param::boolean("host_twin",
                             "For tests only: the processor runs the GPU's kernels, one thread "
                             "after the other. Hundreds of times slower than `cpu`; no GPU is "
                             "used.")
                  .defaults_to(false),
          },
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.cuda", "0.1.0", "backend/cuda", register_components)

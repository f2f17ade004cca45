#include "device.hpp"
#include "pass.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/needs_hardware.hpp"
#include "privgrad/plugin.hpp"
#include "program.hpp"
#include "resident_program.hpp"

namespace {

privgrad::cuda::Precision precision_from(const std::string& text) {
  using privgrad::cuda::Precision;
  if (text == "tf32") return Precision::tf32;
  return text == "bf16" ? Precision::bf16 : Precision::float32;
}

class Cuda final : public privgrad::Backend, public privgrad::NeedsHardware {
 public:
  explicit Cuda(const privgrad::Params& params)
      : number_(static_cast<std::size_t>(params.integer("device"))),
        precision_(precision_from(params.text("precision"))),
        on_host_twin_(params.boolean("host_twin")),
        keeps_steps_(params.text("steps") == "device") {
    if (params.has("compute_capability")) capability_ = params.text("compute_capability");
    if (rounds() && !on_host_twin_ && capability_.empty()) {
      privgrad::cuda::refuse("precision " + params.text("precision") +
                             " needs compute_capability, whose tensor cores the bits are of: "
                             "'8.0' of an A100, '9.0' of an H100");
    }
  }

  std::unique_ptr<privgrad::Program> compile(const privgrad::Network& network,
                                             privgrad::Executor& executor) override {
    if (const std::string why = missing_hardware(); !why.empty()) privgrad::cuda::refuse(why);
    auto device = on_host_twin_ ? privgrad::cuda::make_host_twin(executor)
                                : privgrad::cuda::open_gpu(number_);
    if (keeps_steps_)
      return std::make_unique<privgrad::cuda::ResidentProgram>(network, std::move(device),
                                                               precision_);
    return std::make_unique<privgrad::cuda::CudaProgram>(network, std::move(device), precision_);
  }

  std::string missing_hardware() const override {
    if (on_host_twin_) return {};
    const std::string why = privgrad::cuda::why_no_gpu(number_);
    return why.empty() && rounds() ? privgrad::cuda::why_other_bits(number_, capability_) : why;
  }

 private:
  bool rounds() const { return precision_ != privgrad::cuda::Precision::float32; }

  std::size_t number_;
  privgrad::cuda::Precision precision_;
  std::string capability_;
  bool on_host_twin_, keeps_steps_;
};

void register_components(privgrad::Registrar& registrar) {
  using namespace privgrad;
  registrar.add<Backend, Cuda>({
      .name = "cuda",
      .summary = "An NVIDIA GPU (compute capability 8.0 or newer): in float32 the same bits as on "
                 "the processor, for every example alone.",
      .reference = "Bu et al. 2023, Algorithm 1; docs/exactness.md",
      .params =
          {
              param::integer("device", "The number of the GPU, as nvidia-smi counts them.")
                  .at_least(0)
                  .defaults_to(0),
              param::text("precision",
                          "What the products of forwards and backwards multiply, and add up in "
                          "float32. float32: fused multiply-adds, the same bits as on the "
                          "processor. tf32, bf16: factors rounded to 10 or 7 bits of fraction, on "
                          "tensor cores, whose bits nobody specifies: floating_point is listed, "
                          "and release mode refuses.")
                  .one_of({"float32", "tf32", "bf16"})
                  .defaults_to("float32"),
              param::text("compute_capability",
                          "With tf32 and bf16, the GPU's: tensor cores of another one add with "
                          "other bits, and a run must not go on with those. Those that the plugin "
                          "has code of their own for. float32 has no use for it, nor has the "
                          "host's twin.")
                  .one_of({"8.0", "8.6", "8.7", "8.9", "9.0"})
                  .optional()
                  .example("9.0"),
              param::text(
                  "steps",
                  "Where noise and optimizer are. device: beside the sums, so that a step "
                  "brings nothing of the parameters' length to the processor; the plugin is "
                  "told the key of each release's noise, and looked at in each step. host: "
                  "the processor's, as with `cpu`; the key stays with the trust base.")
                  .one_of({"device", "host"})
                  .defaults_to("device"),
              param::boolean("host_twin",
                             "For tests alone: the processor runs the GPU's kernels, one thread "
                             "after the other. Hundreds of times slower than `cpu`, and no GPU "
                             "is used.")
                  .defaults_to(false),
          },
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.cuda", "0.1.0", register_components)

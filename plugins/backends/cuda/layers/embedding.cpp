// A table of rows, one for each token, on a device.
#include "layers/kind.hpp"

namespace privgrad::cuda {
namespace {

class EmbeddingStep final : public Step {
 public:
  EmbeddingStep(const Embedding& layer, const Shape& in, const Shape& out)
      : Step(in, out),
        table_{.vocabulary = layer.vocabulary, .width = layer.width, .length = inputs_} {
    parameter_count_ = element_count({layer.vocabulary, layer.width});
  }

  void allocate(const std::shared_ptr<Device>& device, std::size_t rows, PassUse use,
                StepPass& pass) const override {
    if (use >= PassUse::cells) pass.row_squares = {device, rows * table_.length};
  }

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, EmbeddingForward{rows * outputs_, table_, pass.in, own_, pass.out});
  }
  /// Tokens have no derivative; none is requested from the first layer.
  void backward(Queue&, std::size_t, const StepPass&) const override {}

  void gradient_rows(Queue& queue, std::size_t rows, const StepPass& pass, float* gradients,
                     std::size_t stride) const override {
    launch_each(queue,
                EmbeddingGradient{rows * outputs_, table_, pass.in, pass.delta, gradients, stride});
  }
  void find_norms(Queue& queue, std::size_t rows, const StepPass& pass,
                  const GroupPass& group) const override {
    launch(queue, TokenRowSquares{rows * table_.length, table_, pass.in, pass.delta,
                                  pass.row_squares.data()});
    launch_each(queue, TokenNorm{rows, group.groups, group.group, table_, pass.in,
                                 pass.row_squares.data(), group.shares});
  }
  void make_cells(Queue& queue, std::size_t rows, const StepPass& pass,
                  const GroupPass& group) const override {
    launch(queue, TokenSquares{rows, group.groups, group.group, table_, group.shares, pass.in,
                               pass.delta, group.squares});
  }
  void add_cells(Queue& queue, std::size_t rows, const StepPass& pass, const GroupPass& group,
                 std::uint64_t* sum) const override {
    launch_each(queue, TokenSums{rows * outputs_, group.groups, group.group, table_, group.shares,
                                 pass.in, pass.delta, group.taken, sum});
  }
  void find_factors(Queue& queue, std::size_t rows, const StepPass& pass, const GroupPass& group,
                    const FactorPlaces& at) const override {
    launch_each(queue,
                TokenFactors{rows * at.count, at.of(offset(), parameter_count_), group.groups,
                             group.group, table_, group.shares, pass.in, pass.delta});
  }

 private:
  Table table_;
};

}  // namespace

std::unique_ptr<Step> step_of(const Embedding& layer, const Place& place) {
  return std::make_unique<EmbeddingStep>(layer, place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const Embedding&, const Place&);

}  // namespace privgrad::cuda

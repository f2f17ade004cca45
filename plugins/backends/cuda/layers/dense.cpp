// Dense layers on a device: products for a whole batch, and cells that are products.
#include "layers/convolution.hpp"
#include "layers/kind.hpp"

namespace privgrad::cuda {
namespace {

class DenseStep final : public Step {
 public:
  DenseStep(const Dense& layer, const Shape& in, const Shape& out)
      : Step(in, out), has_biases_(!layer.no_bias) {
    parameter_count_ = element_count({outputs_, inputs_}) + (has_biases_ ? outputs_ : 0);
  }

  void allocate(const std::shared_ptr<Device>& device, std::size_t rows, PassUse use,
                StepPass& pass) const override {
    if (use < PassUse::cells) return;
    pass.whole_inputs = {device, rows * inputs_};
    pass.whole_units = {device, rows * outputs_};
    pass.dense_roundings = {device, rows};
  }

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_product(queue, AlongInner{pass.in, inputs_}, AlongInner{own_, inputs_},
                   {rows, narrowed(outputs_), narrowed(inputs_)},
                   {pass.out, outputs_, has_biases_ ? own_ + inputs_ * outputs_ : nullptr});
  }

  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_product(queue, AlongInner{pass.delta, outputs_}, AcrossInner{own_, inputs_},
                   {rows, narrowed(inputs_), narrowed(outputs_)}, {pass.below, inputs_});
  }

  void gradient_rows(Queue& queue, std::size_t rows, const StepPass& pass, float* gradients,
                     std::size_t stride) const override {
    launch_each(queue, DenseGradient{rows * parameter_count_, parameter_count_, outputs_, inputs_,
                                     pass.in, pass.delta, gradients, stride});
  }

  void find_norms(Queue& queue, std::size_t rows, const StepPass& pass,
                  const GroupPass& group) const override {
    find_statistics(queue, rows, inputs_, pass.in, group.largest_input, group.input_squares);
    find_statistics(queue, rows, outputs_, pass.delta, group.largest_error, group.error_squares);
    launch_each(queue, DenseNorm{rows, group.groups, group.group, has_biases_, group.largest_input,
                                 group.largest_error, group.input_squares, group.error_squares,
                                 group.shares});
  }

  void make_cells(Queue& queue, std::size_t rows, const StepPass& pass,
                  const GroupPass& group) const override {
    launch_each(queue,
                ChooseDenseRoundings{rows, group.groups, group.group, has_biases_, group.shares,
                                     group.truncates, pass.dense_roundings.data()});
    launch(queue,
           RoundOperands{rows, inputs_, outputs_, pass.in, pass.delta, pass.dense_roundings.data(),
                         pass.whole_inputs.data(), pass.whole_units.data(), group.squares});
  }

  void add_cells(Queue& queue, std::size_t rows, const StepPass& pass, const GroupPass& group,
                 std::uint64_t* sum) const override {
    constexpr std::uint32_t kSlice = 1024;  // examples per slice
    launch(queue, WholeProduct<WholeRows, WholeRows, CellSums>{
                      {pass.whole_inputs.data(), inputs_, nullptr},
                      {pass.whole_units.data(), outputs_, group.taken},
                      {sum},
                      {inputs_, narrowed(outputs_), static_cast<std::uint32_t>(rows)},
                      kSlice});
    if (!has_biases_) return;
    launch(queue, SumOfCells<BiasCells>{{outputs_, rows, pass.delta, pass.dense_roundings.data(),
                                         group.taken, sum + inputs_ * outputs_}});
  }

  void find_factors(Queue& queue, std::size_t rows, const StepPass& pass, const GroupPass&,
                    const FactorPlaces& at) const override {
    launch_each(queue, DenseFactors{rows * at.count, at.of(offset(), parameter_count_), inputs_,
                                    outputs_, pass.whole_units.data(), pass.whole_inputs.data(),
                                    pass.delta, pass.dense_roundings.data()});
  }

 private:
  bool has_biases_;
};

}  // namespace

/// At several places the layer is a convolution with kernel 1, as in the backend `cpu`.
std::unique_ptr<Step> step_of(const Dense& layer, const Place& place) {
  const std::size_t places =
      layer.per_place ? element_count(place.in()) / place.in().back() : std::size_t{1};
  if (places > 1) {
    return std::make_unique<ConvStep>(
        Conv2d{.channels = layer.units, .kernel = 1, .no_bias = layer.no_bias},
        Shape{1, places, place.in().back()}, Shape{1, places, layer.units});
  }
  return std::make_unique<DenseStep>(layer, place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const Dense&, const Place&);

}  // namespace privgrad::cuda

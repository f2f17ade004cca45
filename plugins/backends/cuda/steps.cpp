#include "steps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <variant>

#include "privgrad/error.hpp"

namespace privgrad::cuda {
namespace {

/// The largest size of each row, and its sum of squares.
void find_statistics(Queue& queue, std::size_t rows, std::size_t length, const float* values,
                     float* largest, double* squares) {
  launch(queue, RowStatistics{rows, length, values, largest, squares});
}

/// For layers whose gradients are kept as rows of floats.
class KeptRows : public Step {
 public:
  using Step::Step;

  void allocate(const std::shared_ptr<Device>& device, std::size_t rows, PassUse use,
                StepPass& pass) const override {
    if (use >= PassUse::cells) pass.kept = {device, rows * parameter_count_};
  }
  void find_norms(Queue& queue, std::size_t rows, const StepPass& pass,
                  const GroupPass& group) const override {
    gradient_rows(queue, rows, pass, pass.kept.data(), parameter_count_);
    find_statistics(queue, rows, parameter_count_, pass.kept.data(), group.largest_error,
                    group.error_squares);
    launch_each(queue, RowNorm{rows, group.groups, group.group, group.error_squares, group.shares});
  }
  void make_cells(Queue& queue, std::size_t rows, const StepPass& pass,
                  const GroupPass& group) const override {
    launch(queue, RowSquares{rows, parameter_count_, 0, group.groups, group.group, group.shares,
                             pass.kept.data(), nullptr, group.squares});
  }
  void add_cells(Queue& queue, std::size_t rows, const StepPass& pass, const GroupPass& group,
                 std::uint64_t* sum) const override {
    launch_each(queue, RowSums{parameter_count_, rows, group.groups, group.group, group.shares,
                               pass.kept.data(), group.taken, sum});
  }
  void find_factors(Queue& queue, std::size_t rows, const StepPass& pass, const GroupPass& group,
                    const FactorPlaces& at) const override {
    launch_each(queue, RowFactors{rows * at.count, at.of(offset(), parameter_count_), group.groups,
                                  group.group, group.shares, pass.kept.data()});
  }
};

class DenseStep final : public Step {
 public:
  DenseStep(const Dense&, const Shape& in, const Shape& out, Precision precision)
      : Step(in, out), precision_(precision) {
    parameter_count_ = element_count({outputs_, inputs_}) + outputs_;
  }

  void allocate(const std::shared_ptr<Device>& device, std::size_t rows, PassUse use,
                StepPass& pass) const override {
    if (use < PassUse::cells) return;
    pass.whole_inputs = {device, rows * inputs_};
    pass.whole_units = {device, rows * outputs_};
    pass.dense_roundings = {device, rows};
  }

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    DenseForward product{};
    set_extents(product, rows, outputs_, inputs_);
    product.in = pass.in;
    product.weights = own_;
    product.biases = own_ + inputs_ * outputs_;
    product.out = pass.out;
    launch_product(queue, precision_, product);
  }

  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    DenseBackward product{};
    set_extents(product, rows, inputs_, outputs_);
    product.delta = pass.delta;
    product.weights = own_;
    product.below = pass.below;
    launch_product(queue, precision_, product);
  }

  void gradient_rows(Queue& queue, std::size_t rows, const StepPass& pass, float* gradients,
                     std::size_t stride) const override {
    launch_each(queue, DenseGradient{rows * parameter_count_, outputs_, inputs_, pass.in,
                                     pass.delta, gradients, stride});
  }

  void find_norms(Queue& queue, std::size_t rows, const StepPass& pass,
                  const GroupPass& group) const override {
    find_statistics(queue, rows, inputs_, pass.in, group.largest_input, group.input_squares);
    find_statistics(queue, rows, outputs_, pass.delta, group.largest_error, group.error_squares);
    launch_each(queue,
                DenseNorm{rows, group.groups, group.group, group.largest_input, group.largest_error,
                          group.input_squares, group.error_squares, group.shares});
  }

  void make_cells(Queue& queue, std::size_t rows, const StepPass& pass,
                  const GroupPass& group) const override {
    launch_each(queue, ChooseDenseRoundings{rows, group.groups, group.group, group.shares,
                                            group.truncates, pass.dense_roundings.data()});
    launch(queue,
           RoundOperands{rows, inputs_, outputs_, pass.in, pass.delta, pass.dense_roundings.data(),
                         pass.whole_inputs.data(), pass.whole_units.data(), group.squares});
  }

  void add_cells(Queue& queue, std::size_t rows, const StepPass& pass, const GroupPass& group,
                 std::uint64_t* sum) const override {
    launch_product(queue, CellProduct{outputs_, inputs_, rows, 1, pass.whole_units.data(),
                                      pass.whole_inputs.data(), group.taken, sum});
    launch_each(queue, BiasSums{outputs_, rows, pass.delta, pass.dense_roundings.data(),
                                group.taken, sum + inputs_ * outputs_});
  }

  void find_factors(Queue& queue, std::size_t rows, const StepPass& pass, const GroupPass&,
                    const FactorPlaces& at) const override {
    launch_each(queue, DenseFactors{rows * at.count, at.of(offset(), parameter_count_), inputs_,
                                    outputs_, pass.whole_units.data(), pass.whole_inputs.data(),
                                    pass.delta, pass.dense_roundings.data()});
  }

 private:
  static void set_extents(FloatProduct& product, std::size_t rows, std::size_t columns,
                          std::size_t inner) {
    product.rows = rows;
    product.columns = columns;
    product.inner = inner;
    product.batches = 1;
  }

  Precision precision_;
};

class ConvStep : public Step {
 public:
  ConvStep(const Conv2d& layer, const Shape& in, const Shape& out, Precision precision)
      : Step(in, out), precision_(precision) {
    conv_ = {.height = in[0],
             .width = in[1],
             .depth = in.size() == 3 ? in[2] : 1,
             .rows = out[0],
             .columns = out[1],
             .channels = layer.channels,
             .kernel = layer.kernel,
             .stride = layer.stride,
             .padding = layer.padding};
    weights_ = element_count({conv_.channels, conv_.kernel, conv_.kernel, conv_.depth});
    parameter_count_ = weights_ + conv_.channels;
    element_count({conv_.places(), conv_.patch()});
  }

  std::size_t place_sums() const override { return weights_; }

  void allocate(const std::shared_ptr<Device>& device, std::size_t rows, PassUse use,
                StepPass& pass) const override {
    if (use < PassUse::cells) return;
    pass.kept = {device, rows * conv_.channels};
    pass.whole = {device, rows * weights_};
    pass.place_roundings = {device, rows};
  }

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    ConvForward product{};
    product.rows = rows * conv_.places();
    product.columns = conv_.channels;
    product.inner = conv_.patch();
    product.batches = 1;
    product.conv = conv_;
    product.in = input(pass);
    product.weights = own_;
    product.biases = own_ + weights_;
    product.out = pass.out;
    launch_product(queue, precision_, product);
  }

  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    convolve_backward(queue, rows, pass.delta, pass.below);
  }

  void gradient_rows(Queue& queue, std::size_t rows, const StepPass& pass, float* gradients,
                     std::size_t stride) const override {
    ConvGradient product{};
    product.rows = conv_.channels;
    product.columns = conv_.patch();
    product.inner = conv_.places();
    product.batches = rows;
    product.conv = conv_;
    product.in = input(pass);
    product.delta = pass.delta;
    product.gradients = gradients;
    product.stride = stride;
    launch_product(queue, product);
    find_bias_gradients(queue, rows, pass, gradients + weights_, stride);
  }

  void find_norms(Queue& queue, std::size_t rows, const StepPass& pass,
                  const GroupPass& group) const override {
    find_statistics(queue, rows, inputs_, input(pass), group.largest_input, group.input_squares);
    find_statistics(queue, rows, outputs_, pass.delta, group.largest_error, group.error_squares);
    launch_each(queue, ChoosePlaceRoundings{rows, group.groups, group.group, largest_factor(),
                                            group.largest_input, group.largest_error, group.shares,
                                            pass.place_roundings.data()});
    launch_product(
        queue, PlaceSums{conv_.channels, conv_.patch(), conv_.places(), rows, conv_, input(pass),
                         pass.delta, pass.place_roundings.data(), group.place_sums});
    find_bias_gradients(queue, rows, pass, pass.kept.data(), conv_.channels);
    find_statistics(queue, rows, conv_.channels, pass.kept.data(), group.largest_error,
                    group.error_squares);
    launch(queue,
           ShrinkPlaceSums{rows, weights_, group.groups, group.group, pass.place_roundings.data(),
                           group.place_sums, group.error_squares, pass.whole.data(), group.shares});
  }

  void make_cells(Queue& queue, std::size_t rows, const StepPass& pass,
                  const GroupPass& group) const override {
    launch(queue, RowSquares{rows, conv_.channels, weights_, group.groups, group.group,
                             group.shares, pass.kept.data(), pass.whole.data(), group.squares});
  }

  void add_cells(Queue& queue, std::size_t rows, const StepPass& pass, const GroupPass& group,
                 std::uint64_t* sum) const override {
    launch_each(queue, WholeSums{weights_, rows, group.groups, group.group, group.shares,
                                 pass.whole.data(), group.taken, sum});
    launch_each(queue, RowSums{conv_.channels, rows, group.groups, group.group, group.shares,
                               pass.kept.data(), group.taken, sum + weights_});
  }

  void find_factors(Queue& queue, std::size_t rows, const StepPass& pass, const GroupPass& group,
                    const FactorPlaces& at) const override {
    launch_each(queue, WholeFactors{rows * at.count, at.of(offset(), weights_), group.groups,
                                    group.group, group.shares, pass.whole.data()});
    launch_each(queue, RowFactors{rows * at.count, at.of(offset() + weights_, conv_.channels),
                                  group.groups, group.group, group.shares, pass.kept.data()});
  }

 protected:
  void convolve_backward(Queue& queue, std::size_t rows, const float* delta, float* below) const {
    if (precision_ == Precision::float32) {
      launch_each(queue, ConvBackward{rows * inputs_, conv_, delta, own_, below});
      return;
    }
    ConvBackwardProduct product{};
    product.rows = rows * conv_.height * conv_.width;
    product.columns = conv_.depth;
    product.inner = conv_.kernel * conv_.kernel * conv_.channels;
    product.batches = 1;
    product.conv = conv_;
    product.delta = delta;
    product.weights = own_;
    product.below = below;
    launch_rounded(queue, precision_, product);
  }
  /// The values that are convolved.
  virtual const float* input(const StepPass& pass) const { return pass.in; }

 private:
  void find_bias_gradients(Queue& queue, std::size_t rows, const StepPass& pass, float* biases,
                           std::size_t stride) const {
    launch_each(queue, ConvBiases{rows * conv_.channels, conv_, pass.delta, biases, stride});
  }

  /// The largest whole number whose square, at all places, is within int32.
  double largest_factor() const {
    const double most = std::numeric_limits<std::int32_t>::max();
    return std::min(std::floor(std::sqrt(most / static_cast<double>(conv_.places()))), 0x1p14);
  }

  Precision precision_;
  Convolution conv_{};
  std::size_t weights_ = 0;
};

/// Adds what entered an earlier layer.
class ShortcutStep final : public Step {
 public:
  explicit ShortcutStep(const Shape& shape) : Step(shape, shape) {}

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, PassOn{rows * outputs_, pass.in, pass.out});
    launch_each(queue, AddTo{rows * outputs_, pass.earlier, pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, PassOn{rows * outputs_, pass.delta, pass.below});
    if (pass.earlier_added != nullptr)
      launch_each(queue, AddTo{rows * outputs_, pass.delta, pass.earlier_added});
  }
};

/// Adds what entered an earlier layer behind a convolution.
class ProjectedShortcutStep final : public ConvStep {
 public:
  using ConvStep::ConvStep;

  void allocate(const std::shared_ptr<Device>& device, std::size_t rows, PassUse use,
                StepPass& pass) const override {
    ConvStep::allocate(device, rows, use, pass);
    if (use >= PassUse::gradients) pass.projected = {device, rows * inputs_};
  }

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    ConvStep::forward(queue, rows, pass);
    launch_each(queue, AddTo{rows * outputs_, pass.in, pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, PassOn{rows * outputs_, pass.delta, pass.below});
    if (pass.earlier_added == nullptr) return;
    convolve_backward(queue, rows, pass.delta, pass.projected.data());
    launch_each(queue, AddTo{rows * inputs_, pass.projected.data(), pass.earlier_added});
  }

 private:
  const float* input(const StepPass& pass) const override { return pass.earlier; }
};

class ActivationStep final : public Step {
 public:
  ActivationStep(const Activation& layer, const Shape& in, const Shape& out)
      : Step(in, out), kind_(code_of(layer.kind)) {}

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, Activate{rows * outputs_, kind_, pass.in, pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, ActivateBackward{rows * outputs_, kind_, pass.out, pass.delta, pass.below});
  }

 private:
  static ActivationCode code_of(ActivationKind kind) {
    switch (kind) {
      case ActivationKind::relu:
        return ActivationCode::relu;
      case ActivationKind::tanh:
        return ActivationCode::tanh;
      case ActivationKind::sigmoid:
        break;
    }
    return ActivationCode::sigmoid;
  }

  ActivationCode kind_;
};

class FlattenStep final : public Step {
 public:
  FlattenStep(const Flatten&, const Shape& in, const Shape& out) : Step(in, out) {}
  bool passes_on() const override { return true; }
  void forward(Queue&, std::size_t, const StepPass&) const override {}
  void backward(Queue&, std::size_t, const StepPass&) const override {}
};

class PoolStep final : public Step {
 public:
  PoolStep(const Pool& layer, const Shape& in, const Shape& out) : Step(in, out) {
    pool_ = {.height = in[0],
             .width = in[1],
             .depth = in.size() == 3 ? in[2] : 1,
             .rows = out[0],
             .columns = out[1],
             .window = layer.window,
             .stride = layer.stride,
             .largest = layer.kind == PoolKind::max};
  }

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, PoolForward{rows * outputs_, pool_, pass.in, pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue,
                PoolBackward{rows * inputs_, pool_, pass.in, pass.out, pass.delta, pass.below});
  }

 private:
  Pooling pool_{};
};

class NormStep final : public KeptRows {
 public:
  NormStep(const GroupNorm& layer, const Shape& in, const Shape& out) : KeptRows(in, out) {
    const std::size_t places = inputs_ / in.back();
    set(in, places, in.back() / layer.groups, layer.epsilon);
  }
  NormStep(const LayerNorm& layer, const Shape& in, const Shape& out) : KeptRows(in, out) {
    set(in, 1, in.back(), layer.epsilon);
  }

  void allocate(const std::shared_ptr<Device>& device, std::size_t rows, PassUse use,
                StepPass& pass) const override {
    KeptRows::allocate(device, rows, use, pass);
    pass.moments = {device, rows * norm_.sets()};
  }

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, NormMoments{rows * norm_.sets(), norm_, pass.in, pass.moments.data()});
    launch_each(queue,
                NormForward{rows * outputs_, norm_, pass.in, own_, pass.moments.data(), pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, NormBackward{rows * norm_.sets(), norm_, pass.in, own_, pass.delta,
                                    pass.moments.data(), pass.below});
  }
  void gradient_rows(Queue& queue, std::size_t rows, const StepPass& pass, float* gradients,
                     std::size_t stride) const override {
    launch_each(queue, NormGradient{rows * norm_.channels, norm_, pass.in, pass.delta,
                                    pass.moments.data(), gradients, stride});
  }

 private:
  void set(const Shape& in, std::size_t places_per_set, std::size_t channels_per_set,
           double epsilon) {
    norm_ = {.places = inputs_ / in.back(),
             .channels = in.back(),
             .places_per_set = places_per_set,
             .channels_per_set = channels_per_set,
             .epsilon = epsilon};
    parameter_count_ = 2 * in.back();
  }

  Norm norm_{};
};

class EmbeddingStep final : public Step {
 public:
  EmbeddingStep(const Embedding& layer, const Shape& in, const Shape& out)
      : Step(in, out),
        table_{.vocabulary = layer.vocabulary, .width = layer.width, .length = inputs_} {
    parameter_count_ = element_count({layer.vocabulary, layer.width});
  }

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, EmbeddingForward{rows * outputs_, table_, pass.in, own_, pass.out});
  }
  /// Tokens have no derivative; the first layer is not asked for one.
  void backward(Queue&, std::size_t, const StepPass&) const override {}

  void gradient_rows(Queue& queue, std::size_t rows, const StepPass& pass, float* gradients,
                     std::size_t stride) const override {
    launch_each(queue,
                EmbeddingGradient{rows * outputs_, table_, pass.in, pass.delta, gradients, stride});
  }
  void find_norms(Queue& queue, std::size_t rows, const StepPass& pass,
                  const GroupPass& group) const override {
    launch_each(queue, TokenNorm{rows, group.groups, group.group, table_, pass.in, pass.delta,
                                 group.shares});
  }
  void make_cells(Queue& queue, std::size_t rows, const StepPass& pass,
                  const GroupPass& group) const override {
    launch_each(queue, TokenSquares{rows, group.groups, group.group, table_, group.shares, pass.in,
                                    pass.delta, group.squares});
  }
  void add_cells(Queue& queue, std::size_t rows, const StepPass& pass, const GroupPass& group,
                 std::uint64_t* sum) const override {
    launch_each(queue, TokenSums{table_.width, rows, group.groups, group.group, table_,
                                 group.shares, pass.in, pass.delta, group.taken, sum});
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

Step::Step(const Shape& in, const Shape& out)
    : inputs_(element_count(in)), outputs_(element_count(out)) {}

void Step::allocate(const std::shared_ptr<Device>&, std::size_t, PassUse, StepPass&) const {}

std::unique_ptr<Step> make_step(const Layer& layer, std::size_t index,
                                std::span<const Shape> entering, const Shape& out,
                                Precision precision) {
  struct Maker {
    std::span<const Shape> entering;
    const Shape& in;
    const Shape& out;
    Precision precision;
    std::unique_ptr<Step> operator()(const Dense& one) {
      return std::make_unique<DenseStep>(one, in, out, precision);
    }
    std::unique_ptr<Step> operator()(const Activation& one) {
      return std::make_unique<ActivationStep>(one, in, out);
    }
    std::unique_ptr<Step> operator()(const Conv2d& one) {
      return std::make_unique<ConvStep>(one, in, out, precision);
    }
    std::unique_ptr<Step> operator()(const Pool& one) {
      return std::make_unique<PoolStep>(one, in, out);
    }
    std::unique_ptr<Step> operator()(const Flatten& one) {
      return std::make_unique<FlattenStep>(one, in, out);
    }
    std::unique_ptr<Step> operator()(const GroupNorm& one) {
      return std::make_unique<NormStep>(one, in, out);
    }
    std::unique_ptr<Step> operator()(const LayerNorm& one) {
      return std::make_unique<NormStep>(one, in, out);
    }
    std::unique_ptr<Step> operator()(const Embedding& one) {
      return std::make_unique<EmbeddingStep>(one, in, out);
    }
    std::unique_ptr<Step> operator()(const Shortcut& one) {
      const Shape& earlier = entering[entering.size() - 1 - one.over];
      if (const auto projection = projection_of(one, in, earlier))
        return std::make_unique<ProjectedShortcutStep>(*projection, earlier, out, precision);
      return std::make_unique<ShortcutStep>(in);
    }
    std::unique_ptr<Step> operator()(const Opaque&) { return nullptr; }
  };
  auto step = std::visit(Maker{entering, entering.back(), out, precision}, layer);
  if (step == nullptr) {
    throw ConfigError("backend cuda: layer " + std::to_string(index) +
                      " has mathematics of its model's own (opaque), which no backend can execute");
  }
  return step;
}

}  // namespace privgrad::cuda

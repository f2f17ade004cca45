// A convolution on a device.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>

#include "layers/step.hpp"

namespace privgrad::cuda {

class ConvStep final : public Step {
 public:
  ConvStep(const Conv2d& layer, const Shape& in, const Shape& out) : Step(in, out) {
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
    biases_ = layer.no_bias ? 0 : conv_.channels;
    parameter_count_ = weights_ + biases_;
    narrowed(element_count(
        {conv_.height + 2 * conv_.padding, conv_.width + 2 * conv_.padding, conv_.depth}));
  }

  std::size_t place_sums() const override { return weights_; }

  void allocate(const std::shared_ptr<Device>& device, std::size_t rows, PassUse use,
                StepPass& pass) const override {
    if (use < PassUse::cells) return;
    pass.kept = {device, rows * biases_};
    pass.whole = {device, rows * weights_};
    pass.place_roundings = {device, rows};
  }

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_product(queue, Patches(pass.in, conv_), AlongInner{own_, conv_.patch()},
                   {rows * conv_.places(), channels(), patch()},
                   {pass.out, conv_.channels, biases_ > 0 ? own_ + weights_ : nullptr});
  }

  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch(queue, Product<SeenErrors, ElementWeights, NarrowestTile, true>{
                      {pass.delta, conv_, rows},
                      {own_, conv_},
                      {rows * conv_.height * conv_.width, narrowed(conv_.depth), channels(), 1,
                       narrowed(conv_.kernel * conv_.kernel)},
                      {pass.below, conv_.depth}});
  }

  void gradient_rows(Queue& queue, std::size_t rows, const StepPass& pass, float* gradients,
                     std::size_t stride) const override {
    launch(queue, Product<AcrossInner, PatchColumns, WideTile>{
                      {pass.delta, conv_.channels, {.of_example = outputs_}},
                      {pass.in, conv_},
                      {channels(), patch(), narrowed(conv_.places()), rows},
                      {gradients, conv_.patch(), nullptr, {.of_example = stride}}});
    find_bias_gradients(queue, rows, pass, gradients + weights_, stride);
  }

  void find_norms(Queue& queue, std::size_t rows, const StepPass& pass,
                  const GroupPass& group) const override {
    find_statistics(queue, rows, inputs_, pass.in, group.largest_input, group.input_squares);
    find_statistics(queue, rows, outputs_, pass.delta, group.largest_error, group.error_squares);
    launch_each(queue, ChoosePlaceRoundings{rows, group.groups, group.group, largest_factor(),
                                            group.largest_input, group.largest_error, group.shares,
                                            pass.place_roundings.data()});
    const std::uint32_t places = narrowed(conv_.places());
    launch(queue, WholeProduct<RoundedPixels, RoundedErrors, PlaceSums>{
                      {PatchColumns(pass.in, conv_), pass.place_roundings.data()},
                      {conv_, pass.delta, pass.place_roundings.data()},
                      {group.place_sums},
                      {conv_.patch(), channels(), places, rows},
                      places});
    find_bias_gradients(queue, rows, pass, pass.kept.data(), biases_);
    find_statistics(queue, rows, biases_, pass.kept.data(), group.largest_error,
                    group.error_squares);
    launch(queue,
           ShrinkPlaceSums{rows, weights_, group.groups, group.group, pass.place_roundings.data(),
                           group.place_sums, group.error_squares, pass.whole.data(), group.shares});
  }

  void make_cells(Queue& queue, std::size_t rows, const StepPass& pass,
                  const GroupPass& group) const override {
    launch(queue, RowSquares{rows, biases_, weights_, group.groups, group.group, group.shares,
                             pass.kept.data(), pass.whole.data(), group.squares});
  }

  void add_cells(Queue& queue, std::size_t rows, const StepPass& pass, const GroupPass& group,
                 std::uint64_t* sum) const override {
    launch(queue, SumOfCells<WholeCells>{{weights_, rows, group.groups, group.group, group.shares,
                                          pass.whole.data(), group.taken, sum}});
    if (biases_ == 0) return;
    launch(queue, SumOfCells<RowCells>{{biases_, rows, group.groups, group.group, group.shares,
                                        pass.kept.data(), group.taken, sum + weights_}});
  }

  void find_factors(Queue& queue, std::size_t rows, const StepPass& pass, const GroupPass& group,
                    const FactorPlaces& at) const override {
    launch_each(queue, WholeFactors{rows * at.count, at.of(offset(), weights_), group.groups,
                                    group.group, group.shares, pass.whole.data()});
    launch_each(queue, RowFactors{rows * at.count, at.of(offset() + weights_, biases_),
                                  group.groups, group.group, group.shares, pass.kept.data()});
  }

 private:
  std::uint32_t channels() const { return narrowed(conv_.channels); }
  std::uint32_t patch() const { return narrowed(conv_.patch()); }

  void find_bias_gradients(Queue& queue, std::size_t rows, const StepPass& pass, float* biases,
                           std::size_t stride) const {
    if (biases_ == 0) return;
    launch_each(queue, ConvBiases{rows * conv_.channels, conv_, pass.delta, biases, stride});
  }

  /// Returns the largest integer up to 2^14 whose square, times the places, fits in int32.
  double largest_factor() const {
    const double most = std::numeric_limits<std::int32_t>::max();
    return std::min(std::floor(std::sqrt(most / static_cast<double>(conv_.places()))), 0x1p14);
  }

  Convolution conv_{};
  std::size_t weights_ = 0, biases_ = 0;
};

}  // namespace privgrad::cuda

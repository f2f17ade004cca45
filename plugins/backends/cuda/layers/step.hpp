// One layer of a network on a device: the kernels that it launches in a pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launch.hpp"
#include "privgrad/network.hpp"

namespace privgrad::cuda {

/// \throws ConfigError, always.
[[noreturn]] void refuse(const std::string& what);

/// Returns a number of values per example, in the integer type that kernels use.
/// \throws ConfigError if it is 2^31 or more.
std::uint32_t narrowed(std::size_t extent);

/// The purpose of a pass; each purpose includes the purposes before it.
enum class PassUse { outputs = 1, gradients, cells };

/// One layer's part of a pass, all of it on the device.
struct StepPass {
  const float* in = nullptr;          // [rows, inputs]
  float* out = nullptr;               // [rows, outputs]
  float* delta = nullptr;             // the loss's derivatives with respect to out
  float* below = nullptr;             // derivatives with respect to in; null if not needed
  std::vector<const float*> more_in;  // the other inputs, if the layer has several
  std::vector<float*> more_below;     // derivatives with respect to more_in

  Array<float> outputs, deltas;
  Array<float> kept;                              // gradients that are kept as floats
  Array<std::int16_t> whole;                      // a convolution's weight gradients, as integers
  Array<std::int16_t> whole_inputs, whole_units;  // a dense layer's operands
  Array<DenseRoundings> dense_roundings;          // [rows]
  Array<PlaceRoundings> place_roundings;          // [rows]
  Array<Moments> moments;                         // the moments of norms
  Array<double> row_squares;                      // for a table's gradients: [rows, length]
  Array<float> probabilities, slopes;             // for attention: [rows, heads, places, places]
  Array<float> turned_queries, turned_keys, turned_below;  // for attention with rotary positions
};

/// The memory that the groups of a pass share.
struct GroupPass {
  std::size_t groups = 0, group = 0;
  Share* shares = nullptr;                                    // [rows, groups]
  SquareParts* squares = nullptr;                             // [rows], of this group
  std::uint8_t* truncates = nullptr;                          // [rows]
  const std::uint8_t* taken = nullptr;                        // [rows]
  float *largest_input = nullptr, *largest_error = nullptr;   // [rows]
  double *input_squares = nullptr, *error_squares = nullptr;  // [rows]
  std::int32_t* place_sums = nullptr;  // [rows, weights of the widest convolution]
};

/// Parameters to check, by index, and memory for their factors, on the device.
struct FactorPlaces {
  std::size_t count = 0;
  const std::uint64_t* places = nullptr;
  Factors* factors = nullptr;  // [rows, count]

  FactorsAt of(std::size_t offset, std::size_t size) const {
    return {count, offset, size, places, factors};
  }
};

/// One layer and its kernels. All work is queued and executed later, for `rows` examples. Threads:
/// functions may run concurrently if each call has its own pass and queue.
class Step {
 public:
  /// \throws ConfigError if an input or output has 2^31 numbers or more.
  Step(const Shape& in, const Shape& out);
  virtual ~Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  std::size_t inputs() const noexcept { return inputs_; }
  std::size_t outputs() const noexcept { return outputs_; }
  std::size_t parameter_count() const noexcept { return parameter_count_; }
  std::size_t offset() const noexcept { return offset_; }
  /// Sets where the step's parameters begin among all parameters, and on the device.
  void place_at(std::size_t offset, const float* all) noexcept {
    offset_ = offset;
    own_ = all + offset;
  }

  /// Whether the output is the input.
  virtual bool passes_on() const { return false; }
  /// Returns how many numbers per example GroupPass::place_sums must have room for.
  virtual std::size_t place_sums() const { return 0; }

  /// Allocates the step's memory, except for outputs and deltas.
  virtual void allocate(const std::shared_ptr<Device>&, std::size_t rows, PassUse, StepPass&) const;

  virtual void forward(Queue& queue, std::size_t rows, const StepPass& pass) const = 0;
  virtual void backward(Queue& queue, std::size_t rows, const StepPass& pass) const = 0;

  // --- Functions that steps with parameters override.

  /// Writes each example's gradient to rows[0], rows[stride], ..., parameter_count() floats each,
  /// which are zero beforehand.
  virtual void gradient_rows(Queue&, std::size_t, const StepPass&, float*, std::size_t) const {}
  /// Writes the squared norm of each example's gradient to its share.
  virtual void find_norms(Queue&, std::size_t, const StepPass&, const GroupPass&) const {}
  /// Determines the cells from the shares' scales, and writes their squares.
  virtual void make_cells(Queue&, std::size_t, const StepPass&, const GroupPass&) const {}
  /// Computes the factors of all examples' cells, at those places that are parameters of the layer.
  virtual void find_factors(Queue&, std::size_t, const StepPass&, const GroupPass&,
                            const FactorPlaces&) const {}
  /// sum[parameter_count()] += the cells of the chosen examples.
  virtual void add_cells(Queue&, std::size_t, const StepPass&, const GroupPass&,
                         std::uint64_t*) const {}

 protected:
  std::size_t inputs_, outputs_;
  std::size_t parameter_count_ = 0;
  const float* own_ = nullptr;

 private:
  std::size_t offset_ = 0;
};

/// Computes the largest absolute value of each row, and its sum of squares.
inline void find_statistics(Queue& queue, std::size_t rows, std::size_t length, const float* values,
                            float* largest, double* squares) {
  launch(queue, RowStatistics{rows, length, values, largest, squares});
}

}  // namespace privgrad::cuda

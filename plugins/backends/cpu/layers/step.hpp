// One layer of a network on the processor, with its part in a pass: a class for each kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "privgrad/network.hpp"
#include "tasks.hpp"

namespace privgrad::cpu {

/// Holds squared lengths, which do not fit in 64 bits.
__extension__ using Wide = unsigned __int128;

/// The working memory of a task, which the next task reuses.
struct Scratch {
  std::vector<float> panel, padded, patches, scaled, deltas, added, shared;
  std::vector<const float*> in;  // inputs of one step
  std::vector<float*> below;     // derivatives of one step
  std::vector<std::uint32_t> shifted, place_inputs, place_units;
  std::vector<std::int32_t> sums;
};

inline float* at_least(std::vector<float>& memory, std::size_t size) {
  if (memory.size() < size) memory.resize(size);
  return memory.data();
}

/// The data about one example that a layer with parameters stores between two calls.
struct Share {
  double squared_norm = 0.0;
  double scale = 0.0;                // the scale of the cells; 0 if there is nothing to add
  float input = 0.0f, error = 0.0f;  // of a product: the largest absolute values
  double step = 0.0;                 // the step of a convolution's integers
  float largest_whole = 0.0f;        // the largest absolute value of these integers
  std::uint32_t largest_cell = 0;    // an upper bound on the cells of the layer's weights
};

/// Consecutive pairs of examples whose cells can be summed in int32.
struct Run {
  std::size_t first, end;
};

/// One layer's part of an exact pass over a batch.
struct StepPass {
  std::size_t most_rows = 0, rows = 0;
  const float* in = nullptr;  // the layer's input, [rows, inputs]
  // for a step on whole batches: derivatives with respect to its outputs
  const float* errors = nullptr;
  Share* shares = nullptr;  // this layer's shares, `groups` apart; null if it is not trained
  std::size_t groups = 0;

  // The data that a layer keeps; each layer uses some of these members.
  std::unique_ptr<float[]> kept;          // gradients or derivatives, as floats
  float* kept_by_owner = nullptr;         // the owner's row, for a layer that shares parameters
  std::unique_ptr<std::int16_t[]> whole;  // gradients, as integers
  std::unique_ptr<std::uint32_t[]> units, inputs;  // the operands of a product
  std::vector<std::uint16_t> taken_out;            // units of examples that were not chosen
  std::vector<Run> runs;                           // runs of the chosen examples

  Share& share(std::size_t row) const { return shares[row * groups]; }
  // the number of pairs for which operands have room
  std::size_t pairs() const { return (most_rows + 1) / 2; }
};

/// Some of a layer's parameters, whose cells one task adds up. Only the layer interprets the
/// numbers.
struct Piece {
  std::size_t first = 0, end = 0;
  std::size_t left = 0, right = 0;
  /// Every parameter before this index belongs to this piece or to an earlier piece.
  std::size_t until = 0;
};

/// The sum of the parameters from `first` on; the layer's parameters begin at `offset`.
struct Target {
  std::span<std::int64_t> sum;
  std::size_t first = 0, offset = 0;
  std::int64_t* at(std::size_t own_parameter) const {
    return sum.data() + (offset + own_parameter - first);
  }
};

/// An elementwise function. hand_down() multiplies delta by the function's derivative, which it
/// computes from the function's value if the function works in place.
struct Elementwise {
  void (*apply)(const float* in, std::size_t count, float* out);
  void (*hand_down)(const float* from, std::size_t count, float* delta);
};

/// The working memory of a step on whole batches.
struct WholeBatch {
  const Tasks& tasks;
  float* panels = nullptr;                // [rows rounded up to kPanel, panel_width()]
  const Elementwise* function = nullptr;  // applied in place to each output; null: none
};

/// The inputs of a step, one array each.
using Values = std::span<const float* const>;
/// Memory for the derivatives with respect to each input; null for inputs that need no derivatives.
using Below = std::span<float* const>;

/// One layer, for a block of examples: the first input is [count, inputs], out and delta are
/// [count, outputs], and below has the layout of the inputs. delta and below are the loss's
/// derivatives with respect to out and the inputs. The sizes of other inputs follow from the layer.
///
/// An example's results depend only on the example, bit for bit: matrix products are chains
/// (chains.hpp). Threads: const functions may run concurrently, after prepare(), each with a
/// scratch of its own.
class Step {
 public:
  Step(const Shape& in, const Shape& out);
  virtual ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  std::size_t inputs() const noexcept { return inputs_; }
  std::size_t outputs() const noexcept { return outputs_; }
  std::size_t parameter_count() const noexcept { return parameter_count_; }
  std::size_t offset() const noexcept { return offset_; }
  void place_at(std::size_t offset) noexcept { offset_ = offset; }

  // --- How the step shares memory with other steps.

  /// Whether the output is the input.
  virtual bool passes_on() const { return false; }

  /// Whether out may share the first input's memory; if so, backward() does not need that input.
  virtual bool works_in_place() const { return false; }

  /// Whether the derivatives with respect to the first input may share delta's memory.
  virtual bool hands_down_in_place() const { return works_in_place(); }

  /// Whether backward() can do without the output, so that the next step may work in place.
  virtual bool gives_output_away() const { return true; }

  /// Returns the step as an elementwise function if it is one and works in place; otherwise null.
  virtual const Elementwise* function() const { return nullptr; }

  // --- The step's computation.

  /// \param own  the step's parameters; they stay there until the next load().
  virtual void load(const float* own) noexcept { own_ = own; }

  /// Updates the copies of parameters that products need.
  virtual void prepare() {}
  /// Returns the number of floats in these copies.
  virtual std::size_t copied_floats() const { return 0; }

  virtual void forward(std::size_t count, Values in, float* out, Scratch& scratch) const = 0;

  /// \param below  out: at least one pointer is not null.
  virtual void backward(std::size_t count, Values in, const float* out, const float* delta,
                        Below below, Scratch& scratch) const = 0;

  /// Writes each example's gradient to rows[0], rows[stride], ..., parameter_count() floats each.
  virtual void gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                             std::size_t stride, Scratch& scratch) const;

  // --- Computation on whole batches: products, divided into tiles (ExactEngine).

  /// Whether forward_batch() and backward_batch() exist, and replace forward() and backward().
  virtual bool works_on_batches() const { return false; }
  /// Returns the number of floats per example in WholeBatch::panels.
  virtual std::size_t panel_width() const { return 0; }
  /// \param out  out: [rows, outputs], with the batch's function applied.
  virtual void forward_batch(const WholeBatch& batch, const StepPass& pass, float* out) const;
  /// Multiplies pass.errors, the derivatives with respect to the function's values, by the
  /// function's derivative, and computes the norms.
  /// \param out  the output, as forward_batch() left it.
  /// \param errors  the pass's errors.
  /// \param below  out: [rows, inputs]; null if not needed.
  virtual void backward_batch(const WholeBatch& batch, const StepPass& pass, const float* out,
                              float* errors, float* below) const;

  // --- Exact clipping, for steps with parameters. cells.hpp explains cells.

  /// Returns about how many floats per example a pass stores besides outputs and derivatives.
  virtual std::size_t kept_floats() const { return 0; }
  /// Returns the number of floats in a Scratch as far as it depends on the number of parameters.
  virtual std::size_t scratch_floats() const { return 0; }
  /// Allocates the layer's memory, for pass.most_rows.
  virtual void allocate(StepPass& pass) const;

  /// Stores what is needed to make cells, and writes the squared norms of the gradients to the
  /// shares.
  /// \param delta  the delta of the examples [first, first + count).
  virtual void find_norms(std::size_t first, std::size_t count, const float* delta, StepPass& pass,
                          Scratch& scratch) const;

  /// Whether rounding to nearest may make cells longer than the scale allows, in which case
  /// make_cells() is called again to truncate.
  virtual bool may_lengthen() const { return false; }

  /// Determines the cells of a pair of examples from the shares' scales.
  /// \param truncates  [2]: for each example, whether its numbers are truncated.
  /// \param squares  [2]: increased by the squared length of each example's cells.
  virtual void make_cells(std::size_t pair, const bool* truncates, StepPass& pass,
                          Wide* squares) const;

  /// Chooses the examples whose cells are added up. Valid until undo_choice(), or until other cells
  /// are made.
  /// \param taken  [rows]
  virtual void choose(std::span<const std::uint8_t> taken, StepPass& pass) const;
  virtual void undo_choice(std::span<const std::uint8_t> taken, StepPass& pass) const;

  /// Returns the pieces of the parameters, sorted by their first parameter.
  virtual std::vector<Piece> pieces() const { return {}; }
  /// Adds the cells of the chosen examples.
  virtual void add_cells(const Piece& piece, std::span<const std::uint8_t> taken,
                         const StepPass& pass, const Target& target) const;

 protected:
  std::size_t inputs_, outputs_;
  std::size_t parameter_count_ = 0;
  const float* own_ = nullptr;

 private:
  std::size_t offset_ = 0;
};

/// Returns the channels of an image, [height, width, channels] or [height, width].
inline std::size_t channels_of(const Shape& image) { return image.size() == 3 ? image[2] : 1; }

// --- For the exact parts of layers.

/// The share by which numbers are shrunk before they are truncated. Truncation cannot lengthen
/// them, but the floating-point products before it are rounded: two roundings to float32 for each
/// factor of a product, 2^-24 each, and a few to double. Together these are less than 2^-20.
constexpr double kRoundingMargin = 0x1p-20;

/// Returns the scale of an example's truncated cells; 0 if it has no cells.
inline double truncating_scale(const Share& share) { return share.scale * (1.0 - kRoundingMargin); }

/// Returns the same NaN for all gradients that are not finite, because instruction sets produce
/// different NaNs.
double norm_or_nan(double squared);

/// The number of parameters of kept gradients that one task adds up.
constexpr std::size_t kRowPiece = 4096;

/// Calls use(first, end) for pieces of `extent`, each of `size` except the last.
template <class Use>
void cut(std::size_t extent, std::size_t size, const Use& use) {
  for (std::size_t first = 0; first < extent; first += size) {
    use(first, first + size < extent ? first + size : extent);
  }
}

/// Divides examples into runs as long as possible: the sum of a run's largest cells (Share), which
/// bounds the sum of any element's cells, fits in int32.
std::vector<Run> find_runs(const StepPass& pass);

/// Calls body(row, square) for each example of a pair that has cells.
template <class Body>
void for_each_of_pair(std::size_t pair, const StepPass& pass, Wide* squares, const Body& body) {
  for (std::size_t half = 0; half < 2 && 2 * pair + half < pass.rows; ++half) {
    const std::size_t row = 2 * pair + half;
    if (truncating_scale(pass.share(row)) != 0.0) body(row, squares[half]);
  }
}

/// Calls body(row) for each chosen example in [first, end) that has cells.
template <class Body>
void for_each_chosen(std::size_t first, std::size_t end, std::span<const std::uint8_t> taken,
                     const StepPass& pass, const Body& body) {
  for (std::size_t row = first; row < end; ++row) {
    if (taken[row] != 0 && truncating_scale(pass.share(row)) != 0.0) body(row);
  }
}

}  // namespace privgrad::cpu

// One layer of a network on the processor, with all of its part in a pass: a class for each kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "privgrad/network.hpp"
#include "tasks.hpp"

namespace privgrad::cpu {

/// Holds squared lengths, which 64 bits do not.
__extension__ using Wide = unsigned __int128;

/// Memory of a task, reused by the next.
struct Scratch {
  std::vector<float> panel, padded, patches, scaled, projected, one, other;
  std::vector<std::uint32_t> shifted, place_inputs, place_units;
  std::vector<std::int32_t> sums;
};

inline float* at_least(std::vector<float>& memory, std::size_t size) {
  if (memory.size() < size) memory.resize(size);
  return memory.data();
}

/// What is kept of an example in a layer with parameters, between two calls.
struct Share {
  double squared_norm = 0.0;
  double scale = 0.0;                // of the cells, 0 where there is nothing to add
  float input = 0.0f, error = 0.0f;  // of a product: the largest sizes
  double step = 0.0;                 // of a convolution's whole numbers
  float largest_whole = 0.0f;        // of these
  std::uint32_t largest_cell = 0;    // of the layer's weights, or no less
};

/// Pairs of examples whose cells stay within int32 together.
struct Run {
  std::size_t first, end;
};

/// One layer's part of an exact pass over a batch.
struct StepPass {
  std::size_t most_rows = 0, rows = 0;
  const float* in = nullptr;      // what the parameters work on, [rows, ...]
  const float* errors = nullptr;  // of a step on whole batches: the derivatives by its outputs
  Share* shares = nullptr;        // of this layer, `groups` apart
  std::size_t groups = 0;

  // What a layer keeps, each its own of these.
  std::unique_ptr<float[]> kept;                   // gradients or derivatives, as floats
  std::unique_ptr<std::int16_t[]> whole;           // gradients, as whole numbers
  std::unique_ptr<std::uint32_t[]> units, inputs;  // the operands of a product
  std::vector<std::uint16_t> taken_out;            // of the units: those of examples not chosen
  std::vector<Run> runs;                           // of the chosen examples

  Share& share(std::size_t row) const { return shares[row * groups]; }
  std::size_t pairs() const { return (most_rows + 1) / 2; }  // that operands have room for
};

/// Some of a layer's parameters, whose cells one task adds up. The numbers are the layer's own.
struct Piece {
  std::size_t first = 0, end = 0;
  std::size_t left = 0, right = 0;
  /// The parameter behind the last one, if those before it belong to pieces before this one.
  std::size_t until = 0;
};

/// The sum of the parameters from `first` on; the layer's begin at `offset`.
struct Target {
  std::span<std::int64_t> sum;
  std::size_t first = 0, offset = 0;
  std::int64_t* at(std::size_t own_parameter) const {
    return sum.data() + (offset + own_parameter - first);
  }
};

/// A function of each element by itself; hand_down() multiplies delta with its derivative, by what
/// that follows from: the function's value, where it is said to work in place.
struct Elementwise {
  void (*apply)(const float* in, std::size_t count, float* out);
  void (*hand_down)(const float* from, std::size_t count, float* delta);
};

/// The memory that a step on whole batches works in.
struct WholeBatch {
  const Tasks& tasks;
  float* panels = nullptr;                // [rows rounded up to kPanel, panel_width()]
  const Elementwise* function = nullptr;  // of each output, applied in place; null: none
};

/// One layer, for examples side by side: in is [count, inputs], out and delta [count, outputs],
/// below [count, inputs], where delta and below are the loss's derivatives by out and in.
///
/// An example's results depend on it alone, bit for bit: matrix products are chains (chains.hpp).
/// Threads: const functions may run concurrently, after prepare(), each with a scratch of its own.
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

  // --- How it lies among the others.

  /// Whether the output is the input.
  virtual bool passes_on() const { return false; }

  /// Whether out may be in: then backward() does not need the input.
  virtual bool works_in_place() const { return false; }

  /// Whether a step in place may follow: backward() does not need the output.
  virtual bool gives_output_away() const { return true; }

  /// How many steps before this one the value enters that add_earlier() adds; 0: it adds none. Its
  /// parameters, if it has any, work on that value.
  virtual std::size_t reaches_back() const { return 0; }

  /// The function that the step is, where it works in place; null if it is none.
  virtual const Elementwise* function() const { return nullptr; }

  // --- What it computes.

  /// \param own  the step's parameters; they stay there until the next load().
  virtual void load(const float* own) noexcept { own_ = own; }

  /// Updates the copies of parameters that products need.
  virtual void prepare() {}

  virtual void forward(std::size_t count, const float* in, float* out, Scratch& scratch) const = 0;

  /// \returns the place of the derivatives by in: below, or delta, which may be overwritten.
  virtual float* backward(std::size_t count, const float* in, const float* out, float* delta,
                          float* below, Scratch& scratch) const = 0;

  /// Adds to out what reaches_back() says, after forward().
  virtual void add_earlier(std::size_t count, const float* earlier, float* out,
                           Scratch& scratch) const;
  /// Adds to `earlier` the derivatives by the value that was added, of the same shape.
  virtual void add_backward(std::size_t count, const float* delta, float* earlier,
                            Scratch& scratch) const;

  /// Writes each example's gradient to rows[0], rows[stride], .., parameter_count() floats each.
  /// \param in  what the parameters work on.
  virtual void gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                             std::size_t stride, Scratch& scratch) const;

  // --- On whole batches: products, in tiles of their own (ExactEngine).

  /// Whether forward_batch() and backward_batch() are there, and used instead of others.
  virtual bool works_on_batches() const { return false; }
  /// The floats per example of WholeBatch::panels.
  virtual std::size_t panel_width() const { return 0; }
  /// \param out  [rows, outputs]; out: with the batch's function applied.
  virtual void forward_batch(const WholeBatch& batch, const StepPass& pass, float* out) const;
  /// Hands pass.errors, which are by what the function gave, down through it, and finds the norms.
  /// \param out  as forward_batch() left it.
  /// \param errors  those of the pass.
  /// \param below  out: [rows, inputs]; null if not needed.
  virtual void backward_batch(const WholeBatch& batch, const StepPass& pass, const float* out,
                              float* errors, float* below) const;

  // --- Exact clipping, for steps with parameters. Cells are whole numbers (cells.hpp).

  /// The floats that an example takes in a pass beside outputs and derivatives, about.
  virtual std::size_t kept_floats() const { return 0; }
  /// Allocates what the layer keeps, for pass.most_rows.
  virtual void allocate(StepPass& pass) const;

  /// Keeps what cells are made of, and writes the squared norms of the gradients to the shares.
  /// \param delta  of the examples [first, first + count).
  virtual void find_norms(std::size_t first, std::size_t count, const float* delta, StepPass& pass,
                          Scratch& scratch) const;

  /// Whether cells may be longer than the scale makes them where they are rounded to nearest, so
  /// that make_cells() is asked again to truncate.
  virtual bool may_lengthen() const { return false; }

  /// Chooses the cells of a pair of examples by the shares' scales.
  /// \param truncates  [2]: whether the numbers of each are truncated.
  /// \param squares  [2]: the squared lengths of the cells are added.
  virtual void make_cells(std::size_t pair, const bool* truncates, StepPass& pass,
                          Wide* squares) const;

  /// Chooses whose cells are added up, until undo_choice(), or other cells.
  /// \param taken  [rows]
  virtual void choose(std::span<const std::uint8_t> taken, StepPass& pass) const;
  virtual void undo_choice(std::span<const std::uint8_t> taken, StepPass& pass) const;

  /// The pieces of the parameters, in the order of their first ones.
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

/// The channels of an image, [height, width, channels] or [height, width].
inline std::size_t channels_of(const Shape& image) { return image.size() == 3 ? image[2] : 1; }

// --- For the exact parts of layers.

/// The share by which truncated numbers are shrunk. Truncation cannot lengthen, but products in
/// floating point are rounded before it: two roundings to float32 for each factor of a product, of
/// 2^-24 each, and a few to double. Together less than 2^-20.
constexpr double kRoundingMargin = 0x1p-20;

/// The scale of an example's truncated cells; 0 where it has none.
inline double truncating_scale(const Share& share) { return share.scale * (1.0 - kRoundingMargin); }

/// One NaN for all gradients that are not finite, of which each instruction set would make its own.
double norm_or_nan(double squared);

/// Parameters whose kept gradients are added up by one task.
constexpr std::size_t kRowPiece = 4096;

/// Calls use(first, end) for pieces of `extent`, each of `size` but the last.
template <class Use>
void cut(std::size_t extent, std::size_t size, const Use& use) {
  for (std::size_t first = 0; first < extent; first += size) {
    use(first, first + size < extent ? first + size : extent);
  }
}

/// Runs of the examples as long as they can be: a sum of an element's cells is at most that of the
/// shares' largest ones.
std::vector<Run> find_runs(const StepPass& pass);

/// Calls body(row, square) for the examples of a pair that have cells.
template <class Body>
void for_each_of_pair(std::size_t pair, const StepPass& pass, Wide* squares, const Body& body) {
  for (std::size_t half = 0; half < 2 && 2 * pair + half < pass.rows; ++half) {
    const std::size_t row = 2 * pair + half;
    if (truncating_scale(pass.share(row)) != 0.0) body(row, squares[half]);
  }
}

/// Calls body(row) for the chosen examples of [first, end) that have cells.
template <class Body>
void for_each_chosen(std::size_t first, std::size_t end, std::span<const std::uint8_t> taken,
                     const StepPass& pass, const Body& body) {
  for (std::size_t row = first; row < end; ++row) {
    if (taken[row] != 0 && truncating_scale(pass.share(row)) != 0.0) body(row);
  }
}

}  // namespace privgrad::cpu

// The interfaces of backends and of the programs that they compile networks to.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/export.hpp"
#include "privgrad/network.hpp"

namespace privgrad {

/// Sums over examples; the caller divides.
struct Evaluation {
  double loss = 0.0;  ///< Sum of the per-example losses, in nats for cross-entropy and logistic.
  std::size_t correct =
      0;  ///< Examples whose largest output is at their class; 0 for real targets.
};

/// A network made executable. It owns the parameters, wherever they live.
///
/// Privacy: sees private rows; everything it returns is private and goes to the core alone. Public
/// test rows, whose losses everybody may see, are shown to a program of another Backend (or Model)
/// instance, which is shown no private row.
/// Threads: const functions may run concurrently; load_parameters() may not run beside anything.
class PRIVGRAD_API Program {
 public:
  virtual ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  virtual std::size_t parameter_count() const = 0;

  /// \param parameters  float32, [parameter_count()], laid out as parameter_blocks() says.
  virtual void load_parameters(std::span<const float> parameters) = 0;

  /// The gradient of each example's loss, one row per example: the path that is always correct, and
  /// the reference that faster ones are tested against. The core clips and sums.
  /// \param rows  out: float32, [batch.rows(), parameter_count()]. A row depends on its example
  ///   alone.
  virtual void gradient_rows(const Batch& batch, std::span<float> rows) const = 0;

  virtual Evaluation evaluate(const Batch& batch) const = 0;

 protected:
  Program() = default;
};

/// Optional ability of a program: the row that gradient_rows() writes for an example is a function
/// of the example and of the parameters alone, bit for bit: at any place in any batch, beside any
/// other rows, with any number of threads and on any processor.
///
/// It has no functions: it is a promise, which the conformance suite tests. The core can then make
/// whole numbers of the rows, add these up exactly, and state a guarantee that covers the bits
/// (docs/exactness.md). A program that offers neither this nor ExactClipping runs all the same, and
/// every output of the run lists `floating_point` as unaccounted.
class PRIVGRAD_API ReproducibleRows {
 public:
  virtual ~ReproducibleRows();
};

/// Optional ability of a program: the outputs of the last layer, before any loss. Applying a
/// trained model needs it; a program without it can only be trained and evaluated. The conformance
/// suite tests it.
///
/// Privacy: as Program.
/// Threads: may run concurrently.
class PRIVGRAD_API Outputs {
 public:
  virtual ~Outputs();

  /// \param features  float32, [rows, features...]. A row with a feature that is not finite may
  ///   have any outputs, and affects no other row.
  /// \param outputs  out: float32, [rows, output_count(network)]. A row is a function of its example
  ///   and of the parameters alone, bit for bit, at any place among any other rows.
  virtual void outputs(std::span<const float> features, std::size_t rows,
                       std::span<float> outputs) const = 0;
};

/// The squared length of a vector of whole numbers, high * 2^64 + low: exact.
struct SquaredLength {
  std::uint64_t high = 0, low = 0;
  auto operator<=>(const SquaredLength&) const = default;
};

/// Optional ability of a program: clipped gradients as whole numbers, which are added up exactly,
/// by one backward pass and without rows of their own.
///
/// The norms, the cells and their length that are written for an example depend, bit for bit, on
/// that example, the parameters and what was requested for that example alone, as with
/// ReproducibleRows. A sum of whole numbers has no order, so sums are the same however a batch is cut
/// into passes.
///
/// A contribution is a vector of whole numbers, the cells, near scale * gradient. How near is the
/// program's to choose (the result is noised; 13 bits of each factor of a product are plenty); what
/// it must be is no longer than most_cells, and SquaredLength says its length exactly: from the cells
/// themselves, in integer arithmetic. The core takes out what is too long.
///
/// Privacy: as Program.
/// Threads: passes may be used at the same time, each by one thread at a time; a pass spreads its
/// work over the executor that the program was compiled for.
class PRIVGRAD_API ExactClipping {
 public:
  /// Working memory for the examples between backward() and add_cells(). Made once, used for many
  /// batches.
  class PRIVGRAD_API Pass {
   public:
    virtual ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   protected:
    Pass() = default;
  };

  virtual ~ExactClipping();

  /// Groups of parameters whose norms are given apart: one for each layer that has parameters, in
  /// their order; a group's parameters lie side by side.
  virtual std::size_t groups() const = 0;

  /// The preferred number of examples in a pass, > 0.
  virtual std::size_t microbatch_rows() const = 0;

  /// \param most_rows  the most rows of any batch to come, > 0: the memory is proportional to it.
  virtual std::unique_ptr<Pass> make_pass(std::size_t most_rows) const = 0;

  /// Forwards and backwards for the examples of a batch.
  /// \param batch  at most most_rows rows; must outlive the add_cells() that follows.
  /// \param squared_norms  out: [rows, groups()]: the squared L2 norm of each example's gradient in
  ///   each group, to a thousandth, and not finite where the gradient is not.
  virtual void backward(const Batch& batch, Pass& pass, std::span<double> squared_norms) const = 0;

  /// Makes the cells of the examples of the last backward().
  /// \param scales  [rows, groups()], finite, >= 0: cells per unit of the gradient. The whole vector
  ///   scale_g * gradient_g is no longer than most_cells, up to rounding. 0: no cells in the group,
  ///   also where the gradient is not finite.
  /// \param most_cells  the largest length of a contribution, in cells; at most 2^28.
  /// \param lengths  out: [rows]: the squared length of each example's cells, over all groups. If
  ///   rounding made them longer than most_cells, the program rounds that example's again, towards
  ///   zero.
  virtual void make_cells(Pass& pass, std::span<const double> scales, std::uint64_t most_cells,
                          std::span<SquaredLength> lengths) const = 0;

  /// sum += the cells of the examples of the last make_cells(), modulo 2^64; may be asked again.
  /// \param taken  [rows]: 0 takes an example out.
  /// \param sum  [parameter_count()].
  virtual void add_cells(Pass& pass, std::span<const std::uint8_t> taken,
                         std::span<std::int64_t> sum) const = 0;
};

/// Optional ability of a program that is an ExactClipping: add_cells() in pieces of the parameters,
/// so that the core can noise a piece while it is in the cache. The sum of whole numbers, twice as
/// large as the gradient, is then never in memory as a whole.
///
/// The pieces together are what add_cells() adds, in integers, whichever is asked.
///
/// Privacy: as Program.
/// Threads: choose() belongs to the one thread that a pass is used by. Until the pass is used
///   otherwise, add_piece() may be called for several of its pieces at the same time, and runs on the
///   thread that calls it.
class PRIVGRAD_API CellsInPieces {
 public:
  virtual ~CellsInPieces();

  /// The ends of the pieces, counted in parameters: ascending, the last one is parameter_count(). A
  /// function of the network alone. Pieces of some ten thousand parameters are best; if a piece has
  /// more than 2^17, the core calls add_cells() instead.
  virtual std::span<const std::size_t> piece_ends() const = 0;

  /// Selects the examples of the last make_cells() that the next pieces add up; may be called
  /// again.
  /// \param taken  [rows]: 0 takes an example out.
  virtual void choose(ExactClipping::Pass& pass, std::span<const std::uint8_t> taken) const = 0;

  /// sum += the cells of the chosen examples in one piece, modulo 2^64; may be asked again.
  /// \param sum  [size of the piece].
  virtual void add_piece(ExactClipping::Pass& pass, std::size_t piece,
                         std::span<std::int64_t> sum) const = 0;
};

/// Executes networks on some device.
///
/// Example, a backend that knows dense layers that flatten, and nothing else. DenseProgram implements Program, and also
/// ReproducibleRows and Outputs if it keeps their promises.
///
///     class DenseOnly final : public Backend {
///      public:
///       explicit DenseOnly(const Params&) {}
///       std::unique_ptr<Program> compile(const Network& network, Executor& executor) override {
///         for (const Layer& layer : network.layers) {
///           const auto* dense = std::get_if<Dense>(&layer);
///           if (dense == nullptr || dense->per_place)
///             throw ConfigError("dense_only: cannot execute the layer '" + to_text(layer) + "'");
///         }
///         return std::make_unique<DenseProgram>(network, executor);
///       }
///     };
class PRIVGRAD_API Backend {
 public:
  static constexpr std::string_view kKind = "backend";
  static constexpr int kInterfaceVersion = 6;
  static constexpr std::string_view kSees = "private rows";

  virtual ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  /// \param executor  outlives the program.
  /// \throws ConfigError naming the layer or loss that this backend cannot execute.
  virtual std::unique_ptr<Program> compile(const Network& network, Executor& executor) = 0;

  /// Of a backend that runs on what not every machine has: why this machine cannot run it as it was
  /// made, in one line without a full stop, and "" if it can. Where it is not "", compile() throws a
  /// ConfigError with the same words. `privgrad plugins list` shows it. May run concurrently.
  virtual std::string missing_hardware() const { return ""; }

 protected:
  Backend() = default;
};

}  // namespace privgrad

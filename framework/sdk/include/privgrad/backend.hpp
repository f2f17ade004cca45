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

/// Sums over examples; the caller computes means.
struct Evaluation {
  double loss = 0.0;  ///< Sum of the per-example losses, in nats for cross-entropy and logistic.
  /// Number of examples whose largest output is for their class; 0 for real targets.
  std::size_t correct = 0;
};

/// A network in executable form. It owns the parameters, wherever they are stored.
///
/// Privacy: receives private rows; everything it returns is private and goes only to the core.
/// Public test rows, whose losses anyone may see, are given to a program of another Backend (or
/// Model) instance, which receives no private row. Threads: const functions may run concurrently;
/// load_parameters() does not overlap with any other call.
class PRIVGRAD_API Program {
 public:
  virtual ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  virtual std::size_t parameter_count() const = 0;

  /// \param parameters  float32, [parameter_count()], in the layout of parameter_blocks().
  virtual void load_parameters(std::span<const float> parameters) = 0;

  /// Computes the gradient of each example's loss, one row per example. This is the reference
  /// against which faster functions are tested. The core clips and sums the rows.
  /// \param rows  out: float32, [batch.rows(), parameter_count()]. A row depends only on its own
  ///   example.
  virtual void gradient_rows(const Batch& batch, std::span<float> rows) const = 0;

  virtual Evaluation evaluate(const Batch& batch) const = 0;

 protected:
  Program() = default;
};

/// Optional ability of a program: the row that gradient_rows() writes for an example is a function
/// of the example and the parameters alone, bit for bit: at any place in any batch, together with
/// any other rows, with any number of threads and on any processor.
///
/// The class has no functions: it is a promise, which the conformance suite tests. It allows the
/// core to round the rows to whole numbers, add these exactly, and state a guarantee that covers
/// floating-point effects (docs/exactness.md). A program with neither this ability nor
/// ExactClipping can be used, but every output of the run lists `floating_point` as unaccounted.
class PRIVGRAD_API ReproducibleRows {
 public:
  virtual ~ReproducibleRows();
};

/// Optional ability of a program: it returns the outputs of the last layer, before any loss. A
/// trained model is applied with this ability; a program without it can only be used for training
/// and evaluation. The conformance suite tests it.
///
/// Privacy: like Program. Threads: calls may run concurrently.
class PRIVGRAD_API Outputs {
 public:
  virtual ~Outputs();

  /// \param features  float32, [rows, features...]. If a feature of a row is not finite, this row's
  ///   outputs may be anything, but must not affect other rows.
  /// \param outputs  out: float32, [rows, output_count(network)]. A row is a function of its
  ///   example and the parameters alone, bit for bit, at any place among any other rows.
  virtual void outputs(std::span<const float> features, std::size_t rows,
                       std::span<float> outputs) const = 0;
};

/// The exact squared length of a vector of whole numbers: high * 2^64 + low.
struct SquaredLength {
  std::uint64_t high = 0, low = 0;
  auto operator<=>(const SquaredLength&) const = default;
};

/// Optional ability of a program: it computes clipped gradients as whole numbers, in one backward
/// pass and without storing a gradient per example; the core adds the whole numbers exactly.
///
/// The norms, cells and lengths of an example depend, bit for bit, only on that example, the
/// parameters and the values passed for that example, as with ReproducibleRows. Sums of whole
/// numbers do not depend on the order, so the division of a batch into passes does not matter.
///
/// A contribution is a vector of whole numbers, the cells, approximately scale * gradient. The
/// program chooses how accurate the approximation is (noise is added anyway; 13 bits of each factor
/// of a product are plenty). But the vector must not be longer than most_cells, and SquaredLength
/// must be its exact squared length, computed from the cells themselves in integer arithmetic. The
/// core removes contributions that are too long.
///
/// Privacy: like Program. Threads: several passes may be used at the same time, each by one thread
/// at a time; a pass divides its work among the threads of the executor for which the program was
/// compiled.
class PRIVGRAD_API ExactClipping {
 public:
  /// Working memory for the examples between backward() and add_cells(). Created once and used for
  /// many batches.
  class PRIVGRAD_API Pass {
   public:
    virtual ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   protected:
    Pass() = default;
  };

  virtual ~ExactClipping();

  /// The number of groups of parameters with separate norms: one group for each layer that has
  /// parameters, in the order of the layers; a group's parameters are contiguous.
  virtual std::size_t groups() const = 0;

  /// The preferred number of examples in a pass, > 0.
  virtual std::size_t microbatch_rows() const = 0;

  /// Returns the approximate memory of a pass, in bytes, for plans to show; 0: not known.
  virtual std::uint64_t pass_bytes(std::size_t most_rows) const;

  /// \param most_rows  the largest number of rows of any later batch, > 0; memory depends on it.
  virtual std::unique_ptr<Pass> make_pass(std::size_t most_rows) const = 0;

  /// Runs the forward and backward passes for the examples of a batch.
  /// \param batch  at most most_rows rows; must remain valid until the next add_cells() returns.
  /// \param squared_norms  out: [rows, groups()]: the squared L2 norm of each example's gradient in
  ///   each group, to a relative 1e-3; not finite if the gradient is not finite.
  virtual void backward(const Batch& batch, Pass& pass, std::span<double> squared_norms) const = 0;

  /// Computes the cells of the examples of the last backward().
  /// \param scales  [rows, groups()], finite, >= 0: cells per unit of the gradient. The whole
  ///   vector scale_g * gradient_g is at most most_cells long, up to rounding. 0: the group gets no
  ///   cells, even if the gradient is not finite.
  /// \param most_cells  the largest length of a contribution, in cells; at most 2^28.
  /// \param lengths  out: [rows]: the squared length of each example's cells, over all groups. If
  ///   rounding made the cells of an example longer than most_cells, the program rounds them again,
  ///   towards zero.
  virtual void make_cells(Pass& pass, std::span<const double> scales, std::uint64_t most_cells,
                          std::span<SquaredLength> lengths) const = 0;

  /// Adds to sum, modulo 2^64, the cells from the last make_cells(). May be called repeatedly.
  /// \param taken  [rows]: 0 leaves an example out.
  /// \param sum  [parameter_count()].
  virtual void add_cells(Pass& pass, std::span<const std::uint8_t> taken,
                         std::span<std::int64_t> sum) const = 0;

  // ---- Optional: the cells of one piece of the parameters at a time, so that the core can add
  // noise to a piece while it is in the cache. The sum of whole numbers, twice as large as the
  // gradient, is then never in memory as a whole. The pieces together give exactly the integers of
  // add_cells().

  /// The ends of the pieces, counted in parameters: ascending; the last one is parameter_count().
  /// Depends only on the network. Pieces of some ten thousand parameters work best; without pieces
  /// (the default), or if a piece has more than 2^17, the core calls add_cells() instead.
  virtual std::span<const std::size_t> piece_ends() const { return {}; }

  /// Selects the examples of the last make_cells() whose cells add_piece() then adds; may be called
  /// repeatedly. Threads: belongs to the thread that uses the pass.
  /// \param taken  [rows]: 0 leaves an example out.
  virtual void choose(Pass& pass, std::span<const std::uint8_t> taken) const;

  /// Adds the chosen examples' cells in one piece to sum, modulo 2^64; may be called repeatedly.
  /// Threads: several pieces may be added at the same time, while no other function uses the pass;
  /// each call runs on its caller's thread.
  /// \param sum  [size of the piece].
  virtual void add_piece(Pass& pass, std::size_t piece, std::span<std::int64_t> sum) const;
};

/// Executes networks on some device.
///
/// Example: a backend that supports only dense layers that flatten their input. DenseProgram
/// implements Program, and also ReproducibleRows and Outputs if it keeps their promises.
///
///     class DenseOnly final : public Backend {
///      public:
///       explicit DenseOnly(const Params&) {}
///       std::unique_ptr<Program> compile(const Network& network, Executor& executor) override {
///         if (!is_plain_chain(network))
///           throw ConfigError("dense_only: executes plain chains of layers");
///         for (const Node& node : network.nodes) {
///           const auto* dense = std::get_if<Dense>(&node.layer);
///           if (dense == nullptr || dense->per_place || dense->no_bias)
///             throw ConfigError("dense_only: cannot execute '" + to_text(node.layer) + "'");
///         }
///         return std::make_unique<DenseProgram>(network, executor);
///       }
///     };
class PRIVGRAD_API Backend {
 public:
  static constexpr std::string_view kKind = "backend";
  static constexpr int kInterfaceVersion = 11;
  static constexpr std::string_view kSees = "private rows";

  virtual ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  /// \param executor  must outlive the program.
  /// \throws ConfigError that names the layer or loss that this backend cannot execute.
  virtual std::unique_ptr<Program> compile(const Network& network, Executor& executor) = 0;

  /// If this machine lacks special hardware that the backend needs with these parameters, returns
  /// one line that says so, without a full stop; otherwise "". If not "", compile() throws a
  /// ConfigError with this text. Shown by `privgrad plugins list`. Calls may overlap.
  virtual std::string missing_hardware() const { return ""; }

 protected:
  Backend() = default;
};

}  // namespace privgrad

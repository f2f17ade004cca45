// For programs that keep the sum, the noise and the optimizer's state on their own device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/clip_rule.hpp"
#include "privgrad/example_checksum.hpp"
#include "privgrad/export.hpp"
#include "privgrad/step_rule.hpp"

namespace privgrad {

/// An order to draw the noise of one release, for a program that draws the noise itself
/// (ResidentSteps). Only the core makes an order, and only in exchange for the receipt of the
/// charge. The order's key serves for no other noise.
///
/// Secret: anyone who has the order and sees the release knows the sum. The program uses the order
/// for the release for which it was made, and then forgets it.
class PRIVGRAD_API NoiseOrder {
 public:
  NoiseOrder(NoiseOrder&&) noexcept = default;
  NoiseOrder& operator=(NoiseOrder&&) noexcept = default;
  NoiseOrder(const NoiseOrder&) = delete;
  NoiseOrder& operator=(const NoiseOrder&) = delete;
  ~NoiseOrder() = default;

  /// Key for AES-128 in counter mode.
  std::span<const std::uint8_t, 16> key() const noexcept { return key_; }
  /// Standard deviation in cells of the sum, in [2^-64, 2^60], to be used as exactly this double.
  double sigma() const noexcept { return sigma_; }
  /// In [0, 62]: released cells are 2^shift times as wide as the cells of the sum.
  unsigned shift() const noexcept { return shift_; }

 private:
  friend class TrustBase;
  NoiseOrder(std::span<const std::uint8_t, 16> key, double sigma, unsigned shift);

  std::array<std::uint8_t, 16> key_;
  double sigma_;
  unsigned shift_;
};

/// The two factors, stored by the program, whose product left * right is a cell of an example:
/// either an input and an error of a dense layer, or a stored number and 1.
struct CellFactors {
  std::int32_t left = 0, right = 0;
};

/// Optional ability of a program that is an ExactClipping: sums, noise and optimizer stay on the
/// program's device, so that no step transfers a vector as long as the parameters to the core and
/// back.
///
/// The core still charges, issues the keys, and decides which examples count. It checks each step:
/// all scales, checksums of all examples, and which examples count. At places that follow from a
/// key unknown to the program, it also checks the sum (from the factors of the cells), the noise,
/// and the optimizer's update. It ends the run if any bit differs.
///
/// So that a step seldom waits for its device, functions without a result only have to begin their
/// work: they read their arguments before they return, except the pass, the memory and the outputs,
/// which stay in place. Outputs are written, and errors thrown, at the latest by the next settle(),
/// or by any function with a result, for the same memory. Once a function has thrown, outputs that
/// are not written yet stay unwritten, and the memory may only be destroyed.
///
/// Definition of a release: cell i becomes round((sum_i + sigma zeta_i) / 2^shift), modulo 2^64,
/// where zeta_i is standard normal and determined by the order's key. Elements are grouped in
/// chunks of kChunk. Pair p < 512 of chunk c gives its elements p and 512 + p, from two strings of
/// bits. The bits come from blocks AES-128(key, domain, counter): domain and counter are big-endian
/// numbers of 8 bytes each, and a block is read as little-endian words of 4 or 8 bytes.
///   - Words 1024 c + p and 1024 c + 512 + p of domain 0 begin the pair's first and second string.
///   - Block 512 c + p of the domains 1, 2, .. has the next 64 bits of the first, then of the
///     second string, until the rounding is certain.
/// The first string is U in [0, 1); the second consists of three bits and V in [0, 1). With
/// r = sqrt(-2 ln U), zeta is r cos(pi V / 4) for element p and r sin(pi V / 4) for the other
/// element, exchanged if the third bit is set; the first bit is the sign of element p, the second
/// is the sign of the other element. (Box and Muller 1958; docs/exactness.md says why this is the
/// Gaussian mechanism.) If a program cannot decide how to round an element, it reports this, and
/// the core computes the chunk.
///
/// Privacy: like Program, but also receives the key of each release's noise. Threads: calls with
/// one memory never overlap, nor do calls with a pass that one memory uses. No call overlaps with
/// update(), or with a put_numbers() that writes the parameters.
class PRIVGRAD_API ResidentSteps {
 public:
  static constexpr std::size_t kChunk = 1024;

  /// Memory for the examples of all sums, one sum, the released cells, and the vectors of the
  /// optimizer's state, each with one number per parameter.
  class PRIVGRAD_API Memory {
   public:
    virtual ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

   protected:
    Memory() = default;
  };

  enum class Cells : std::uint32_t { sum = 1, released };
  /// `parameters` are the program's parameters, of which there is one copy for all memories.
  enum class Numbers : std::uint32_t { parameters = 0, first_state, second_state };
  enum class Moved : std::uint32_t { yes = 1, gradient_not_finite, parameters_not_finite };

  /// The results of clip_rows() for each example.
  struct Clipped {
    std::span<double> squared_norms;   ///< [rows, groups()], as in ExactClipping::backward().
    std::span<double> scales;          ///< [rows, groups()], as in cell_scales().
    std::span<SquaredLength> lengths;  ///< [rows], as in ExactClipping::make_cells().
    /// [rows]: 1 if the squared length is at most most_cells^2, 0 otherwise.
    std::span<std::uint8_t> taken;
    /// [rows]: example_checksum() of the examples from which the cells were computed. Cells and
    /// checksums are computed from the same memory.
    std::span<std::uint64_t> checksums;
  };

  virtual ~ResidentSteps();

  /// \param state_vectors  0 to 2, as privgrad::state_vectors() says; the vectors begin at zero.
  /// \param data  the rows of all sums; outlives the memory, and does not change.
  virtual std::unique_ptr<Memory> make_memory(std::size_t state_vectors,
                                              const Dataset& data) const = 0;

  virtual void clear_sum(Memory& memory) const = 0;

  /// Makes the cells of some examples, as ExactClipping::backward(), cell_scales() and
  /// ExactClipping::make_cells() do.
  /// \param rows  row numbers in the memory's data, each below the data's number of rows; at most
  ///   as many as the pass was made for.
  /// \param found  out.
  virtual void clip_rows(ExactClipping::Pass& pass, std::span<const std::uint32_t> rows,
                         const CellScaling& scaling, Memory& memory,
                         const Clipped& found) const = 0;

  /// Like ExactClipping::add_cells(), but adds to the memory's sum.
  /// \param taken  [rows]; empty means the examples that the last clip_rows() of the pass took.
  virtual void add_to_sum(ExactClipping::Pass& pass, std::span<const std::uint8_t> taken,
                          Memory& memory) const = 0;

  /// Writes the factors of the pass's last cells at some places, for all examples, taken or not.
  /// \param places  parameters, each below parameter_count().
  /// \param factors  out: [rows, places.size()].
  virtual void factors_at(ExactClipping::Pass& pass, std::span<const std::uint64_t> places,
                          Memory& memory, std::span<CellFactors> factors) const = 0;

  /// Computes the released cells from the sum, which is not changed.
  /// \returns the chunks that contain an undecided element, ascending: their cells are undefined
  ///   until put_released().
  virtual std::vector<std::uint64_t> release(Memory& memory, const NoiseOrder& order) const = 0;

  /// \param cells  [kChunk], or the size of the last chunk.
  virtual void put_released(Memory& memory, std::uint64_t chunk,
                            std::span<const std::int64_t> cells) const = 0;

  /// Updates the parameters and the state with the gradients float(double(cell) * width) of the
  /// released cells, each rounded once. If a gradient or a parameter is not finite, all parameters
  /// stay as they were (a gradient is reported first), and the state must not be used any more.
  /// \param rule  a rule of the kind for which the memory was made.
  virtual Moved update(Memory& memory, const StepRule& rule, double width) = 0;

  /// Copies the elements at some places.
  /// \param places  each below parameter_count(), in any order.
  /// \param out  [places.size()].
  virtual void cells_at(const Memory& memory, Cells what, std::span<const std::uint64_t> places,
                        std::span<std::int64_t> out) const = 0;
  virtual void numbers_at(const Memory& memory, Numbers what, std::span<const std::uint64_t> places,
                          std::span<float> out) const = 0;

  /// numbers() copies a whole vector out of the memory, put_numbers() into it: [parameter_count()].
  virtual void numbers(const Memory& memory, Numbers what, std::span<float> out) const = 0;
  virtual void put_numbers(Memory& memory, Numbers what, std::span<const float> values) = 0;

  /// Waits until all outputs are written.
  virtual void settle(Memory& memory) const = 0;
};

}  // namespace privgrad

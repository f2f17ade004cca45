// Examples in memory, their shape, and the batches of them that backends receive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "privgrad/export.hpp"

namespace privgrad {

using Shape = std::vector<std::size_t>;

/// \returns the product of the extents; 1 for an empty shape.
/// \throws ConfigError on overflow.
PRIVGRAD_API std::size_t element_count(const Shape& shape);

/// \returns "28 x 28", "1".
PRIVGRAD_API std::string to_text(const Shape& shape);

/// The shape of one example: its features and its target.
struct ExampleShape {
  Shape features;           ///< E.g. {28, 28}; every extent > 0.
  std::size_t classes = 0;  ///< Targets are class indices below this; 0: targets are reals.
};

/// Rows that lie elsewhere in memory, for example in a mapped file.
struct LentRows {
  /// [rows, features...]; bytes mean byte * scale.
  std::variant<std::span<const float>, std::span<const std::uint8_t>> features;
  float scale = 1.0f;
  std::span<const float> targets;     ///< [rows].
  std::shared_ptr<const void> owner;  ///< Keeps the rows in place and unchanged while it lives.
};

/// Examples in memory. Images stay bytes until something needs them as reals.
/// Threads: const functions may run concurrently.
class PRIVGRAD_API Dataset {
 public:
  Dataset() = default;

  /// \param features  float32, row-major [rows, features...].
  /// \param targets   float32, [rows]; class indices (exact in float32) or reals.
  /// \throws IoError if the sizes disagree, a target is no class index below shape.classes, or a
  ///   feature or target is not finite (the first offending row is named).
  Dataset(ExampleShape shape, std::vector<float> features, std::vector<float> targets);

  /// Bytes that mean byte * scale, e.g. pixels with scale 1/255. Same checks.
  Dataset(ExampleShape shape, std::vector<std::uint8_t> features, float scale,
          std::vector<float> targets);

  /// Features that lie elsewhere in memory and are not copied. Same checks.
  /// \param owner  keeps the features in place and unchanged while it lives.
  Dataset(ExampleShape shape, std::span<const float> features, std::shared_ptr<const void> owner,
          std::vector<float> targets);
  Dataset(ExampleShape shape, std::span<const std::uint8_t> features, float scale,
          std::shared_ptr<const void> owner, std::vector<float> targets);

  /// Rows that are not copied, for more of them than fit in memory. Targets are checked as above.
  /// Features are not checked, which would read all of them: the lender has checked that they are
  /// finite, or lends the output of a RowTransform, where a row that overflowed is NaN.
  Dataset(ExampleShape shape, LentRows rows);

  const ExampleShape& shape() const noexcept { return shape_; }
  std::size_t rows() const noexcept { return targets().size(); }
  std::size_t row_size() const noexcept { return row_size_; }
  std::span<const float> targets() const noexcept {
    return targets_owner_ == nullptr ? std::span<const float>(targets_) : lent_targets_;
  }

  /// Copies the rows, as reals, to `features` ([rows.size(), row_size()]) and `targets`
  /// ([rows.size()]).
  void gather(std::span<const std::uint32_t> rows, std::span<float> features,
              std::span<float> targets) const;

  /// All features as reals, [rows(), row_size()], to be written to; the first call converts bytes, and
  /// copies what lies elsewhere.
  std::span<float> features();

  /// Replaces the features of every example by others of another shape. Same checks as the
  /// constructor.
  void replace_features(Shape features_shape, std::vector<float> features);

 private:
  /// Numbers that lie elsewhere in memory.
  template <class T>
  struct Lent {
    std::span<const T> numbers;
    std::shared_ptr<const void> owner;
  };

  void check_sizes(std::size_t count) const;
  /// Calls `action` with the numbers, whichever of the four kinds of features they are.
  template <class Action>
  void visit_numbers(Action action) const;
  ExampleShape shape_;
  std::size_t row_size_ = 0;
  std::variant<std::vector<float>, std::vector<std::uint8_t>, Lent<float>, Lent<std::uint8_t>>
      features_;
  float scale_ = 1.0f;
  std::vector<float> targets_;
  std::span<const float> lent_targets_;  ///< Used instead of targets_ if targets_owner_ is set.
  std::shared_ptr<const void> targets_owner_;
};

/// Some examples, as a backend receives them.
struct Batch {
  std::span<const float> features;  ///< float32, [rows, features...].
  std::span<const float> targets;   ///< float32, [rows].
  std::size_t rows() const noexcept { return targets.size(); }
};

}  // namespace privgrad

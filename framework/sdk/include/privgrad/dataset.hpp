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
  std::size_t classes = 0;  ///< Targets are class indices below this; 0: targets are real numbers.
};

/// Rows stored elsewhere in memory, for example in a mapped file.
struct LentRows {
  /// [rows, features...]; a byte stands for byte * scale.
  std::variant<std::span<const float>, std::span<const std::uint8_t>> features;
  float scale = 1.0f;
  std::span<const float> targets;     ///< [rows].
  std::shared_ptr<const void> owner;  ///< Keeps the rows in place and unchanged while it lives.
};

/// Examples in memory. Images stay bytes until real numbers are needed. Threads: const functions
/// may run concurrently.
class PRIVGRAD_API Dataset {
 public:
  Dataset() = default;

  /// \param features  float32, row-major [rows, features...].
  /// \param targets  float32, [rows]; class indices (exact in float32) or real numbers.
  /// \throws IoError if the sizes disagree, a target is not a class index below shape.classes, or a
  ///   feature or target is not finite (the message names the first such row).
  Dataset(ExampleShape shape, std::vector<float> features, std::vector<float> targets);

  /// Features as bytes that stand for byte * scale, e.g. pixels with scale 1/255. Same checks.
  Dataset(ExampleShape shape, std::vector<std::uint8_t> features, float scale,
          std::vector<float> targets);

  /// Features that stay where they are in memory and are not copied. Same checks.
  /// \param owner  keeps the features in place and unchanged as long as it lives.
  Dataset(ExampleShape shape, std::span<const float> features, std::shared_ptr<const void> owner,
          std::vector<float> targets);
  Dataset(ExampleShape shape, std::span<const std::uint8_t> features, float scale,
          std::shared_ptr<const void> owner, std::vector<float> targets);

  /// Rows that are not copied, for more rows than fit in memory. Targets are checked as above.
  /// Features are not checked, because that would read all of them: the caller has checked that
  /// they are finite, or passes a transform's output, in which overflowed rows are NaN.
  Dataset(ExampleShape shape, LentRows rows);

  const ExampleShape& shape() const noexcept { return shape_; }
  std::size_t rows() const noexcept { return targets().size(); }
  std::size_t row_size() const noexcept { return row_size_; }
  std::span<const float> targets() const noexcept {
    return targets_owner_ == nullptr ? std::span<const float>(targets_) : lent_targets_;
  }

  /// Copies the rows, as real numbers, to `features` ([rows.size(), row_size()]) and `targets`
  /// ([rows.size()]).
  void gather(std::span<const std::uint32_t> rows, std::span<float> features,
              std::span<float> targets) const;

  /// Writable access to all features as real numbers, [rows(), row_size()]. The first call converts
  /// bytes, and copies features that are stored elsewhere.
  std::span<float> features();

  /// Replaces the features of all examples by features of another shape. Same checks as in the
  /// constructor.
  void replace_features(Shape features_shape, std::vector<float> features);

 private:
  /// Numbers that are stored elsewhere in memory.
  template <class T>
  struct Lent {
    std::span<const T> numbers;
    std::shared_ptr<const void> owner;
  };

  void check_sizes(std::size_t count) const;
  /// Calls `action` with the features, whichever of the four kinds of storage they have.
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

/// Some examples, in the form that backends receive.
struct Batch {
  std::span<const float> features;  ///< float32, [rows, features...].
  std::span<const float> targets;   ///< float32, [rows].
  std::size_t rows() const noexcept { return targets.size(); }
};

}  // namespace privgrad

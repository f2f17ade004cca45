#include "privgrad/dataset.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "privgrad/error.hpp"

namespace privgrad {
namespace {

void check_targets(const ExampleShape& shape, std::span<const float> targets) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const float target = targets[i];
    const bool is_class = target >= 0.0f && target == std::floor(target) &&
                          target < static_cast<float>(shape.classes);
    if (!std::isfinite(target) || (shape.classes > 0 && !is_class)) {
      throw IoError(
          "row " + std::to_string(i) + ": the label is not a " +
          (shape.classes > 0 ? "class below " + std::to_string(shape.classes) : "finite number"));
    }
  }
}

void check_finite(std::span<const float> features, std::size_t row_size) {
  const auto bad = std::ranges::find_if(features, [](float x) { return !std::isfinite(x); });
  if (bad == features.end()) return;
  const auto at = static_cast<std::size_t>(bad - features.begin());
  throw IoError("row " + std::to_string(at / row_size) + ", feature " +
                std::to_string(at % row_size) + " is not a finite number");
}

}  // namespace

std::size_t element_count(const Shape& shape) {
  std::size_t count = 1;
  for (const std::size_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count)) {
      throw ConfigError("a shape of " + to_text(shape) + " has too many elements");
    }
  }
  return count;
}

std::string to_text(const Shape& shape) {
  std::string text;
  for (const std::size_t extent : shape)
    text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text.empty() ? "1" : text;
}

void Dataset::check_sizes(std::size_t count) const {
  std::size_t expected = 0;
  if (row_size_ == 0 || __builtin_mul_overflow(rows(), row_size_, &expected) || count != expected) {
    throw IoError(std::to_string(rows()) + " label(s) but " + std::to_string(count) +
                  " feature values, expected " + std::to_string(row_size_) + " for each label");
  }
}

Dataset::Dataset(ExampleShape shape, std::vector<float> features, std::vector<float> targets)
    : shape_(std::move(shape)),
      row_size_(element_count(shape_.features)),
      targets_(std::move(targets)) {
  check_sizes(features.size());
  check_targets(shape_, targets_);
  check_finite(features, row_size_);
  features_ = std::move(features);
}

Dataset::Dataset(ExampleShape shape, std::vector<std::uint8_t> features, float scale,
                 std::vector<float> targets)
    : shape_(std::move(shape)),
      row_size_(element_count(shape_.features)),
      scale_(scale),
      targets_(std::move(targets)) {
  check_sizes(features.size());
  check_targets(shape_, targets_);
  if (!std::isfinite(scale)) throw IoError("the scale of the bytes is not finite");
  features_ = std::move(features);
}

Dataset::Dataset(ExampleShape shape, std::span<const float> features,
                 std::shared_ptr<const void> owner, std::vector<float> targets)
    : shape_(std::move(shape)),
      row_size_(element_count(shape_.features)),
      targets_(std::move(targets)) {
  check_sizes(features.size());
  check_targets(shape_, targets_);
  check_finite(features, row_size_);
  features_ = Lent<float>{features, std::move(owner)};
}

Dataset::Dataset(ExampleShape shape, std::span<const std::uint8_t> features, float scale,
                 std::shared_ptr<const void> owner, std::vector<float> targets)
    : shape_(std::move(shape)),
      row_size_(element_count(shape_.features)),
      scale_(scale),
      targets_(std::move(targets)) {
  check_sizes(features.size());
  check_targets(shape_, targets_);
  if (!std::isfinite(scale)) throw IoError("the scale of the bytes is not finite");
  features_ = Lent<std::uint8_t>{features, std::move(owner)};
}

Dataset::Dataset(ExampleShape shape, LentRows rows)
    : shape_(std::move(shape)),
      row_size_(element_count(shape_.features)),
      scale_(rows.scale),
      lent_targets_(rows.targets),
      targets_owner_(rows.owner) {
  if (rows.owner == nullptr) throw ConfigError("rows have no owner");
  check_sizes(std::visit([](const auto numbers) { return numbers.size(); }, rows.features));
  check_targets(shape_, targets());
  if (!std::isfinite(scale_)) throw IoError("the scale of the bytes is not finite");
  std::visit(
      [&](const auto numbers) {
        using Number = std::remove_const_t<typename decltype(numbers)::element_type>;
        features_ = Lent<Number>{numbers, std::move(rows.owner)};
      },
      rows.features);
}

template <class Action>
void Dataset::visit_numbers(Action action) const {
  std::visit(
      [&](const auto& features) {
        if constexpr (requires { features.owner; }) {
          action(features.numbers);
        } else {
          action(std::span(features));
        }
      },
      features_);
}

void Dataset::gather(std::span<const std::uint32_t> rows, std::span<float> features,
                     std::span<float> targets) const {
  const auto copy_row = [&](const auto* from, float* to) {
    if constexpr (sizeof(*from) == sizeof(float)) {
      std::memcpy(to, from, row_size_ * sizeof(float));
    } else {
      std::transform(from, from + row_size_, to, [scale = scale_](std::uint8_t byte) {
        return static_cast<float>(byte) * scale;
      });
    }
  };
  visit_numbers([&, all_targets = this->targets()](const auto numbers) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t row = rows[i];
      copy_row(numbers.data() + row * row_size_, features.data() + i * row_size_);
      targets[i] = all_targets[row];
    }
  });
}

std::span<float> Dataset::features() {
  if (!std::holds_alternative<std::vector<float>>(features_)) {
    std::vector<float> reals;
    visit_numbers([&](const auto numbers) {
      reals.resize(numbers.size());
      std::ranges::transform(numbers, reals.begin(), [scale = scale_](auto number) {
        if constexpr (sizeof(number) == sizeof(float)) {
          return number;
        } else {
          return static_cast<float>(number) * scale;
        }
      });
    });
    features_ = std::move(reals);
  }
  return std::get<std::vector<float>>(features_);
}

void Dataset::replace_features(Shape features_shape, std::vector<float> features) {
  // Checks a copy before anything is changed. The targets stay in their memory.
  Dataset changed;
  changed.shape_ = {std::move(features_shape), shape_.classes};
  changed.row_size_ = element_count(changed.shape_.features);
  changed.targets_ = targets_;
  changed.lent_targets_ = lent_targets_;
  changed.targets_owner_ = targets_owner_;
  changed.check_sizes(features.size());
  check_finite(features, changed.row_size_);
  changed.features_ = std::move(features);
  *this = std::move(changed);
}

}  // namespace privgrad

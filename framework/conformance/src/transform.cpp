#include "privgrad/transform.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "inputs.hpp"
#include "parameters.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/partition.hpp"
#include "privgrad/row_operation.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

constexpr std::size_t kRows = 130;

std::vector<float> class_targets(std::size_t rows) {
  std::vector<float> targets(rows);
  for (std::size_t row = 0; row < rows; ++row) targets[row] = static_cast<float>(row % 3);
  return targets;
}

/// Returns correlated features of different sizes; the last feature is constant.
Dataset varied(const Shape& shape, std::uint64_t seed, std::size_t rows = kRows) {
  const std::size_t size = element_count(shape);
  std::vector<float> features = normal_values(seed, rows * size);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < size; ++i) {
      float& value = features[row * size + i];
      value = value * static_cast<float>(1 + i % 5) + features[row * size] + 2.0f;
    }
    features[row * size + size - 1] = 3.0f;
  }
  return Dataset({shape, 3}, std::move(features), class_targets(rows));
}

/// Returns examples in bytes, like images.
Dataset images(const Shape& shape, std::uint64_t seed) {
  std::vector<std::uint8_t> bytes(kRows * element_count(shape));
  PublicStream random(seed);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.uniform_below(256));
  return Dataset({shape, 3}, std::move(bytes), 1.0f / 255.0f, class_targets(kRows));
}

Dataset constant(const Shape& shape, float value) {
  return Dataset({shape, 3}, std::vector<float>(kRows * element_count(shape), value),
                 class_targets(kRows));
}

std::vector<Shape> accepted_shapes(const Checker& checker) {
  std::vector<Shape> found;
  for (const Shape& shape : {Shape{6}, Shape{2, 3}, Shape{10, 10}, Shape{100}, Shape{7, 9, 2}}) {
    const auto transform = checker.make<Transform>();
    if (accepted("output_shape() for " + to_text(shape), {Thrown::config}, [&] {
          static_cast<void>(transform->output_shape({shape, 3}));
        })) {
      found.push_back(shape);
    }
  }
  return found;
}

ComponentPtr<Transform> fitted(const Checker& checker, Dataset train) {
  auto transform = checker.make<Transform>();
  transform->fit(train);
  return transform;
}

std::vector<float> features_of(Dataset& data) {
  const auto features = data.features();
  return {features.begin(), features.end()};
}

std::vector<float> applied(const Transform& transform, Dataset data) {
  transform.apply(data);
  return features_of(data);
}

std::vector<float> targets_of(const Dataset& data) {
  return {data.targets().begin(), data.targets().end()};
}

Dataset subset(const Dataset& data, const std::vector<std::uint32_t>& rows) {
  std::vector<float> features(rows.size() * data.row_size());
  std::vector<float> targets(rows.size());
  data.gather(rows, features, targets);
  return Dataset(data.shape(), std::move(features), std::move(targets));
}

void require_as_told(const Checker& checker, Dataset data) {
  const ExampleShape before = data.shape();
  const std::vector<float> targets = targets_of(data);
  const auto transform = checker.make<Transform>();
  const ExampleShape told = transform->output_shape(before);
  transform->fit(data);
  transform->apply(data);
  const std::string where = " for examples of " + to_text(before.features);
  require(data.shape().features == told.features,
          "apply() gives examples of " + to_text(data.shape().features) + ", output_shape() said " +
              to_text(told.features) + where);
  require(told.classes == before.classes && data.shape().classes == before.classes,
          "the number of classes changed" + where);
  require(same_bits(targets, targets_of(data)), "apply() changed targets" + where);
  require(transform->output_shape(before).features == told.features,
          "output_shape() changes its answer after fit()" + where);
  const std::vector<float> features = features_of(data);
  require(all_finite(features), "apply() gave a feature that is not finite" + where);
}

void require_row_by_row(const Checker& checker, const Shape& shape) {
  const Dataset test = varied(shape, 8, 40);
  const auto transform = fitted(checker, varied(shape, 7));
  const std::vector<float> whole = applied(*transform, test);
  const std::size_t size = whole.size() / test.rows();
  // A part of the split, in a different order.
  const std::vector<std::uint32_t> rows{39, 3, 17, 0, 20};
  const std::vector<float> part = applied(*transform, subset(test, rows));
  // In a smaller matrix, sums over features may be computed in a different order.
  const double scale = std::abs(static_cast<double>(*std::ranges::max_element(
      whole, [](float a, float b) { return std::abs(a) < std::abs(b); })));
  for (std::size_t i = 0; i < part.size(); ++i) {
    const float wanted = whole[rows[i / size] * size + i % size];
    require(close(static_cast<double>(part[i]), static_cast<double>(wanted), 1e-4, 1e-5 * scale),
            "an example of " + to_text(shape) + " becomes " + format_number(part[i]) +
                " among a few and " + format_number(wanted) + " among many");
  }
}

// ---- transforms of single rows (is_by_row())

ComponentPtr<Transform> by_row(const Checker& checker, const Shape& shape) {
  const bool before = checker.make<Transform>()->is_by_row();
  auto transform = fitted(checker, varied(shape, 7));
  require(transform->is_by_row() == before, "is_by_row() changes its answer after fit()");
  if (!before) throw NotChecked{"it is not given one row at a time"};
  return transform;
}

/// Returns the transformed example, in memory that begins `offset` numbers after its allocation,
/// with a number on each side that must not change.
std::vector<float> row_of(const Transform& transform, const Shape& shape,
                          std::span<const float> features, std::size_t width,
                          std::size_t offset = 0) {
  constexpr float kGuard = 12345.0f;
  std::vector<float> in(features.size() + offset);
  std::ranges::copy(features, in.begin() + static_cast<std::ptrdiff_t>(offset));
  std::vector<float> out(width + offset + 2, kGuard);
  const auto inner = std::span(out).subspan(offset + 1, width);
  std::ranges::fill(inner, std::numeric_limits<float>::quiet_NaN());
  transform.apply_row(shape, std::span(in).subspan(offset), inner);
  require(out[offset] == kGuard && out.back() == kGuard, "apply_row() writes outside its output");
  return {inner.begin(), inner.end()};
}

/// Passes rows that a transform may refuse, but must not remember.
void show_hostile_rows(const Transform& transform, const Shape& shape, std::size_t width) {
  using Limits = std::numeric_limits<float>;
  for (const float value : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(),
                            Limits::denorm_min(), Limits::max()}) {
    const std::vector<float> row(element_count(shape), value);
    std::vector<float> out(width);
    outcome_of([&] { transform.apply_row(shape, row, out); });
  }
}

void require_row_of_itself(const Checker& checker, const Shape& shape) {
  Dataset test = varied(shape, 8, 40);
  const auto transform = by_row(checker, shape);
  const std::size_t width = element_count(transform->output_shape(test.shape()).features);
  const std::size_t size = test.row_size();
  const auto row = [&](std::size_t i) { return test.features().subspan(i * size, size); };
  for (const std::size_t i : {0u, 1u, 17u, 39u}) {
    // Transforms the row also with an instance that has seen no other row.
    const auto other = fitted(checker, varied(shape, 7));
    const std::vector<float> alone = row_of(*other, shape, row(i), width);
    row_of(*transform, shape, row((i + 1) % test.rows()), width);
    const auto same = [&](const std::string& when, std::size_t offset = 0) {
      require(same_bits(alone, row_of(*transform, shape, row(i), width, offset)),
              "apply_row() makes other bits of an example of " + to_text(shape) + " " + when);
    };
    same("after other examples");
    same("the second time");
    show_hostile_rows(*transform, shape, width);
    same("after rows that are not finite");
    for (const std::size_t offset : {1u, 2u, 3u, 5u}) same("elsewhere in memory", offset);
  }
}

void require_agreement(const Checker& checker, const Shape& shape) {
  const auto transform = by_row(checker, shape);
  for (const std::size_t count : {1u, 5u, 130u}) {
    Dataset data = varied(shape, 8, count);
    const ExampleShape told = transform->output_shape(data.shape());
    const std::vector<float> together = applied(*transform, data);
    const std::string of = std::to_string(count) + " examples of " + to_text(shape);
    const Dataset raw = data;
    SerialExecutor forwards(false), backwards(true);
    apply_to_each_row(*transform, told.features, data, forwards);
    require(same_bits(together, features_of(data)),
            "apply() makes other bits of " + of + " than apply_row()");
    TwoThreadExecutor threads;
    for (Executor* executor : std::initializer_list<Executor*>{&backwards, &threads}) {
      Dataset again = raw;
      apply_to_each_row(*transform, told.features, again, *executor);
      require(same_bits(together, features_of(again)),
              "apply_row() makes other bits of " + of + " from the last one on, or on two threads");
    }
  }
}

/// Compares examples transformed together with the same examples transformed alone. A row in the
/// middle is not finite, and must not affect its neighbours.
void require_rows_at_once(const Checker& checker, const Shape& shape) {
  const auto transform = by_row(checker, shape);
  for (const std::size_t count : {1u, 2u, 3u, 8u, 33u}) {
    Dataset data = varied(shape, 8, count);
    std::vector<float> in = features_of(data);
    const std::size_t size = in.size() / count, bad = count / 2;
    const auto row = [&](std::size_t i) { return std::span(in).subspan(i * size, size); };
    if (count > 1) std::ranges::fill(row(bad), std::numeric_limits<float>::quiet_NaN());
    const std::size_t width = element_count(transform->output_shape(data.shape()).features);
    std::vector<float> out(count * width + 1, std::numeric_limits<float>::quiet_NaN());
    out.back() = 12345.0f;
    transform->apply_rows(shape, count, in, std::span(out).first(count * width));
    require(out.back() == 12345.0f, "apply_rows() writes outside its output");
    for (std::size_t i = 0; i < count; ++i) {
      if (count > 1 && i == bad) continue;
      const auto begin = out.begin() + static_cast<std::ptrdiff_t>(i * width);
      const std::vector<float> made(begin, begin + static_cast<std::ptrdiff_t>(width));
      require(same_bits(row_of(*transform, shape, row(i), width), made),
              "apply_rows() makes other bits of example " + std::to_string(i) + " of " +
                  std::to_string(count) + " of " + to_text(shape) + " than apply_row()");
    }
  }
}

// ---- transforms that return their learnt values (is_restorable())

/// Returns a fitted transform that has learnt numbers.
ComponentPtr<Transform> restorable(const Checker& checker, const Shape& shape) {
  auto transform = fitted(checker, varied(shape, 7));
  require(transform->is_restorable() == checker.make<Transform>()->is_restorable(),
          "is_restorable() changes its answer after fit()");
  if (!transform->is_restorable()) throw NotChecked{"its learnt values cannot be saved"};
  if (transform->statistic() == Statistic::none && transform->fitted_values().empty())
    throw NotChecked{"it uses no numbers"};
  return transform;
}

void require_well_formed(const std::vector<FittedTensor>& values) {
  std::vector<std::string> names;
  for (const FittedTensor& tensor : values) {
    const std::string& name = tensor.name;
    const bool is_name =
        !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 c == '_';
        });
    require(is_name, "fitted_values() names a tensor '" + name +
                         "'; allowed are letters, digits and '_', at most 64");
    require(std::ranges::find(names, name) == names.end(),
            "fitted_values() gives two tensors '" + name + "'");
    names.push_back(name);
    require(!tensor.shape.empty() && element_count(tensor.shape) == tensor.values.size() &&
                !tensor.values.empty(),
            "the fitted tensor '" + name + "' is " + to_text(tensor.shape) + " and has " +
                std::to_string(tensor.values.size()) + " values");
    require(std::ranges::all_of(tensor.values, [](double x) { return std::isfinite(x); }),
            "the fitted tensor '" + name + "' has a value that is not finite");
  }
}

bool same_tensor(const FittedTensor& a, const FittedTensor& b) {
  return a.name == b.name && a.shape == b.shape && a.values == b.values;
}

/// Requires that a transform restored from the values in a file transforms new rows like the fitted
/// transform.
void require_restored(const Checker& checker, const Shape& shape) {
  const auto original = restorable(checker, shape);
  const std::vector<FittedTensor> values = original->fitted_values();
  require_well_formed(values);
  const auto copy = checker.make<Transform>();
  copy->restore(values);
  for (const Dataset& data : {varied(shape, 8), images(shape, 3)}) {
    require(same_bits(applied(*original, data), applied(*copy, data)),
            "examples of " + to_text(shape) +
                " become other bits after its learnt values were saved and restored");
  }
  for (const auto& given : {original->fitted_values(), copy->fitted_values()}) {
    require(std::ranges::equal(values, given, same_tensor),
            "fitted_values() gives other tensors the second time, or after restore()");
  }
}

/// Requires that restore() refuses tensors that do not fit, such as tensors from a forged file.
void require_refused(const Checker& checker, const Shape& shape) {
  const auto original = restorable(checker, shape);
  const std::vector<FittedTensor> values = original->fitted_values();
  const std::vector<float> before = applied(*original, varied(shape, 8));
  const auto refused = [&](const std::string& what, const std::vector<FittedTensor>& wrong) {
    require_throws(Thrown::config, "restore() of " + what, [&] { original->restore(wrong); });
    require(same_bits(before, applied(*original, varied(shape, 8))),
            "restore() of " + what + " was refused and changed the transform");
  };
  std::vector<FittedTensor> wrong = values;
  wrong.push_back({"not_of_this_transform", {1}, {1.0}});
  refused("a tensor that it does not know", wrong);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string name = "'" + values[i].name + "'";
    wrong = values;
    wrong.erase(wrong.begin() + static_cast<std::ptrdiff_t>(i));
    refused("all tensors but " + name, wrong);
    wrong = values;
    wrong[i].shape.push_back(1);
    refused(name + " with an extent more", wrong);
    wrong = values;
    wrong[i].values.pop_back();
    refused(name + " with a value less than its shape says", wrong);
    wrong = values;
    wrong[i].values.front() = std::numeric_limits<double>::quiet_NaN();
    refused(name + " with a value that is not a number", wrong);
  }
}

/// Requires that a transform without numbers works without fit(): the core restores nothing for it.
void require_no_need_of_fit(const Checker& checker, const Shape& shape) {
  const auto fresh = checker.make<Transform>();
  if (fresh->statistic() != Statistic::none) throw NotChecked{"it uses numbers"};
  require(same_bits(applied(*fresh, varied(shape, 8)),
                    applied(*fitted(checker, varied(shape, 7)), varied(shape, 8))),
          "statistic() says that it uses no numbers, and fit() makes a difference");
  const auto after = fitted(checker, varied(shape, 7));
  require(after->fitted_values().empty(),
          "statistic() says that it uses no numbers, and fitted_values() gives some");
}

/// Whether the transform's effect or saved values depend on the examples on which it was fitted.
bool learns_from_examples(const Checker& checker, const Shape& shape) {
  const auto one = fitted(checker, varied(shape, 7)), other = fitted(checker, images(shape, 5));
  const Dataset probe = varied(shape, 9, 20);
  if (!same_bits(applied(*one, probe), applied(*other, probe))) return true;
  if (!one->is_restorable()) return false;
  const std::vector<FittedTensor> a = one->fitted_values(), b = other->fitted_values();
  return !std::ranges::equal(a, b, same_tensor);
}

// ---- operations

/// Requires that the operations give the result of apply(), up to a few float32 rounding errors of
/// the example's largest number.
void require_operations(const Transform& transform, const Dataset& data) {
  const std::vector<RowOperation> operations = transform.row_operations(data.shape().features);
  const std::size_t width = element_count(transform.output_shape(data.shape()).features);
  const std::string where = " of an example of " + to_text(data.shape().features);
  require(check_row_operations(operations, data.row_size()) == width,
          "row_operations() make another number of features" + where + " than output_shape() says");
  Dataset raw = data;
  const std::vector<float> given = applied(transform, data);
  for (std::size_t row = 0; row < data.rows(); ++row) {
    const std::vector<double> wanted =
        evaluate(operations, raw.features().subspan(row * data.row_size(), data.row_size()));
    double scale = 0.0;
    for (const double x : wanted) scale = std::max(scale, std::abs(x));
    for (std::size_t j = 0; j < width; ++j) {
      const auto is = static_cast<double>(given[row * width + j]);
      require(close(is, wanted[j], 1e-6, 1e-6 * scale),
              "feature " + std::to_string(j) + where + " becomes " + format_number(is) +
                  " by apply() and " + format_number(wanted[j]) + " by row_operations()");
    }
  }
}

/// Checks the fitted transform, and the transform restored from its learnt values, which exports of
/// saved models use.
/// \returns whether the transform has operations for such examples.
bool require_told(const Checker& checker, const Shape& shape) {
  const auto original = fitted(checker, varied(shape, 7));
  if (!accepted("row_operations()", {Thrown::config},
                [&] { static_cast<void>(original->row_operations(shape)); }))
    return false;
  const auto copy = checker.make<Transform>();
  const bool is_known = original->is_restorable();
  if (is_known) copy->restore(original->fitted_values());
  for (const Dataset& data : {varied(shape, 8, 40), images(shape, 3), constant(shape, 0.0f)}) {
    require_operations(*original, data);
    if (is_known) require_operations(*copy, data);
  }
  return true;
}

// ---- partitions

/// Returns examples in which every feature, and the target, has one of three values.
Dataset of_three_values(const std::vector<std::uint32_t>& rows) {
  std::vector<float> features, targets;
  for (const std::uint32_t row : rows) {
    features.insert(features.end(), 6, static_cast<float>(row % 3));
    targets.push_back(static_cast<float>(row % 3));
  }
  return Dataset({{6}, 3}, std::move(features), std::move(targets));
}

/// Requires the promises on which `federated.shards: given` relies.
void require_given(const Partition& partition) {
  constexpr std::uint64_t kClients = 3;
  std::vector<std::uint32_t> rows(30);
  std::iota(rows.begin(), rows.end(), 0u);
  std::vector<std::uint32_t> whole;
  const bool works = accepted("clients_of()", {Thrown::config}, [&] {
    whole = partition.clients_of(of_three_values(rows), kClients, PublicSource(1));
  });
  if (!works) throw NotChecked{"it does not share out examples of six features with three values"};
  require(partition.clients_of(of_three_values(rows), kClients, PublicSource(2)) == whole,
          "the client of an example depends on the random numbers, and is_drawn() says no");
  for (std::size_t left_out = 0; left_out < rows.size(); ++left_out) {
    std::vector<std::uint32_t> others = rows, expected = whole;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(left_out));
    expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(left_out));
    require(partition.clients_of(of_three_values(others), kClients, PublicSource(1)) == expected,
            "without example " + std::to_string(left_out) +
                " another one lies elsewhere, and is_drawn() says no");
  }
}

/// Requires that on data with nothing to learn from, a transform throws or leaves finite features.
void survive_degenerate(const Checker& checker, Dataset data) {
  const auto transform = checker.make<Transform>();
  if (outcome_of([&] { transform->fit(data); }) != Thrown::nothing) return;
  if (outcome_of([&] { transform->apply(data); }) != Thrown::nothing) return;
  for (const float value : features_of(data)) {
    require(std::isfinite(value), "equal examples become " + format_number(value));
  }
}

const ParamSpec* find_spec(const Checker& checker, std::string_view name) {
  const auto& specs = checker.specs();
  const auto found =
      std::ranges::find_if(specs, [&](const ParamSpec& spec) { return spec.name == name; });
  return found == specs.end() ? nullptr : &*found;
}

Statistic statistic_with(const Checker& checker, const std::string& said) {
  Value params = checker.params().value();
  params.set("statistic", said);
  return checker
      .make<Transform>(Params::make(checker.component().factory.info.name, checker.specs(), params))
      ->statistic();
}

void check_statistics(Checker& checker, const Shape& shape) {
  checker.rule("says_where_its_numbers_come_from", [&] {
    const auto transform = checker.make<Transform>();
    const Statistic before = transform->statistic();
    require(before == Statistic::none || before == Statistic::is_public ||
                before == Statistic::unaccounted,
            "statistic() is none of its three values");
    Dataset train = varied(shape, 7);
    transform->fit(train);
    require(transform->statistic() == before, "statistic() changes its answer after fit()");
  });
  checker.rule("statistics_of_private_rows_are_declared", [&] {
    if (!learns_from_examples(checker, shape))
      throw NotChecked{"nothing of it depends on the training examples"};
    require(checker.make<Transform>()->statistic() != Statistic::none,
            "it learns from the training examples and says that it does not");
    const ParamSpec* spec = find_spec(checker, "statistic");
    require(spec != nullptr,
            "it learns from the training examples and lacks the parameter of statistics_param()");
    require(statistic_with(checker, "unaccounted") == Statistic::unaccounted,
            "with statistic: unaccounted, statistic() says otherwise");
    require_declared(checker, trait::unreleased_statistics,
                     "it learns from the training examples in memory");
    require(statistic_with(checker, "public") == Statistic::declared_public,
            "with statistic: public, statistic() says otherwise");
    require(spec->default_value.has_value() &&
                std::get_if<std::string>(&spec->default_value->data()) != nullptr &&
                std::get<std::string>(spec->default_value->data()) == "unaccounted",
            "rows must not count as public unless the manifest says so");
  });
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): it is one list
void check_transform(Checker& checker) {
  std::vector<Shape> shapes;
  if (!checker.prepare("accepts_a_shape", [&] {
        shapes = accepted_shapes(checker);
        require(!shapes.empty(),
                "output_shape() refuses examples of 6, 2 x 3, 10 x 10, 100 and 7 x 9 x 2");
      })) {
    return;
  }
  checker.rule("applies_as_told", [&] {
    for (const Shape& shape : shapes) {
      require_as_told(checker, varied(shape, 7));
      require_as_told(checker, images(shape, 7));
    }
  });
  checker.rule("fit_changes_no_example", [&] {
    for (const Shape& shape : shapes) {
      Dataset data = varied(shape, 7);
      const std::vector<float> before = features_of(data);
      checker.make<Transform>()->fit(data);
      require(same_bits(before, features_of(data)), "fit() changed the examples");
    }
  });
  checker.rule("is_repeatable", [&] {
    for (const Shape& shape : shapes) {
      const Dataset data = varied(shape, 8);
      const auto transform = fitted(checker, varied(shape, 7));
      const std::vector<float> once = applied(*transform, data);
      require(same_bits(once, applied(*transform, data)), "apply() differs the second time");
      require(same_bits(once, applied(*fitted(checker, varied(shape, 7)), data)),
              "another instance, fitted on the same examples, differs");
    }
  });
  checker.rule("treats_every_split_alike", [&] {
    for (const Shape& shape : shapes) require_row_by_row(checker, shape);
  });
  const bool is_by_row = checker.rule("a_row_is_a_function_of_itself", [&] {
    for (const Shape& shape : shapes) require_row_of_itself(checker, shape);
  });
  if (is_by_row) {
    checker.rule("apply_agrees_with_apply_row", [&] {
      for (const Shape& shape : shapes) require_agreement(checker, shape);
    });
    checker.rule("rows_at_once_are_those_of_one", [&] {
      for (const Shape& shape : shapes) require_rows_at_once(checker, shape);
    });
  } else {
    // A transform that may write outside its output is not applied to a data set.
    for (const char* rule : {"apply_agrees_with_apply_row", "rows_at_once_are_those_of_one"})
      checker.skip(rule, "there are no rows to compare with");
  }
  checker.rule("what_it_learnt_can_be_put_back", [&] {
    for (const Shape& shape : shapes) require_restored(checker, shape);
  });
  checker.rule("what_it_cannot_have_learnt_is_refused", [&] {
    for (const Shape& shape : shapes) require_refused(checker, shape);
  });
  checker.rule("without_numbers_it_needs_no_fit", [&] {
    for (const Shape& shape : shapes) require_no_need_of_fit(checker, shape);
  });
  checker.rule("its_operations_are_what_it_does", [&] {
    const auto told = std::ranges::count_if(
        shapes, [&](const Shape& shape) { return require_told(checker, shape); });
    if (told == 0) throw NotChecked{"it does not offer row operations"};
  });
  checker.rule("a_given_partition_moves_no_example", [&] {
    const auto transform = checker.make<Transform>();
    const auto* partition = dynamic_cast<const Partition*>(transform.get());
    if (partition == nullptr) throw NotChecked{"it is not a partition"};
    if (partition->is_drawn()) throw NotChecked{"it says that it draws"};
    require_given(*partition);
  });
  checker.rule("survives_equal_examples", [&] {
    for (const Shape& shape : shapes) {
      survive_degenerate(checker, constant(shape, 0.0f));
      survive_degenerate(checker, constant(shape, 3.0f));
    }
  });
  checker.rule("instances_are_independent", [&] {
    const Shape& shape = shapes.front();
    const Dataset data = varied(shape, 8);
    const auto one = fitted(checker, varied(shape, 7));
    const std::vector<float> before = applied(*one, data);
    const auto two = fitted(checker, images(shape, 1));
    require(same_bits(before, applied(*one, data)), "fitting another instance changed this one");
  });
  check_statistics(checker, shapes.front());
  check_bounded_statistic(checker, shapes);
  check_range_ends(checker, [&](const Params& params) {
    for (const Shape& shape : shapes) {
      const auto transform = checker.make<Transform>(params);
      Dataset data = varied(shape, 7);
      transform->fit(data);
      transform->apply(data);
      for (const float value : features_of(data)) {
        require(std::isfinite(value), "a feature becomes " + format_number(value));
      }
    }
  });
}

}  // namespace privgrad::testing

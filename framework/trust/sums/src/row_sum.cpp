#include "privgrad/trust/row_sum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "piece_sum.hpp"
#include "privgrad/error.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/row_evaluations.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/longest_stay.hpp"
#include "privgrad/trust/program_around.hpp"
#include "privgrad/trust/random_key.hpp"
#include "trust_base.hpp"

namespace privgrad::core {
namespace {

/// A program whose gradients are the examples themselves: exact_sum() then bounds and adds these.
class RowsThemselves final : public Program, public ReproducibleRows {
 public:
  explicit RowsThemselves(std::size_t size) : size_(size) {}
  std::size_t parameter_count() const override { return size_; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    std::copy(batch.features.begin(), batch.features.end(), rows.begin());
  }
  Evaluation evaluate(const Batch&) const override { return {}; }

 private:
  std::size_t size_;
};

/// A program whose gradients are contributions to a statistic.
class Contributions final : public Program, public ReproducibleRows {
 public:
  Contributions(const ContributionOf& of_row, std::size_t row_size, std::size_t size)
      : of_row_(of_row), row_size_(row_size), size_(size) {}
  std::size_t parameter_count() const override { return size_; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    std::fill(rows.begin(), rows.end(), std::numeric_limits<float>::quiet_NaN());
    for (std::size_t i = 0; i < batch.rows(); ++i) {
      of_row_(batch.features.subspan(i * row_size_, row_size_), rows.subspan(i * size_, size_));
    }
  }
  Evaluation evaluate(const Batch&) const override { return {}; }

 private:
  const ContributionOf& of_row_;
  std::size_t row_size_, size_;
};

/// Compares the checked example's pieces with its contribution; the pieces are requested in a
/// different size than for the sum, and in reverse order.
void check_pieces(const Contributions& program, const PiecesOf& pieces_of, const Dataset& data,
                  const ContributionCheck& check) {
  constexpr std::size_t kPiece = 1000;
  const auto row = static_cast<std::uint32_t>(check.place);
  std::vector<float> features(data.row_size());
  float target = 0.0f;
  data.gather({&row, 1}, features, {&target, 1});
  std::vector<float> whole(program.parameter_count());
  std::vector<float> made(whole.size(), std::numeric_limits<float>::quiet_NaN());
  program.gradient_rows({features, {&target, 1}}, whole);
  const auto contribution = pieces_of(features);
  if (contribution == nullptr) {
    throw PluginError(std::string(check.program) +
                      " broke its promise: it gives no contribution in pieces");
  }
  for (std::size_t end = made.size(); end > 0;) {
    const std::size_t begin = end - 1 - (end - 1) % kPiece;
    contribution->piece(begin, std::span(made).subspan(begin, end - begin));
    end = begin;
  }
  // A contribution that is not finite counts as zero, whatever its numbers are.
  if (made == whole ||
      (!all_finite(std::span<const float>(made)) && !all_finite(std::span<const float>(whole)))) {
    return;
  }
  throw PluginError(std::string(check.program) +
                    " broke its promise: the pieces of an example's contribution are not those of "
                    "the whole");
}

/// All NaNs are equal, whatever their bits.
bool is_same(const Evaluation& a, const Evaluation& b) {
  const bool same_loss =
      std::bit_cast<std::uint64_t>(a.loss) == std::bit_cast<std::uint64_t>(b.loss);
  return a.correct == b.correct && (same_loss || (std::isnan(a.loss) && std::isnan(b.loss)));
}

}  // namespace

BoundedOnGrid row_sum(std::vector<float> rows, std::size_t width, double bound,
                      Executor& executor) {
  const std::size_t count = rows.size() / width;
  for (std::size_t first = 0; first < rows.size(); first += width) {
    const auto row = std::span(rows).subspan(first, width);
    if (!all_finite(row)) std::fill(row.begin(), row.end(), 0.0f);
  }
  const Dataset data({{width}, 0}, std::move(rows), std::vector<float>(count, 0.0f));
  const std::vector<ParameterGroup> groups{{"rows", 0, width}};
  const LongestStay rule;
  return exact_sum(RowsThemselves(width), data, all_rows(count),
                   {.rule = rule, .groups = groups, .clip_norm = bound, .count_share = 0.0},
                   executor);
}

BoundedOnGrid statistic_sum(const ContributionOf& of_row, const Dataset& data, std::size_t size,
                            double bound, Executor& executor, ContributionCheck* check,
                            const PiecesOf& pieces_of) {
  const std::vector<ParameterGroup> groups{{"statistic", 0, size}};
  const LongestStay rule;
  const Clip clip{.rule = rule, .groups = groups, .clip_norm = bound, .count_share = 0.0};
  const Contributions program(of_row, data.row_size(), size);
  if (!pieces_of || size < kLongContribution) {
    return exact_sum(program, data, all_rows(data.rows()), clip, executor, 0, nullptr,
                     PrivacyUnit::example, check);
  }
  check_clip_norm(bound);
  auto total = sum_of_pieces_on_grid(pieces_of, data, size, clip,
                                     check == nullptr ? "a statistic" : check->program, executor);
  if (check != nullptr) {
    check_row(program, data, all_rows(data.rows()), *check);
    check_pieces(program, pieces_of, data, *check);
  }
  return TrustBase::bounded_on_grid(std::move(total), kExactLevels, bound, data.rows(),
                                    PrivacyUnit::example);
}

BoundedOnGrid class_sum(std::span<const float> targets, std::size_t classes, Executor& executor) {
  // The targets are passed as the features: an example's contribution depends only on its target.
  constexpr float kNone = -1.0f;
  std::vector<float> numbers(targets.size());
  std::transform(targets.begin(), targets.end(), numbers.begin(), [&](float target) {
    const bool is_class =
        target >= 0.0f && target < static_cast<float>(classes) && target == std::floor(target);
    return is_class ? target : kNone;
  });
  const Dataset labels({{1}, 0}, std::move(numbers), std::vector<float>(targets.size(), 0.0f));
  const auto one_of_its_class = [](std::span<const float> label, std::span<float> out) {
    std::fill(out.begin(), out.end(), 0.0f);
    if (label.front() != kNone) out[static_cast<std::size_t>(label.front())] = 1.0f;
  };
  return statistic_sum(one_of_its_class, labels, classes, 1.0, executor);
}

std::vector<Evaluation> example_evaluations(const Program& program, const Dataset& data,
                                            std::span<const std::uint32_t> rows,
                                            Executor& executor) {
  constexpr std::size_t kRows = 64;
  const auto* many = ability_of<RowEvaluations>(program);
  std::vector<Evaluation> all(rows.size());
  executor.for_each_chunk((rows.size() + kRows - 1) / kRows, [&](std::size_t chunk) {
    const std::size_t begin = chunk * kRows;
    const std::size_t count = std::min(kRows, rows.size() - begin);
    std::vector<float> features(count * data.row_size()), targets(count);
    data.gather(rows.subspan(begin, count), features, targets);
    const auto alone = [&](std::size_t i) {
      return program.evaluate({std::span(features).subspan(i * data.row_size(), data.row_size()),
                               std::span(targets).subspan(i, 1)});
    };
    const auto each = std::span(all).subspan(begin, count);
    if (many == nullptr) {
      for (std::size_t i = 0; i < count; ++i) each[i] = alone(i);
      return;
    }
    many->evaluate_rows({features, targets}, each);
    const std::size_t place = unforeseen(count);
    if (!is_same(each[place], alone(place)))
      throw PluginError("an example's evaluation depends on the examples beside it");
  });
  return all;
}

std::vector<double> example_losses(const Program& program, const Dataset& data,
                                   std::span<const std::uint32_t> rows, Executor& executor) {
  const std::vector<Evaluation> all = example_evaluations(program, data, rows, executor);
  std::vector<double> losses(all.size());
  std::transform(all.begin(), all.end(), losses.begin(),
                 [](const Evaluation& one) { return one.loss; });
  return losses;
}

std::vector<std::uint32_t> all_rows(std::size_t count) {
  std::vector<std::uint32_t> rows(count);
  std::iota(rows.begin(), rows.end(), std::uint32_t{0});
  return rows;
}

}  // namespace privgrad::core

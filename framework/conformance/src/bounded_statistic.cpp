#include "privgrad/bounded_statistic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "inputs.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/row_operation.hpp"
#include "privgrad/transform.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

/// Returns parameters, from the declared examples, that request a private statistic.
Params private_params(const Checker& checker, const char* noise, double value) {
  Value params = checker.params().value();
  params.set("statistic", "private");
  for (const ParamSpec& spec : checker.specs()) {
    const bool is_noise = spec.name == "noise_multiplier" || spec.name == "share";
    if (!is_noise && spec.example_value && params.find(spec.name) == nullptr)
      params.set(spec.name, *spec.example_value);
  }
  params.set(noise, value);
  return Params::make(checker.component().factory.info.name, checker.specs(), params);
}

ComponentPtr<Transform> made(const Checker& checker) {
  return checker.make<Transform>(private_params(checker, "noise_multiplier", 2.0));
}

BoundedStatistic& learner(Transform& transform) {
  auto* found = dynamic_cast<BoundedStatistic*>(&transform);
  if (found == nullptr) throw NotChecked{"it learns from no released statistic (BoundedStatistic)"};
  return *found;
}

void skip_without_ability(const Checker& checker) { learner(*checker.make<Transform>()); }

StatisticRequest request_for(const BoundedStatistic& learner, const Shape& shape) {
  const auto request = learner.request({shape, 3});
  require(request.has_value(), "with statistic: private, request() asks for nothing");
  return *request;
}

void require_request(const Checker& checker, const Shape& shape) {
  const auto transform = made(checker);
  require(transform->statistic() == Statistic::released,
          "with statistic: private, statistic() says otherwise");
  require(transform->is_by_row(), "it learns from a released statistic and is not by row");
  require(transform->is_restorable(), "it learns from a released statistic and is not restorable");
  const StatisticRequest one = request_for(learner(*transform), shape);
  const StatisticRequest again = request_for(learner(*made(checker)), shape);
  require(one.size == again.size && one.l2_bound == again.l2_bound && one.what == again.what,
          "request() differs in another instance");
  require(one.size > 0 && !one.what.empty(),
          "request() asks for no numbers, or does not say which");
  require(std::isfinite(one.l2_bound) && one.l2_bound > 0.0,
          "request() says that contributions are at most " + format_number(one.l2_bound) + " long");
  require(one.noise.multiplier == 2.0 && one.noise.share == 0.0,
          "with noise_multiplier: 2, request() asks for other noise");
  const auto shared = checker.make<Transform>(private_params(checker, "share", 0.25));
  const StatisticRequest share = request_for(learner(*shared), shape);
  require(share.noise.multiplier == 0.0 && share.noise.share == 0.25,
          "with share: 0.25, request() asks for another share");
  const auto other = checker.make<Transform>();
  require(!learner(*other).request({shape, 3}).has_value(),
          "without statistic: private, request() asks for a release");
}

/// Returns an example's contribution, computed in memory that begins `offset` numbers after its
/// allocation, between two numbers that must not change.
std::vector<float> contribution_of(const BoundedStatistic& learner, const Shape& shape,
                                   std::span<const float> features, std::size_t size,
                                   std::size_t offset = 0) {
  constexpr float kGuard = 12345.0f;
  std::vector<float> in(features.size() + offset);
  std::ranges::copy(features, in.begin() + static_cast<std::ptrdiff_t>(offset));
  std::vector<float> out(size + offset + 2, kGuard);
  const auto inner = std::span(out).subspan(offset + 1, size);
  std::ranges::fill(inner, std::numeric_limits<float>::quiet_NaN());
  learner.contribution(shape, std::span(in).subspan(offset), inner);
  require(out[offset] == kGuard && out.back() == kGuard,
          "contribution() writes outside its output");
  return {inner.begin(), inner.end()};
}

/// Returns rows of ordinary size, rows of zeros, and rows far beyond every bound.
std::vector<std::vector<float>> rows_for(const Shape& shape) {
  const std::size_t size = element_count(shape);
  return {normal_values(3, size),         normal_values(4, size, 100.0),
          normal_values(5, size, 1e-3),   std::vector<float>(size, 0.0f),
          std::vector<float>(size, 3.0f), normal_values(6, size, 1e15)};
}

void require_bound(const Checker& checker, const Shape& shape) {
  const auto transform = made(checker);
  const BoundedStatistic& asks = learner(*transform);
  const StatisticRequest request = request_for(asks, shape);
  for (const std::vector<float>& row : rows_for(shape)) {
    double square = 0.0;
    for (const float x : contribution_of(asks, shape, row, request.size)) {
      require(std::isfinite(x), "an example of " + to_text(shape) + " adds " + format_number(x));
      square += static_cast<double>(x) * static_cast<double>(x);
    }
    require(std::sqrt(square) <= request.l2_bound * (1.0 + 1e-6),
            "an example of " + to_text(shape) + " adds a vector of length " +
                format_number(std::sqrt(square)) + ", and request() says at most " +
                format_number(request.l2_bound));
  }
}

void require_own(const Checker& checker, const Shape& shape) {
  using Limits = std::numeric_limits<float>;
  const auto transform = made(checker);
  const BoundedStatistic& asks = learner(*transform);
  const std::size_t size = request_for(asks, shape).size;
  const auto rows = rows_for(shape);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto other = made(checker);
    const std::vector<float> alone = contribution_of(learner(*other), shape, rows[i], size);
    contribution_of(asks, shape, rows[(i + 1) % rows.size()], size);
    const auto same = [&](const std::string& when, std::size_t offset = 0) {
      require(same_bits(alone, contribution_of(asks, shape, rows[i], size, offset)),
              "contribution() of an example of " + to_text(shape) + " has other bits " + when);
    };
    same("after other examples");
    same("the second time");
    for (const float value :
         {Limits::quiet_NaN(), Limits::infinity(), Limits::denorm_min(), Limits::max()}) {
      std::vector<float> out(size);
      const std::vector<float> row(element_count(shape), value);
      outcome_of([&] { asks.contribution(shape, row, out); });
    }
    same("after rows that are not finite");
    for (const std::size_t offset : {1u, 2u, 3u}) same("elsewhere in memory", offset);
    const auto both = on_two_threads([&] { return contribution_of(asks, shape, rows[i], size); });
    require(same_bits(alone, both[0]) && same_bits(alone, both[1]),
            "contribution() has other bits on two threads");
  }
}

/// Computes the pieces from the last to the first, so that no piece can depend on the preceding
/// one.
std::vector<float> in_pieces_of(const Contribution& contribution, std::size_t size,
                                std::size_t at_once) {
  constexpr float kGuard = 12345.0f;
  std::vector<float> whole(size);
  for (std::size_t end = size; end > 0;) {
    const std::size_t begin = end - 1 - (end - 1) % at_once;
    std::vector<float> out(end - begin + 2, kGuard);
    const auto inner = std::span(out).subspan(1, end - begin);
    std::ranges::fill(inner, std::numeric_limits<float>::quiet_NaN());
    contribution.piece(begin, inner);
    require(out.front() == kGuard && out.back() == kGuard, "piece() writes outside its output");
    std::ranges::copy(inner, whole.begin() + static_cast<std::ptrdiff_t>(begin));
    end = begin;
  }
  return whole;
}

void require_pieces(const Checker& checker, const Shape& shape) {
  const auto transform = made(checker);
  const BoundedStatistic& asks = learner(*transform);
  const std::size_t size = request_for(asks, shape).size;
  const std::size_t features = element_count(shape);
  auto rows = rows_for(shape);
  if (asks.contribution_in_pieces(shape, rows.front()) == nullptr)
    throw NotChecked{"its contributions do not come in pieces"};
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::denorm_min()}) {
    rows.push_back(normal_values(10, features));
    rows.back().back() = value;
  }
  for (std::vector<float> row : rows) {
    std::vector<float> expected(size);
    asks.contribution(shape, row, expected);
    const auto contribution = asks.contribution_in_pieces(shape, row);
    require(contribution != nullptr, "contribution_in_pieces() gives nothing");
    std::ranges::fill(row, 77.0f);  // must no longer be read
    for (const std::size_t at_once : {size, std::size_t{1}, std::size_t{3}, std::size_t{7}}) {
      const std::vector<float> found = in_pieces_of(*contribution, size, at_once);
      // All contributions that are not finite count as zeros, so they are equal.
      require(same_bits(found, expected) || (!all_finite(found) && !all_finite(expected)),
              "pieces of " + std::to_string(at_once) + " of an example of " + to_text(shape) +
                  " are not its contribution()");
    }
  }
}

std::vector<FittedTensor> learnt_from(const Checker& checker, const Shape& shape,
                                      const std::vector<float>& mean, double noise) {
  const auto transform = made(checker);
  learner(*transform).learn({shape, 3}, checker.setup().make_released(mean, noise));
  return transform->fitted_values();
}

/// Requires that the transform can learn from sums that noise may have changed in any way.
void require_learns(const Checker& checker, const Shape& shape) {
  if (!checker.setup().make_released) throw NotChecked{"released values cannot be made here"};
  const auto transform = made(checker);
  const StatisticRequest request = request_for(learner(*transform), shape);
  const std::size_t size = request.size;
  const std::vector<std::vector<float>> means{
      std::vector<float>(size, 0.0f), normal_values(7, size, request.l2_bound),
      normal_values(8, size, 1e-30), normal_values(9, size, 1e30), std::vector<float>(size, -1.0f)};
  for (const std::vector<float>& mean : means) {
    for (const double noise : {0.0, 0.5, 1e30}) {
      const std::vector<FittedTensor> values = learnt_from(checker, shape, mean, noise);
      const std::vector<FittedTensor> again = learnt_from(checker, shape, mean, noise);
      for (std::size_t i = 0; i < values.size(); ++i) {
        require(std::ranges::all_of(values[i].values, [](double x) { return std::isfinite(x); }),
                "learn() makes '" + values[i].name + "' not finite");
        require(i < again.size() && same_bits(values[i].values, again[i].values),
                "learn() makes another '" + values[i].name + "' of the same release");
      }
      const auto copy = made(checker);
      copy->restore(values);
    }
  }
}

/// Requires that the learnt result does not depend on the rows that contributed before: rows may
/// affect the result only through the release.
void require_learns_from_release(const Checker& checker, const Shape& shape) {
  if (!checker.setup().make_released) throw NotChecked{"released values cannot be made here"};
  const StatisticRequest request = request_for(learner(*made(checker)), shape);
  const std::vector<float> mean = normal_values(7, request.size, 0.1 * request.l2_bound);
  const std::vector<FittedTensor> without = learnt_from(checker, shape, mean, 0.5);
  const auto rows = rows_for(shape);
  for (const std::size_t count : {std::size_t{1}, std::size_t{2}, rows.size()}) {
    const auto transform = made(checker);
    BoundedStatistic& asks = learner(*transform);
    for (std::size_t i = 0; i < count; ++i) contribution_of(asks, shape, rows[i], request.size);
    asks.learn({shape, 3}, checker.setup().make_released(mean, 0.5));
    const auto found = transform->fitted_values();
    require(found.size() == without.size(), "learn() makes other tensors after contributions");
    for (std::size_t i = 0; i < found.size(); ++i)
      require(same_bits(found[i].values, without[i].values),
              "learn() makes another '" + found[i].name +
                  "' of the same release where other rows were contributed before");
  }
}

}  // namespace

void check_bounded_statistic(Checker& checker, const std::vector<Shape>& shapes) {
  const auto for_all = [&](void (*check)(const Checker&, const Shape&)) {
    skip_without_ability(checker);
    for (const Shape& shape : shapes) check(checker, shape);
  };
  checker.rule("asks_for_the_statistic_that_it_says", [&] { for_all(require_request); });
  checker.rule("a_contribution_is_within_its_bound", [&] { for_all(require_bound); });
  checker.rule("a_contribution_is_a_function_of_its_row", [&] { for_all(require_own); });
  checker.rule("pieces_are_the_contribution", [&] { for_all(require_pieces); });
  checker.rule("what_is_released_can_be_learnt", [&] { for_all(require_learns); });
  checker.rule("it_learns_from_the_release_alone", [&] { for_all(require_learns_from_release); });
}

}  // namespace privgrad::testing

// Transforms that learn from released statistics, and transforms of single rows: a row's
// contribution, its bound, and the use of the noised mean.
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "forged_release.hpp"
#include "house_plugins.hpp"
#include "privgrad/bounded_statistic.hpp"
#include "privgrad/error.hpp"
#include "privgrad/transform.hpp"
#include "test_random.hpp"

using namespace privgrad;

namespace {

using Rows = std::vector<std::vector<float>>;

ComponentPtr<Transform> made(const std::string& name, Value::Object params) {
  return house().create<Transform>(name, Value(std::move(params)));
}

ComponentPtr<Transform> private_one(const std::string& name, Value::Object params) {
  params.push_back({"statistic", "private", {}});
  params.push_back({"noise_multiplier", 2.0, {}});
  return made(name, std::move(params));
}

const BoundedStatistic& asks(const Transform& transform) {
  return dynamic_cast<const BoundedStatistic&>(transform);
}

std::vector<float> contribution(const Transform& transform, const Shape& shape,
                                const std::vector<float>& row) {
  std::vector<float> out(asks(transform).request({shape, 0})->size);
  asks(transform).contribution(shape, row, out);
  return out;
}

double length(std::span<const float> values) {
  double square = 0.0;
  for (const float x : values) square += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(square);
}

/// Makes the transform learn from the exact mean of the contributions.
void learn_exactly(Transform& transform, const Shape& shape, const Rows& rows, double noise = 0.0) {
  std::vector<double> sum;
  for (const auto& row : rows) {
    const std::vector<float> one = contribution(transform, shape, row);
    sum.resize(one.size());
    for (std::size_t i = 0; i < one.size(); ++i) sum[i] += static_cast<double>(one[i]);
  }
  std::vector<float> mean;
  for (const double x : sum)
    mean.push_back(static_cast<float>(x / static_cast<double>(rows.size())));
  dynamic_cast<BoundedStatistic&>(transform).learn({shape, 0},
                                                   TrustBase::release(std::move(mean), noise));
}

std::vector<float> applied(const Transform& transform, const Shape& shape,
                           const std::vector<float>& row) {
  const Shape after = transform.output_shape({shape, 0}).features;
  std::vector<float> out(element_count(after));
  transform.apply_row(shape, row, out);
  return out;
}

Rows random_rows(std::size_t count, std::size_t width, std::uint64_t seed) {
  Rows rows(count);
  TestStream random(seed, 0);
  for (std::vector<float>& row : rows) {
    row.resize(width);
    random.fill_normal(row);
  }
  return rows;
}

}  // namespace

TEST_CASE("standardize, private: a row adds at most what it says, and attains it") {
  const auto transform = private_one("standardize", {{"range", Value::List{-1.0, 3.0}, {}}});
  const double bound = asks(*transform).request({{5}, 0})->l2_bound;
  CHECK_THAT(bound, WithinRel(std::sqrt(1.25 * 5.0), 1e-5));
  // At the end of the range, and beyond it.
  for (const float x : {-1.0f, 3.0f, 1000.0f, -1e30f})
    CHECK_THAT(length(contribution(*transform, {5}, std::vector<float>(5, x))),
               WithinRel(bound, 2e-6));
  for (const auto& row : random_rows(200, 5, 1))
    CHECK(length(contribution(*transform, {5}, row)) <= bound);
}

TEST_CASE("standardize, private: noise does not blow up what never varies") {
  const auto transform = private_one("standardize", {{"range", Value::List{-1.0, 1.0}, {}}});
  learn_exactly(*transform, {2}, {{0.5f, -0.5f}, {0.5f, 0.5f}}, 0.01);
  const std::vector<float> out = applied(*transform, {2}, {0.5f, 0.5f});
  CHECK(std::abs(out[0]) < 0.1f);
  CHECK_THAT(static_cast<double>(out[1]), WithinAbs(1.0, 1e-3));
}

TEST_CASE("center, private: rows count as shortened to the norm, and the mean is taken away") {
  const auto transform = private_one("center", {{"max_norm", 2.0, {}}});
  CHECK_THAT(asks(*transform).request({{3}, 0})->l2_bound, WithinRel(2.0, 1e-5));
  CHECK(contribution(*transform, {3}, {1.0f, 0.0f, -1.0f}) ==
        std::vector<float>{1.0f, 0.0f, -1.0f});
  CHECK_THAT(length(contribution(*transform, {3}, {30.0f, 0.0f, 40.0f})), WithinAbs(2.0, 1e-6));
  learn_exactly(*transform, {3}, {{1.0f, 0.0f, 0.0f}, {0.0f, 1.0f, 1.0f}});
  CHECK(applied(*transform, {3}, {1.0f, 1.0f, 5.0f}) == std::vector<float>{0.5f, 0.5f, 4.5f});
}

TEST_CASE("pca and whiten, private: a row adds a matrix once, as long as its squared norm") {
  const auto pca = private_one("pca", {{"max_norm", 3.0, {}}, {"dimensions", 2, {}}});
  const auto whiten = private_one("whiten", {{"max_norm", 3.0, {}}});
  CHECK(asks(*pca).request({{4}, 0})->size == 10);
  CHECK(asks(*whiten).request({{2, 3, 4}, 0})->size == 10);
  CHECK_THAT(asks(*pca).request({{4}, 0})->l2_bound, WithinRel(9.0, 1e-5));
  for (const auto& row : random_rows(50, 4, 9)) {
    // ||x x^T|| = ||x||^2, shortened to the norm 3.
    const double norm = std::min(3.0, length(row));
    CHECK_THAT(length(contribution(*pca, {4}, row)), WithinRel(norm * norm, 1e-6));
  }
  for (const auto& row : random_rows(50, 24, 99)) {
    const double norm = std::min(3.0, length(row));
    CHECK(length(contribution(*whiten, {2, 3, 4}, row)) <= norm * norm * (1.0 + 1e-6));
  }
  // A row with all its weight in one channel attains the bound.
  std::vector<float> one_channel(24, 0.0f);
  for (std::size_t p = 0; p < 6; ++p) one_channel[4 * p] = 5.0f;
  CHECK_THAT(length(contribution(*whiten, {2, 3, 4}, one_channel)), WithinRel(9.0, 1e-6));
}

TEST_CASE("pca, private: the directions of the second moments about zero") {
  const auto transform = private_one("pca", {{"max_norm", 100.0, {}}, {"dimensions", 1, {}}});
  // Lengths of 3 along (0.6, 0.8), and of 1 across it.
  const Rows rows{{1.8f, 2.4f}, {-1.8f, -2.4f}, {0.8f, -0.6f}, {-0.8f, 0.6f}};
  learn_exactly(*transform, {2}, rows);
  CHECK_THAT(static_cast<double>(applied(*transform, {2}, {1.8f, 2.4f})[0]), WithinAbs(3.0, 1e-5));
  CHECK_THAT(static_cast<double>(applied(*transform, {2}, {0.8f, -0.6f})[0]), WithinAbs(0.0, 1e-5));
}

TEST_CASE("whiten: channels get unit second moments, but for the damping") {
  const Shape shape{5, 3};
  Rows rows = random_rows(400, 15, 5);
  for (auto& row : rows) {
    for (std::size_t p = 0; p < 5; ++p) {
      row[3 * p] = 4.0f * row[3 * p] + row[3 * p + 1];
      row[3 * p + 2] = 0.1f * row[3 * p + 2] - 2.0f * row[3 * p + 1];
    }
  }
  const double damping = 1e-6;
  const auto transform = private_one("whiten", {{"max_norm", 1e6, {}}, {"damping", damping, {}}});
  learn_exactly(*transform, shape, rows);
  // The same without noise.
  const auto fitted = made("whiten", {{"damping", damping, {}}});
  std::vector<float> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  Dataset data({shape, 0}, all, std::vector<float>(rows.size(), 0.0f));
  fitted->fit(data);
  for (const Transform* one : {transform.get(), fitted.get()}) {
    double moments[3][3] = {};
    for (const auto& row : rows) {
      const std::vector<float> x = applied(*one, shape, row);
      for (std::size_t p = 0; p < 5; ++p) {
        for (std::size_t i = 0; i < 3; ++i) {
          for (std::size_t j = 0; j < 3; ++j)
            moments[i][j] += static_cast<double>(x[3 * p + i]) * static_cast<double>(x[3 * p + j]) /
                             (5.0 * 400.0);
        }
      }
    }
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j)
        CHECK_THAT(moments[i][j], WithinAbs(i == j ? 1.0 : 0.0, 5e-3));
    }
  }
}

TEST_CASE("whiten: the axis says which numbers are channels") {
  const Shape last{5, 3}, first{3, 5};
  const auto by_last = private_one("whiten", {{"max_norm", 100.0, {}}});
  const auto by_first = private_one("whiten", {{"max_norm", 100.0, {}}, {"axis", 0, {}}});
  const Rows rows = random_rows(30, 15, 77);
  Rows turned = rows;
  const auto turn = [](const std::vector<float>& row) {
    std::vector<float> out(15);
    for (std::size_t p = 0; p < 5; ++p) {
      for (std::size_t c = 0; c < 3; ++c) out[c * 5 + p] = row[p * 3 + c];
    }
    return out;
  };
  std::transform(rows.begin(), rows.end(), turned.begin(), turn);
  learn_exactly(*by_last, last, rows);
  learn_exactly(*by_first, first, turned);
  const auto a = turn(applied(*by_last, last, rows[3])), b = applied(*by_first, first, turned[3]);
  for (std::size_t i = 0; i < 15; ++i)
    CHECK_THAT(static_cast<double>(a[i]), WithinAbs(static_cast<double>(b[i]), 1e-5));
  CHECK_THROWS_AS(made("whiten", {{"axis", 2, {}}})->output_shape({{3, 4}, 0}), ConfigError);
}

TEST_CASE("max_norm: longer rows are shortened; exactly: all but zeros are brought to it") {
  const auto at_most = made("max_norm", {{"to", 2.0, {}}});
  CHECK(at_most->statistic() == Statistic::none);
  CHECK(applied(*at_most, {2}, {0.5f, -1.0f}) == std::vector<float>{0.5f, -1.0f});
  CHECK(applied(*at_most, {2}, {30.0f, 40.0f}) == std::vector<float>{1.2f, 1.6f});
  const auto exactly = made("max_norm", {{"to", 2.0, {}}, {"exactly", true, {}}});
  CHECK(applied(*exactly, {2}, {3e-20f, 4e-20f}) == std::vector<float>{1.2f, 1.6f});
  CHECK(applied(*exactly, {2}, {0.0f, 0.0f}) == std::vector<float>{0.0f, 0.0f});
}

TEST_CASE("low_frequencies: the orthonormal cosine transform of each channel, cut off") {
  // Two channels of a 2 x 3 image. Vertically, (a, b) gives (a + b, a - b) / sqrt(2); across, (a,
  // b, c) gives (a + b + c) / sqrt(3), (a - c) / sqrt(2), (a - 2 b + c) / sqrt(6).
  const std::vector<float> image = {1, 10, 2, 20, 4, 40, 8, -10, 16, -20, 32, -40};
  const double two = std::sqrt(2.0), three = std::sqrt(3.0), six = std::sqrt(6.0);
  const double all[] = {63 / (two * three), 0,   -27 / 2.0,           0,
                        9 / (two * six),    0,   -49 / (two * three), 140 / (two * three),
                        21 / 2.0,           -30, -7 / (two * six),    20 / (two * six)};
  const auto whole = made("low_frequencies", {{"height", 2, {}}, {"width", 3, {}}});
  CHECK(whole->statistic() == Statistic::none);
  const std::vector<float> kept = applied(*whole, {2, 3, 2}, image);
  REQUIRE(kept.size() == 12);
  for (std::size_t i = 0; i < 12; ++i)
    CHECK_THAT(static_cast<double>(kept[i]), WithinAbs(all[i], 2e-6));
  CHECK_THAT(length(kept), WithinAbs(length(image), 1e-5));  // so bounds on norms remain valid

  const auto corner = made("low_frequencies", {{"height", 1, {}}, {"width", 2, {}}});
  CHECK(corner->output_shape({{2, 3, 2}, 0}).features == Shape{1, 2, 2});
  CHECK(applied(*corner, {2, 3, 2}, image) == std::vector<float>(kept.begin(), kept.begin() + 4));
  // An image without channels has one channel.
  const auto plain = made("low_frequencies", {{"height", 1, {}}, {"width", 1, {}}});
  CHECK(applied(*plain, {1, 4}, {1, 2, 3, 4}) == std::vector<float>{5.0f});

  CHECK_THROWS_WITH(whole->output_shape({{1, 3}, 0}),
                    ContainsSubstring("height is 2, but an image has only 1"));
  CHECK_THROWS_AS(whole->output_shape({{6}, 0}), ConfigError);
}

TEST_CASE("group_norm: each group of channels to mean 0 and standard deviation 1") {
  const auto transform = made("group_norm", {{"groups", 2, {}}});
  CHECK(transform->statistic() == Statistic::none);
  // Two places with four channels: {1, 3, 5, 7} belongs to the first group.
  const std::vector<float> out =
      applied(*transform, {2, 4}, {1.0f, 3.0f, 9.0f, 9.0f, 5.0f, 7.0f, 9.0f, 9.0f});
  const double root = std::sqrt(5.0);
  const double wanted[] = {-3.0 / root, -1.0 / root, 0.0, 0.0, 1.0 / root, 3.0 / root, 0.0, 0.0};
  for (std::size_t i = 0; i < 8; ++i)
    CHECK_THAT(static_cast<double>(out[i]), WithinAbs(wanted[i], 1e-6));
  CHECK_THROWS_AS(transform->output_shape({{2, 3}, 0}), ConfigError);
}

TEST_CASE("robust_scale: quantiles of the rows, and of their histograms") {
  // 0, 1, ..., 100 in each of two features, the second ten times as wide.
  Rows rows;
  std::vector<float> all;
  for (int i = 0; i <= 100; ++i) {
    rows.push_back({static_cast<float>(i) - 40.0f, static_cast<float>(10 * i) - 500.0f});
    all.insert(all.end(), rows.back().begin(), rows.back().end());
  }
  const auto fitted = made("robust_scale", {});
  Dataset data({{2}, 0}, all, std::vector<float>(rows.size(), 0.0f));
  fitted->fit(data);
  // The median is 10 and 0, the quartiles are 50 and 500 apart.
  CHECK(applied(*fitted, {2}, {60.0f, 250.0f}) == std::vector<float>{1.0f, 0.5f});

  const auto transform =
      private_one("robust_scale", {{"range", Value::List{-600.0, 600.0}, {}}, {"bins", 1200, {}}});
  for (const auto& row : random_rows(20, 2, 3)) {
    const std::vector<float> one = contribution(*transform, {2}, row);
    CHECK(one.size() == 2400);
    CHECK_THAT(length(one), WithinRel(std::sqrt(2.0), 1e-7));
  }
  // Values beyond the range count as its ends.
  CHECK(contribution(*transform, {2}, {1e30f, -1e30f})[1199] == 1.0f);
  CHECK(contribution(*transform, {2}, {1e30f, -1e30f})[1200] == 1.0f);
  learn_exactly(*transform, {2}, rows);
  const std::vector<float> out = applied(*transform, {2}, {60.0f, 250.0f});
  CHECK_THAT(static_cast<double>(out[0]), WithinAbs(1.0, 0.05));
  CHECK_THAT(static_cast<double>(out[1]), WithinAbs(0.5, 0.05));
}

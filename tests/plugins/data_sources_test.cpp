#include "privgrad/data_source.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include "house_plugins.hpp"

using privgrad::ConfigError;
using privgrad::DataSource;
using privgrad::Split;
using privgrad::Value;

namespace {

privgrad::ComponentPtr<DataSource> synthetic(Value::Object params) {
  return house().create<DataSource>("synthetic", Value(std::move(params)));
}

/// Returns FNV-1a over the bits of the features, then of the targets.
std::uint64_t fingerprint(privgrad::Dataset data) {
  std::uint64_t hash = 14695981039346656037u;
  const auto feed = [&hash](std::span<const float> values) {
    for (const float value : values) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      for (int shift = 0; shift < 32; shift += 8) {
        hash = (hash ^ ((bits >> shift) & 0xffu)) * 1099511628211u;
      }
    }
  };
  feed(data.features());
  feed(data.targets());
  return hash;
}

/// Returns the mean of the rows whose target is `label`, [row_size].
std::vector<double> class_mean(privgrad::Dataset& data, float label) {
  std::vector<double> mean(data.row_size());
  double count = 0.0;
  for (std::size_t row = 0; row < data.rows(); ++row) {
    if (data.targets()[row] != label) continue;
    ++count;
    for (std::size_t j = 0; j < mean.size(); ++j) {
      mean[j] += static_cast<double>(data.features()[row * mean.size() + j]);
    }
  }
  for (double& x : mean) x /= count;
  return mean;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0.0;
  for (std::size_t j = 0; j < a.size(); ++j) square += (a[j] - b[j]) * (a[j] - b[j]);
  return std::sqrt(square);
}

}  // namespace

TEST_CASE("synthetic: the shape, the counts and the splits that the parameters say",
          "[data_source]") {
  const auto source = synthetic({{"rows", 30, {}}, {"test_rows", 7, {}}, {"dimensions", 5, {}}});
  const auto info = source->info();
  CHECK(info.shape.features == privgrad::Shape{5});
  CHECK(info.shape.classes == 2);
  CHECK(info.train_rows == 30);
  CHECK(info.test_rows == 7);
  CHECK(info.unaccounted.empty());
  CHECK(source->read(Split::train).rows() == 30);
  CHECK(source->read(Split::test).rows() == 7);
  CHECK(fingerprint(source->read(Split::train)) == fingerprint(source->read(Split::train)));
}

TEST_CASE("synthetic: a longer data set begins with the shorter one, and splits differ",
          "[data_source]") {
  auto small = synthetic({{"rows", 10, {}}, {"test_rows", 10, {}}})->read(Split::train);
  auto large = synthetic({{"rows", 20, {}}, {"test_rows", 10, {}}})->read(Split::train);
  auto test = synthetic({{"rows", 10, {}}, {"test_rows", 10, {}}})->read(Split::test);
  auto other = synthetic({{"rows", 10, {}}, {"seed", 2, {}}})->read(Split::train);
  const auto first = small.features();
  CHECK(std::equal(first.begin(), first.end(), large.features().begin()));
  CHECK_FALSE(std::equal(first.begin(), first.end(), test.features().begin()));
  CHECK_FALSE(std::equal(first.begin(), first.end(), other.features().begin()));
}

TEST_CASE("synthetic: hypercube clusters are unit Gaussians at the distance that was asked for",
          "[data_source]") {
  // 20000 rows: the error of a class mean is about sqrt(100/10000) = 0.1 in norm, mostly across the
  // line of the centres. The seed is fixed, so the result is reproducible.
  auto data = synthetic({{"rows", 20000, {}}, {"distance", 10, {}}})->read(Split::train);
  const auto low = class_mean(data, 0);
  const auto high = class_mean(data, 1);
  CHECK_THAT(distance(low, high), WithinAbs(10.0, 0.05));
  // Each coordinate of a corner of a cube with diagonal 10 in 100 dimensions is +-0.5.
  for (std::size_t j = 0; j < 100; ++j) {
    REQUIRE_THAT(std::abs(low[j]), WithinAbs(0.5, 0.05));
    REQUIRE_THAT(low[j] + high[j], WithinAbs(0.0, 0.06));
  }
  double square = 0.0;
  double fourth = 0.0;
  for (std::size_t row = 0; row < 20000; ++row) {
    for (std::size_t j = 0; j < 100; ++j) {
      const double centre = data.targets()[row] == 0.0f ? low[j] : high[j];
      const double x = static_cast<double>(data.features()[row * 100 + j]) - centre;
      square += x * x / 2e6;
      fourth += x * x * x * x / 2e6;
    }
  }
  CHECK_THAT(square, WithinAbs(1.0, 0.005));  // the variance of N(0, 1); std error 0.001
  CHECK_THAT(fourth, WithinAbs(3.0, 0.03));   // its fourth moment; std error 0.007
}

TEST_CASE("synthetic: gaussian classes lie about `separation` apart", "[data_source]") {
  const auto source = synthetic({{"shape", "gaussian", {}},
                                 {"classes", 6, {}},
                                 {"separation", 30, {}},
                                 {"rows", 600, {}},
                                 {"dimensions", 200, {}}});
  CHECK(source->info().shape.classes == 6);
  auto data = source->read(Split::train);
  double square = 0.0;
  for (int a = 0; a < 6; ++a) {
    for (int b = 0; b < a; ++b) {
      const double d = distance(class_mean(data, static_cast<float>(a)),
                                class_mean(data, static_cast<float>(b)));
      square += d * d / 15.0;
    }
  }
  // The means of 100 rows per class add 2 * 200 / 100 = 4 to the square of every distance.
  CHECK_THAT(std::sqrt(square - 4.0), WithinRel(30.0, 0.05));
}

TEST_CASE("synthetic: label noise replaces the stated share by other classes", "[data_source]") {
  auto data = synthetic({{"shape", "gaussian", {}},
                         {"classes", 3, {}},
                         {"rows", 9000, {}},
                         {"dimensions", 1, {}},
                         {"label_noise", 0.3, {}}})
                  ->read(Split::train);
  int changed[3] = {};  // counts, by the shift of the label
  for (std::size_t row = 0; row < data.rows(); ++row) {
    ++changed[(static_cast<std::size_t>(data.targets()[row]) + 3 - row % 3) % 3];
  }
  // Binomial(9000, 0.3) and its halves: standard deviations 43 and 36.
  CHECK(std::abs(changed[1] + changed[2] - 2700) < 180);
  CHECK(std::abs(changed[1] - 1350) < 150);
}

TEST_CASE("synthetic: a linear target is linear, and its noise has the stated deviation",
          "[data_source]") {
  const auto make = [](double noise) {
    return synthetic({{"target", "linear", {}},
                      {"rows", 4000, {}},
                      {"dimensions", 3, {}},
                      {"label_noise", noise, {}}});
  };
  CHECK(make(0)->info().shape.classes == 0);
  auto exact = make(0)->read(Split::train);
  auto noisy = make(2.0)->read(Split::train);
  // Solves for the weights with the first three rows (Cramer); every other row must agree.
  const auto x = exact.features();
  const auto y = exact.targets();
  const auto at = [&x](std::size_t i, std::size_t j) { return static_cast<double>(x[i * 3 + j]); };
  const auto det = [](const double(&m)[3][3]) {
    return m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) -
           m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
           m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
  };
  double base[3][3];
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) base[i][j] = at(i, j);
  }
  double w[3];
  for (std::size_t j = 0; j < 3; ++j) {
    double m[3][3];
    std::memcpy(m, base, sizeof m);
    for (std::size_t i = 0; i < 3; ++i) m[i][j] = static_cast<double>(y[i]);
    w[j] = det(m) / det(base);
  }
  CHECK_THAT(w[0] * w[0] + w[1] * w[1] + w[2] * w[2], WithinRel(1.0, 1e-4));
  double square = 0.0;
  for (std::size_t i = 0; i < 4000; ++i) {
    const double predicted = w[0] * at(i, 0) + w[1] * at(i, 1) + w[2] * at(i, 2);
    REQUIRE_THAT(static_cast<double>(y[i]), WithinAbs(predicted, 1e-4));
    square += std::pow(static_cast<double>(noisy.targets()[i] - y[i]), 2) / 4000.0;
  }
  CHECK_THAT(std::sqrt(square), WithinRel(2.0, 0.05));
}

TEST_CASE("synthetic: what cannot be is refused in one line", "[data_source]") {
  CHECK_THROWS_WITH(synthetic({{"classes", 3, {}}}),
                    ContainsSubstring("hypercube_clusters has 2 clusters"));
  CHECK_THROWS_WITH(synthetic({{"label_noise", 1.5, {}}}), ContainsSubstring("probability"));
  CHECK_THROWS_WITH(synthetic({{"rows", 100000000, {}}, {"dimensions", 1000000, {}}}),
                    ContainsSubstring("more than"));
  CHECK_THROWS_AS(synthetic({{"rows", 0, {}}}), ConfigError);
  CHECK_THROWS_AS(synthetic({{"shape", "moons", {}}}), ConfigError);
}

TEST_CASE("synthetic: the default data set is the same, bit for bit, on every machine",
          "[data_source]") {
  // The expected values come from an independent implementation of the documented generator in
  // another language (Python).
  auto data = synthetic({})->read(Split::train);
  CHECK(data.features()[0] == -0.3145744502544403f);
  CHECK(fingerprint(data) == 10479301015296643217u);
}

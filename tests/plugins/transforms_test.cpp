#include "privgrad/transform.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/error.hpp"
#include "shared_files.hpp"

using privgrad::ConfigError;
using privgrad::Dataset;
using privgrad::DataSource;
using privgrad::Shape;
using privgrad::Split;
using privgrad::Statistic;
using privgrad::Transform;
using privgrad::Value;

namespace {

privgrad::ComponentPtr<Transform> transform(const std::string& name, Value::Object params = {}) {
  return house().create<Transform>(name, Value(std::move(params)));
}

Dataset rows_of(std::size_t width, const std::vector<float>& features) {
  return Dataset({{width}, 0}, features, std::vector<float>(features.size() / width));
}

std::vector<float> values(Dataset& data) {
  return {data.features().begin(), data.features().end()};
}

double norm(Dataset& data, std::size_t row) {
  double square = 0.0;
  for (const float x : data.features().subspan(row * data.row_size(), data.row_size())) {
    square += static_cast<double>(x) * static_cast<double>(x);
  }
  return std::sqrt(square);
}

double largest_norm(Dataset& data) {
  double largest = 0.0;
  for (std::size_t row = 0; row < data.rows(); ++row) largest = std::max(largest, norm(data, row));
  return largest;
}

double column_mean(Dataset& data, std::size_t column) {
  double sum = 0.0;
  for (std::size_t row = 0; row < data.rows(); ++row) {
    sum += static_cast<double>(data.features()[row * data.row_size() + column]);
  }
  return sum / static_cast<double>(data.rows());
}

double column_variance(Dataset& data, std::size_t column) {
  const double mean = column_mean(data, column);
  double sum = 0.0;
  for (std::size_t row = 0; row < data.rows(); ++row) {
    const double x = static_cast<double>(data.features()[row * data.row_size() + column]) - mean;
    sum += x * x;
  }
  return sum / static_cast<double>(data.rows());
}

}  // namespace

TEST_CASE("flatten: keeps values and targets, changes the shape", "[transform]") {
  const auto flatten = transform("flatten");
  CHECK(flatten->statistic() == Statistic::none);
  CHECK(flatten->output_shape({{2, 3}, 4}).features == Shape{6});
  CHECK(flatten->output_shape({{2, 3}, 4}).classes == 4);
  Dataset data({{1, 2}, 4}, std::vector<std::uint8_t>{0, 51, 102, 255}, 1.0f / 255, {3, 0});
  flatten->fit(data);
  flatten->apply(data);
  CHECK(data.shape().features == Shape{2});
  CHECK(data.features()[3] == 1.0f);
  CHECK(data.targets()[0] == 3.0f);
}

TEST_CASE("standardize: training statistics, applied to every split", "[transform]") {
  const auto standardize = transform("standardize");
  CHECK(standardize->statistic() == Statistic::unaccounted);
  // Columns: 1 3 5 (mean 3, variance 8/3); 0.1 three times, whose sum is not 0.3 in binary.
  auto train = rows_of(2, {1.0f, 0.1f, 3.0f, 0.1f, 5.0f, 0.1f});
  auto test = rows_of(2, {7.0f, 5.0f});
  standardize->fit(train);
  standardize->apply(train);
  standardize->apply(test);
  const double step = 2.0 / std::sqrt(8.0 / 3.0);
  CHECK_THAT(static_cast<double>(train.features()[0]), WithinRel(-step, 1e-7));
  CHECK(train.features()[2] == 0.0f);
  CHECK_THAT(static_cast<double>(train.features()[4]), WithinRel(step, 1e-7));
  CHECK_THAT(static_cast<double>(test.features()[0]), WithinRel(2.0 * step, 1e-7));
  for (const std::size_t at : {1u, 3u, 5u}) CHECK(train.features()[at] == 0.0f);
  CHECK(test.features()[1] == 0.0f);
}

TEST_CASE("standardize: a constant feature becomes 0 even if its mean is not exact",
          "[transform]") {
  // Adding 0.1f / n up n times misses 0.1f by a rounding error for some n, and a deviation of 1e-18
  // would then scale that error up to 1.
  const auto rows = GENERATE(3u, 7u, 10u, 49u, 1000u);
  auto train = rows_of(1, std::vector<float>(rows, 0.1f));
  const auto standardize = transform("standardize");
  standardize->fit(train);
  standardize->apply(train);
  CHECK(values(train) == std::vector<float>(rows));
}

TEST_CASE("standardize: sums in double", "[transform]") {
  // In float32, the sum of 30000 values near 1.2e6 loses all of the +-1 around the mean.
  std::vector<float> features;
  features.reserve(30000);
  for (int i = 0; i < 30000; ++i) features.push_back(i % 2 == 0 ? 1234566.0f : 1234568.0f);
  auto data = rows_of(1, features);
  const auto standardize = transform("standardize");
  standardize->fit(data);
  standardize->apply(data);
  CHECK_THAT(static_cast<double>(data.features()[0]), WithinAbs(-1.0, 1e-6));
  CHECK_THAT(static_cast<double>(data.features()[1]), WithinAbs(1.0, 1e-6));
}

TEST_CASE("standardize: given means and deviations are public and look at no row", "[transform]") {
  const Value::List mean{1.0, 2.0};
  const Value::List deviation{2.0, 0.0};
  const auto standardize = transform("standardize", {{"mean", mean, {}}, {"std", deviation, {}}});
  CHECK(standardize->statistic() == Statistic::is_public);
  auto data = rows_of(2, {5.0f, 7.0f});
  standardize->fit(data);
  standardize->apply(data);
  CHECK(values(data) == std::vector<float>{2.0f, 0.0f});
  CHECK_THROWS_WITH(standardize->output_shape({{3}, 0}), ContainsSubstring("has 3 features"));
  CHECK_THROWS_WITH(transform("standardize", {{"mean", mean, {}}}),
                    ContainsSubstring("both or neither"));
  const Value::List longer{1.0, 1.0, 1.0};
  CHECK_THROWS_AS(transform("standardize", {{"mean", mean, {}}, {"std", longer, {}}}), ConfigError);
  const Value::List negative{1.0, -1.0};
  CHECK_THROWS_AS(transform("standardize", {{"mean", mean, {}}, {"std", negative, {}}}),
                  ConfigError);
}

TEST_CASE("transforms: statistics declared public are marked as declared", "[transform]") {
  const Value::Object declared{{"statistic", "public", {}}};
  CHECK(transform("standardize", declared)->statistic() == Statistic::declared_public);
  CHECK(transform("pca", {{"statistic", "public", {}}, {"dimensions", 1, {}}})->statistic() ==
        Statistic::declared_public);
  CHECK(transform("pca", {{"dimensions", 1, {}}})->statistic() == Statistic::unaccounted);
  CHECK(transform("scale_max_norm", {{"statistic", "public", {}}, {"to", 1, {}}})->statistic() ==
        Statistic::declared_public);
}

TEST_CASE("transforms: an example that overflows float32 becomes NaN, and touches no other",
          "[transform][privacy]") {
  // Refusing such a row would reveal it; its gradient is not finite, and counts as zero.
  const Value::List zero{0.0, 0.0};
  const Value::List tiny{1e-30, 1.0};
  const auto standardize = transform("standardize", {{"mean", zero, {}}, {"std", tiny, {}}});
  auto data = rows_of(2, {1.0f, 5.0f, 1e10f, 6.0f, 2.0f, 7.0f});
  standardize->apply(data);
  const std::vector<float> after = values(data);
  CHECK(after[1] == 5.0f);
  CHECK(std::isnan(after[2]));
  CHECK(std::isnan(after[3]));
  CHECK(after[5] == 7.0f);
  for (const std::size_t i : {0u, 4u}) CHECK(std::isfinite(after[i]));
}

TEST_CASE("scale_max_norm: the longest training example gets the norm, others keep the ratio",
          "[transform]") {
  const auto scale = transform("scale_max_norm", {{"to", 10, {}}});
  CHECK(scale->statistic() == Statistic::unaccounted);
  auto train = rows_of(2, {3.0f, 4.0f, 1.0f, 0.0f, 0.0f, 0.0f});
  auto test = rows_of(2, {30.0f, -40.0f});
  scale->fit(train);
  scale->apply(train);
  scale->apply(test);
  CHECK(values(train) == std::vector<float>{6.0f, 8.0f, 2.0f, 0.0f, 0.0f, 0.0f});
  CHECK(values(test) == std::vector<float>{60.0f, -80.0f});
}

TEST_CASE("scale_max_norm: values whose squares leave the range of float32", "[transform]") {
  for (const float size : {1e30f, 1e-30f}) {
    const auto scale = transform("scale_max_norm", {{"to", 1, {}}});
    auto data = rows_of(2, {size, size});
    scale->fit(data);
    scale->apply(data);
    CHECK_THAT(norm(data, 0), WithinRel(1.0, 1e-6));
  }
}

TEST_CASE("scale_max_norm: a public bound shortens what exceeds it, in every split",
          "[transform]") {
  const auto scale = transform("scale_max_norm", {{"to", 10, {}}, {"max_norm", 5, {}}});
  CHECK(scale->statistic() == Statistic::is_public);
  auto data = rows_of(2, {0.3f, 0.4f, 3.0f, 4.0f, 30.0f, 40.0f});
  auto empty = rows_of(2, {0.0f, 0.0f});
  scale->fit(empty);
  scale->apply(data);
  CHECK_THAT(norm(data, 0), WithinRel(1.0, 1e-6));
  CHECK_THAT(norm(data, 1), WithinRel(10.0, 1e-6));
  CHECK_THAT(norm(data, 2), WithinRel(10.0, 1e-6));
}

TEST_CASE("scale_max_norm: data that is all zero, and sizes that are none", "[transform]") {
  auto zeros = rows_of(2, {0.0f, 0.0f, 0.0f, 0.0f});
  CHECK_THROWS_WITH(transform("scale_max_norm", {{"to", 1, {}}})->fit(zeros),
                    ContainsSubstring("all training examples are 0"));
  CHECK_THROWS_AS(transform("scale_max_norm", {{"to", 0, {}}}), ConfigError);
  CHECK_THROWS_AS(transform("scale_max_norm"), ConfigError);
}

TEST_CASE("pca: projects on the directions of largest variance, largest first", "[transform]") {
  // Points m + s (3, -4)/5 with s = -2, 0, 2, and m + t (4, 3)/5 with t = -1, 1: the components are
  // (3, -4)/5, variance 8/5, signed so that -4/5 becomes positive, and (4, 3)/5, variance 2/5.
  const auto point = [](double s, double t) {
    return std::vector<float>{static_cast<float>(7.0 + 0.6 * s + 0.8 * t),
                              static_cast<float>(-2.0 - 0.8 * s + 0.6 * t)};
  };
  std::vector<float> features;
  for (const auto& [s, t] :
       {std::pair{-2.0, 0.0}, {0.0, 0.0}, {2.0, 0.0}, {0.0, -1.0}, {0.0, 1.0}}) {
    for (const float x : point(s, t)) features.push_back(x);
  }
  auto train = rows_of(2, features);
  auto test = rows_of(2, point(10.0, -3.0));
  const auto pca = transform("pca", {{"dimensions", 2, {}}});
  CHECK(pca->output_shape({{2}, 5}).features == Shape{2});
  CHECK(pca->output_shape({{2}, 5}).classes == 5);
  pca->fit(train);
  pca->apply(train);
  pca->apply(test);
  const std::vector<double> expected{2, 0, 0, 0, -2, 0, 0, -1, 0, 1};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK_THAT(static_cast<double>(train.features()[i]), WithinAbs(expected[i], 1e-6));
  }
  CHECK_THAT(static_cast<double>(test.features()[0]), WithinAbs(-10.0, 1e-5));
  CHECK_THAT(static_cast<double>(test.features()[1]), WithinAbs(-3.0, 1e-5));
}

TEST_CASE("pca: more rows than one block, all components: lengths and angles stay", "[transform]") {
  const auto source = house().create<DataSource>(
      "synthetic", Value::Object{{"rows", 1300, {}}, {"dimensions", 5, {}}});
  auto before = source->read(Split::train);
  auto after = source->read(Split::train);
  const auto pca = transform("pca", {{"dimensions", 5, {}}});
  pca->fit(after);
  pca->apply(after);
  const auto dot = [](Dataset& data, std::size_t a, std::size_t b,
                      const std::vector<double>& mean) {
    double sum = 0.0;
    for (std::size_t j = 0; j < 5; ++j) {
      sum += (static_cast<double>(data.features()[a * 5 + j]) - mean[j]) *
             (static_cast<double>(data.features()[b * 5 + j]) - mean[j]);
    }
    return sum;
  };
  std::vector<double> mean;
  for (std::size_t j = 0; j < 5; ++j) mean.push_back(column_mean(before, j));
  for (const std::size_t row : {0u, 511u, 512u, 1023u, 1024u, 1299u}) {
    for (const std::size_t other : {0u, 700u, 1299u}) {
      CHECK_THAT(dot(after, row, other, std::vector<double>(5)),
                 WithinAbs(dot(before, row, other, mean), 1e-4));
    }
  }
  for (std::size_t j = 1; j < 5; ++j)
    CHECK(column_variance(after, j) < column_variance(after, j - 1));
}

TEST_CASE("pca: the same bits whatever the number of BLAS threads", "[transform]") {
  // The rows are all rotations of one row, so the variances come in equal pairs, and the smallest
  // rounding difference rotates the components of a pair by an arbitrary angle.
  constexpr std::size_t kWidth = 300;
  const auto row =
      house()
          .create<DataSource>("synthetic", Value::Object{{"rows", 1, {}}, {"dimensions", 300, {}}})
          ->read(Split::train);
  std::vector<float> first(kWidth);
  std::vector<float> ignored(1);
  row.gather(std::vector<std::uint32_t>{0}, first, ignored);
  std::vector<float> rotations;
  for (std::size_t i = 0; i < kWidth; ++i) {
    for (std::size_t j = 0; j < kWidth; ++j) rotations.push_back(first[(i + j) % kWidth]);
  }
  transform("pca", {{"dimensions", 1, {}}});  // so that the plugin and its BLAS are loaded
  void* blas = ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(blas != nullptr);
  const auto set = reinterpret_cast<void (*)(int)>(::dlsym(blas, "openblas_set_num_threads"));
  const auto get = reinterpret_cast<int (*)()>(::dlsym(blas, "openblas_get_num_threads"));
  REQUIRE((set != nullptr && get != nullptr));
  const int before = get();
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 3}) {
    set(threads);
    auto data = rows_of(kWidth, rotations);
    const auto pca = transform("pca", {{"dimensions", 50, {}}});
    pca->fit(data);
    pca->apply(data);
    CHECK(get() == threads);  // as before
    results.push_back(values(data));
  }
  set(before);
  CHECK(results[1] == results[0]);
  CHECK(results[2] == results[0]);
}

TEST_CASE("pca: more dimensions than the data has are refused", "[transform]") {
  const auto pca = transform("pca", {{"dimensions", 2, {}}});
  CHECK_THROWS_WITH(pca->output_shape({{1}, 0}), ContainsSubstring("an example has 1 features"));
  CHECK_THROWS_WITH(pca->output_shape({{100000}, 0}), ContainsSubstring("at most 8192"));
  auto two_rows = rows_of(2, {1.0f, 2.0f, 3.0f, 5.0f});
  CHECK_THROWS_WITH(pca->fit(two_rows), ContainsSubstring("number of examples less 1"));
  auto on_a_line = rows_of(2, {1.0f, 2.0f, 2.0f, 4.0f, 3.0f, 6.0f, 4.0f, 8.0f});
  CHECK_THROWS_WITH(pca->fit(on_a_line), ContainsSubstring("vary in 1 direction(s) only"));
  auto constant = rows_of(2, std::vector<float>(8, 0.1f));
  CHECK_THROWS_WITH(pca->fit(constant), ContainsSubstring("vary in 0 direction(s) only"));
  CHECK_THROWS_AS(transform("pca", {{"dimensions", 0, {}}}), ConfigError);
}

namespace {

/// Features between 1e-6 and 1e6, of both signs; the same everywhere (SplitMix64's finalizer).
std::vector<float> wide_features(std::size_t count) {
  std::vector<float> features(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    const double unit = static_cast<double>(z >> 11) * 0x1p-53;
    const double size = std::exp((unit - 0.5) * 27.6);
    features[i] = static_cast<float>((z & 1) != 0 ? size : -size);
  }
  return features;
}

}  // namespace

TEST_CASE("given one row at a time: the bits of a row are its own, at any place, in any set",
          "[transform][privacy]") {
  // More features than a register has lanes, and not a multiple of 8: this reaches the edges of
  // most loops.
  constexpr std::size_t kWidth = 37;
  const std::vector<float> features = wide_features(1025 * kWidth);
  Value::List mean, deviation;
  for (std::size_t j = 0; j < kWidth; ++j) {
    mean.emplace_back(0.1 * static_cast<double>(j));
    deviation.emplace_back(0.3 + static_cast<double>(j));
  }
  const std::pair<std::string, Value::Object> all[] = {
      {"flatten", {}},
      {"standardize", {}},
      {"standardize", {{"mean", mean, {}}, {"std", deviation, {}}}},
      {"scale_max_norm", {{"to", 3, {}}}},
      {"scale_max_norm", {{"to", 3, {}}, {"max_norm", 100, {}}}},
      {"pca", {{"dimensions", 1, {}}}},
      {"pca", {{"dimensions", 35, {}}}},
      {"whiten", {}}};
  for (const auto& [name, params] : all) {
    const auto fitted = transform(name, params);
    auto train = rows_of(kWidth, features);
    fitted->fit(train);
    const std::size_t width = privgrad::element_count(fitted->output_shape(train.shape()).features);
    auto together = rows_of(kWidth, features);
    fitted->apply(together);
    INFO(name << ", " << width);
    REQUIRE(fitted->is_by_row());
    for (const std::size_t count : {1u, 2u, 3u, 31u, 512u, 513u}) {
      // A subset that begins and ends elsewhere than the whole.
      const std::size_t first = 7;
      auto part = rows_of(
          kWidth, {features.begin() + first * kWidth,
                   features.begin() + static_cast<std::ptrdiff_t>((first + count) * kWidth)});
      fitted->apply(part);
      const auto same = together.features().subspan(first * width, count * width);
      CHECK(std::equal(same.begin(), same.end(), part.features().begin(), part.features().end()));
    }
    std::vector<float> out(width);
    bool all_same = true;
    for (std::size_t row = 0; row < 1025; ++row) {
      fitted->apply_row({kWidth}, std::span(features).subspan(row * kWidth, kWidth), out);
      const auto same = together.features().subspan(row * width, width);
      all_same = all_same && std::equal(same.begin(), same.end(), out.begin());
    }
    CHECK(all_same);
  }
}

TEST_CASE("products of rows with a large matrix are sums in the order of the features",
          "[transform][privacy]") {
  // Features in three blocks, with rows and components that fill neither a group nor a panel. One
  // row is not finite.
  constexpr std::size_t kSize = 1027, kRows = 7, kBad = 2;
  const std::vector<float> matrix = wide_features(kSize * kSize);
  std::vector<float> features = wide_features(kRows * kSize);
  features[kBad * kSize + 5] = std::numeric_limits<float>::quiet_NaN();
  features[kBad * kSize + 600] = std::numeric_limits<float>::infinity();
  const auto whiten = transform("whiten", {});
  whiten->restore({{"matrix", {kSize, kSize}, std::vector<double>(matrix.begin(), matrix.end())}});
  std::vector<float> made(features.size());
  whiten->apply_rows({kSize}, kRows, features, made);
  std::size_t wrong = 0;
  for (std::size_t row = 0; row < kRows; ++row) {
    if (row == kBad) continue;
    for (std::size_t i = 0; i < kSize; ++i) {
      double sum = 0.0;
      for (std::size_t j = 0; j < kSize; ++j)
        sum += double(features[row * kSize + j]) * double(matrix[i * kSize + j]);
      wrong += made[row * kSize + i] == static_cast<float>(sum) ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("the preprocessing of Hong et al. on MNIST35 (PRIVGRAD_DATA_DIR)", "[transform][data]") {
  const auto data_folder = data_folder_with("mnist35-1k/train-images-idx3-ubyte.gz");
  if (data_folder.empty()) PRIVGRAD_SKIP("mnist35-1k is not in PRIVGRAD_DATA_DIR");
  const auto folder = data_folder / "mnist35-1k";
  const auto files = [&folder](const std::string& prefix) {
    return Value(
        Value::Object{{"images", (folder / (prefix + "-images-idx3-ubyte.gz")).string(), {}},
                      {"labels", (folder / (prefix + "-labels-idx1-ubyte.gz")).string(), {}}});
  };
  const auto source = house().create<DataSource>(
      "idx", Value::Object{{"train", files("train"), {}}, {"test", files("t10k"), {}}});
  auto train = source->read(Split::train);
  auto test = source->read(Split::test);
  REQUIRE(train.rows() == 1000);
  REQUIRE(test.rows() == 1902);

  std::vector<privgrad::ComponentPtr<Transform>> chain;
  chain.push_back(transform("pca", {{"dimensions", 60, {}}}));
  chain.push_back(transform("standardize"));
  chain.push_back(transform("scale_max_norm", {{"to", 10, {}}}));
  for (const auto& step : chain) {
    step->fit(train);
    step->apply(train);
    step->apply(test);
    if (step == chain.front()) {
      // Expected: variances of the first and last component by NumPy's SVD of the centred images.
      CHECK_THAT(column_variance(train, 0), WithinRel(6.259677480316406, 1e-6));
      CHECK_THAT(column_variance(train, 59), WithinRel(0.10822590921473929, 1e-6));
    }
  }
  CHECK(train.shape().features == Shape{60});
  CHECK_THAT(largest_norm(train), WithinRel(10.0, 1e-7));
  const double variance = column_variance(train, 0);
  CHECK_THAT(variance, WithinRel(0.7813397843606823 * 0.7813397843606823, 1e-6));
  for (std::size_t j = 0; j < 60; ++j) {
    REQUIRE_THAT(column_mean(train, j), WithinAbs(0.0, 1e-7));
    REQUIRE_THAT(column_variance(train, j), WithinRel(variance, 1e-6));
  }
  // Expected: the same chain in NumPy, with an SVD of the centred images instead of a covariance's
  // eigenvectors, the same sign rule, population standard deviation. Columns 0, 1, 2, 30, 59.
  const auto agrees = [](Dataset& data, std::size_t row, const std::vector<double>& expected) {
    const std::size_t columns[] = {0, 1, 2, 30, 59};
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK_THAT(static_cast<double>(data.features()[row * 60 + columns[i]]),
                 WithinAbs(expected[i], 2e-6));
    }
  };
  agrees(train, 0, {-0.092951136, 0.332396465, 1.076401787, 0.236002369, 0.267888805});
  agrees(train, 999, {0.393448248, 0.194613439, -0.622331659, 0.176743653, 0.498741326});
  agrees(test, 0, {-0.721113429, -0.425123864, 0.987528924, 0.074795325, -1.955144086});
  CHECK_THAT(largest_norm(test), WithinRel(9.593976843232449, 1e-6));
}

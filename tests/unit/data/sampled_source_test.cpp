#include "privgrad/data/sampled_source.hpp"

#include <map>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;

namespace {

/// Five rows of one feature, which is the row's number, for training and for tests.
class FiveRows final : public DataSource {
 public:
  DataInfo info() override {
    DataInfo info{};
    info.shape = {{1}, 2};
    info.train_rows = info.test_rows = 5;
    info.has_test_split = true;
    return info;
  }
  Dataset read(Split) override {
    return {{{1}, 2}, {0.0f, 1.0f, 2.0f, 3.0f, 4.0f}, {0.0f, 1.0f, 0.0f, 1.0f, 0.0f}};
  }
};

ComponentPtr<DataSource> drawn(std::uint64_t rows, std::optional<std::uint64_t> seed) {
  return core::sampled(
      {new FiveRows,
       {[](void* object) noexcept { delete static_cast<DataSource*>(object); }, nullptr}},
      rows, seed);
}

/// Returns the features of all rows.
std::vector<float> features(Dataset rows) {
  std::vector<std::uint32_t> all(rows.rows());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint32_t>(i);
  std::vector<float> features(all.size()), targets(all.size());
  rows.gather(all, features, targets);
  for (std::size_t i = 0; i < all.size(); ++i)
    CHECK(targets[i] == static_cast<float>(static_cast<int>(features[i]) % 2));
  return features;
}

}  // namespace

// 10 sets, each expected 1000 times: Pearson's statistic has 9 degrees of freedom, and exceeds 33.7
// with probability 1e-4. Seeds are fixed, so the outcome is always the same.
TEST_CASE("every set of places is drawn equally often, in ascending order", "[sample]") {
  std::map<std::vector<float>, double> count;
  for (std::uint64_t seed = 0; seed < 10'000; ++seed)
    ++count[features(drawn(2, seed)->read(Split::train))];
  REQUIRE(count.size() == 10);
  double statistic = 0.0;
  for (const auto& [rows, times] : count) {
    CHECK(rows[0] < rows[1]);
    statistic += (times - 1000.0) * (times - 1000.0) / 1000.0;
  }
  CHECK(statistic < 33.7);
}

TEST_CASE("a draw depends on its seed alone, and leaves test rows as they are", "[sample]") {
  const auto source = drawn(3, 7);
  CHECK(source->info().train_rows == 3);
  CHECK(source->info().test_rows == 5);
  CHECK(features(source->read(Split::train)) == features(drawn(3, 7)->read(Split::train)));
  CHECK(features(source->read(Split::test)) == std::vector<float>{0, 1, 2, 3, 4});
  CHECK(features(drawn(5, 1)->read(Split::train)) == std::vector<float>{0, 1, 2, 3, 4});
}

TEST_CASE("more rows than there are, and a draw without a seed, are refused", "[sample]") {
  CHECK_THROWS_AS(drawn(6, 1)->info(), ConfigError);
  CHECK_NOTHROW(drawn(3, std::nullopt)->info());
  CHECK_THROWS_AS(drawn(3, std::nullopt)->read(Split::train), ConfigError);
}

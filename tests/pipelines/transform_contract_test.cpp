// Forbidden behaviour of transforms, and the ability to transform a single row.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "privgrad/plan/read_data.hpp"
#include "privgrad/transform.hpp"
#include "test_components.hpp"
#include "train.hpp"

using namespace privgrad;

namespace {

constexpr const char* kTransformed = R"(privgrad: 1
name: base
seed: 1
data: {kind: synthetic, rows: 200, test_rows: 50, dimensions: 3, test_is_public: true}
model: {kind: linear}
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: 20, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 2
)";

std::vector<float> copied(std::span<const float> values) { return {values.begin(), values.end()}; }

/// Correct: doubles every feature.
class Doubles : public Transform {
 public:
  explicit Doubles(const Params&) {}
  ExampleShape output_shape(const ExampleShape& input) const override { return input; }
  void fit(Dataset&) override {}
  void apply(Dataset& data) const override {
    std::vector<float> features = copied(data.features());
    for (float& value : features) value *= 2.0f;
    data.replace_features(data.shape().features, std::move(features));
  }
  Statistic statistic() const override { return Statistic::none; }

 protected:
  /// Returns the data set with its rows in the given order.
  static Dataset with_rows(Dataset& data, const std::vector<std::uint32_t>& order,
                           bool with_targets = true) {
    std::vector<float> features(order.size() * data.row_size()), targets(order.size());
    data.gather(order, features, targets);
    return Dataset(data.shape(), std::move(features),
                   with_targets ? std::move(targets) : copied(data.targets()));
  }
  static std::vector<std::uint32_t> all_rows(const Dataset& data) {
    std::vector<std::uint32_t> rows(data.rows());
    for (std::uint32_t row = 0; row < rows.size(); ++row) rows[row] = row;
    return rows;
  }
};

/// An augmentation: eight copies of each training example, and of no test example.
struct CopiesEight final : Doubles {
  using Doubles::Doubles;
  void apply(Dataset& data) const override {
    if (data.rows() != 200) return;
    std::vector<std::uint32_t> rows;
    for (std::uint32_t row = 0; row < 8 * data.rows(); ++row) rows.push_back(row / 8);
    data = with_rows(data, rows);
  }
};
struct DropsTestRow final : Doubles {
  using Doubles::Doubles;
  void apply(Dataset& data) const override {
    if (data.rows() != 50) return;
    std::vector<std::uint32_t> rows = all_rows(data);
    rows.pop_back();
    data = with_rows(data, rows);
  }
};
struct FlipsOneTarget final : Doubles {
  using Doubles::Doubles;
  void apply(Dataset& data) const override {
    std::vector<float> targets = copied(data.targets());
    targets.back() = 1.0f - targets.back();
    data = Dataset(data.shape(), copied(data.features()), std::move(targets));
  }
};
/// Reorders rows and targets together: each example is complete, but in another place.
struct Reverses final : Doubles {
  using Doubles::Doubles;
  void apply(Dataset& data) const override {
    std::vector<std::uint32_t> rows = all_rows(data);
    std::reverse(rows.begin(), rows.end());
    data = with_rows(data, rows);
  }
};
/// Reorders only the features, so the targets do not reveal it.
struct SwapsFeatures final : Doubles {
  using Doubles::Doubles;
  void apply(Dataset& data) const override {
    std::vector<std::uint32_t> rows = all_rows(data);
    std::swap(rows.front(), rows.back());
    data = with_rows(data, rows, /*with_targets=*/false);
  }
};
/// Subtracts the mean of each split, which one example changes for all.
struct Centres final : Doubles {
  using Doubles::Doubles;
  void apply(Dataset& data) const override {
    std::vector<float> features = copied(data.features());
    float mean = 0.0f;
    for (const float value : features) mean += value / static_cast<float>(features.size());
    for (float& value : features) value -= mean;
    data.replace_features(data.shape().features, std::move(features));
  }
};
struct TellsLess final : Doubles {
  using Doubles::Doubles;
  ExampleShape output_shape(const ExampleShape& input) const override {
    return {{1}, input.classes};
  }
};
struct FitsInPlace final : Doubles {
  using Doubles::Doubles;
  Statistic statistic() const override { return Statistic::unaccounted; }
  void fit(Dataset& train) override { apply(train); }
};
struct FitsFewer final : Doubles {
  using Doubles::Doubles;
  Statistic statistic() const override { return Statistic::unaccounted; }
  void fit(Dataset& train) override { train = with_rows(train, {0, 1, 2}); }
};

/// The core must not call apply(), which gives other numbers here.
struct RowByRow final : Doubles {
  using Doubles::Doubles;
  bool is_by_row() const override { return says; }
  inline static bool says = true;
  void apply(Dataset&) const override { throw std::logic_error("apply() was called"); }
  void apply_row(const Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    for (std::size_t i = 0; i < features.size(); ++i) out[i] = 2.0f * features[i];
  }
};

/// Correct for a single row; exchanges the first two of several.
struct SwapsAtOnce final : Doubles {
  using Doubles::Doubles;
  bool is_by_row() const override { return true; }
  void apply_row(const Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    for (std::size_t i = 0; i < features.size(); ++i) out[i] = 2.0f * features[i];
  }
  void apply_rows(const Shape& shape, std::size_t rows, std::span<const float> features,
                  std::span<float> out) const override {
    apply_row(shape, features, out);
    const std::size_t width = features.size() / rows;
    if (rows > 1) std::swap_ranges(out.begin(), out.begin() + width, out.begin() + width);
  }
};

const Catalog& transforms() {
  static const Catalog catalog = house_with(
      {offer<Transform, Doubles>("doubles"), offer<Transform, CopiesEight>("eight"),
       offer<Transform, DropsTestRow>("drops"), offer<Transform, FlipsOneTarget>("flips"),
       offer<Transform, Reverses>("reverses"), offer<Transform, SwapsFeatures>("swaps"),
       offer<Transform, Centres>("centres"), offer<Transform, TellsLess>("tells_less"),
       offer<Transform, FitsInPlace>("fits_in_place", {"unreleased_statistics"}),
       offer<Transform, FitsFewer>("fits_fewer", {"unreleased_statistics"}),
       offer<Transform, RowByRow>("row_by_row"), offer<Transform, SwapsAtOnce>("swaps_at_once")});
  return catalog;
}

core::RunData data_after(const std::string& transforms_of_manifest) {
  Experiment experiment(kTransformed, {"data.transforms=" + transforms_of_manifest}, transforms());
  const core::Plan& plan = experiment.plan();
  return core::read_data(*plan.manifest, *plan.setting);
}

}  // namespace

TEST_CASE("after every transform, examples are as many, with their targets, in their order",
          "[transform][privacy]") {
  const auto refused = [](const std::string& name, const std::string& words) {
    INFO(name);
    CHECK_THROWS_AS(data_after("[" + name + "]"), PluginError);
    CHECK_THROWS_WITH(
        data_after("[flatten, " + name + "]"),
        ContainsSubstring(": error: data.transforms.1: transform " + name + " " + words) &&
            !ContainsSubstring("\n"));
  };
  refused("eight", "returned 1600 training examples for 200");
  refused("drops", "returned 49 test examples for 50");
  // Test rows come first, so that nothing about them can depend on training rows.
  refused("flips", "changed targets of the test examples");
  refused("reverses", "changed targets of the test examples, or their order");
  refused("swaps", "computes different features for test example");
  refused("centres", "computes different features for test example");
  refused("swaps_at_once",
          "broke its contract: the bits of an example's features depend on the examples beside it");
  refused("fits_in_place", "changed the training examples while it was fitted");
  refused("fits_fewer", "returned 3 training examples for 200");
  Experiment shape(kTransformed, {"data.transforms=[tells_less]"}, transforms());
  CHECK_THROWS_WITH(shape.run(), ContainsSubstring("returned examples of 3 and said 1"));
  CHECK_FALSE(std::filesystem::exists(shape.run_dir() / "ledger.jsonl"));
}

TEST_CASE("a transform that is given one row at a time is never given all", "[transform]") {
  core::RunData plain = data_after("[doubles]"), by_row = data_after("[row_by_row]");
  CHECK(copied(plain.train.features()) == copied(by_row.train.features()));
  CHECK(copied(plain.test.features()) == copied(by_row.test.features()));
  CHECK(plain.test.rows() == 50);
}

TEST_CASE("a transform that promised single rows gets these in the run, whatever it says later",
          "[transform][privacy]") {
  Experiment experiment(kTransformed, {"data.transforms=[row_by_row]"}, transforms());
  const core::Plan& plan = experiment.plan();
  RowByRow::says = false;
  core::RunData data = core::read_data(*plan.manifest, *plan.setting);
  RowByRow::says = true;
  CHECK(copied(data.train.features()) == copied(data_after("[doubles]").train.features()));
}

// From the file to the model: when a row is removed, the rest of the data stay the same.
TEST_CASE("house transforms: without a row, every other row has the bits that it had",
          "[transform][privacy]") {
  // With public numbers, so that nothing is fitted to the removed row.
  const std::string chain =
      "[flatten, {kind: standardize, mean: [0.1, 0.2, 0.3], std: [3, 0.7, 1.1]}, "
      "{kind: scale_max_norm, to: 1, max_norm: 0.3}]";
  TempDir dir;
  std::vector<std::string> lines;
  for (int row = 0; row < 67; ++row) {
    const double x = 0.37 * row;
    lines.push_back(std::to_string(std::sin(x)) + "," + std::to_string(1e6 * std::cos(3 * x)) +
                    "," + std::to_string(1e-6 * x) + "," + std::to_string(row % 2) + "\n");
  }
  const auto features_without = [&](int left_out) {
    std::string text;
    for (int row = 0; row < 67; ++row)
      if (row != left_out) text += lines[static_cast<std::size_t>(row)];
    write_file(dir.path() / "train.csv", text);
    Experiment experiment(kTransformed,
                          {"data={kind: csv, train: " + (dir.path() / "train.csv").string() +
                           ", header: false, target: \"3\", transforms: " + chain + "}"});
    const core::Plan& plan = experiment.plan();
    return copied(core::read_data(*plan.manifest, *plan.setting).train.features());
  };
  const std::vector<float> whole = features_without(-1);
  REQUIRE(whole.size() == 67 * 3);
  for (const int left_out : {0, 1, 33, 66}) {
    std::vector<float> expected = whole;
    const auto at = expected.begin() + std::ptrdiff_t{3} * left_out;
    expected.erase(at, at + 3);
    CHECK(features_without(left_out) == expected);
  }
}

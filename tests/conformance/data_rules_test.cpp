// Data sources and transforms, which see rows before training.
#include <cmath>
#include <cstdint>
#include <filesystem>

#include "broken.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/error.hpp"
#include "privgrad/partition.hpp"
#include "privgrad/row_operation.hpp"
#include "privgrad/transform.hpp"

namespace data_rules_test {

using namespace privgrad;
using privgrad::testing::Verdict;

namespace {

/// The bytes of a file as examples, half of them for training.
class RightSource : public DataSource {
 public:
  explicit RightSource(const Params& params) : path_(params.path("file")) {}
  DataInfo info() override {
    const std::size_t rows = bytes().size() / 2;
    return {{{1}, 2}, rows, rows, {}, false, false, {}, {}, {}, {}, true, true};
  }
  Dataset read(Split split) override {
    const std::string all = bytes();
    const std::string half =
        split == Split::train ? all.substr(0, all.size() / 2) : all.substr(all.size() / 2);
    std::vector<float> features;
    for (const char byte : half) features.push_back(static_cast<float>(byte));
    return Dataset(info().shape, std::move(features), std::vector<float>(half.size(), 1.0f));
  }

 protected:
  std::string name() const { return path_.filename().string(); }
  std::string content() const {
    if (!std::filesystem::is_regular_file(path_)) throw IoError(name() + ": no file");
    return read_file(path_);
  }
  virtual std::string bytes() const {
    std::string text = content();
    if (text.rfind("rows", 0) != 0) throw IoError(name() + ": no file of rows");
    return text;
  }
  std::filesystem::path path_;
};

struct ThrowsOddly final : RightSource {
  using RightSource::RightSource;
  std::string bytes() const override {
    std::string text = content();
    if (text.empty()) throw ConfigError(name() + ": no file of rows");
    return text;
  }
};
struct NamesNoFile final : RightSource {
  using RightSource::RightSource;
  std::string bytes() const override {
    try {
      return RightSource::bytes();
    } catch (const IoError&) {
      throw IoError("cannot read it");
    }
  }
};
struct EmptyIsFine final : RightSource {
  using RightSource::RightSource;
  std::string bytes() const override {
    const std::string text = content();
    return text.empty() ? "rows of zeros" : text;
  }
};
struct HidesItsSplit final : RightSource {
  using RightSource::RightSource;
  DataInfo info() override { return {{{1}, 2}, 4, 4, {}}; }
};

template <class Impl>
Findings source_findings() {
  const TempDir dir;
  write_file(dir.path() / "data", "rows of bytes!");
  Value params{Value::Object{}};
  params.set("file", (dir.path() / "data").string());
  return findings_on<DataSource, Impl>({.name = "bytes",
                                        .summary = "The bytes of a file.",
                                        .reference = "none: a definition",
                                        .params = {param::path("file", "The file.")}},
                                       params);
}

}  // namespace

TEST_CASE("each rule of data sources can fail") {
  check_rules_can_fail(
      source_findings<RightSource>(),
      {{"tells_what_it_holds", "no training examples", findings_on("data_source/empty")},
       {"tells_what_it_holds", "examples are 0", findings_on("data_source/no_features")},
       {"tells_what_it_holds", "differs at the second call",
        findings_on("data_source/changes_its_mind")},
       {"tells_what_it_holds", "test rows without a test split", source_findings<HidesItsSplit>()},
       {"reads_what_it_told", "has 20 rows, info() said 21",
        findings_on("data_source/told_more_test_rows")},
       {"reads_what_it_told", "info() said examples of 4 with 2",
        findings_on("data_source/other_shape")},
       {"reading_is_repeatable", "the second time", findings_on("data_source/changes_its_rows")},
       {"broken_files_are_io_errors", "must be an IoError, not ConfigError",
        source_findings<ThrowsOddly>()},
       {"broken_files_are_io_errors", "an empty file must be an IoError, not nothing",
        source_findings<EmptyIsFine>()},
       {"broken_files_are_io_errors", "without the name of the file",
        source_findings<NamesNoFile>()}});
}

namespace {

/// Subtracts the mean of each feature.
class RightTransform : public Transform {
 public:
  bool is_by_row() const override { return true; }
  bool is_restorable() const override { return true; }
  explicit RightTransform(const Params& params) : statistic_(statistic_from(params)) {}
  ExampleShape output_shape(const ExampleShape& input) const override { return input; }
  void fit(Dataset& train) override { mean_ = means(train); }
  void apply(Dataset& data) const override {
    if (mean_.empty()) throw PluginError("right: apply() was called before fit()");
    std::vector<float> features(data.features().begin(), data.features().end());
    for (std::size_t i = 0; i < features.size(); ++i) features[i] -= mean_[i % mean_.size()];
    data.replace_features(data.shape().features, std::move(features));
  }
  void apply_row(const Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    for (std::size_t i = 0; i < features.size(); ++i) out[i] = features[i] - mean_[i];
  }
  void apply_rows(const Shape& shape, std::size_t rows, std::span<const float> features,
                  std::span<float> out) const override {
    const std::size_t width = features.size() / rows;
    for (std::size_t at = 0; at < features.size(); at += width)
      apply_row(shape, features.subspan(at, width), out.subspan(at, width));
  }
  Statistic statistic() const override { return statistic_; }
  std::vector<FittedTensor> fitted_values() const override {
    return {{"mean", {mean_.size()}, {mean_.begin(), mean_.end()}}};
  }
  void restore(const std::vector<FittedTensor>& values) override {
    const FittedTensor& mean = find_fitted(values, "right", "mean", {0});
    if (values.size() != 1) throw ConfigError("right: expected the mean alone");
    mean_.assign(mean.values.begin(), mean.values.end());
  }
  std::vector<RowOperation> row_operations(const Shape&) const override {
    return {row_operation::Subtract{{mean_.begin(), mean_.end()}}};
  }

 protected:
  static std::vector<float> means(Dataset& data) {
    std::vector<float> mean(data.row_size());
    const auto features = data.features();
    for (std::size_t i = 0; i < features.size(); ++i) {
      mean[i % mean.size()] += features[i] / static_cast<float>(data.rows());
    }
    return mean;
  }
  std::vector<float> mean_;
  Statistic statistic_;
};

struct RefusesAll final : RightTransform {
  using RightTransform::RightTransform;
  ExampleShape output_shape(const ExampleShape&) const override { throw ConfigError("no"); }
};
struct RefusesOddly final : RightTransform {
  using RightTransform::RightTransform;
  ExampleShape output_shape(const ExampleShape&) const override { throw NumericError("no"); }
};
struct DividesByZero final : RightTransform {
  using RightTransform::RightTransform;
  void apply(Dataset& data) const override {
    std::vector<float> features(data.features().begin(), data.features().end());
    for (float& value : features) value /= mean_[0] - mean_[0];
    data.replace_features(data.shape().features, std::move(features));
  }
};
struct FailsOnEqual final : RightTransform {
  using RightTransform::RightTransform;
  void fit(Dataset& train) override {
    RightTransform::fit(train);
    for (std::size_t i = train.row_size(); i < train.features().size(); ++i) {
      if (train.features()[i] != train.features()[i % train.row_size()]) return;
    }
    throw std::runtime_error("no spread");
  }
};
struct Shared final : RightTransform {
  using RightTransform::RightTransform;
  void fit(Dataset& train) override {
    RightTransform::fit(train);
    all_ = mean_;
  }
  void apply(Dataset& data) const override {
    RightTransform::apply(data);
    std::vector<float> features(data.features().begin(), data.features().end());
    for (float& value : features) value += all_[0];
    data.replace_features(data.shape().features, std::move(features));
  }
  inline static std::vector<float> all_;
};
/// Sums from a 16-byte boundary on, like hand-written loops.
struct FollowsAlignment final : RightTransform {
  using RightTransform::RightTransform;
  void apply_row(const Shape& shape, std::span<const float> features,
                 std::span<float> out) const override {
    RightTransform::apply_row(shape, features, out);
    const auto place = reinterpret_cast<std::uintptr_t>(features.data()) % 16;
    out[0] += static_cast<float>(place) * 1e-3f;
  }
};
struct WritesBeside final : RightTransform {
  using RightTransform::RightTransform;
  void apply_row(const Shape& shape, std::span<const float> features,
                 std::span<float> out) const override {
    RightTransform::apply_row(shape, features, out);
    out.data()[out.size()] = 0.0f;
  }
};
/// Transforms several examples differently from a single one.
struct RoundsTogether final : RightTransform {
  using RightTransform::RightTransform;
  void apply_row(const Shape& shape, std::span<const float> features,
                 std::span<float> out) const override {
    RightTransform::apply_row(shape, features, out);
    for (float& value : out) value *= 1.0f + 1e-7f;
  }
};

/// An example that is not finite affects the previous one.
struct SpillsOver final : RightTransform {
  using RightTransform::RightTransform;
  void apply_rows(const Shape& shape, std::size_t rows, std::span<const float> features,
                  std::span<float> out) const override {
    RightTransform::apply_rows(shape, rows, features, out);
    const std::size_t width = features.size() / rows;
    for (std::size_t at = width; at < features.size(); at += width)
      out[at - width] += 0.0f * features[at];
  }
};

/// Changes its promises after it has seen rows.
struct ByRowAtFirst final : RightTransform {
  using RightTransform::RightTransform;
  bool is_by_row() const override { return mean_.empty(); }
};
struct RestorableAtFirst final : RightTransform {
  using RightTransform::RightTransform;
  bool is_restorable() const override { return mean_.empty(); }
};

struct ForgetsDigits final : RightTransform {
  using RightTransform::RightTransform;
  std::vector<FittedTensor> fitted_values() const override {
    auto values = RightTransform::fitted_values();
    for (double& x : values[0].values) x = std::round(x * 1e4) / 1e4;
    return values;
  }
};
/// Does not change examples, but stores one of the rows.
struct SavesARow : RightTransform {
  using RightTransform::RightTransform;
  void apply(Dataset&) const override {}
  void apply_row(const Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    std::copy(features.begin(), features.end(), out.begin());
  }
  std::vector<RowOperation> row_operations(const Shape&) const override { return {}; }
  Statistic statistic() const override { return Statistic::is_public; }
};
struct NamesATensorOddly final : RightTransform {
  using RightTransform::RightTransform;
  std::vector<FittedTensor> fitted_values() const override { return {{"../mean", {1}, {0.0}}}; }
};
struct TakesAnyTensor final : RightTransform {
  using RightTransform::RightTransform;
  void restore(const std::vector<FittedTensor>& values) override {
    const FittedTensor& mean = find_fitted(values, "right", "mean", {0});
    mean_.assign(mean.values.begin(), mean.values.end());
  }
};
struct TakesAnyNumber final : RightTransform {
  using RightTransform::RightTransform;
  void restore(const std::vector<FittedTensor>& values) override {
    if (values.size() != 1 || values[0].shape.size() != 1 ||
        values[0].values.size() != values[0].shape[0])
      throw ConfigError("right: expected the mean alone");
    mean_.assign(values[0].values.begin(), values[0].values.end());
  }
};
struct HalfRestored final : RightTransform {
  using RightTransform::RightTransform;
  void restore(const std::vector<FittedTensor>& values) override {
    mean_.assign(mean_.size(), 0.0f);
    RightTransform::restore(values);
  }
};

struct TellsOfOneFeature final : RightTransform {
  using RightTransform::RightTransform;
  std::vector<RowOperation> row_operations(const Shape&) const override {
    return {row_operation::Project{1, std::vector<double>(mean_.size())}};
  }
};
struct TellsADivisionByZero final : RightTransform {
  using RightTransform::RightTransform;
  std::vector<RowOperation> row_operations(const Shape&) const override {
    return {row_operation::Divide{{0.0}}};
  }
};

struct TellsAnotherOrder final : RightTransform {
  using RightTransform::RightTransform;
  std::vector<RowOperation> row_operations(const Shape& shape) const override {
    auto told = RightTransform::row_operations(shape);
    row_operation::Take backwards;
    for (std::size_t j = mean_.size(); j > 0; --j) backwards.from.push_back(j - 1);
    told.emplace_back(backwards);
    return told;
  }
};
struct TellsOfAFeatureTooMany final : RightTransform {
  using RightTransform::RightTransform;
  std::vector<RowOperation> row_operations(const Shape& shape) const override {
    return {row_operation::Take{{element_count(shape)}}};
  }
};

struct ChangesStatistic final : RightTransform {
  using RightTransform::RightTransform;
  Statistic statistic() const override { return mean_.empty() ? Statistic::is_public : statistic_; }
};
struct NoStatistic final : RightTransform {
  using RightTransform::RightTransform;
  Statistic statistic() const override { return Statistic::none; }
};
struct AlwaysPublic final : RightTransform {
  using RightTransform::RightTransform;
  Statistic statistic() const override { return Statistic::is_public; }
};

template <class Impl>
Findings findings() {
  return findings_on<Transform, Impl>({statistics_param()});
}

}  // namespace

namespace {

/// One client for each value of the first feature.
class GivenPartition : public Transform, public Partition {
 public:
  explicit GivenPartition(const Params&) {}
  ExampleShape output_shape(const ExampleShape& input) const override { return input; }
  void fit(Dataset&) override {}
  void apply(Dataset&) const override {}
  Statistic statistic() const override { return Statistic::none; }
  std::vector<std::uint32_t> clients_of(const Dataset& train, std::uint64_t,
                                        const RandomSource&) const override {
    std::vector<std::uint32_t> owners;
    std::vector<float> features(train.row_size()), target(1);
    for (std::uint32_t row = 0; row < train.rows(); ++row) {
      train.gather({&row, 1}, features, target);
      owners.push_back(static_cast<std::uint32_t>(features[0]));
    }
    return owners;
  }
  std::vector<std::uint64_t> sizes(std::uint64_t, std::uint64_t,
                                   const RandomSource&) const override {
    return {};
  }
  bool looks_at_examples() const override { return true; }
  bool is_drawn() const override { return false; }
};

/// Deals examples out like cards: if one is missing, all later ones go to other clients.
struct DealsOut final : GivenPartition {
  using GivenPartition::GivenPartition;
  std::vector<std::uint32_t> clients_of(const Dataset& train, std::uint64_t clients,
                                        const RandomSource&) const override {
    std::vector<std::uint32_t> owners;
    for (std::uint32_t row = 0; row < train.rows(); ++row)
      owners.push_back(row % static_cast<std::uint32_t>(clients));
    return owners;
  }
};
struct DrawsInSecret final : GivenPartition {
  using GivenPartition::GivenPartition;
  std::vector<std::uint32_t> clients_of(const Dataset& train, std::uint64_t clients,
                                        const RandomSource& random) const override {
    const auto stream = random.stream(0);
    std::vector<std::uint32_t> owners(train.rows());
    for (std::uint32_t& owner : owners)
      owner = static_cast<std::uint32_t>(stream->uniform_below(clients));
    return owners;
  }
};

struct DrawsInTheOpen final : GivenPartition {
  using GivenPartition::GivenPartition;
  bool is_drawn() const override { return true; }
};

}  // namespace

TEST_CASE("each rule of transforms can fail") {
  check_rules_can_fail(
      findings<RightTransform>(),
      {{"accepts_a_shape", "refuses", findings<RefusesAll>()},
       {"accepts_a_shape", "threw NumericError", findings<RefusesOddly>()},
       {"applies_as_told", "output_shape() said 6 x 1 x 1",
        findings_on("transform/tells_another_shape")},
       {"applies_as_told", "number of classes", findings_on("transform/tells_more_classes")},
       {"applies_as_told", "changed targets", findings_on("transform/changes_targets")},
       {"applies_as_told", "IoError", findings<DividesByZero>()},
       {"fit_changes_no_example", "changed the examples", findings_on("transform/changes_in_fit")},
       {"is_repeatable", "the second time", findings_on("transform/counts_calls")},
       {"treats_every_split_alike", "among a few", findings_on("transform/own_mean_per_split")},
       {"a_row_is_a_function_of_itself", "after other examples",
        findings_on("transform/running_sums")},
       {"a_row_is_a_function_of_itself", "not finite",
        findings_on("transform/caught_by_an_outlier")},
       {"a_row_is_a_function_of_itself", "elsewhere in memory", findings<FollowsAlignment>()},
       {"a_row_is_a_function_of_itself", "writes outside", findings<WritesBeside>()},
       {"a_row_is_a_function_of_itself", "after fit()", findings<ByRowAtFirst>()},
       {"apply_agrees_with_apply_row", "than apply_row()", findings<RoundsTogether>()},
       {"rows_at_once_are_those_of_one", "than apply_row()", findings<SpillsOver>()},
       {"what_it_learnt_can_be_put_back", "after fit()", findings<RestorableAtFirst>()},
       {"what_it_learnt_can_be_put_back", "other bits", findings<ForgetsDigits>()},
       {"what_it_learnt_can_be_put_back", "the second time",
        findings_on("transform/gives_other_numbers_later")},
       {"what_it_learnt_can_be_put_back", "'../mean'", findings<NamesATensorOddly>()},
       {"what_it_cannot_have_learnt_is_refused", "does not know", findings<TakesAnyTensor>()},
       {"what_it_cannot_have_learnt_is_refused", "not a number", findings<TakesAnyNumber>()},
       {"what_it_cannot_have_learnt_is_refused", "changed the transform", findings<HalfRestored>()},
       {"without_numbers_it_needs_no_fit", "before fit()", findings<NoStatistic>()},
       {"without_numbers_it_needs_no_fit", "fitted_values() gives some",
        findings_on("transform/learns_nothing_and_gives_a_row")},
       {"its_operations_are_what_it_does", "by row_operations()",
        findings_on("transform/tells_another_sign")},
       {"its_operations_are_what_it_does", "another number of features",
        findings<TellsOfOneFeature>()},
       {"its_operations_are_what_it_does", "divides by 0", findings<TellsADivisionByZero>()},
       {"its_operations_are_what_it_does", "by row_operations()", findings<TellsAnotherOrder>()},
       {"its_operations_are_what_it_does", "takes feature", findings<TellsOfAFeatureTooMany>()},
       {"survives_equal_examples", "not a privgrad::Error", findings<FailsOnEqual>()},
       {"instances_are_independent", "changed this one", findings<Shared>()},
       {"says_where_its_numbers_come_from", "after fit()", findings<ChangesStatistic>()},
       {"statistics_of_private_rows_are_declared", "says that it does not",
        findings<NoStatistic>()},
       {"statistics_of_private_rows_are_declared", "with statistic: unaccounted",
        findings<SavesARow>()},
       {"statistics_of_private_rows_are_declared", "with statistic: unaccounted",
        findings<AlwaysPublic>()},
       {"a_given_partition_moves_no_example", "lies elsewhere", findings_on<Transform, DealsOut>()},
       {"a_given_partition_moves_no_example", "depends on the random numbers",
        findings_on<Transform, DrawsInSecret>()}},
      // The last five: statistic_rules_test.cpp.
      {"a_given_partition_moves_no_example", "without_numbers_it_needs_no_fit",
       "asks_for_the_statistic_that_it_says", "a_contribution_is_within_its_bound",
       "a_contribution_is_a_function_of_its_row", "pieces_are_the_contribution",
       "what_is_released_can_be_learnt", "it_learns_from_the_release_alone"});
}

TEST_CASE("a transform that uses no numbers passes without having been fitted") {
  CHECK(find_rule(findings_on<Transform, DrawsInTheOpen>(), "without_numbers_it_needs_no_fit")
            ->verdict == Verdict::passed);
}

TEST_CASE(
    "a partition that the data gives passes the rule of those, and one that draws is left out") {
  const Findings given = findings_on<Transform, GivenPartition>();
  CHECK(find_rule(given, "a_given_partition_moves_no_example")->verdict == Verdict::passed);
  const Findings drawn = findings_on<Transform, DrawsInTheOpen>();
  CHECK(find_rule(drawn, "a_given_partition_moves_no_example")->verdict == Verdict::skipped);
}

TEST_CASE("rows do not count as public unless the manifest says so") {
  const auto with = [](std::vector<ParamSpec> params) {
    return findings_on<Transform, RightTransform>(std::move(params));
  };
  CHECK(not_caught(with({param::text("statistic", "Whose.")
                             .one_of({"unaccounted", "public"})
                             .defaults_to("public")}),
                   "statistics_of_private_rows_are_declared", "unless the manifest says so") == "");
}

}  // namespace data_rules_test

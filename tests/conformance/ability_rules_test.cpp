// Optional abilities, each with the faults that its rule has to notice.
#include <cmath>

#include "broken.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/error.hpp"
#include "privgrad/federated.hpp"
#include "privgrad/influence.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/run_facts.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/streamed_rows.hpp"

namespace ability_rules_test {

using namespace privgrad;
using privgrad::testing::Verdict;

namespace {

template <class Interface, class Impl>
void check_noticed(const std::string& rule, const std::string& text) {
  CHECK(not_caught(findings_on<Interface, Impl>(), rule, text) == "");
}

template <class Interface, class Impl>
void check_passes(const std::string& rule) {
  const Findings findings = findings_on<Interface, Impl>();
  const auto* finding = find_rule(findings, rule);
  REQUIRE(finding != nullptr);
  INFO(finding->detail);
  CHECK(finding->verdict == Verdict::passed);
}

// ---- missing_hardware()

/// Requires hardware that no machine has.
struct Elsewhere : Backend {
  explicit Elsewhere(const Params&) {}
  std::unique_ptr<Program> compile(const Network&, Executor&) override {
    throw ConfigError("backend elsewhere: " + missing_hardware());
  }
  std::string missing_hardware() const override { return "there is no such thing"; }
};
struct ChangesItsMind final : Elsewhere {
  using Elsewhere::Elsewhere;
  std::string missing_hardware() const override { return std::to_string(++asked_); }
  mutable int asked_ = 0;
};
struct Verbose final : Elsewhere {
  using Elsewhere::Elsewhere;
  std::string missing_hardware() const override { return "there is\nno such thing"; }
};
struct Sentence final : Elsewhere {
  using Elsewhere::Elsewhere;
  std::string missing_hardware() const override { return "There is no such thing."; }
};
struct OtherWords final : Elsewhere {
  using Elsewhere::Elsewhere;
  std::unique_ptr<Program> compile(const Network&, Executor&) override { throw ConfigError("no"); }
};
struct RunsAllTheSame final : Elsewhere {
  using Elsewhere::Elsewhere;
  std::unique_ptr<Program> compile(const Network&, Executor&) override { return nullptr; }
};

// ---- AdaptiveLocalIterations, influence()

struct One : Schedule {
  explicit One(const Params&) {}
  void start(const Horizon& horizon) override { steps = horizon.steps; }
  double value(std::uint64_t) const override { return 1.0; }
  bool is_shape() const override { return false; }
  std::uint64_t steps = 0;
};

struct Rounds : One, AdaptiveLocalIterations {
  using One::One;
  bool start_rounds(std::uint64_t, std::uint64_t) override { return true; }
  std::uint64_t next(const FederatedProgress& progress) override { return 1 + progress.last; }
};
struct NoSteps final : Rounds {
  using Rounds::Rounds;
  std::uint64_t next(const FederatedProgress& progress) override {
    return progress.smoothness ? static_cast<std::uint64_t>(1.0 / (1.0 + *progress.smoothness)) : 1;
  }
};
struct OtherSteps final : Rounds {
  using Rounds::Rounds;
  std::uint64_t next(const FederatedProgress&) override {
    static std::uint64_t calls = 0;
    return ++calls;
  }
};

struct Influenced : One {
  using One::One;
  void start(const Horizon& horizon) override { values.assign(horizon.steps, 2.0); }
  std::optional<NoiseInfluence> influence() const override { return NoiseInfluence{values}; }
  std::vector<double> values;
};
struct NoInfluence final : Influenced {
  using Influenced::Influenced;
  std::optional<NoiseInfluence> influence() const override { return NoiseInfluence{}; }
};
struct ZeroInfluence final : Influenced {
  using Influenced::Influenced;
  void start(const Horizon& horizon) override { values.assign(horizon.steps, 0.0); }
};

// ---- auto_learning_rate()

struct Descends : Optimizer {
  explicit Descends(const Params&) {}
  void start(std::size_t) override {}
  void step(std::span<float> parameters, const Released&, const StepContext&) override {
    for (float& x : parameters) x -= 0.1f;
  }
  std::optional<AutoValue> auto_learning_rate(const RunFacts&) const override {
    return AutoValue{"learning_rate", 0.5, "of this test"};
  }
};
struct NoRate final : Descends {
  using Descends::Descends;
  std::optional<AutoValue> auto_learning_rate(const RunFacts& facts) const override {
    return AutoValue{"learning_rate", 1.0 - facts.target_epsilon.value_or(8.0) / 8.0,
                     "of this test"};
  }
};
struct NoReason final : Descends {
  using Descends::Descends;
  std::optional<AutoValue> auto_learning_rate(const RunFacts&) const override {
    return AutoValue{"", 0.5, ""};
  }
};

// ---- files(), foreseen_info()

struct Rows : DataSource {
  explicit Rows(const Params&) {}
  DataInfo info() override {
    DataInfo info;
    info.shape.features = {2};
    info.train_rows = 3;
    info.train_origins = {{"1:2", "rows"}};
    return info;
  }
  Dataset read(Split) override { throw IoError("not needed here"); }
  std::vector<std::filesystem::path> files() override { return {"/proc/self/exe"}; }
};
struct FromNowhere final : Rows {
  using Rows::Rows;
  DataInfo info() override {
    DataInfo info = Rows::info();
    info.train_origins.clear();
    return info;
  }
};
struct Foresees : Rows {
  using Rows::Rows;
  std::optional<DataInfo> foreseen_info() override { return info(); }
};
struct ForeseesTooMuch final : Foresees {
  using Foresees::Foresees;
  std::optional<DataInfo> foreseen_info() override {
    DataInfo info = Rows::info();
    info.unaccounted = {"number of classes (classes)"};
    return info;
  }
};
struct ForeseesOtherRows final : Foresees {
  using Foresees::Foresees;
  std::optional<DataInfo> foreseen_info() override {
    DataInfo info = Rows::info();
    info.first_rows_only = true;
    return info;
  }
};
struct ForeseesOtherFiles final : Foresees {
  using Foresees::Foresees;
  std::optional<DataInfo> foreseen_info() override {
    DataInfo info = Rows::info();
    info.train_origins = {{"1:3", "rows"}};
    return info;
  }
};
struct ForeseesOtherShape final : Foresees {
  using Foresees::Foresees;
  std::optional<DataInfo> foreseen_info() override {
    DataInfo info = Rows::info();
    info.shape.classes = 3;
    return info;
  }
};
struct ForeseesNoTargets final : Foresees {
  using Foresees::Foresees;
  std::optional<DataInfo> foreseen_info() override {
    DataInfo info = Rows::info();
    info.has_targets = false;
    return info;
  }
};
struct LostFiles final : Rows {
  using Rows::Rows;
  std::vector<std::filesystem::path> files() override { return {"/nowhere/at/all"}; }
};

// ---- suggest()

struct Suggests : Rows {
  using Rows::Rows;
  std::optional<Value> suggest() override { return Value(Value::Object{}); }
};
struct SuggestsUnknown final : Suggests {
  using Suggests::Suggests;
  std::optional<Value> suggest() override { return Value(Value::Object{{"columns", 3, {}}}); }
};
struct SuggestsOtherRows final : Suggests {
  explicit SuggestsOtherRows(const Params& params) : Suggests(params), place(++made) {}
  DataInfo info() override {
    DataInfo info = Suggests::info();
    info.train_rows = place;
    return info;
  }
  static inline std::size_t made = 0;
  std::size_t place;
};

// ---- columns()

/// Three training rows with one number each; the table has one more column.
struct Keeps : DataSource {
  explicit Keeps(const Params&) {}
  DataInfo info() override {
    DataInfo info;
    info.shape.features = {1};
    info.train_rows = 3;
    info.feature_names = {"a"};
    return info;
  }
  Dataset read(Split split) override {
    if (split == Split::test) return Dataset({{1}, 0}, std::vector<float>{}, {});
    return Dataset({{1}, 0}, std::vector<float>{1, 2, 3}, {4, 5, 6});
  }
  std::vector<std::string> columns() override { return {"a", "id"}; }
  void keep(std::vector<std::string> given) override { names = std::move(given); }
  std::vector<std::vector<std::string>> kept(Split split) override {
    return std::vector<std::vector<std::string>>(
        names.size(), std::vector<std::string>(split == Split::train ? 3 : 0));
  }
  std::vector<std::string> names;
};
struct KeepsNothing final : Keeps {
  using Keeps::Keeps;
  std::vector<std::vector<std::string>> kept(Split) override { return {}; }
};
struct KeepsFewerRows final : Keeps {
  using Keeps::Keeps;
  std::vector<std::vector<std::string>> kept(Split) override {
    return {names.size(), std::vector<std::string>(2)};
  }
};
struct KeepsAsFeature final : Keeps {
  using Keeps::Keeps;
  DataInfo info() override {
    DataInfo info = Keeps::info();
    if (!names.empty()) info.feature_names = names;
    return info;
  }
};
struct KeepsOtherNumbers final : Keeps {
  using Keeps::Keeps;
  Dataset read(Split split) override {
    if (names.empty() || split == Split::test) return Keeps::read(split);
    return Dataset({{1}, 0}, std::vector<float>{1, 2, 4}, {4, 5, 6});
  }
};
// ---- StreamedRows

/// Three training rows and one test row of two numbers each, passed on one by one.
struct Streams : Rows, StreamedRows {
  using Rows::Rows;
  DataInfo info() override {
    DataInfo info = Rows::info();
    info.test_rows = 1;
    info.has_test_split = true;
    info.feature_names = {"a", "b"};
    return info;
  }
  Dataset read(Split split) override {
    if (split == Split::test) return Dataset({{2}, 0}, std::vector<float>{7, 8}, {9});
    return Dataset({{2}, 0}, std::vector<float>{1, 2, 3, 4, 5, 6}, {1, 2, 3});
  }
  DataInfo stream(const std::function<void(const RowBlock&)>& take) override {
    double done = 0.0;
    for (const Split split : {Split::train, Split::test}) {
      Dataset rows = read(split);
      const auto features = std::span<const float>(rows.features());
      for (std::size_t i = 0; i < rows.rows(); ++i) {
        done += 0.25;
        take(changed({.split = split,
                      .features = features.subspan(2 * i, 2),
                      .scale = 1.0f,
                      .targets = rows.targets().subspan(i, 1),
                      .done = done}));
      }
    }
    return info();
  }
  virtual RowBlock changed(RowBlock block) { return block; }
};
struct StreamsOtherNumbers final : Streams {
  using Streams::Streams;
  RowBlock changed(RowBlock block) override {
    block.features = std::span<const float>(numbers);
    return block;
  }
  std::vector<float> numbers{1, 2};
};
struct StreamsOtherTargets final : Streams {
  using Streams::Streams;
  RowBlock changed(RowBlock block) override {
    block.targets = target;
    return block;
  }
  std::vector<float> target{1};
};
struct StreamsOneSplit final : Streams {
  using Streams::Streams;
  RowBlock changed(RowBlock block) override {
    block.split = Split::train;
    return block;
  }
};
struct StreamsOnce final : Streams {
  using Streams::Streams;
  DataInfo stream(const std::function<void(const RowBlock&)>& take) override {
    return ++calls == 1 ? Streams::stream(take) : info();
  }
  int calls = 0;
};
struct StreamsNothing final : Streams {
  using Streams::Streams;
  RowBlock changed(RowBlock block) override {
    block.targets = {};
    return block;
  }
};
struct GoesBack final : Streams {
  using Streams::Streams;
  RowBlock changed(RowBlock block) override {
    block.done = 1.0 - block.done;
    return block;
  }
};
struct MixesScales final : Streams {
  using Streams::Streams;
  RowBlock changed(RowBlock block) override {
    block.scale = static_cast<float>(block.done);
    return block;
  }
};
struct TellsLessAfterwards final : Streams {
  using Streams::Streams;
  DataInfo stream(const std::function<void(const RowBlock&)>& take) override {
    DataInfo info = Streams::stream(take);
    info.feature_names.clear();
    return info;
  }
};
struct HearsNoRefusal final : Streams {
  using Streams::Streams;
  DataInfo stream(const std::function<void(const RowBlock&)>& take) override {
    return Streams::stream([&](const RowBlock& block) {
      try {
        take(block);
      } catch (...) {  // NOLINT(bugprone-empty-catch)
      }
    });
  }
};
struct StreamsFromNowhere final : DataSource, StreamedRows {
  explicit StreamsFromNowhere(const Params& params) : rows(params) {}
  DataInfo info() override { return rows.info(); }
  Dataset read(Split split) override { return rows.read(split); }
  DataInfo stream(const std::function<void(const RowBlock&)>& take) override {
    return rows.stream(take);
  }
  Streams rows;
};

// ---- is_filter()

struct Filter : Accountant {
  explicit Filter(const Params&) {}
  bool is_filter() const override { return true; }
  void start(Adjacency) override { rho = 0.0; }
  std::optional<std::string> refuses(const Event& event) const override {
    if (std::get_if<ZcdpEvent>(&event.kind()) != nullptr) return std::nullopt;
    return "it takes zcdp alone";
  }
  void compose(const Event& event, std::uint64_t count) override {
    if (const auto reason = refuses(event)) throw PrivacyError(*reason);
    rho += static_cast<double>(count) * std::get_if<ZcdpEvent>(&event.kind())->rho;
  }
  PrivacyAnswer epsilon(double delta) const override {
    return {.value = rho + 2.0 * std::sqrt(rho * std::log(1.0 / delta)),
            .bound = BoundKind::upper,
            .lower = {},
            .note = {}};
  }
  PrivacyAnswer delta(double) const override {
    return {.value = 1.0, .bound = BoundKind::upper, .lower = {}, .note = {}};
  }
  double rho = 0.0;
};
struct Flat final : Filter {
  using Filter::Filter;
  PrivacyAnswer epsilon(double) const override {
    return {.value = 3.0, .bound = BoundKind::upper, .lower = {}, .note = {}};
  }
};
struct NoRho final : Filter {
  using Filter::Filter;
  std::optional<std::string> refuses(const Event& event) const override {
    if (std::get_if<GaussianEvent>(&event.kind()) != nullptr) return std::nullopt;
    return "it takes gaussian alone";
  }
  void compose(const Event& event, std::uint64_t) override {
    if (const auto reason = refuses(event)) throw PrivacyError(*reason);
  }
};

}  // namespace

TEST_CASE("the rule of missing hardware can fail") {
  const std::string rule = "says_what_hardware_is_missing";
  check_passes<Backend, Elsewhere>(rule);
  check_noticed<Backend, ChangesItsMind>(rule, "differs at the second call");
  check_noticed<Backend, Verbose>(rule, "one line");
  check_noticed<Backend, Sentence>(rule, "one line");
  check_noticed<Backend, OtherWords>(rule, "another message");
  check_noticed<Backend, RunsAllTheSame>(rule, "says that it cannot");
}

TEST_CASE("the rule of adaptive local iterations can fail") {
  const std::string rule = "local_iterations_are_above_0_and_repeatable";
  check_passes<Schedule, Rounds>(rule);
  check_noticed<Schedule, NoSteps>(rule, "gave 0 local steps");
  check_noticed<Schedule, OtherSteps>(rule, "another instance");
}

TEST_CASE("the rules of streamed rows can fail") {
  const std::string rule = "streams_what_it_reads";
  check_passes<DataSource, Streams>(rule);
  check_noticed<DataSource, StreamsOtherNumbers>(rule, "other training features");
  check_noticed<DataSource, StreamsOtherTargets>(rule, "other training targets");
  check_noticed<DataSource, StreamsOneSplit>(rule, "4 training rows, read() has 3");
  check_noticed<DataSource, StreamsOnce>(rule, "0 training rows");
  check_noticed<DataSource, StreamsNothing>(rule, "a block without rows");
  check_noticed<DataSource, GoesBack>(rule, "0.5 of the reading is done, after 0.75");
  check_noticed<DataSource, MixesScales>(rule, "different types or scales");
  check_noticed<DataSource, TellsLessAfterwards>(rule, "another answer than info()");
  const std::string stops = "stops_streaming_where_rows_are_refused";
  check_passes<DataSource, Streams>(stops);
  check_noticed<DataSource, HearsNoRefusal>(stops, "continues after");
  const std::string named = "streams_rows_of_files_that_it_names";
  check_passes<DataSource, Streams>(named);
  check_noticed<DataSource, StreamsFromNowhere>(named, "names none");
}

TEST_CASE("the rule of schedules made from an influence can fail") {
  const std::string rule = "influence_is_known_for_every_step";
  check_passes<Schedule, Influenced>(rule);
  check_noticed<Schedule, NoInfluence>(rule, "gave 0 values");
  check_noticed<Schedule, ZeroInfluence>(rule, "gave 0, expected a finite number above 0");
}

TEST_CASE("the rule of chosen learning rates can fail") {
  const std::string rule = "chosen_learning_rates_are_finite_and_above_0";
  check_passes<Optimizer, Descends>(rule);
  check_noticed<Optimizer, NoRate>(rule, "auto_learning_rate() gave 0");
  check_noticed<Optimizer, NoReason>(rule, "gave no reason");
}

TEST_CASE("the rule of named data files can fail") {
  const std::string rule = "names_files_that_exist";
  check_passes<DataSource, Rows>(rule);
  check_noticed<DataSource, LostFiles>(rule, "which is not a file");
  check_noticed<DataSource, FromNowhere>("tells_what_it_holds", "train_origins");
}

TEST_CASE("the rule of foreseen facts can fail") {
  const std::string rule = "foresees_what_it_tells";
  check_passes<DataSource, Foresees>(rule);
  check_noticed<DataSource, ForeseesTooMuch>(rule, "lists 1 unaccounted facts, and info() 0");
  check_noticed<DataSource, ForeseesOtherRows>(rule, "which rows are chosen");
  check_noticed<DataSource, ForeseesOtherFiles>(rule, "where the rows are from");
  check_noticed<DataSource, ForeseesOtherShape>(rule, "in the shape of the rows");
  check_noticed<DataSource, ForeseesNoTargets>(rule, "whether the rows have targets");
}

TEST_CASE("the rule of suggested parameters can fail") {
  const std::string rule = "suggests_parameters_that_it_takes";
  check_passes<DataSource, Suggests>(rule);
  check_noticed<DataSource, SuggestsUnknown>(rule, "columns");
  check_noticed<DataSource, SuggestsOtherRows>(rule, "it has other rows");
}

TEST_CASE("the rule of kept columns can fail") {
  const std::string rule = "keeps_columns_beside_the_rows";
  check_passes<DataSource, Keeps>(rule);
  check_noticed<DataSource, KeepsNothing>(rule, "0 columns of 2");
  check_noticed<DataSource, KeepsFewerRows>(rule, "2 texts of 3 rows");
  check_noticed<DataSource, KeepsAsFeature>(rule, "change its features");
  check_noticed<DataSource, KeepsOtherNumbers>(rule, "change the values");
}

TEST_CASE("the rule of privacy filters can fail") {
  const std::string rule = "a_privacy_filter_takes_rho_and_grows_with_it";
  check_passes<Accountant, Filter>(rule);
  check_noticed<Accountant, Flat>(rule, "not above the epsilon of a smaller rho");
  check_noticed<Accountant, NoRho>(rule, "refuses zcdp");
}

TEST_CASE("rules that are checked one at a time find what they find together") {
  for (const bool right : {true, false}) {
    Registrar registrar;
    const ComponentInfo info{
        .name = "fixture", .summary = "Of this test.", .reference = "none", .params = {}};
    if (right) {
      registrar.add<Schedule, Rounds>(info);
    } else {
      registrar.add<Schedule, NoSteps>(info);
    }
    Catalog catalog;
    catalog.add(std::make_shared<PluginIdentity>(), nullptr, registrar.factories());
    const Component& component = catalog.components().front();
    const Findings together = privgrad::testing::check_component(component, test_setup());
    Findings one_by_one;
    std::vector<std::string> begun;
    while (privgrad::testing::check_next_rule(
        component, test_setup(), one_by_one,
        [&](const std::string& rule) { begun.push_back(rule); },
        [&](const privgrad::testing::Finding& finding) { one_by_one.push_back(finding); })) {
    }
    REQUIRE(one_by_one.size() == together.size());
    for (std::size_t i = 0; i < together.size(); ++i) {
      CHECK(one_by_one[i].rule == together[i].rule);
      CHECK(one_by_one[i].verdict == together[i].verdict);
      CHECK(one_by_one[i].detail == together[i].detail);
    }
    CHECK(begun.size() + 1 == together.size());  // all except the last, which is the whole suite
  }
}

TEST_CASE("what holds once and not again is a broken promise of the suite as a whole") {
  /// Refuses its horizons from the third run of the suite on.
  struct Fickle final : One {
    using One::One;
    void start(const Horizon& horizon) override {
      static int starts = 0;
      if (++starts > 25) throw ConfigError("not any more");
      One::start(horizon);
    }
  };
  Registrar registrar;
  registrar.add<Schedule, Fickle>(
      {.name = "fixture", .summary = "Of this test.", .reference = "none", .params = {}});
  Catalog catalog;
  catalog.add(std::make_shared<PluginIdentity>(), nullptr, registrar.factories());
  Findings found;
  while (found.size() < 100 &&
         privgrad::testing::check_next_rule(
             catalog.components().front(), test_setup(), found, [](const std::string&) {},
             [&](const privgrad::testing::Finding& finding) { found.push_back(finding); })) {
  }
  CHECK(not_caught(found, std::string(privgrad::testing::kWholeSuite),
                   "accepts_a_horizon held at first, but not when it was repeated") == "");
}

}  // namespace ability_rules_test

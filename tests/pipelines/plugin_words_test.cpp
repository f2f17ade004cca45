// Texts of plugins in the files of a run: the files are UTF-8 whatever bytes a plugin
// returns.
#include <nlohmann/json.hpp>

#include "fake_accountant.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "test_components.hpp"
#include "train.hpp"

using namespace privgrad;

namespace {

constexpr const char* kReplaced = "caf\xef\xbf\xbd";  // U+FFFD

/// Claims far more than can be proved, with a note in Latin-1.
class Latin1 final : public Accountant {
 public:
  explicit Latin1(const Params&) {}
  void start(Adjacency adjacency) override { counts_.start(adjacency); }
  std::optional<std::string> refuses(const Event& event) const override {
    return counts_.refuses(event) ? std::optional<std::string>("caf\xe9") : std::nullopt;
  }
  void compose(const Event& event, std::uint64_t count) override { counts_.compose(event, count); }
  PrivacyAnswer epsilon(double delta) const override {
    PrivacyAnswer answer = noted(counts_.epsilon(delta));
    answer.value *= 100.0;
    return answer;
  }
  PrivacyAnswer delta(double epsilon) const override { return noted(counts_.delta(epsilon)); }

 private:
  static PrivacyAnswer noted(PrivacyAnswer answer) {
    answer.note = "caf\xe9";
    return answer;
  }
  CountingAccountant counts_;
};

constexpr const char* kOneStepOfWords = R"(privgrad: 1
name: base
seed: 1
data: {kind: synthetic, rows: 60, dimensions: 4}
model: {kind: linear}
sampler: {kind: full_batch}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 2, clip_norm: 1, learning_rate: 0.5}
privacy: {target_epsilon: 1000, target_delta: 1e-5, adjacency: zero_out, accountant: latin1}
steps: 4
)";

/// A data source with parameters in Latin-1, which are not used to read other files.
class Latin1Source final : public DataSource {
 public:
  explicit Latin1Source(const Params&) {}
  DataInfo info() override {
    Value reading{Value::Object{}};
    reading.set("column",
                "gr\xf6\xdf"
                "e");
    DataInfo info;
    info.shape = {{1}, 2};
    info.train_rows = 2;
    info.reading = reading;
    return info;
  }
  Dataset read(Split) override { return {{{1}, 2}, std::vector<float>{1, -1}, {1, 0}}; }
};

const Catalog& wordy_parts() {
  static const Catalog catalog = house_with(
      {offer<Accountant, Latin1>("latin1"), offer<DataSource, Latin1Source>("latin1_source")});
  return catalog;
}

}  // namespace

TEST_CASE("a source's parameters for other files that are not UTF-8 are refused by the plan") {
  Experiment experiment(kOneStepOfWords, {"data=latin1_source", "privacy.accountant=zcdp"},
                        wordy_parts());
  CHECK_THROWS_WITH(experiment.plan(),
                    ContainsSubstring("latin1_source: its reading has a text that is not UTF-8"));
}

TEST_CASE("an accountant's note that is not UTF-8 is written with U+FFFD in its place") {
  for (const bool guards : {true, false}) {
    INFO((guards ? "the accountant that guards the budget" : "another one"));
    std::vector<std::string> overrides;
    if (!guards) overrides = {"privacy.accountant=zcdp", "privacy.also=[latin1]"};
    Experiment experiment(kOneStepOfWords, overrides, wordy_parts());
    CHECK(experiment.run().status == core::RunStatus::completed);
    for (const char* file : {"statement.json", "summary.json"}) {
      const std::string text = read_file(experiment.run_dir() / file);
      INFO(file << ": " << text);
      CHECK(nlohmann::json::accept(text));
      if (guards) CHECK_THAT(text, ContainsSubstring(kReplaced));
    }
    CHECK_THAT(core::to_json(core::plan_facts(experiment.plan())).dump(),
               ContainsSubstring(kReplaced));
  }
}

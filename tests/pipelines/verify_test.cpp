#include "verify.hpp"
#include "privgrad/train/run_output.hpp"
#include "privgrad/trust/event_json.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>

namespace verify {

namespace {

struct Kind {
  const char* manifest;
  Overrides overrides;
};

/// Every way in which a run charges.
const std::vector<Kind> kKinds{
    {kCentral, {}},
    {kCentral, {"seed=null"}},
    {kCentral, {"privacy.adjacency=zero_out", "privacy.accountant=pld"}},
    {kCentral, {"sampler={kind: fixed_size, batch_size: 20}", "privacy.adjacency=replace_one"}},
    {kCentral, {"schedules.noise_multiplier=1", "steps=200"}},
    {kCentral, {"clipping={kind: adaptive}"}},
    {kCentral, {"privacy.target_epsilon=null", "schedules.noise_multiplier=2"}},
    {kCentral, {"data.size=150", "aggregator={kind: gaussian, arithmetic: float}"}},
    {kCentral, {"output=random_iterate"}},
    {kCorrelated, {}},
    {kCorrelated, {"seed=7"}},
    {kCorrelated,
     {"aggregator={kind: tree_reduced, momentum: 0.9, smoothness: 10}",
      "optimizer={kind: normalized_sgd}", "sampler.fresh=false",
      "schedules={clip_norm: 1.0, learning_rate: 0.02}", "steps=80"}},
    {kAdaptive, {}},
    {kAdaptive,
     {"schedules.noise_multiplier={kind: validation, initial: 20, every: 5, threshold: 0.01, "
      "factor: 0.8}"}},
    {kFederated, {}},
    {kFederated, {"seed=null", "federated.client_drop_rate=0.3"}},
    {kFederated, {"federated.local_iterations={kind: ali_dpfl}", "federated.rounds=8"}},
    {kFederated,
     {"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1",
      "privacy.target_epsilon=200"}},
    {kFederated, {"federated.partition={kind: dirichlet, alpha: 1}"}},
};

/// Returns the positions of the numbers in a text.
std::vector<std::size_t> numbers_in(const std::string& text) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = std::isdigit(static_cast<unsigned char>(text[i])) != 0 &&
                        (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0);
    if (begins) places.push_back(i);
  }
  return places;
}

/// A run to edit; each change by a test is undone.
class Edited {
 public:
  explicit Edited(fs::path run) : run_(std::move(run)) {}

  /// \returns the problems of the run while `file` has this content.
  std::string problems_with(const std::string& file, const std::string& text) const {
    const std::string before = read_file(run_ / file);
    write_file(run_ / file, text);
    const auto result = check(run_);
    write_file(run_ / file, before);
    return all_of(result.problems);
  }

  std::string problems_without(const std::string& file) const {
    fs::rename(run_ / file, run_ / "kept");
    const auto result = check(run_);
    fs::rename(run_ / "kept", run_ / file);
    return all_of(result.problems);
  }

  const fs::path& path() const { return run_; }

 private:
  fs::path run_;
};

}  // namespace

TEST_CASE("every kind of run verifies from its files alone", "[verify]") {
  for (const Kind& kind : kKinds) {
    INFO(kind.manifest << all_of(kind.overrides));
    Experiment experiment(kind.manifest, kind.overrides);
    const auto result = experiment.run();
    const auto verified = check(experiment.run_dir());
    INFO(all_of(verified.problems));
    CHECK(verified.verified());
    REQUIRE(verified.epsilon.has_value());
    CHECK(*verified.epsilon == result.epsilon.value);
    CHECK(verified.delta == 1e-5);
    REQUIRE_FALSE(verified.accountants.empty());
    for (const auto& [name, answer] : verified.accountants.items()) {
      INFO(name);
      CHECK(answer.at("bound") != "estimate");
    }
  }
}

TEST_CASE("a run that diverged verifies as what all of its steps would have cost", "[verify]") {
  Experiment experiment(kCentral, {"schedules.learning_rate=1e38", "schedules.clip_norm=1e10"});
  const auto result = experiment.run();
  REQUIRE(result.status == core::RunStatus::diverged);
  CHECK(result.summary.at("accounted_event") == core::to_json(experiment.plan().event));
  const auto verified = check(experiment.run_dir());
  INFO(all_of(verified.problems));
  CHECK(verified.verified());
  CHECK(verified.epsilon == result.epsilon.value);
}

TEST_CASE("no data is needed to verify a run", "[verify]") {
  Experiment experiment(kCentral, {"data={kind: csv, train: rows.csv, target: y}"});
  std::string rows = "a,b,y\n";
  for (int i = 0; i < 50; ++i)
    rows +=
        std::to_string(i % 7) + "," + std::to_string(i % 5) + "," + std::to_string(i % 2) + "\n";
  write_file(experiment.dir() / "rows.csv", rows);
  experiment.run();
  fs::remove(experiment.dir() / "rows.csv");
  const auto verified = check(experiment.run_dir());
  INFO(all_of(verified.problems));
  CHECK(verified.verified());
}

TEST_CASE("without noise there is no guarantee to verify", "[verify]") {
  Experiment experiment(kCentral, {"privacy.noise=off"});
  experiment.run();
  CHECK(check(experiment.run_dir()).problems ==
        std::vector<std::string>{"manifest.yaml: noise is off: there is no guarantee to verify"});
}

TEST_CASE("a client's guarantee is that of its own ledger", "[verify]") {
  Experiment experiment(kFederated);
  experiment.run();
  const core::RecordDirectory run(experiment.run_dir());
  for (std::size_t client = 0; client < 3; ++client) {
    const auto verified = core::verify_run(run, house(), client);
    const auto ledger = core::read_ledger(experiment.run_dir() / "ledgers" /
                                          ("client-" + std::to_string(client) + ".jsonl"));
    CHECK(verified.verified());
    CHECK(verified.epsilon == ledger.releases.back().epsilon);
  }
  CHECK_THROWS_AS(core::verify_run(run, house(), 3), ConfigError);
}

TEST_CASE("ledgers of clients are those of one run, and the fullest is what is stated",
          "[verify][privacy]") {
  Experiment experiment(kFederated, {"federated.participation={kind: poisson, sample_rate: 0.4}"});
  experiment.run();
  const fs::path ledgers = experiment.run_dir() / "ledgers", file = ledgers / "client-1.jsonl";
  std::vector<double> spent;
  for (const char* client : {"client-0.jsonl", "client-1.jsonl", "client-2.jsonl"})
    spent.push_back(core::read_ledger(ledgers / client).releases.back().epsilon);
  const double most = *std::max_element(spent.begin(), spent.end());
  REQUIRE(most > spent.front());
  CHECK(check(experiment.run_dir()).epsilon == most);

  const std::vector<Json> lines = json_lines(file);
  const auto problems_with = [&](const char* key, const Json& value) {
    std::vector<Json> changed = lines;
    changed.front()[key] = value;
    write_chain(file, changed);
    const std::string problems = problems_of(experiment);
    write_chain(file, lines);
    return problems;
  };
  CHECK_THAT(problems_with("date", "2020-01-01T00:00:00Z"),
             ContainsSubstring("client-1.jsonl:1: does not say when the run began, as the others"));
  CHECK_THAT(problems_with("data_commitment", std::string(64, 'a')),
             ContainsSubstring("client-1.jsonl:1: is bound to other data than the ledger before"));
  fs::copy_file(file, ledgers / "client-3.jsonl");
  CHECK_THAT(problems_of(experiment),
             ContainsSubstring("ledgers: holds ledgers of clients that the run does not have"));
  fs::rename(ledgers / "client-3.jsonl", ledgers / "client-01.jsonl");
  CHECK_THAT(problems_of(experiment),
             ContainsSubstring("ledgers/client-01.jsonl: is not a ledger of a run"));
}

TEST_CASE("a number that is changed in any file is seen, and its file is named", "[verify]") {
  // At most this many changes per file, evenly spread.
  constexpr std::size_t kMost = 8;
  for (const Kind& kind :
       {kKinds[0], Kind{kFederated, {}}, Kind{kCorrelated, {}}, Kind{kAdaptive, {}}}) {
    Experiment experiment(kind.manifest, kind.overrides);
    experiment.run();
    const Edited run(experiment.run_dir());
    for (const std::string& file : files_of(run.path())) {
      const std::string text = read_file(run.path() / file);
      const std::vector<std::size_t> places = file == "model.safetensors"
                                                  ? std::vector<std::size_t>{text.size() - 1}
                                                  : numbers_in(text);
      const std::size_t stride = std::max<std::size_t>(1, places.size() / kMost);
      for (std::size_t i = 0; i < places.size(); i += stride) {
        std::string changed = text;
        changed[places[i]] = changed[places[i]] == '7' ? '8' : '7';
        INFO(file << " at " << places[i]);
        CHECK_THAT(run.problems_with(file, changed), ContainsSubstring(file));
      }
    }
  }
}

TEST_CASE("a line that is cut, dropped, moved, doubled or added is seen", "[verify]") {
  for (const Kind& kind : {kKinds[0], Kind{kFederated, {}}, Kind{kAdaptive, {}}}) {
    Experiment experiment(kind.manifest, kind.overrides);
    experiment.run();
    const Edited run(experiment.run_dir());
    for (const std::string& file : files_of(run.path())) {
      if (!file.ends_with(".jsonl")) continue;
      const std::vector<std::string> lines = lines_of(run.path() / file);
      REQUIRE(lines.size() >= 2);
      const auto text_of = [](const std::vector<std::string>& all) { return all_of(all); };
      for (const std::size_t at : {std::size_t{0}, lines.size() / 2, lines.size() - 1}) {
        INFO(file << ", line " << at + 1);
        std::vector<std::string> dropped = lines, doubled = lines;
        dropped.erase(dropped.begin() + static_cast<std::ptrdiff_t>(at));
        doubled.insert(doubled.begin() + static_cast<std::ptrdiff_t>(at), lines[at]);
        CHECK_THAT(run.problems_with(file, text_of(dropped)), ContainsSubstring(file));
        CHECK_THAT(run.problems_with(file, text_of(doubled)), ContainsSubstring(file));
      }
      std::vector<std::string> swapped = lines;
      std::swap(swapped[0], swapped[1]);
      CHECK_THAT(run.problems_with(file, text_of(swapped)), ContainsSubstring(file));
      const std::string text = text_of(lines);
      CHECK_THAT(run.problems_with(file, text.substr(0, text.size() - 5)), ContainsSubstring(file));
      CHECK_THAT(run.problems_with(file, text + "{}\n"), ContainsSubstring(file));
      CHECK_THAT(run.problems_with(file, text + "{"), ContainsSubstring(file));
      CHECK_THAT(run.problems_with(file, ""), ContainsSubstring(file));
    }
  }
}

TEST_CASE("a file that is deleted, or is that of another run, is seen", "[verify]") {
  for (const char* manifest : {kCentral, kFederated, kCorrelated, kAdaptive}) {
    Experiment experiment(manifest, {"seed=1"}), other(manifest, {"seed=2"});
    experiment.run();
    other.run();
    const Edited run(experiment.run_dir());
    for (const std::string& file : files_of(run.path())) {
      INFO(manifest << file);
      CHECK_THAT(run.problems_without(file), ContainsSubstring(file));
      const std::string others = read_file(other.run_dir() / file);
      if (others == read_file(run.path() / file)) continue;
      CHECK(run.problems_with(file, others) != "");
    }
  }
}

TEST_CASE("all ledgers deleted is not a run without noise", "[verify]") {
  Experiment experiment(kFederated);
  experiment.run();
  fs::remove_all(experiment.run_dir() / "ledgers");
  CHECK_THAT(all_of(check(experiment.run_dir()).problems),
             ContainsSubstring("ledgers/client-0.jsonl: is missing"));
}

TEST_CASE("a ledger that is chained anew is held against the manifest", "[verify][privacy]") {
  Experiment experiment(kCentral);
  experiment.run();
  const fs::path file = experiment.run_dir() / "ledger.jsonl";
  const std::vector<Json> lines = json_lines(file);
  const auto problems = [&](const auto& change) {
    std::vector<Json> changed = lines;
    change(changed);
    write_chain(file, changed);
    return all_of(check(experiment.run_dir()).problems);
  };
  // The model contains the first line's hash, so this line cannot be changed alone.
  CHECK(problems([](auto&) {}) == "");
  CHECK_THAT(problems([](auto& all) { all[3]["event"]["of"]["noise_multiplier"] = 100.0; }),
             ContainsSubstring("ledger.jsonl:4: is not the release that the plan charges"));
  CHECK_THAT(problems([](auto& all) { all.erase(all.begin() + 5); }),
             ContainsSubstring("ledger.jsonl:6: is not the release that the plan charges"));
  CHECK_THAT(problems([](auto& all) { all.erase(all.begin() + 20); }),
             ContainsSubstring("ledger.jsonl:21: does not state the total of the lines before it"));
  CHECK_THAT(problems([](auto& all) { all.insert(all.begin() + 20, all[20]); }),
             ContainsSubstring("ledger.jsonl:22: is a release that is not planned"));
  CHECK_THAT(problems([](auto& all) { all[20]["epsilon"] = 1.0; }),
             ContainsSubstring("ledger.jsonl:21: says that epsilon is 1 so far"));
  CHECK_THAT(problems([](auto& all) { all[20]["delta"] = 1e-6; }),
             ContainsSubstring("ledger.jsonl:21: says another delta"));
  CHECK_THAT(problems([](auto& all) { all[20]["bound"] = "exact"; }),
             ContainsSubstring("ledger.jsonl:21: says another delta or bound"));
  CHECK_THAT(problems([](auto& all) { all[0]["target_epsilon"] = 5.0; }),
             ContainsSubstring("ledger.jsonl:1: has another 'target_epsilon' than"));
  CHECK_THAT(problems([](auto& all) { all[0]["name"] = "another"; }),
             ContainsSubstring("ledger.jsonl:1: has another 'name' than"));
  CHECK_THAT(problems([](auto& all) { all[0]["data_commitment"] = nullptr; }),
             ContainsSubstring("statement.json: has another 'data_commitment' than"));
  CHECK_THAT(problems([](auto& all) { all[0]["mood"] = "good"; }),
             ContainsSubstring("model.safetensors: its metadata has another 'ledger' than"));
  CHECK_THAT(problems([](auto& all) { all[21]["steps_done"] = 21; }),
             ContainsSubstring("steps were made which were not paid for"));
  CHECK_THAT(problems([](auto& all) { all[21]["steps_done"] = 19; }),
             ContainsSubstring("not all of its steps were made"));
  CHECK_THAT(problems([](auto& all) { all[21]["status"] = "interrupted"; }),
             ContainsSubstring("statement.json: has another 'prose' than") ||
                 ContainsSubstring("statement.json: has another 'status' than") ||
                 ContainsSubstring("statement.json: has another 'short' than"));
  CHECK_THAT(problems([](auto& all) { all[21]["files"].erase("metrics.jsonl"); }),
             ContainsSubstring("the last line does not bind the files of a run"));
  CHECK_THAT(problems([](auto& all) {
               all[0]["binds"]["../../etc/passwd"] = all[0]["binds"]["facts.json"];
             }),
             ContainsSubstring("the first line does not bind the files of a run"));
  // The ledger of a client's program is not bound to a model.
  CHECK_THAT(problems([](auto& all) {
               all[0]["run"] = "another";
               for (const char* bound : {"model.safetensors", "summary.json"})
                 all[21]["files"].erase(bound);
             }),
             ContainsSubstring("ledger.jsonl:1: is of a client that was a program of its own"));
}

TEST_CASE(
    "what pld proves is verified where saddle_point is named, and not what that one estimates",
    "[verify][certificate][privacy]") {
  std::string manifest = kCentral;
  manifest.replace(manifest.find("accountant: rdp"), 15, "accountant: saddle_point");
  Experiment experiment(manifest);
  const Json statement = experiment.run().statement;
  CHECK(statement.at("proved_by") == "pld");
  CHECK(statement.at("bound") == "upper");
  CHECK_THAT(statement.at("short").get<std::string>(), ContainsSubstring("(upper, pld)"));
  const std::string prose = statement.at("prose").dump();
  CHECK_THAT(prose, ContainsSubstring("an upper bound, proved by the accountant pld, which also "
                                      "proves that the true value is at least"));
  CHECK_THAT(prose,
             ContainsSubstring("saddle_point, gives estimates, which are not part of what is "
                               "proved"));
  CHECK_THAT(prose, !ContainsSubstring("exact up to"));
  const core::Verification verified = check(experiment.run_dir());
  CHECK(verified.verified());
  CHECK_FALSE(verified.accountants.contains("privgrad.pld:pld"));  // no second accountant

  // A ledger guarded by an estimate.
  const fs::path file = experiment.run_dir() / "ledger.jsonl";
  const std::vector<Json> lines = json_lines(file);
  const auto estimate = house().create<Accountant>("saddle_point", {});
  estimate->start(Adjacency::add_or_remove_one);
  for (std::size_t i = 1; i + 1 < lines.size(); ++i)
    estimate->compose(core::event_from_json(lines[i].at("event").dump(), "a line"), 1);
  const PrivacyAnswer estimated = estimate->epsilon(1e-5);
  REQUIRE(estimated.bound == BoundKind::exact);
  const auto problems_of_last = [&](const char* key, const Json& value) {
    std::vector<Json> changed = lines;
    changed[lines.size() - 2][key] = value;
    write_chain(file, changed);
    return all_of(check(experiment.run_dir()).problems);
  };
  // A difference larger than processors cause.
  CHECK_THAT(problems_of_last("epsilon", estimated.value * (1.0 - 1e-4)),
             ContainsSubstring("derived again"));
  CHECK_THAT(problems_of_last("bound", "exact"), ContainsSubstring("another delta or bound"));
}

TEST_CASE("the mean of gradient norms along a run is made again by verify", "[verify]") {
  Experiment experiment(kCentral, {"gradient_norm=true", "steps=6", "evaluate_every=4"});
  experiment.run();
  const fs::path run = experiment.run_dir();
  const std::vector<Json> measured = json_lines(run / "metrics.jsonl");
  REQUIRE(measured.size() == 2);  // after steps 4 and 6
  Json summary = Json::parse(read_file(run / "summary.json"));
  CHECK(summary.at("metrics").at("mean_gradient_norm") ==
        (measured[0].at("gradient_norm").get<double>() +
         measured[1].at("gradient_norm").get<double>()) /
            2.0);
  CHECK(check(run).verified());
  summary["metrics"]["mean_gradient_norm"] = measured[1].at("gradient_norm");
  write_file(run / "summary.json", summary.dump(2) + "\n");
  CHECK_THAT(all_of(check(run).problems), ContainsSubstring("has another 'mean_gradient_norm'"));
}

TEST_CASE("the mean along a run is of norms behind its steps, and none where one is not finite",
          "[verify]") {
  const std::string start = "{\"gradient_norm\":7.0,\"step\":0}\n";
  const std::string two =
      "{\"gradient_norm\":1.0,\"step\":1}\n{\"gradient_norm\":2.5,\"step\":3}\n";
  CHECK(core::mean_gradient_norm_along(start + two) == 1.75);
  CHECK(std::isnan(core::mean_gradient_norm_along(start)));
  CHECK(std::isnan(core::mean_gradient_norm_along(two + "{\"gradient_norm\":null,\"step\":4}\n")));
  for (const std::string& line : {std::string("{\"gradient_norm\":1.0}"), std::string("{"),
                                  std::string(100, '[') + std::string(100, ']')})
    CHECK_THROWS_AS(core::mean_gradient_norm_along(two + line + "\n"), IoError);
}

namespace {

std::string says(const std::string& file, const std::string& key) {
  return file + ": has another '" + key + "' than";
}

}  // namespace

TEST_CASE("a statement that is bound anew is held against the ledger", "[verify][privacy]") {
  Experiment experiment(kCentral);
  experiment.run();
  const fs::path run = experiment.run_dir();
  const std::vector<Json> lines = json_lines(run / "ledger.jsonl");
  struct Case {
    const char* file;
    const char* key;
    Json value;
    std::string problem = says(file, key);
  };
  const Case cases[] = {
      {"statement.json", "epsilon", 1.0},
      {"statement.json", "charged_steps", 10},
      {"statement.json", "delta", 1e-9},
      {"statement.json", "adjacency", "zero_out"},
      {"statement.json", "unaccounted", Json::array()},
      {"statement.json", "dataset_size", 100000},
      {"statement.json", "stain", ""},
      {"summary.json", "epsilon", 1.0},
      {"summary.json", "steps", 10},
      {"summary.json", "unaccounted", Json::array()},
      {"summary.json", "reproducible", false},
      {"schedules.json", "steps", 10},
      {"facts.json", "dataset_size", 20000, says("statement.json", "dataset_size")},
      {"facts.json", "has_test_rows", false, says("statement.json", "test_rows")},
      {"facts.json", "first_rows_only", true, says("statement.json", "unaccounted")}};
  const auto problems_with = [&](const std::string& file, const Json& json) {
    const std::string before = read_file(run / file);
    const bool is_first = file == "facts.json";
    const std::string text = json.dump(is_first ? -1 : 2) + "\n";
    write_file(run / file, text);
    std::vector<Json> bound = lines;
    (is_first ? bound.front()["binds"] : bound.back()["files"])[file] = core::sha256_hex(text);
    write_chain(run / "ledger.jsonl", bound);
    const auto result = check(run);
    write_file(run / file, before);
    return all_of(result.problems);
  };
  for (const Case& one : cases) {
    INFO(one.file << " " << one.key);
    Json json = Json::parse(read_file(run / one.file));
    REQUIRE(json.at(one.key) != one.value);
    json[one.key] = one.value;
    CHECK_THAT(problems_with(one.file, json), ContainsSubstring(one.problem));
  }
  for (const char* file : {"statement.json", "schedules.json"}) {
    Json more = Json::parse(read_file(run / file));
    CHECK(problems_with(file, more).empty());
    more["more"] = "what neither the plan nor the ledger says";
    CHECK_THAT(problems_with(file, more), ContainsSubstring(says(file, "more")));
  }
  write_chain(run / "ledger.jsonl", lines);
  CHECK(check(run).verified());
}

TEST_CASE("a statement names no plugins but those of the lock file", "[verify]") {
  Experiment experiment(kCentral);
  experiment.run();
  write_file(experiment.run_dir() / "privgrad.lock", "[[plugin]]\nsha256 = \"0\"\n");
  CHECK_THAT(all_of(check(experiment.run_dir()).problems),
             ContainsSubstring("that privgrad.lock does not have"));
}

TEST_CASE("noise that adapts is held to its rules", "[verify][privacy]") {
  Experiment experiment(kAdaptive);
  experiment.run();
  const fs::path file = experiment.run_dir() / "ledger.jsonl";
  const std::vector<Json> lines = json_lines(file);
  const auto check_at = std::find_if(lines.begin(), lines.end(),
                                     [](const Json& line) { return line.contains("what"); });
  REQUIRE(check_at != lines.end());
  const auto index = check_at - lines.begin();
  // An uncharged measurement.
  std::vector<Json> changed = lines;
  changed.erase(changed.begin() + index);
  write_chain(file, changed);
  CHECK_THAT(all_of(check(experiment.run_dir()).problems),
             ContainsSubstring("is a release that is not planned"));
  // A step charged with less than its noise costs.
  changed = lines;
  changed[2]["event"]["noise_multiplier"] = 1000.0;
  write_chain(file, changed);
  CHECK_THAT(all_of(check(experiment.run_dir()).problems),
             ContainsSubstring("ledger.jsonl:3: is not the release that the plan charges"));
}

TEST_CASE("a run that was cut off is not closed, and says what it paid for", "[verify]") {
  Experiment experiment(kCentral);
  experiment.run();
  const fs::path run = experiment.run_dir();
  std::vector<std::string> lines = lines_of(run / "ledger.jsonl");
  lines.resize(11);
  write_lines(run / "ledger.jsonl", lines);
  for (const char* file : {"summary.json", "model.safetensors"}) fs::remove(run / file);
  const auto result = check(run);
  CHECK_THAT(all_of(result.problems), ContainsSubstring("ledger.jsonl: is not closed"));
  REQUIRE(result.epsilon.has_value());
  CHECK(*result.epsilon == core::read_ledger(run / "ledger.jsonl").releases.back().epsilon);
}

TEST_CASE("links, pipes and files without end are not read", "[verify]") {
  for (const char* name : {"manifest.yaml", "facts.json", "ledger.jsonl", "statement.json",
                           "summary.json", "model.safetensors", "metrics.jsonl"}) {
    Experiment experiment(kCentral);
    experiment.run();
    const fs::path file = experiment.run_dir() / name;
    INFO(name);
    fs::rename(file, experiment.dir() / "elsewhere");
    fs::create_symlink(experiment.dir() / "elsewhere", file);
    CHECK_THAT(all_of(check(experiment.run_dir()).problems),
               ContainsSubstring(std::string(name) + ": is a link, which is not followed"));
    fs::remove(file);
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
    CHECK_THAT(all_of(check(experiment.run_dir()).problems),
               ContainsSubstring(std::string(name) + ": is not a regular file"));
    fs::remove(file);
    fs::create_directory(file);
    CHECK_THAT(all_of(check(experiment.run_dir()).problems), ContainsSubstring(name));
    fs::remove(file);
    write_file(file, std::string(300'000, '['));
    CHECK_THAT(all_of(check(experiment.run_dir()).problems), ContainsSubstring(name));
  }
}

TEST_CASE("verify: what an accountant says of its own errors may differ in its numbers alone",
          "[verify]") {
  const auto answer = [](const char* note, double epsilon) {
    return Json{{"also", {{{"accountant", "pld"}, {"epsilon", epsilon}, {"note", note}}}}};
  };
  const Json said = answer("error 1.25e-11 in 4096 cells", 1.0);
  CHECK(core::nearly_equal(said, answer("error 1.2500000000000002e-11 in 4096 cells", 1.0)));
  CHECK(core::nearly_equal(said, answer("error 3e-12 in 2048 cells", 1.0)));
  CHECK_FALSE(core::nearly_equal(said, answer("error 1.25e-11 of 4096 cells", 1.0)));
  CHECK_FALSE(core::nearly_equal(said, answer("error 1.25e-11 in 4096 cells", 1.1)));
  CHECK_FALSE(core::nearly_equal(said, answer("error -1.25e-11 in 4096 cells", 1.0)));
  CHECK_FALSE(core::nearly_equal(said, answer("error  in 4096 cells", 1.0)));
  // Any other text must be equal.
  CHECK_FALSE(core::nearly_equal(Json{{"prose", "epsilon = 1"}}, Json{{"prose", "epsilon = 2"}}));
}

}  // namespace verify

// Disks that fail after the first charge: nothing that was charged is lost.
#include "cli.hpp"
#include "trials.hpp"

namespace fs = std::filesystem;

namespace {

struct FailingKind {
  const char* name;
  Words sets;  ///< Settings in addition to small.yaml.
  bool has_checkpoints = true;
};

const std::vector<FailingKind>& failing_kinds() {
  static const std::vector<FailingKind> all = {
      {.name = "with checkpoints", .sets = {"steps=2"}},
      {.name = "clients",
       .sets = {"steps=2", "federated={clients: 2, rounds: 2, local_iterations: 1}"}},
      {.name = "without checkpoints",
       .sets = {"steps=2", "checkpoint=off"},
       .has_checkpoints = false}};
  return all;
}

/// A run on a disk that fails, and how it can be continued.
class FailingRun {
 public:
  /// \param at  the number of the call that fails, counted from the first charge.
  /// \param stays  whether all later calls fail too.
  FailingRun(const FailingKind& kind, long at, bool stays)
      : has_checkpoints_(kind.has_checkpoints) {
    Words words{"run", "small.yaml", "--out", "r"};
    for (const std::string& set : kind.sets) words.insert(words.end(), {"--set", set});
    Call run = cli_.prepare(words);
    run.environment["LD_PRELOAD"] = PRIVGRAD_TEST_FAILING_DISK;
    run.environment["PRIVGRAD_TEST_FAILS_AT"] = std::to_string(at);
    if (stays) run.environment["PRIVGRAD_TEST_STAYS_FULL"] = "1";
    run.environment["PRIVGRAD_TEST_FAILED"] = mark().string();
    outcome_ = call(run);
  }

  bool has_failed() const { return fs::exists(mark()); }

  /// Checks that the run reports the failure, and can be continued as if nothing had happened, or,
  /// if its manifest leaves no checkpoint, that the run reports what it has spent.
  void check_nothing_is_lost(double planned) const {
    INFO(outcome_.out << outcome_.err);
    if (outcome_.exit_code != 0) {
      CHECK(outcome_.exit_code == 4);
      CHECK_THAT(outcome_.err, ContainsSubstring("privgrad: error: "));
      if (!has_checkpoints_) return check_tells_spent();
      const Outcome resumed = cli_({"run", "--resume", "r"});
      INFO(resumed.out << resumed.err);
      const bool was_over = resumed.err.find("the run is finished") != resumed.err.npos;
      CHECK((resumed.exit_code == 0 || was_over));
    }
    CHECK(fs::exists(cli_.out("r/model.safetensors")));
    CHECK(printed_json(cli_, {"verify", "r"}).at("epsilon") == planned);
  }

 private:
  fs::path mark() const { return cli_.dir() / "failed"; }

  /// Expects the amount in the ledger's last line, which is written before any release.
  void check_tells_spent() const {
    const std::string ledger = read_file(cli_.out("r/ledger.jsonl"));
    const std::size_t last = ledger.rfind("\"type\":\"release\"");
    REQUIRE(last != ledger.npos);
    const std::size_t begin = ledger.rfind('\n', last) + 1;
    const Json release = Json::parse(ledger.substr(begin, ledger.find('\n', begin) - begin));
    const Json told = Json::parse(cli_({"verify", "r", "--json"}).out);
    CHECK(told.at("epsilon") == release.at("epsilon"));
    const Outcome page = cli_({"report", "r", "--out", "page.html"});
    CHECK(page.exit_code == 0);
  }

  Cli cli_;
  bool has_checkpoints_;
  Outcome outcome_;
};

/// Returns the cost of the whole run.
double planned_epsilon(const FailingKind& kind) {
  Words words{"plan", "small.yaml"};
  for (const std::string& set : kind.sets) words.insert(words.end(), {"--set", set});
  return printed_json(Cli(), words).at("epsilon").get<double>();
}

}  // namespace

TEST_CASE("whichever call to the disk fails after the first charge, nothing that was paid is lost",
          "[run][privacy][slow][long]") {
  // The long test makes every call fail, otherwise every third one.
  const long stride = trials(10, "strides of calls to the disk that fail") == 10 ? 1 : 3;
  for (const FailingKind& kind : failing_kinds()) {
    const double planned = planned_epsilon(kind);
    for (const bool stays : {false, true}) {
      for (long at = stays ? stride : 1;; at += stride) {
        CAPTURE(kind.name, stays, at);
        const FailingRun run(kind, at, stays);
        run.check_nothing_is_lost(planned);
        if (!run.has_failed()) {
          CHECK(at > 15);  // two steps and some ten files
          break;
        }
      }
    }
  }
}

// A site's policy, through the command: which rule refuses what, and that nothing widens it.
#include <sys/stat.h>

#include "beyond_policy.hpp"
#include "cli.hpp"
#include "trials.hpp"

namespace {

/// A table in the folder of the calls, its run for release, and policies.
class Site {
 public:
  Site() {
    std::string table = "a,y\n";
    for (int i = 0; i < 60; ++i) table += std::to_string(i % 7) + "," + (i % 2 ? "1" : "0") + "\n";
    write_file(cli.out("t.csv"), table);
    write_file(cli.out("site.yaml"), kManifest);
  }

  /// A policy that allows the run of site.yaml.
  std::string policy(const std::string& more = "", const std::string& rule = "") const {
    return "privgrad_policy: 1\nmode: release\ndata:\n  - files: ['" + cli.dir().string() +
           "/*.csv']\n    epsilon: 2\n    delta: 1.0e-6\n" + rule + more;
  }

  std::filesystem::path write_policy(const std::string& text,
                                     const std::string& name = "policy.yaml") const {
    write_file(cli.out(name), text);
    return cli.out(name);
  }

  /// privgrad run site.yaml, with a policy in the environment.
  Outcome run(const std::string& policy, Words more = {}) const {
    Words words{"run", "site.yaml", "--out", "run", "-q"};
    words.insert(words.end(), more.begin(), more.end());
    Call call = cli.prepare(words);
    call.environment["PRIVGRAD_POLICY"] = write_policy(policy).string();
    return ::call(call);
  }

  /// Checks that a run is refused by that line and rule, and leaves nothing.
  void refused(const std::string& policy, int line, const std::string& what,
               Words more = {}) const {
    const Outcome outcome = run(policy, std::move(more));
    INFO(outcome.out << outcome.err);
    CHECK(outcome.exit_code == 3);
    CHECK(outcome.out == "");
    CHECK(line_count(outcome.err) == 1);
    CHECK_THAT(outcome.err, ContainsSubstring(cli.out("policy.yaml").string() + ":" +
                                              std::to_string(line) + ": error: " + what));
    CHECK_FALSE(std::filesystem::exists(cli.out("run")));
  }

  Cli cli;

  static constexpr const char* kManifest = R"(privgrad: 1
name: site
mode: release
data: {kind: csv, train: t.csv, target: y, row: line, malformed: fill, classes: 2, target_fill: 0,
       columns: [{name: a, type: number, fill: 0}], size: 60}
model: linear
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: uniform, clip_norm: 1, learning_rate: 0.5}
privacy: {target_epsilon: 1, target_delta: 1e-6, adjacency: zero_out, accountant: zcdp}
steps: 4
)";
};

/// The program in a prefix of its own, with the libraries and plugins of the build.
class Installed {
 public:
  Installed() {
    std::filesystem::create_directories(dir_.path() / "bin");
    std::filesystem::create_directories(policy().parent_path());
    std::filesystem::copy_file(kProgram, dir_.path() / "bin/privgrad");
    std::filesystem::create_directory_symlink(std::filesystem::path(kBuild) / "lib",
                                              dir_.path() / "lib");
  }
  std::filesystem::path policy() const { return dir_.path() / "etc/privgrad/policy.yaml"; }
  Outcome operator()(const Site& site, Words words,
                     const std::map<std::string, std::string>& environment = {}) const {
    Call call = site.cli.prepare(words);
    call.words.front() = (dir_.path() / "bin/privgrad").string();
    call.environment.insert(environment.begin(), environment.end());
    return ::call(call);
  }

 private:
  TempDir dir_;
};

const Words kRun{"run", "site.yaml", "--out", "run", "-q"};

Words with_more(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("a run that a policy allows starts, and each rule refuses what it does not allow",
          "[privacy]") {
  const Site site;
  const auto rule = [&](const std::string& line) { return site.policy("", "    " + line + "\n"); };
  site.refused(site.policy(), 2, "mode: the run is in research mode", {"--set", "mode=research"});
  site.refused(site.policy(), 5, "data.0.epsilon: the run states epsilon 2.",
               {"--set", "privacy.target_epsilon=2.5"});
  site.refused(site.policy(), 6, "data.0.delta: the run states delta 1e-05",
               {"--set", "privacy.target_delta=1e-5"});
  site.refused(rule("units: [client]"), 7, "data.0.units: the run protects each example");
  site.refused(rule("adjacencies: [replace_one]"), 7,
               "data.0.adjacencies: the run is for zero_out");
  site.refused(rule("accountants: [pld, rdp]"), 7,
               "data.0.accountants: the run is accounted by zcdp");
  site.refused("privgrad_policy: 1\ndata:\n  - {files: [/srv/*], epsilon: 9, delta: 0.1}\n", 3,
               "data: no rule is for " + site.cli.out("t.csv").string());
  site.refused("privgrad_policy: 1\ndata:\n  - {files: [/srv/*], epsilon: 9, delta: 0.1}\n", 3,
               "data: no rule is for data in no file",
               {"--set", "data={kind: synthetic, rows: 60, dimensions: 4, size: 60}"});
  site.refused(site.policy(), 4, "data.0.test_is_public: the run shows exact metrics",
               {"--set", "data.test=t.csv", "--set", "data.test_is_public=true"});
  const std::string any_mode =
      "privgrad_policy: 1\ndata:\n  - {files: ['*'], epsilon: 9, delta: 0.1}\n";
  site.refused(any_mode, 3, "data.0.epsilon: the run adds no noise",
               {"--set", "mode=research", "--set", "privacy.noise=off"});
  site.refused(any_mode, 3, "data.0.epsilon: anybody with the run's seed can remove",
               {"--set", "mode=research", "--set", "seed=3"});
  site.refused(any_mode, 3, "data.0.epsilon: the run shows or uses 'training metrics'",
               {"--set", "mode=research"});

  const Outcome started = site.run(site.policy(
      "", "    units: [example]\n    adjacencies: [zero_out]\n    accountants: [zcdp]\n"));
  INFO(started.err);
  CHECK(started.exit_code == 0);
  CHECK(std::filesystem::exists(site.cli.out("run") / "model.safetensors"));
}

TEST_CASE("a policy is asked before the data is opened", "[privacy]") {
  const Site site;
  write_file(site.cli.out("t.csv"), "not a table \xff\n");
  site.refused(site.policy(), 6, "data.0.delta", {"--set", "privacy.target_delta=1e-5"});
  CHECK(site.run(site.policy()).exit_code != 3);  // there is nothing to refuse but the table
}

TEST_CASE("links and other names for data do not lead around a rule", "[privacy]") {
  const Site site;
  const TempDir other;
  std::filesystem::create_symlink(site.cli.out("t.csv"), other.path() / "mine.csv");
  const std::string strict =
      "privgrad_policy: 1\ndata:\n  - {files: ['" + site.cli.dir().string() +
      "/*.csv'], epsilon: 0.5, delta: 1e-6}\n  - {files: ['*'], epsilon: 9, delta: 1e-6}\n";
  site.refused(strict, 3, "data.0.epsilon",
               {"--set", "data.train=" + (other.path() / "mine.csv").string()});
  site.refused(strict, 3, "data.0.epsilon",
               {"--set", "data.train=" + (other.path() / "*.csv").string()});
  site.refused(strict, 3, "data.0.epsilon",
               {"--set", "data.train=" +
                             (other.path() / ".." / site.cli.dir().filename() / "t.csv").string()});
}

TEST_CASE("data that a manifest only names obeys the rule of the files that it leads to",
          "[privacy]") {
  const Site site;
  std::filesystem::create_directory(site.cli.out("hospital"));
  for (const char* file : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"})
    write_file(site.cli.out("hospital") / file, "");
  Call call = site.cli.prepare(with_more(
      kRun,
      {"--set", "data={kind: dataset, name: hospital, classes: 2, target_fill: 0, size: 9}"}));
  call.environment["PRIVGRAD_DATA_DIR"] = site.cli.dir().string();
  call.environment["PRIVGRAD_POLICY"] =
      site.write_policy("privgrad_policy: 1\ndata:\n  - {files: ['" + site.cli.dir().string() +
                        "/hospital/*'], epsilon: 9, delta: 1e-9}\n  - {files: ['*'], epsilon: 9, "
                        "delta: 1e-6}\n")
          .string();
  const Outcome outcome = ::call(call);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 3);
  CHECK_THAT(outcome.err, ContainsSubstring("policy.yaml:3: error: data.0.delta"));
}

TEST_CASE("an account that a policy names bounds all runs together", "[privacy]") {
  const Site site;
  const auto open = [&](const char* name, const char* epsilon) {
    REQUIRE(site.cli({"account", "--open", name, "--accountant", "zcdp", "--adjacency", "zero_out",
                      "--target-epsilon", epsilon, "--target-delta", "1e-6"})
                .exit_code == 0);
  };
  open("right.json", "2");
  open("wrong.json", "2");
  open("large.json", "9");
  const auto naming = [&](const std::string& file) {
    return site.policy(
        "", "    account: " + site.cli.out(file).string() + "\n    opened_within_days: 30\n");
  };
  const std::string policy = naming("right.json");
  site.refused(policy, 7, "data.0.account: the run names no account");
  site.refused(policy, 7, "data.0.account: the run's account is",
               {"--set", "privacy.account=wrong.json"});
  site.refused(naming("large.json"), 7, "data.0.account: the account pays for epsilon 9",
               {"--set", "privacy.account=large.json"});
  const Words paid{"--set", "privacy.account=right.json", "--set", "privacy.target_epsilon=1.9"};
  CHECK(site.run(policy, paid).exit_code == 0);
  std::filesystem::remove_all(site.cli.out("run"));
  CHECK_THAT(site.run(policy, paid).err, ContainsSubstring("does not pay for this run"));

  std::string old = read_file(site.cli.out("right.json"));
  const std::size_t at = old.find("\"opened_on\":\"") + 13;
  old.replace(at, 4, "2001");
  write_file(site.cli.out("right.json"), old);
  CHECK(site.run(policy, paid).exit_code == 4);  // the account's hashes do not fit the new date
}

TEST_CASE("a policy lists the plugins that a run may load", "[privacy]") {
  const Site site;
  const std::string none = site.policy("plugins: {}\n");
  if (::geteuid() != 0) {  // built-in plugins belong to root
    site.refused(none, 7, "plugins: the run loads ");
    return;
  }
  const Outcome outcome = site.run(none);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  std::filesystem::remove_all(site.cli.out("run"));

  // The same file elsewhere is not built in, unless its hash or its signer is named.
  std::filesystem::create_directory(site.cli.out("plugins"));
  const auto copy = site.cli.out("plugins") / "sgd.privgrad.so";
  std::filesystem::copy_file(
      std::filesystem::path(kBuild) / "lib/privgrad/plugins/optimizers/sgd.privgrad.so", copy);
  std::filesystem::copy_file(
      std::filesystem::path(kBuild) / "lib/privgrad/plugins/optimizers/sgd.privgrad.so.tested.json",
      copy.string() + ".tested.json");
  const Words elsewhere{"--plugin-dir", "plugins"};
  const Outcome unknown = site.run(none, elsewhere);
  INFO(unknown.err);
  CHECK(unknown.exit_code == 3);
  const std::string text = unknown.err;
  const std::size_t at = text.find(", sha256 ");
  REQUIRE(at != text.npos);
  const std::string hash = text.substr(at + 9, 64);
  CHECK(site.run(site.policy("plugins: {sha256: ['" + hash + "']}\n"), elsewhere).exit_code == 0);
  std::filesystem::remove_all(site.cli.out("run"));
  REQUIRE(site.cli({"plugins", "sign", copy.string(), "--key", "k", "--new-key"}).exit_code == 0);
  const std::string key = read_file(site.cli.out("k.pub")).substr(0, 64);
  const Outcome signed_run =
      site.run(site.policy("plugins: {signers: ['" + key + "']}\n"), elsewhere);
  INFO(signed_run.err);
  CHECK(signed_run.exit_code == 0);
  std::filesystem::remove_all(site.cli.out("run"));
  const std::string other(64, '0');
  const Outcome stranger =
      site.run(site.policy("plugins: {signers: ['" + other + "']}\n"), elsewhere);
  CHECK(stranger.exit_code == 3);
  CHECK_THAT(stranger.err, ContainsSubstring("policy.yaml:7: error: plugins: the run loads") &&
                               ContainsSubstring("signed by " + key));
}

TEST_CASE("the system's policy binds whatever a call and its environment say", "[privacy]") {
  const Site site;
  const Installed installed;
  write_file(installed.policy(), site.policy());
  const std::string free = site.write_policy("privgrad_policy: 1\n").string();
  const Words costly = with_more(kRun, {"--set", "privacy.target_epsilon=5"});
  const auto refused = [&](const Words& words, const std::map<std::string, std::string>& more) {
    const Outcome outcome = installed(site, words, more);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 3);
    CHECK_THAT(outcome.err, ContainsSubstring(installed.policy().string() +
                                              ":5: error: data.0.epsilon: the run states"));
    CHECK_FALSE(std::filesystem::exists(site.cli.out("run")));
  };
  refused(costly, {});
  refused(costly, {{"PRIVGRAD_POLICY", free}});
  refused(costly, {{"PRIVGRAD_POLICY", ""}, {"HOME", "/nowhere"}, {"XDG_CONFIG_HOME", "/nowhere"}});
  refused(with_more(costly, {"--policy", free}), {});
  // More policies narrow: the system's allows epsilon 2, the call's only 0.5.
  const std::string strict =
      site.write_policy("privgrad_policy: 1\ndata:\n  - {files: ['*'], epsilon: 0.5, delta: .1}\n",
                        "strict.yaml")
          .string();
  for (const auto& [words, environment] : {std::pair<Words, std::map<std::string, std::string>>{
                                               with_more(kRun, {"--policy", strict}), {}},
                                           {kRun, {{"PRIVGRAD_POLICY", free + ":" + strict}}}}) {
    const Outcome outcome = installed(site, words, environment);
    CHECK(outcome.exit_code == 3);
    CHECK_THAT(outcome.err, ContainsSubstring("strict.yaml:3: error: data.0.epsilon"));
  }
  CHECK(installed(site, with_more(kRun, {"--policy", free})).exit_code == 0);
}

TEST_CASE("nothing starts by a system's policy that others can change, or that cannot be read",
          "[privacy]") {
  const Site site;
  const Installed installed;
  const auto says = [&](int code, const std::string& what) {
    const Outcome outcome = installed(site, kRun);
    INFO(outcome.err);
    CHECK(outcome.exit_code == code);
    CHECK_THAT(outcome.err, ContainsSubstring(what));
    CHECK_FALSE(std::filesystem::exists(site.cli.out("run")));
  };
  write_file(installed.policy(), site.policy());
  ::chmod(installed.policy().c_str(), 0666);
  says(3, "the system's policy is not to be trusted, so nothing starts: refused: others may write");
  ::chmod(installed.policy().c_str(), 0644);
  ::chmod(installed.policy().parent_path().c_str(), 0777);
  says(3, "not to be trusted");
  ::chmod(installed.policy().parent_path().c_str(), 0755);
  write_file(installed.policy(), "privgrad_policy: 1\nmdoe: release\n");
  says(2, "policy.yaml:2:1: error: mdoe: is unknown; did you mean 'mode'?");
  std::filesystem::remove(installed.policy());
  std::filesystem::create_directory(installed.policy());
  says(4, "policy.yaml");
  std::filesystem::remove(installed.policy());
  std::filesystem::create_symlink("nowhere", installed.policy());
  says(3, "No such file or directory");
  std::filesystem::remove(installed.policy());
  CHECK(installed(site, kRun).exit_code == 0);
}

TEST_CASE("a policy that a call names must be there and be right", "[privacy]") {
  const Site site;
  const Outcome missing = site.cli(with_more(kRun, {"--policy", "nowhere.yaml"}));
  check_one_error_line(missing, 4);
  CHECK_THAT(missing.err, ContainsSubstring("nowhere.yaml"));
  CHECK(site.cli(with_more(kRun, {"--policy", "a:b"})).exit_code == 2);
  Call call = site.cli.prepare(kRun);
  call.environment["PRIVGRAD_POLICY"] = "nowhere.yaml";
  CHECK(::call(call).exit_code == 4);
  CHECK_FALSE(std::filesystem::exists(site.cli.out("run")));
}

TEST_CASE("resumed runs, studies and audits obey policies", "[privacy]") {
  const Site site;
  const std::string strict =
      site.write_policy("privgrad_policy: 1\ndata:\n  - {files: ['*'], epsilon: 0.5, delta: .1}\n")
          .string();
  const auto refused = [&](const Words& words) {
    Call call = site.cli.prepare(words);
    call.environment["PRIVGRAD_POLICY"] = strict;
    const Outcome outcome = ::call(call);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 3);
    CHECK_THAT(outcome.err, ContainsSubstring("policy.yaml:3: error: data.0.epsilon"));
  };
  write_file(site.cli.out("study.yaml"),
             "study: 1\nbase: site.yaml\nset: {mode: research}\naxes: {schedules.clip_norm: [1, "
             "2]}\nseeds: 2\n");
  refused({"ablate", "study.yaml", "--out", "study", "-q"});
  CHECK_FALSE(std::filesystem::exists(site.cli.out("study")));
  refused({"audit", "site.yaml", "--runs", "20"});
  refused({"plan", "site.yaml"});

  Process running(site.cli.prepare(
      with_more(kRun, {"--set", "steps=200000", "--set", "checkpoint.every_steps=10"})));
  CHECK(Process::wait_for([&] {
    const auto resume = site.cli.out("run") / "resume.json";
    return std::filesystem::exists(resume);
  }));
  running.send(SIGTERM);
  CHECK(running.finish().exit_code == 1);
  const std::string ledger = read_file(site.cli.out("run") / "ledger.jsonl");
  refused({"run", "--resume", "run"});
  CHECK(read_file(site.cli.out("run") / "ledger.jsonl") == ledger);
}

TEST_CASE("what uses rows without a charge is refused wherever a rule is for them", "[privacy]") {
  const Site site;
  const auto call_under = [&](const std::string& files, const Words& words) {
    Call call = site.cli.prepare(words);
    call.environment["PRIVGRAD_POLICY"] =
        site.write_policy("privgrad_policy: 1\ndata:\n  - {files: ['" + files +
                          "'], epsilon: 50, delta: .1}\n")
            .string();
    return ::call(call);
  };
  for (const Words& words :
       {Words{"audit", "site.yaml", "--runs", "20"}, Words{"falsify", "site.yaml"},
        Words{"influence", "site.yaml", "--own-data", "--out", "i"}}) {
    const Outcome outcome = call_under("*", words);
    INFO(words.front() << ": " << outcome.err);
    CHECK(outcome.exit_code == 3);
    CHECK_THAT(outcome.err, ContainsSubstring("policy.yaml:3: error: data.0.epsilon: ") &&
                                ContainsSubstring(", so no epsilon holds"));
  }
  CHECK_FALSE(std::filesystem::exists(site.cli.out("i")));
}

TEST_CASE("privgrad policy check says of each policy whether a run would start") {
  const Site site;
  const Outcome none = site.cli({"policy", "check", "site.yaml"});
  CHECK(none.exit_code == 0);
  CHECK(none.out == "no policy is in force\n");
  const std::string wide = site.write_policy(site.policy(), "wide.yaml").string();
  const std::string strict =
      site.write_policy("privgrad_policy: 1\ndata:\n  - {files: ['*'], epsilon: 0.5, delta: .1}\n",
                        "strict.yaml")
          .string();
  const Outcome allowed = site.cli({"policy", "check", "site.yaml", "--policy", wide});
  CHECK(allowed.exit_code == 0);
  CHECK(allowed.out == wide + ": allows the run\n");
  const Outcome refused =
      site.cli({"policy", "check", "site.yaml", "--policy", wide, "--policy", strict});
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.out, ContainsSubstring(wide + ": allows the run\n" + strict +
                                            ":3: error: data.0.epsilon: the run states epsilon"));
  const Outcome json =
      site.cli({"policy", "check", "site.yaml", "--json", "--policy", wide, "--policy", strict});
  CHECK(json.exit_code == 3);
  const Json said = Json::parse(json.out);
  CHECK(said.at("allowed") == false);
  CHECK(said.at("policies").at(0).at("allowed") == true);
  CHECK(said.at("policies").at(1).at("file") == strict);
  CHECK(said.at("policies").at(1).at("refusal").get<std::string>().starts_with(strict));
  CHECK_FALSE(std::filesystem::exists(site.cli.out("runs")));
}

TEST_CASE("the command starts no generated manifest beyond a policy", "[privacy][long]") {
  const Site site;
  std::filesystem::create_directory(site.cli.out("elsewhere"));
  std::filesystem::copy_file(site.cli.out("t.csv"), site.cli.out("elsewhere") / "u.csv");
  std::filesystem::create_symlink(site.cli.out("elsewhere") / "u.csv", site.cli.out("link.csv"));
  const int count = trials(100, "calls beyond a policy");
  for (int trial = 0; trial < count; ++trial) {
    std::mt19937 random(static_cast<unsigned>(trial));
    const BeyondPolicy one = beyond_policy(site.cli.dir(), random);
    const std::string policy = "privgrad_policy: 1\ndata:\n  - {files: ['" +
                               site.cli.out("t.csv").string() + "'], epsilon: 2, delta: 1e-6" +
                               one.rule + "}\n";
    Words more;
    for (const std::string& change : one.set) more.insert(more.end(), {"--set", change});
    const auto check = [&](const Outcome& outcome) {
      INFO(trial << ": " << policy << outcome.out << outcome.err);
      CHECK(outcome.exit_code == 3);
      CHECK_THAT(outcome.err, ContainsSubstring("policy.yaml:"));
      CHECK_FALSE(std::filesystem::exists(site.cli.out("run")));
    };
    if (trial % 2 == 0) {
      check(site.run(policy, more));
    } else {
      site.write_policy(policy);
      more.insert(more.end(), {"--policy", "policy.yaml"});
      check(site.cli(with_more(kRun, more)));
    }
  }
}

// Accounts shared by runs on the same data, through the command.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <csignal>

#include "cli.hpp"

namespace {

constexpr const char* kFile = "patients.account";

Words opening(const std::string& epsilon) {
  return {"account",  "--open",           kFile,   "--accountant",   "zcdp", "--adjacency",
          "zero_out", "--target-epsilon", epsilon, "--target-delta", "1e-5"};
}

/// The run of small.yaml, with epsilon 1, on the account, which only accepts runs for release.
Words run(const std::string& out, Words more = {}) {
  more.insert(more.begin(), {"--set", std::string("privacy.account=") + kFile, "--set",
                             "mode=release", "--set", "data.size=60", "--out", out, "-q"});
  return more;
}

Json shown(const Cli& cli) {
  return Json::parse(cli({"account", "--ledger", kFile, "--json"}).out);
}

}  // namespace

TEST_CASE(
    "runs on one account spend its budget together, and one that it does not pay for touches no "
    "data") {
  const Cli cli;
  REQUIRE(cli(opening("1.5")).exit_code == 0);
  REQUIRE(cli.on_manifest("run", run("first")).exit_code == 0);
  REQUIRE(cli.on_manifest("run", run("second")).exit_code == 0);
  const Outcome refused = cli.on_manifest("run", run("third"));
  check_one_error_line(refused, 3);
  CHECK_THAT(refused.err, ContainsSubstring("does not pay for this run: with 2 earlier ones"));
  CHECK_FALSE(std::filesystem::exists(cli.out("third")));

  const Json account = shown(cli);
  // Two runs with equal rho cost sqrt(2) times one run to first order, by the zcdp accountant's
  // conversion.
  CHECK(account.at("epsilon").get<double>() > 1.4);
  CHECK(account.at("epsilon").get<double>() < 1.5);
  CHECK(account.at("runs").size() == 2);
  CHECK(account.at("runs")[0].at("status") == "completed");
  CHECK(account.at("runs")[0].at("run").at("name") == "small");
  CHECK(account.at("runs")[0].at("epsilon").get<double>() <= 1.0);
  CHECK(account.at("left").at("rho").get<double>() > 0.0);

  const Json statement = Json::parse(read_file(cli.out("first") / "statement.json"));
  CHECK(statement.at("account").at("opened") == account.at("opened"));
  CHECK(statement.at("account").at("target_epsilon") == 1.5);
  const Json first_line = Json::parse([&] {
    const std::string text = read_file(cli.out("first") / "ledger.jsonl");
    return text.substr(0, text.find('\n'));
  }());
  CHECK(first_line.at("account").at("reservation") == account.at("runs")[0].at("reservation"));
}

TEST_CASE("who waits for an account that another process holds says so") {
  const Cli cli;
  REQUIRE(cli(opening("1")).exit_code == 0);
  const int held = ::open(cli.out(kFile).c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(::flock(held, LOCK_EX) == 0);  // like a run that was stopped during a call that writes
  const std::string own = "waits for process " + std::to_string(::getpid()) + " (";
  Process waiting(cli.prepare({"account", "--ledger", kFile, "--json"}));
  CHECK(waiting.says(own));
  Words words = run("first");
  words.insert(words.begin(), {"run", "small.yaml"});
  Process paid(cli.prepare(words));
  CHECK(paid.says(own));
  CHECK(paid.says("which holds this account, two minutes at most"));
  REQUIRE(::close(held) == 0);
  const Outcome outcome = waiting.finish();
  CHECK(outcome.exit_code == 0);
  CHECK(paid.finish().exit_code == 0);
}

TEST_CASE("an account pays for no noise that everybody knows and no output that nobody paid for",
          "[privacy]") {
  const Cli cli;
  REQUIRE(cli(opening("1.5")).exit_code == 0);
  const std::string account = std::string("privacy.account=") + kFile;
  const auto refused = [&](Words more, const char* key) {
    more.insert(more.begin(), {"--set", account, "--out", "refused", "-q"});
    const Outcome outcome = cli.on_manifest("run", more);
    INFO(key);
    CHECK(outcome.exit_code == 3);
    CHECK(line_count(outcome.err) == 1);
    CHECK_THAT(outcome.err,
               ContainsSubstring("privacy.account pays only for runs") && ContainsSubstring(key));
    CHECK_FALSE(std::filesystem::exists(cli.out("refused")));
  };
  refused({"--set", "seed=1", "--set", "data.size=60"}, "anyone with the seed can remove");
  refused({"--set", "data.size=60"}, "'training metrics'");
  refused({"--set", "aggregator.arithmetic=float", "--set", "data.size=60"}, "'floating_point'");
  CHECK(shown(cli).at("runs").empty());
}

TEST_CASE("a run that ends early gets back what it did not spend") {
  const Cli cli;
  REQUIRE(cli(opening("1")).exit_code == 0);
  // A learning rate that overflows at once: the run diverges after its first block of steps was
  // charged.
  CHECK(cli.on_manifest(
               "run", run("gone", {"--set", "schedules.learning_rate=1e38", "--set", "steps=200"}))
            .exit_code == 1);
  const Json account = shown(cli);
  CHECK(account.at("runs")[0].at("settled") == true);
  CHECK(account.at("epsilon").get<double>() < 0.8);
}

TEST_CASE("an account pays for runs of its own adjacency and unit, with noise, by a filter") {
  const Cli cli;
  const auto refused = [&](Words more, const std::string& why) {
    const Outcome outcome = cli.on_manifest("run", run("out", std::move(more)));
    INFO(outcome.err);
    CHECK(outcome.exit_code == 3);
    CHECK_THAT(outcome.err, ContainsSubstring(why));
    CHECK_THAT(outcome.err, ContainsSubstring("privacy.account"));
  };
  REQUIRE(cli(opening("9")).exit_code == 0);
  refused({"--set", "privacy.adjacency=replace_one"}, "was opened for zero_out");
  refused({"--set", "mode=research", "--set", "privacy.noise=off"}, "without noise");
  refused({"--set", "sampler={kind: poisson, batch_size: 6}", "--set", "privacy.accountant=rdp"},
          "subsampled Gaussian");
  const Outcome pld = cli({"account", "--open", "b", "--accountant", "pld", "--target-epsilon", "1",
                           "--target-delta", "1e-5"});
  check_one_error_line(pld, 3);
  CHECK_THAT(pld.err, ContainsSubstring("not a privacy filter"));
  CHECK_FALSE(std::filesystem::exists(cli.out("b")));
  Outcome missing = cli.on_manifest("run", {"--set", "privacy.account=nowhere"});
  CHECK(missing.exit_code == 4);
  CHECK_THAT(missing.err, ContainsSubstring("privgrad account --open"));
}

TEST_CASE("a federated run is paid for by what it costs the client that it costs most") {
  const Cli cli;
  REQUIRE(cli(opening("1.2")).exit_code == 0);
  const Words simulated{"--set", "federated={clients: 3, rounds: 2, local_iterations: 2}"};
  REQUIRE(cli.on_manifest("run", run("first", simulated)).exit_code == 0);
  const Json account = shown(cli);
  const Json entry = account.at("runs")[0];
  CHECK(entry.at("status") == "completed");
  CHECK(entry.at("epsilon").get<double>() > 0.9);
  CHECK(entry.at("epsilon").get<double>() <= 1.0);
  const std::string ledger = read_file(cli.out("first") / "ledgers" / "client-0.jsonl");
  CHECK_THAT(ledger.substr(0, ledger.find('\n')),
             ContainsSubstring(entry.at("reservation").get<std::string>()));
  check_one_error_line(cli.on_manifest("run", run("second", simulated)), 3);
}

TEST_CASE("sampled runs are paid for by a Renyi filter of one order") {
  const Cli cli;
  REQUIRE(cli({"account", "--open", kFile, "--accountant", "{kind: rdp_filter, order: 16}",
               "--adjacency", "zero_out", "--target-epsilon", "2.5", "--target-delta", "1e-5"})
              .exit_code == 0);
  const Words sampled{"--set", "sampler={kind: poisson, batch_size: 6}", "--set",
                      "privacy.accountant=pld"};
  REQUIRE(cli.on_manifest("run", run("first", sampled)).exit_code == 0);
  const Json account = shown(cli);
  CHECK(account.at("accountant") == "rdp_filter");
  // The bound by rdp with all orders is lower than with a single order.
  write_file(cli.out("event.json"), account.at("runs")[0].at("event").dump());
  const Json best = Json::parse(cli({"account", "--accountant", "rdp", "--adjacency", "zero_out",
                                     "--event", "event.json", "--delta", "1e-5", "--json"})
                                    .out);
  CHECK(account.at("epsilon").get<double>() >= best.at("epsilon").get<double>());
  CHECK(account.at("epsilon").get<double>() < 2.5);
}

TEST_CASE("by hand, a run is settled for what its ledger shows if that ends in its closing line") {
  const Cli cli;
  REQUIRE(cli(opening("1")).exit_code == 0);
  CHECK(cli.on_manifest(
               "run", run("gone", {"--set", "schedules.learning_rate=1e38", "--set", "steps=200"}))
            .exit_code == 1);
  const Json settled = shown(cli);
  // The state after a kill between the run's last file and the account's line.
  const auto lose_last_line = [](const std::filesystem::path& file) {
    const std::string text = read_file(file);
    write_file(file, text.substr(0, text.rfind('\n', text.size() - 2) + 1));
  };
  lose_last_line(cli.out(kFile));
  const Json open = shown(cli);
  REQUIRE(open.at("runs")[0].at("status") == "begun");
  const std::string id = open.at("runs")[0].at("reservation");
  const Words close{"account", "--ledger", kFile, "--close", id, "--run", "gone"};
  const std::string account = read_file(cli.out(kFile));
  REQUIRE(cli(close).exit_code == 0);
  CHECK(shown(cli).at("epsilon") == settled.at("epsilon"));
  CHECK(shown(cli).at("epsilon").get<double>() < open.at("epsilon").get<double>());

  // A run that has not recorded the opening of its ledger in the account may have been resumed
  // elsewhere.
  write_file(cli.out(kFile), account);
  lose_last_line(cli.out(kFile));
  const Outcome unmarked = cli(close);
  CHECK(unmarked.exit_code == 0);
  CHECK_THAT(unmarked.err, ContainsSubstring("may have spent more"));
  CHECK(shown(cli).at("epsilon") == open.at("epsilon"));

  // An early copy of that ledger.
  write_file(cli.out(kFile), account);
  lose_last_line(cli.out("gone") / "ledger.jsonl");
  const Outcome copied = cli(close);
  CHECK(copied.exit_code == 0);
  CHECK_THAT(copied.err, ContainsSubstring("may be an early copy"));
  CHECK(shown(cli).at("epsilon") == open.at("epsilon"));
}

TEST_CASE("a killed run counts in full, also if somebody closes it, with its ledger or without") {
  const Cli cli;
  REQUIRE(cli(opening("3")).exit_code == 0);
  for (const std::string name : {"one", "two"}) {
    Call call = cli.prepare({"run", "small.yaml"});
    const Words more =
        run(name, {"--set", "steps=60000", "--set", "model={kind: mlp, hidden: [512]}", "--set",
                   "evaluate_every=60000"});
    call.words.insert(call.words.end(), more.begin(), more.end());
    Process process(call);
    const auto ledger = cli.out(name) / "ledger.jsonl";
    REQUIRE(Process::wait_for(
        [&] { return std::filesystem::exists(ledger) && line_count(read_file(ledger)) >= 100; }));
    if (name == "one") {
      const std::string id = shown(cli).at("runs")[0].at("reservation");
      const Outcome early = cli({"account", "--ledger", kFile, "--close", id, "--run", name});
      check_one_error_line(early, 3);
      CHECK_THAT(early.err, ContainsSubstring("still going on"));
    }
    process.send(SIGKILL);
    process.finish();
  }
  Json account = shown(cli);
  const double before = account.at("epsilon").get<double>();
  REQUIRE(account.at("runs").size() == 2);
  CHECK(account.at("runs")[0].at("status") == "begun");
  const std::string one = account.at("runs")[0].at("reservation");
  const std::string two = account.at("runs")[1].at("reservation");

  check_one_error_line(cli({"account", "--ledger", kFile, "--close", two, "--run", "one"}), 3);
  // Its ledger is not closed, and nothing proves that no copy of it was resumed.
  CHECK(cli({"account", "--ledger", kFile, "--close", one, "--run", "one"}).exit_code == 0);
  account = shown(cli);
  CHECK(account.at("runs")[0].at("status") == "closed");
  CHECK(account.at("epsilon").get<double>() == before);
  CHECK(cli({"account", "--ledger", kFile, "--close", two}).exit_code == 0);
  CHECK(shown(cli).at("epsilon").get<double>() == before);
}

TEST_CASE("what was spent does not come back to an account, whatever is deleted before") {
  const Cli cli;
  REQUIRE(cli(opening("3")).exit_code == 0);
  Call call = cli.prepare({"run", "small.yaml"});
  const Words more =
      run("one", {"--set", "steps=60000", "--set", "model={kind: mlp, hidden: [512]}", "--set",
                  "evaluate_every=60000", "--state", "state"});
  call.words.insert(call.words.end(), more.begin(), more.end());
  Process process(call);
  const auto ledger = cli.out("one") / "ledger.jsonl";
  REQUIRE(Process::wait_for(
      [&] { return std::filesystem::exists(ledger) && line_count(read_file(ledger)) >= 10; }));
  process.send(SIGKILL);
  process.finish();
  const double before = shown(cli).at("epsilon").get<double>();
  REQUIRE(before > 0.0);
  const std::string id = shown(cli).at("runs")[0].at("reservation");
  std::filesystem::remove_all(cli.out("one"));
  std::filesystem::remove_all(cli.out("state"));
  check_one_error_line(cli({"account", "--ledger", kFile, "--close", id, "--run", "one"}), 4);
  CHECK(cli({"account", "--ledger", kFile, "--close", id}).exit_code == 0);
  CHECK(shown(cli).at("epsilon").get<double>() == before);
}

TEST_CASE("a reservation on which no ledger was opened is given back when it is closed") {
  const Cli cli;
  REQUIRE(cli(opening("3")).exit_code == 0);
  REQUIRE(cli.on_manifest("run", run("whole")).exit_code == 0);
  // The state of the account after a kill between the reservation and the ledger.
  const std::string account = read_file(cli.out(kFile));
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < account.size();) {
    const std::size_t end = account.find('\n', begin) + 1;
    lines.push_back(account.substr(begin, end - begin));
    begin = end;
  }
  REQUIRE(Json::parse(lines.at(1)).at("type") == "reserve");
  write_file(cli.out(kFile), lines[0] + lines[1]);
  const std::string id = shown(cli).at("runs")[0].at("reservation");
  CHECK(shown(cli).at("runs")[0].at("status") == "reserved");
  REQUIRE(shown(cli).at("epsilon").get<double>() > 0.0);
  const Outcome closed = cli({"account", "--ledger", kFile, "--close", id, "--run", "nowhere"});
  CHECK(closed.exit_code == 0);
  CHECK_THAT(closed.err, ContainsSubstring("nothing was charged, and all of it is given back"));
  CHECK(shown(cli).at("epsilon").get<double>() == 0.0);
  CHECK(shown(cli).at("runs")[0].at("status") == "given back");
}

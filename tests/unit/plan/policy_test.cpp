// Reading a site's policy, and the decision about a run that is given as plain values.
#include "privgrad/plan/policy.hpp"

#include <functional>

#include "manifest_fixture.hpp"

using namespace privgrad;
using core::parse_policy;
using core::Policy;
using core::RunForPolicy;

namespace {

const std::string kHash(64, 'a');
const std::string kKey(64, 'b');

const std::string kPolicy =
    "privgrad_policy: 1\n"                                  // 1
    "mode: release\n"                                       // 2
    "data:\n"                                               // 3
    "  - files: [/srv/hospital/*.csv, /srv/images/*]\n"     // 4
    "    epsilon: 3\n"                                      // 5
    "    delta: 1.0e-6\n"                                   // 6
    "    account: /srv/accounts/hospital.json\n"            // 7
    "    opened_within_days: 365\n"                         // 8
    "    units: [example]\n"                                // 9
    "    adjacencies: [add_or_remove_one, zero_out]\n"      // 10
    "    accountants: [pld, rdp, \"house.exact:exact\"]\n"  // 11
    "  - files: ['*']\n"                                    // 12
    "    epsilon: 8\n"                                      // 13
    "    delta: 1.0e-5\n"                                   // 14
    "plugins:\n"                                            // 15
    "  sha256: [" +
    kHash +
    "]\n"  // 16
    "  signers: [" +
    kKey +
    "]\n"                                      // 17
    "servers: ['alpha:9092', 'beta:9092']\n";  // 18

Policy policy() { return parse_policy(kPolicy, "/etc/p.yaml"); }

/// A run that kPolicy allows.
RunForPolicy allowed() {
  RunForPolicy run{.mode = core::Mode::release,
                   .files = {"/srv/hospital/a.csv"},
                   .delta = 1e-6,
                   .accountant = "pld",
                   .accountant_in_full = "privgrad.pld:pld",
                   .now = 1798761599};  // 2026-12-31T23:59:59Z
  run.account = {.file = "/srv/accounts/hospital.json",
                 .epsilon = 3.0,
                 .delta = 1e-6,
                 .opened_on = "2026-01-02"};
  run.plugins = {PluginIdentity{"house.exact", "1", kHash, "", "/opt/exact.privgrad.so"}};
  run.epsilon = PrivacyAnswer{3.0, BoundKind::upper, {}, ""};
  return run;
}

std::string refusal_of(const std::function<void(RunForPolicy&)>& change) {
  RunForPolicy run = allowed();
  change(run);
  return core::refusal(policy(), run).value_or("allowed");
}

std::string problems_of(const std::string& text) {
  try {
    parse_policy(text, "/etc/p.yaml");
  } catch (const core::ManifestError& problem) {
    return problem.what();
  }
  return "none";
}

std::string rule(const std::string& more) {
  return "privgrad_policy: 1\ndata:\n  - files: ['*']\n    epsilon: 1\n    delta: 0.1\n" + more;
}

}  // namespace

TEST_CASE("a policy is read as its file says it", "[policy]") {
  const Policy read = policy();
  CHECK(read.keys.text("mode") == "release");
  REQUIRE(read.rules.size() == 2);
  CHECK(read.rules[0].patterns == std::vector<std::string>{"/srv/hospital/*.csv", "/srv/images/*"});
  const Params& terms = read.rules[0].terms;
  CHECK(terms.real("epsilon") == 3.0);
  CHECK(terms.real("delta") == 1e-6);
  CHECK(terms.path("account") == "/srv/accounts/hospital.json");
  CHECK(terms.integer("opened_within_days") == 365);
  CHECK(terms.texts("units") == std::vector<std::string>{"example"});
  CHECK(terms.texts("adjacencies") == std::vector<std::string>{"add_or_remove_one", "zero_out"});
  CHECK_FALSE(read.rules[1].terms.has("accountants"));
  CHECK(read.keys.object("plugins").texts("sha256") == std::vector{kHash});
  CHECK(read.keys.object("plugins").texts("signers") == std::vector{kKey});
  CHECK(read.keys.texts("servers") == std::vector<std::string>{"alpha:9092", "beta:9092"});

  RunForPolicy public_test;
  public_test.test_is_public = true;
  CHECK_FALSE(core::refusal(parse_policy(rule("    test_is_public: true\n"), "p"), public_test));
  CHECK(core::refusal(parse_policy(rule("    test_is_public: false\n"), "p"), public_test));
  const Policy least = parse_policy("privgrad_policy: 1\n", "p");
  CHECK_FALSE(core::refusal(least, RunForPolicy{}));
  CHECK(parse_policy("privgrad_policy: 1\nplugins: {}\n", "p").keys.has("plugins"));
}

TEST_CASE("each mistake in a policy is named with its line and the nearest right key", "[policy]") {
  CHECK(problems_of("privgrad_policy: 1\nmodes: release\n") ==
        "/etc/p.yaml:2:1: error: modes: is unknown; did you mean 'mode'?");
  CHECK(problems_of("mode: release\n") ==
        "/etc/p.yaml:1:1: error: privgrad_policy: is missing; write privgrad_policy: 1");
  CHECK_THAT(problems_of("privgrad_policy: 2\n"), ContainsSubstring("is 2, allowed is [1, 1]"));
  CHECK_THAT(problems_of("privgrad_policy: 1\nmode: research\n"),
             ContainsSubstring("/etc/p.yaml:2:7: error: mode: is 'research', allowed are release"));
  CHECK_THAT(problems_of(rule("    epsilons: 3\n")),
             ContainsSubstring(
                 "/etc/p.yaml:6:5: error: data.0.epsilons: is unknown; did you mean 'epsilon'?"));
  CHECK_THAT(problems_of(rule("    units: [exmaple]\n")),
             ContainsSubstring("data.0.units.0: is 'exmaple', allowed are example, client; did you "
                               "mean 'example'?"));
  CHECK_THAT(problems_of(rule("    units: []\n")), ContainsSubstring("expected at least 1"));
  CHECK_THAT(problems_of(rule("    account: accounts/a\n")),
             ContainsSubstring("data.0.account: is 'accounts/a', expected an absolute path"));
  CHECK_THAT(problems_of(rule("    opened_within_days: 3\n")),
             ContainsSubstring("data.0.opened_within_days: goes with account"));
  CHECK_THAT(
      problems_of("privgrad_policy: 1\ndata:\n  - {files: [a.csv], epsilon: 1, delta: .1}\n"),
      ContainsSubstring("data.0.files: is 'a.csv', expected an absolute path or '*'"));
  CHECK_THAT(problems_of("privgrad_policy: 1\ndata:\n  - {files: ['*'], epsilon: 0, delta: 1}\n"),
             ContainsSubstring("data.0.epsilon: is 0, allowed is (0, inf)") &&
                 ContainsSubstring("data.0.delta: is 1, allowed is (0, 1)"));
  CHECK_THAT(problems_of("privgrad_policy: 1\ndata:\n  - {files: ['*'], delta: .1}\n"),
             ContainsSubstring("data.0.epsilon: is missing; the largest epsilon"));
  CHECK_THAT(problems_of("privgrad_policy: 1\nplugins: {sha256: [abc]}\n"),
             ContainsSubstring("plugins.sha256: is 'abc', expected 64 lower-case hex digits"));
  CHECK_THAT(problems_of("privgrad_policy: 1\nplugins: {signer: []}\n"),
             ContainsSubstring("did you mean 'signers'?"));
  CHECK_THAT(problems_of("privgrad_policy: 1\nprivgrad_policy: 1\n"), ContainsSubstring(":2:"));
  CHECK_THAT(problems_of(""), ContainsSubstring("the file is empty"));
  CHECK_THAT(problems_of("- 1\n"), ContainsSubstring("expected an object"));
}

TEST_CASE("a policy allows what each of its rules allows", "[policy]") {
  CHECK(refusal_of([](RunForPolicy&) {}) == "allowed");
  CHECK(refusal_of([](RunForPolicy& run) { run.epsilon.reset(); }) == "allowed");
  CHECK(refusal_of([](RunForPolicy& run) { run.epsilon->bound = BoundKind::exact; }) == "allowed");
  CHECK(refusal_of([](RunForPolicy& run) { run.account->opened_on = "2025-12-31"; }) == "allowed");
  CHECK(refusal_of([](RunForPolicy& run) { run.server = "beta:9092"; }) == "allowed");
  CHECK(refusal_of([](RunForPolicy& run) {
          run.accountant = "exact";
          run.accountant_in_full = "house.exact:exact";
        }) == "allowed");
  CHECK(refusal_of([](RunForPolicy& run) { run.files = {"/srv/hospital/deep/b.csv"}; }) ==
        "allowed");
  CHECK(refusal_of([](RunForPolicy& run) { run.files = {"/srv/images/cats/1.png"}; }) == "allowed");
  CHECK(refusal_of([](RunForPolicy& run) { run.files.push_back("/home/x/test.csv"); }) ==
        "allowed");
  // The second rule alone, without an account and with any accountant.
  CHECK(refusal_of([](RunForPolicy& run) {
          run.files = {"/home/x/other.csv"};
          run.account.reset();
          run.accountant = run.accountant_in_full = "zcdp";
          run.epsilon->value = 8.0;
          run.delta = 1e-5;
        }) == "allowed");
  CHECK(refusal_of([](RunForPolicy& run) {
          run.files = {};
          run.account.reset();
        }) == "allowed");
}

TEST_CASE(
    "a refusal names the policy's file and line, the rule, what the run has and what is "
    "allowed",
    "[policy][privacy]") {
  const auto says = [](const std::function<void(RunForPolicy&)>& change, const std::string& what) {
    CHECK(refusal_of(change) == "/etc/p.yaml:" + what);
  };
  says([](RunForPolicy& run) { run.mode = core::Mode::research; },
       "2: error: mode: the run is in research mode, allowed is release");
  says([](RunForPolicy& run) { run.epsilon->value = 3.0000000000000004; },
       "5: error: data.0.epsilon: the run states epsilon 3.0000000000000004 at delta 1e-06, "
       "allowed is at most 3");
  says([](RunForPolicy& run) { run.epsilon->value = HUGE_VAL; },
       "5: error: data.0.epsilon: the run states epsilon inf at delta 1e-06, allowed is at most 3");
  says([](RunForPolicy& run) { run.epsilon->value = std::nan(""); },
       "5: error: data.0.epsilon: the run states epsilon nan at delta 1e-06, allowed is at most 3");
  says([](RunForPolicy& run) { run.epsilon->bound = BoundKind::estimate; },
       "11: error: data.0.accountants: pld only estimates the run's epsilon, expected a proof");
  says([](RunForPolicy& run) { run.unaccounted = "training metrics"; },
       "5: error: data.0.epsilon: the run shows or uses 'training metrics', which its epsilon does "
       "not cover; use mode: release");
  says([](RunForPolicy& run) { run.has_noise = false; },
       "5: error: data.0.epsilon: the run adds no noise, so no epsilon holds, allowed is at "
       "most 3");
  says([](RunForPolicy& run) { run.has_seed = true; },
       "5: error: data.0.epsilon: anybody with the run's seed can remove its noise, so no "
       "epsilon holds; leave seed out");
  says([](RunForPolicy& run) { run.test_is_public = true; },
       "4: error: data.0.test_is_public: the run shows exact metrics on its test rows; leave "
       "data.test_is_public out");
  says([](RunForPolicy& run) { run.delta = 1e-5; },
       "6: error: data.0.delta: the run states delta 1e-05, allowed is at most 1e-06");
  says([](RunForPolicy& run) { run.unit = PrivacyUnit::client; },
       "9: error: data.0.units: the run protects each client, allowed are example");
  says([](RunForPolicy& run) { run.adjacency = Adjacency::replace_one; },
       "10: error: data.0.adjacencies: the run is for replace_one, allowed are add_or_remove_one, "
       "zero_out");
  says([](RunForPolicy& run) { run.accountant = run.accountant_in_full = "zcdp"; },
       "11: error: data.0.accountants: the run is accounted by zcdp, allowed are pld, rdp, "
       "house.exact:exact");
  says([](RunForPolicy& run) { run.account.reset(); },
       "7: error: data.0.account: the run names no account, expected "
       "/srv/accounts/hospital.json as privacy.account");
  says([](RunForPolicy& run) { run.account->file = "/home/x/a.json"; },
       "7: error: data.0.account: the run's account is /home/x/a.json, expected "
       "/srv/accounts/hospital.json");
  const std::string at_most = ", allowed is at most 3 at 1e-06";
  says([](RunForPolicy& run) { run.account->epsilon = 4.0; },
       "7: error: data.0.account: the account pays for epsilon 4 at delta 1e-06" + at_most);
  says([](RunForPolicy& run) { run.account->delta = 1e-5; },
       "7: error: data.0.account: the account pays for epsilon 3 at delta 1e-05" + at_most);
  says([](RunForPolicy& run) { run.account->opened_on = "2025-12-30"; },
       "8: error: data.0.opened_within_days: the account was opened on '2025-12-30', allowed are "
       "the last 365 days");
  says([](RunForPolicy& run) { run.account->opened_on = "2027-01-01"; },
       "8: error: data.0.opened_within_days: the account was opened on '2027-01-01', allowed are "
       "the last 365 days");
  says(
      [](RunForPolicy& run) { run.account->opened_on = ""; },
      "8: error: data.0.opened_within_days: the account was opened on '', allowed are the last 365 "
      "days");
  says([](RunForPolicy& run) { run.server = ""; },
       "18: error: servers: the client's server is not known, allowed are alpha:9092, beta:9092");
  says([](RunForPolicy& run) { run.server = "gamma:9092"; },
       "18: error: servers: the client's server is gamma:9092, allowed are alpha:9092, beta:9092");
  says([](RunForPolicy& run) { run.plugins.front().sha256 = std::string(64, 'c'); },
       "16: error: plugins: the run loads house.exact (/opt/exact.privgrad.so, sha256 " +
           std::string(64, 'c') +
           "), allowed are built-in plugins and the policy's hashes and signers");
}

TEST_CASE("each rule that matches some of the data must allow the run", "[policy][privacy]") {
  // The hospital's rule, although the other rule would allow it.
  CHECK_THAT(refusal_of([](RunForPolicy& run) {
               run.files = {"/home/x/train.csv", "/srv/hospital/test.csv"};
               run.account.reset();
             }),
             ContainsSubstring("data.0.account"));
  CHECK_THAT(refusal_of([](RunForPolicy& run) {
               run.files = {"/home/x/train.csv"};
               run.epsilon->value = 8.5;
             }),
             ContainsSubstring(":13: error: data.1.epsilon"));
  const Policy hospital = parse_policy(
      "privgrad_policy: 1\ndata:\n  - {files: [/srv/hospital/*.csv, '/srv/images/*'], epsilon: 3, "
      "delta: 0.1}\n",
      "p");
  const auto asked = [&](std::vector<std::filesystem::path> files) {
    RunForPolicy run = allowed();
    run.files = std::move(files);
    return core::refusal(hospital, run).value_or("allowed");
  };
  CHECK(asked({"/srv/hospital/a.csv", "/srv/images/cats/1.png"}) == "allowed");
  CHECK(asked({"/srv/hospital/a.csv", "/home/x.csv"}) ==
        "p:3: error: data: no rule is for /home/x.csv");
  CHECK_THAT(asked({"/home/srv/hospital/a.csv"}), ContainsSubstring("no rule is for"));
  CHECK_THAT(asked({}),
             ContainsSubstring("no rule is for data in no file, which only '*' matches"));
  const Policy nothing = parse_policy("privgrad_policy: 1\ndata: []\n", "p");
  CHECK(core::refusal(nothing, allowed()));
}

TEST_CASE("a policy with rules for data asks for named servers, if clients send exact changes",
          "[policy][privacy]") {
  const std::string rules =
      "privgrad_policy: 1\ndata:\n  - {files: ['*'], epsilon: 3, delta: .1}\n";
  RunForPolicy run = allowed();
  run.server = "alpha:9092";
  CHECK_FALSE(core::refusal(parse_policy(rules, "p"), run));
  run.sends_exact_changes = true;
  CHECK_THAT(core::refusal(parse_policy(rules, "p"), run).value_or(""),
             ContainsSubstring("p:3: error: data: the client sends exact changes"));
  CHECK_FALSE(core::refusal(parse_policy(rules + "servers: ['alpha:9092']\n", "p"), run));
}

TEST_CASE("a server without data obeys the rules that are not about data", "[policy]") {
  RunForPolicy server = allowed();
  server.has_data = false;
  server.files.clear();
  server.account.reset();
  server.epsilon->value = 100.0;
  CHECK_FALSE(core::refusal(policy(), server));
  server.mode = core::Mode::research;
  CHECK(core::refusal(policy(), server));
}

TEST_CASE("patterns are of paths without links, as the paths of data are", "[policy]") {
  const TempDir dir;
  std::filesystem::create_directories(dir.path() / "real");
  std::filesystem::create_directory_symlink(dir.path() / "real", dir.path() / "link");
  const auto read =
      parse_policy("privgrad_policy: 1\ndata:\n  - {files: ['" + (dir.path() / "link").string() +
                       "/*.csv'], epsilon: 1, delta: .1}\n",
                   "p");
  const std::string real = std::filesystem::canonical(dir.path() / "real").string();
  CHECK(read.rules[0].patterns == std::vector{real + "/*.csv"});
  write_file(dir.path() / "real/t.csv", "");
  std::filesystem::create_symlink(dir.path() / "real/t.csv", dir.path() / "t.csv");
  const auto one =
      parse_policy("privgrad_policy: 1\ndata:\n  - {files: ['" + (dir.path() / "t.csv").string() +
                       "', '/*'], epsilon: 1, delta: .1}\n",
                   "p");
  CHECK(one.rules[0].patterns == std::vector<std::string>{real + "/t.csv", "/*"});
}

#include <cmath>

#include "cli.hpp"

namespace {

Json bound(Words words) {
  const Cli cli;
  words.insert(words.begin(), "bound");
  words.push_back("--json");
  const Outcome outcome = cli(words);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return Json::parse(outcome.out);
}

}  // namespace

// Values of the bound itself, minimised over all T in an independent computation.
TEST_CASE("bound descent: the best T for kappa 10, alpha 1e-3") {
  const Json json = bound({"descent", "--kappa", "10", "--alpha", "1e-3"});
  CHECK(json.at("schedules").at("dynamic").at("steps") == 24);
  CHECK_THAT(json.at("schedules").at("dynamic").at("bound").get<double>(), WithinAbs(0.2753, 5e-5));
  CHECK(json.at("schedules").at("uniform").at("steps") == 21);
  CHECK_THAT(json.at("schedules").at("uniform").at("bound").get<double>(), WithinAbs(0.2964, 5e-5));
  CHECK(json.at("printed").at("dynamic").at("steps") == 92);
  const Json at = bound({"descent", "--kappa", "10", "--alpha", "1e-3", "--steps", "92"});
  CHECK(at.at("schedules").at("dynamic").at("bound") ==
        json.at("printed").at("dynamic").at("bound"));
  CHECK(at.at("schedules").at("dynamic").at("best") == false);
}

TEST_CASE("bound: alpha and kappa from what they are made of") {
  const Words facts{"--parameters",     "60",   "--clip-norm",    "4",   "--smoothness",  "2",
                    "--examples",       "1000", "--initial-gap",  "0.7", "--pl-constant", "0.2",
                    "--target-epsilon", "4",    "--target-delta", "1e-8"};
  Words descent{"descent"};
  descent.insert(descent.end(), facts.begin(), facts.end());
  const Json json = bound(descent);
  CHECK_THAT(json.at("kappa").get<double>(), WithinRel(10.0, 1e-14));
  // D G^2 / (2 R M N^2 gap), R = 0.3927.
  CHECK_THAT(json.at("alpha").get<double>(),
             WithinRel(60.0 * 16.0 / (2.0 * 0.392704 * 2.0 * 1e6 * 0.7), 1e-4));
  for (const char* kind : {"risk-stability", "sgd", "risk-probability", "momentum"}) {
    Words words{kind};
    words.insert(words.end(), facts.begin(), facts.end());
    if (std::string(kind) == "sgd")
      words.insert(words.end(), {"--batch-size", "100", "--gradient-noise", "1"});
    if (std::string(kind) == "risk-probability")
      words.insert(words.end(), {"--probability", "0.1"});
    const Json answer = bound(words);
    CHECK(answer.at("kind") == kind);
    CHECK(answer.at("schedules").at("dynamic").at("bound") <=
          answer.at("schedules").at("uniform").at("bound"));
  }
}

TEST_CASE("bound sgd: momentum changes what the noise of sampling adds") {
  const auto sgd = [](const Words& more) {
    Words words{"sgd", "--kappa",      "20",  "--parameters", "60",   "--clip-norm",
                "4",   "--smoothness", "2",   "--examples",   "1000", "--initial-gap",
                "0.7", "--budget",     "0.4", "--batch-size", "100",  "--gradient-noise",
                "1",   "--steps",      "80"};
    words.insert(words.end(), more.begin(), more.end());
    return bound(words);
  };
  const Json json = sgd({"--momentum", "--beta", "0.5"});
  const Json without = bound({"momentum", "--kappa", "20", "--parameters", "60", "--clip-norm", "4",
                              "--smoothness", "2", "--examples", "1000", "--initial-gap", "0.7",
                              "--budget", "0.4", "--beta", "0.5", "--steps", "80"});
  for (const char* schedule : {"uniform", "dynamic"}) {
    const double added = json.at("schedules").at(schedule).at("bound").get<double>() -
                         without.at("schedules").at(schedule).at("bound").get<double>();
    CHECK(added > 0.0);
    CHECK(added <= 2.0 * json.at("sampling").get<double>());
  }
  // D sigma_g^2 / (2 mu n^2 (f_1 - f*)), mu = 2/20.
  CHECK_THAT(json.at("sampling").get<double>(), WithinRel(60.0 / (2.0 * 0.1 * 1e4 * 0.7), 1e-12));
  CHECK(json.at("sampling") == sgd({}).at("sampling"));
}

TEST_CASE("bound sgd takes the theorems' batch size, max(N sqrt(R), 1), unless it is given one") {
  const auto batch_size = [](const char* budget) {
    return bound({"sgd", "--kappa", "20", "--parameters", "60", "--clip-norm", "4", "--smoothness",
                  "2", "--examples", "1000", "--initial-gap", "0.7", "--budget", budget,
                  "--gradient-noise", "1", "--steps", "80"})
        .at("batch_size")
        .get<double>();
  };
  CHECK_THAT(batch_size("0.4"), WithinRel(1000.0 * std::sqrt(0.4), 1e-12));
  CHECK(batch_size("1e-8") == 1.0);
  CHECK(batch_size("4") == 1000.0);
}

// Theorems 6 and 9 and their lemmas, evaluated in Python (scripts/tran2022_rates.py).
TEST_CASE("bound tree and tree-reduced: the norms that Tran and Cutkosky's theorems promise") {
  struct Row {
    const char *parameters, *epsilon, *examples;
    double steps_of_6, printed_6, proved_6, steps_of_9, printed_9, proved_9;
  };
  const Row rows[] = {{"106", "1", "200", 156.973395014, 34.3293970265, 33.4230144792,
                       10443.9811596, 30201.7772517, 5840.019093},
                      {"106", "8", "800", 10925.0197381, 6.93145127193, 6.36278347058,
                       4244169.38994, 4303.07864998, 840.653302578},
                      {"12730", "4", "1000000", 367230266.7, 1.23079684389, 1.11875554572,
                       1.16464719757e+12, 501.998169551, 98.4804541368}};
  for (const Row& row : rows) {
    for (const char* kind : {"tree", "tree-reduced"}) {
      INFO(kind << ", " << row.examples << " examples");
      const Json json =
          bound({kind, "--parameters", row.parameters, "--clip-norm", "1", "--smoothness", "1",
                 "--examples", row.examples, "--initial-gap", "0.6931471805599453",
                 "--target-epsilon", row.epsilon, "--target-delta", "1e-5"});
      const bool is_6 = std::string(kind) == "tree";
      CHECK_THAT(json.at("steps").get<double>(),
                 WithinRel(is_6 ? row.steps_of_6 : row.steps_of_9, 1e-9));
      CHECK_THAT(json.at("norms").at("printed").get<double>(),
                 WithinRel(is_6 ? row.printed_6 : row.printed_9, 1e-9));
      CHECK_THAT(json.at("norms").at("proved").get<double>(),
                 WithinRel(is_6 ? row.proved_6 : row.proved_9, 1e-9));
    }
  }
}

TEST_CASE("bound tables: every row has its number") {
  const Json json = bound({"tables", "--examples", "1000", "--parameters", "60", "--target-epsilon",
                           "4", "--target-delta", "1e-8"});
  CHECK(json.at("rows").size() == 23);
  for (const Json& row : json.at("rows")) {
    CHECK(row.at("value").get<double>() > 0.0);
    CHECK(row.at("steps").get<double>() > 1.0);
  }
}

TEST_CASE("bound refuses what it cannot compute, in one line") {
  const Cli cli;
  const auto refused = [&](Words words, const char* why) {
    words.insert(words.begin(), "bound");
    const Outcome outcome = cli(words);
    check_one_error_line(outcome, 2);
    CHECK_THAT(outcome.err, ContainsSubstring(why));
  };
  refused({"decent"}, "did you mean 'descent'?");
  refused({"descent"}, "needs --smoothness");
  refused({"descent", "--kappa", "0.5", "--alpha", "1"}, "kappa is 0.5, allowed is at least 1");
  refused({"descent", "--kappa", "10"}, "bound descent needs --parameters");
  refused({"descent", "--kappa", "x", "--alpha", "1"}, "--kappa is 'x'");
  refused({"sgd", "--kappa",          "10", "--alpha",       "1e-3", "--budget",
           "1",   "--parameters",     "60", "--examples",    "1000", "--batch-size",
           "10",  "--gradient-noise", "1",  "--pl-constant", "1",    "--initial-gap",
           "1",   "--beta",           "0.5"},
          "bound sgd does not use --beta");
  refused({"momentum", "--kappa", "10", "--alpha", "1e-3", "--eta0", "0.98"}, "zeta >= 0");
  refused({"descent", "--kappa", "2", "--parameters", "6", "--clip-norm", "1", "--smoothness", "1",
           "--examples", "9", "--initial-gap", "1"},
          "needs --budget, or --target-epsilon");
}

TEST_CASE("bound: an option that the answer does not depend on is refused") {
  const auto refused = [](Words words, const std::string& why) {
    words.insert(words.begin(), "bound");
    const Outcome outcome = Cli()(words);
    check_one_error_line(outcome, 2);
    CHECK_THAT(outcome.err, ContainsSubstring(why));
  };
  refused({"descent", "--kappa", "10", "--alpha", "1e-3", "--beta", "0.9"},
          "bound descent does not use --beta");
  refused({"momentum", "--kappa", "10", "--alpha", "1e-3", "--batch-size", "32"},
          "bound momentum does not use --batch-size");
  // Two options that give the same quantity.
  refused({"descent", "--kappa", "10", "--smoothness", "3", "--alpha", "1e-3"},
          "bound descent does not use --smoothness with the other options that are given");
  refused({"descent", "--kappa", "10", "--alpha", "1e-3", "--target-epsilon", "1"},
          "bound descent does not use --target-epsilon");
}

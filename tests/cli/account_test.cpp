#include <cmath>
#include <cstdio>
#include <sstream>

#include "cli.hpp"

namespace {

/// 1000 steps of DP-SGD with q = 0.01, sigma = 1.
constexpr const char* kEvent =
    R"({"event": "self_composed", "count": 1000, "of": {"event": "poisson_sampled",
  "sampling_probability": 0.01, "of": {"event": "gaussian", "noise_multiplier": 1.0}}})";

}  // namespace

TEST_CASE("account tells epsilon at a delta, with the contract's keys") {
  const Cli cli;
  write_file(cli.dir() / "event.json", kEvent);
  const Outcome outcome =
      cli({"account", "--accountant", "rdp", "--event", "event.json", "--delta", "1e-5", "--json"});
  CHECK(outcome.exit_code == 0);
  const Json json = Json::parse(outcome.out);
  for (const char* key : {"accountant", "adjacency", "epsilon", "delta", "bound", "lower"}) {
    CHECK(json.contains(key));
  }
  // dp_accounting and Opacus give 2.1014 with their lists of orders; a better order is between two
  // of theirs.
  CHECK(json.at("epsilon").get<double>() <= 2.1014);
  CHECK(json.at("epsilon").get<double>() >= 1.8282);  // the exact value, by PLD
  CHECK(json.at("bound") == "upper");
  CHECK(json.at("adjacency") == "add_or_remove_one");
}

TEST_CASE("without an accountant the least proved answer counts, and estimates do not") {
  const Cli cli;
  write_file(cli.dir() / "event.json", kEvent);
  write_file(cli.dir() / "zcdp.json", R"({"event": "zcdp", "rho": 0.1})");
  const auto answer = [&](const std::string& event, Words more) {
    more.insert(more.begin(), {"account", "--event", event, "--json"});
    const Outcome outcome = cli(more);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return Json::parse(outcome.out);
  };
  const Json best = answer("event.json", {"--delta", "1e-5"});
  CHECK(best == answer("event.json", {"--delta", "1e-5", "--accountant", "pld"}));
  const Json rdp = answer("event.json", {"--delta", "1e-5", "--accountant", "rdp"});
  CHECK(best.at("epsilon").get<double>() < rdp.at("epsilon").get<double>());
  // saddle_point gives a smaller number, but proves nothing.
  const Json estimate = answer("event.json", {"--delta", "1e-5", "--accountant", "saddle_point"});
  CHECK(estimate.at("epsilon").get<double>() <= best.at("epsilon").get<double>());
  CHECK(best.at("bound") != "estimate");
  // The same for delta, and for an event that few accountants accept.
  CHECK(answer("event.json", {"--epsilon", "1"}).at("accountant") == "pld");
  CHECK(answer("zcdp.json", {"--delta", "1e-5"}).at("accountant") != "pld");
  const Outcome none = cli({"account", "--event", "event.json", "--delta", "2"});
  CHECK(none.exit_code == 2);
  write_file(cli.dir() / "none.json",
             R"({"event": "poisson_sampled", "sampling_probability": 0.1,
  "of": {"event": "zcdp", "rho": 0.1}})");
  const Outcome unproven = cli({"account", "--event", "none.json", "--delta", "1e-5"});
  INFO(unproven.out << unproven.err);
  CHECK(unproven.exit_code == 3);
  CHECK_THAT(unproven.err, ContainsSubstring("no accountant has a proof; "));
}

TEST_CASE("calibrate without an accountant needs least noise, or has most steps") {
  const Cli cli;
  const auto made = [&](Words more) {
    more.insert(more.begin(), {"calibrate", "--target-epsilon", "2", "--target-delta", "1e-5",
                               "--sample-rate", "0.01", "--json"});
    const Outcome outcome = cli(more);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return Json::parse(outcome.out);
  };
  const Words noise = {"--steps", "200"}, steps = {"--noise-multiplier", "1"};
  const auto by = [](Words words, const std::string& accountant) {
    words.insert(words.end(), {"--accountant", accountant});
    return words;
  };
  CHECK(made(noise) == made(by(noise, "pld")));
  CHECK(made(steps) == made(by(steps, "pld")));
  CHECK(made(noise).at("noise_multiplier") < made(by(noise, "rdp")).at("noise_multiplier"));
  CHECK(made(steps).at("steps") > made(by(steps, "rdp")).at("steps"));
}

TEST_CASE("the example of account --help takes the event of that page") {
  const Cli cli;
  const std::string help = cli({"account", "--help"}).out;
  const std::size_t begin = help.find("{\"event\": \"self_composed\"");
  REQUIRE(begin != help.npos);
  const std::size_t end = help.find("}}}", begin);
  REQUIRE(end != help.npos);
  write_file(cli.dir() / "event.json", help.substr(begin, end + 3 - begin));
  const std::string mark = "\nexamples:\n  privgrad ";
  REQUIRE(help.find(mark) != help.npos);
  std::istringstream example(help.substr(help.find(mark) + mark.size()));
  std::string line;
  std::getline(example, line);
  std::istringstream in(line);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  const Outcome outcome = cli(words);
  INFO(line << "\n" << outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("accountant  pld"));
}

TEST_CASE("account tells delta at an epsilon, and doubles the sensitivity under replace_one") {
  const Cli cli;
  write_file(cli.dir() / "event.json", R"({"event": "gaussian", "noise_multiplier": 2.0})");
  const auto delta = [&](const std::string& adjacency) {
    const Outcome outcome = cli({"account", "--accountant", "gdp", "--event", "event.json",
                                 "--epsilon", "1", "--adjacency", adjacency, "--json"});
    return Json::parse(outcome.out).at("delta").get<double>();
  };
  // Balle and Wang 2018: Phi(mu/2 - 1/mu) - e Phi(-mu/2 - 1/mu), mu = 1/2 and mu = 1.
  CHECK_THAT(delta("zero_out"), WithinRel(0.006829594983114577, 1e-9));
  CHECK_THAT(delta("replace_one"), WithinRel(0.12693673750664394, 1e-9));
}

TEST_CASE("account refuses what it cannot do with the right exit code") {
  const Cli cli;
  write_file(cli.dir() / "event.json", kEvent);
  write_file(cli.dir() / "broken.json", "{");
  check_one_error_line(
      cli({"account", "--accountant", "zcdp", "--event", "event.json", "--delta", "1e-5"}), 3);
  check_one_error_line(
      cli({"account", "--accountant", "rdp", "--event", "broken.json", "--delta", "1e-5"}), 2);
  check_one_error_line(
      cli({"account", "--accountant", "rdp", "--event", "absent.json", "--delta", "1e-5"}), 4);
  check_one_error_line(
      cli({"account", "--accountant", "rdq", "--event", "event.json", "--delta", "1e-5"}), 2);
  check_one_error_line(cli({"account", "--accountant", "rdp", "--event", "event.json"}), 2);
  for (const char* delta : {"0", "1", "-1", "nan", "x", ""}) {
    check_one_error_line(
        cli({"account", "--accountant", "rdp", "--event", "event.json", "--delta", delta}), 2);
  }
}

TEST_CASE("an event is printed for dp_accounting") {
  const Cli cli;
  write_file(cli.dir() / "event.json", kEvent);
  CHECK(cli({"account", "--event", "event.json", "--dp-accounting"}).out ==
        "dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1)), 1000)\n");
}

TEST_CASE("calibrate finds noise and steps, from below the target") {
  const Cli cli;
  const auto calibrate = [&](const std::string& option, const std::string& value) {
    const Outcome outcome =
        cli({"calibrate", "--accountant", "rdp", "--target-epsilon", "2", "--target-delta", "1e-5",
             "--sample-rate", "0.015", option, value, "--json"});
    CHECK(outcome.exit_code == 0);
    return Json::parse(outcome.out);
  };
  const Json noise = calibrate("--steps", "500");
  CHECK(noise.at("epsilon").get<double>() <= 2.0);
  CHECK(noise.at("epsilon").get<double>() >= 2.0 * (1 - 1e-6));
  const Json steps = calibrate("--noise-multiplier", "1.1");
  CHECK(steps.at("epsilon").get<double>() <= 2.0);
  CHECK(steps.at("steps").get<int>() > 500);  // 314 with integer orders and the classic conversion
}

TEST_CASE("calibrate finds noise and steps of random allocation, of whole epochs") {
  const Cli cli;
  const auto calibrate = [&](const std::string& option, const std::string& value) {
    const Outcome outcome =
        cli({"calibrate", "--accountant", "pld", "--target-epsilon", "2", "--target-delta", "1e-5",
             "--allocation", "20", option, value, "--json"});
    INFO(outcome.err);
    CHECK(outcome.exit_code == 0);
    return Json::parse(outcome.out);
  };
  const Json noise = calibrate("--steps", "90");
  CHECK(noise.at("epsilon").get<double>() <= 2.0);
  CHECK(noise.at("epsilon").get<double>() >= 2.0 * (1 - 1e-3));
  CHECK(noise.at("lower").get<double>() >= 2.0 * (1 - 1e-3));
  CHECK(noise.at("allocation") == 20);
  CHECK(noise.at("sample_rate").is_null());
  // Partial steps are paid for in full.
  CHECK(calibrate("--steps", "100").at("noise_multiplier") == noise.at("noise_multiplier"));
  const Json steps = calibrate("--noise-multiplier", "1.1");
  CHECK(steps.at("epsilon").get<double>() <= 2.0);
  CHECK(steps.at("steps").get<int>() > 0);
  CHECK(steps.at("steps").get<int>() % 20 == 0);
  check_one_error_line(
      cli({"calibrate", "--accountant", "pld", "--target-epsilon", "2", "--target-delta", "1e-5",
           "--allocation", "20", "--sample-rate", "0.1", "--steps", "10"}),
      2);
}

TEST_CASE("who has no theorem for random allocation refuses it by name of one that has") {
  const Cli cli;
  write_file(cli.dir() / "event.json", R"({"event": "random_allocation", "steps": 100,
    "of": {"event": "gaussian", "noise_multiplier": 1.0}})");
  for (const std::string accountant : {"rdp", "zcdp", "gdp", "saddle_point"}) {
    const Outcome outcome =
        cli({"account", "--accountant", accountant, "--event", "event.json", "--delta", "1e-5"});
    check_one_error_line(outcome, 3);
    CHECK_THAT(outcome.err, ContainsSubstring("other accountants that take it: pld"));
  }
  const Outcome outcome =
      cli({"account", "--accountant", "pld", "--event", "event.json", "--delta", "1e-5", "--json"});
  const Json json = Json::parse(outcome.out);  // the golden value is 0.62094
  CHECK_THAT(json.at("epsilon").get<double>(), WithinRel(0.62094, 2e-4));
  CHECK(json.at("epsilon").get<double>() >= json.at("lower").get<double>());
  check_one_error_line(cli({"account", "--accountant", "pld", "--event", "event.json", "--delta",
                            "1e-5", "--adjacency", "replace_one"}),
                       3);
}

TEST_CASE("the best of a random number of runs is accounted by who has a theorem for it") {
  const Cli cli;
  write_file(cli.dir() / "event.json", R"({"event": "repeat_and_select", "distribution": "poisson",
    "mean": 10, "candidates": [{"event": "gaussian", "noise_multiplier": 2.0}]})");
  for (const std::string accountant : {"zcdp", "gdp", "saddle_point"}) {
    const Outcome outcome =
        cli({"account", "--accountant", accountant, "--event", "event.json", "--delta", "1e-5"});
    check_one_error_line(outcome, 3);
    CHECK_THAT(outcome.err, ContainsSubstring("other accountants that take it: pld, rdp"));
  }
  const auto epsilon = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"account", "--event", "event.json", "--delta", "1e-5", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return Json::parse(cli(words).out).at("epsilon").get<double>();
  };
  CHECK(epsilon({}) ==
        std::min(epsilon({"--accountant", "pld"}), epsilon({"--accountant", "rdp"})));
  CHECK(cli({"account", "--event", "event.json", "--dp-accounting"}).out ==
        "dp.RepeatAndSelectDpEvent(dp.GaussianDpEvent(2), 10, float('inf'))\n");
}

TEST_CASE("ALI-DPFL's number of steps for epsilon 2 is 314, not the printed 317") {
  const Cli cli;
  std::string orders;
  for (int order = 2; order <= 64; ++order)
    orders += (order == 2 ? "" : ", ") + std::to_string(order);
  const Outcome outcome = cli({"calibrate", "--accountant",
                               "{kind: rdp, conversion: classic, orders: [" + orders + "]}",
                               "--target-epsilon", "2", "--target-delta", "1e-5", "--sample-rate",
                               "0.015", "--noise-multiplier", "1.1", "--json"});
  CHECK(Json::parse(outcome.out).at("steps") == 314);
}

TEST_CASE("calibrate answers, or says why, where delta is near the chance of taking part") {
  const Cli cli;
  // A privacy unit takes part with probability 1 - (1 - q)^T. If delta is above that, or up to 0.2
  // % below, the smallest noise is an artefact: even a run without noise meets the target.
  for (const char* accountant : {"rdp", "pld", "saddle_point"}) {
    for (const auto& [rate, steps] : {std::pair{"1e-4", 5}, {"0.01", 1}, {"0.01", 50}}) {
      const double taking_part = -std::expm1(steps * std::log1p(-std::stod(rate)));
      for (const double share : {0.5, 0.9999, 1.0, 2.0}) {
        INFO(accountant << ", rate " << rate << ", " << steps << " steps, share " << share);
        const double delta = share * taking_part;
        const Outcome outcome = cli({"calibrate", "--accountant", accountant, "--target-epsilon",
                                     "1", "--target-delta", Json(delta).dump(), "--sample-rate",
                                     rate, "--steps", std::to_string(steps), "--json"});
        if (outcome.exit_code == 3) {
          CHECK(share > 0.998);
          CHECK_THAT(outcome.err, ContainsSubstring("choose a smaller delta"));
          continue;
        }
        REQUIRE(outcome.exit_code == 0);
        const Json made = Json::parse(outcome.out);
        CHECK(made.at("epsilon") <= 1.0);
        CHECK(made.at("noise_multiplier") > 0.15);
      }
    }
  }
}

TEST_CASE("calibrate refuses what cannot be met") {
  const Cli cli;
  const Words call{"calibrate", "--accountant",  "rdp",  "--target-delta",
                   "1e-5",      "--sample-rate", "0.015"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), call.begin(), call.end());
    return cli(more);
  };
  // Zero steps is a valid answer: it costs nothing.
  const Outcome none = with({"--target-epsilon", "0.001", "--noise-multiplier", "0.3", "--json"});
  CHECK(none.exit_code == 0);
  CHECK(Json::parse(none.out).at("steps") == 0);
  CHECK(Json::parse(none.out).at("epsilon") == 0.0);
  CHECK_THAT(Json::parse(none.out).at("note").get<std::string>(),
             ContainsSubstring("the budget does not allow a single step, which costs epsilon"));
  check_one_error_line(with({"--target-epsilon", "1"}), 2);
  check_one_error_line(with({"--target-epsilon", "1", "--steps", "5", "--noise-multiplier", "1"}),
                       2);
  check_one_error_line(with({"--target-epsilon", "-1", "--steps", "5"}), 2);
  check_one_error_line(with({"--target-epsilon", "1", "--steps", "0"}), 2);
}

TEST_CASE("account --curve bounds the best test of a Gaussian from above, and closely") {
  const Cli cli;
  write_file(cli.dir() / "event.json", R"({"event": "gaussian", "noise_multiplier": 1.0})");
  const auto below = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  const Outcome outcome = cli({"account", "--event", "event.json", "--curve", "--json"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json points = Json::parse(outcome.out).at("points");
  CHECK(points.size() == 8);
  double last = 0.0;
  for (const Json& point : points) {
    INFO(point.dump());
    const double wrongly = point.at("wrongly_accused");
    double low = -10.0, high = 10.0;
    for (int i = 0; i < 100; ++i) {
      const double middle = 0.5 * (low + high);
      (below(middle) < wrongly ? low : high) = middle;
    }
    // Neyman and Pearson 1933: Phi(z + mu), mu = 1, z the quantile of the false-positive rate.
    const double best = below(low + 1.0);
    const double found = point.at("found_at_most");
    CHECK(found >= best);
    CHECK(found <= best + 1e-3);
    CHECK_THAT(point.at("missed_at_least").get<double>(), WithinAbs(1.0 - found, 1e-15));
    CHECK(wrongly > last);
    last = wrongly;
  }
  const Outcome table = cli({"account", "--event", "event.json", "--curve"});
  CHECK(table.exit_code == 0);
  CHECK_THAT(table.out, ContainsSubstring("wrongly accused  found at most  missed at least"));
  // Printed pairs are proved, so they are never below Balle and Wang 2018, Theorem 8, with noise 1.
  std::istringstream lines(table.out);
  int pairs = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find("epsilon ");
    if (at == line.npos) continue;
    INFO(line);
    double epsilon = 0.0, delta = 0.0;
    REQUIRE(std::sscanf(line.c_str() + at, "epsilon %lf, delta %lf", &epsilon, &delta) == 2);
    CHECK(delta >= below(0.5 - epsilon) - std::exp(epsilon) * below(-0.5 - epsilon));
    ++pairs;
  }
  CHECK(pairs == 8);
}

TEST_CASE("account --curve is made of proofs, of whoever takes the event") {
  const Cli cli;
  write_file(cli.dir() / "event.json", kEvent);
  write_file(cli.dir() / "zcdp.json", R"({"event": "zcdp", "rho": 0.1})");
  write_file(cli.dir() / "bare.json", R"({"event": "non_private"})");
  const auto curve = [&](Words more) {
    more.insert(more.begin(), {"account", "--curve", "--json"});
    return cli(more);
  };
  const auto found = [](const Outcome& outcome) {
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return Json::parse(outcome.out).at("points").at(2).at("found_at_most").get<double>();
  };
  CHECK(found(curve({"--event", "event.json"})) <=
        found(curve({"--event", "event.json", "--accountant", "rdp"})));
  CHECK(found(curve({"--event", "zcdp.json"})) < 0.5);
  CHECK(found(curve({"--event", "bare.json"})) == 1.0);
  const Outcome estimate = curve({"--event", "event.json", "--accountant", "saddle_point"});
  CHECK(estimate.exit_code != 0);
  CHECK_THAT(estimate.err, ContainsSubstring("a curve needs proofs"));
  CHECK(curve({"--event", "event.json", "--delta", "1e-5"}).exit_code == 2);
}

TEST_CASE("account at epsilon 0 and at delta 0") {
  const Cli cli;
  write_file(cli.dir() / "event.json", R"({"event": "gaussian", "noise_multiplier": 2.0})");
  const Outcome variation = cli({"account", "--event", "event.json", "--epsilon", "0", "--json"});
  REQUIRE(variation.exit_code == 0);
  // The total variation of N(0, 1) and N(mu, 1), erf(mu / sqrt(8)), mu = 1/2.
  CHECK_THAT(Json::parse(variation.out).at("delta").get<double>(),
             WithinRel(std::erf(0.5 / std::sqrt(8.0)), 1e-9));
  const Outcome pure = cli({"account", "--event", "event.json", "--delta", "0"});
  CHECK(pure.exit_code == 2);
  CHECK_THAT(pure.err, ContainsSubstring("with delta 0 no epsilon holds for Gaussian noise"));
  write_file(cli.dir() / "laplace.json",
             R"({"event": "poisson_sampled", "sampling_probability": 0.1,
  "of": {"event": "laplace", "noise_multiplier": 1.0}})");
  // ln(1 + 0.1 (e - 1)) = 0.158565...
  const Outcome none =
      cli({"account", "--event", "laplace.json", "--epsilon", "0.15857", "--json"});
  REQUIRE(none.exit_code == 0);
  CHECK(Json::parse(none.out).at("delta").get<double>() == 0.0);
}

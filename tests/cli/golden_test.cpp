// Reference values of the accountants through the command line, as a sceptical reader would check
// them: 50-digit arithmetic, see tests/golden. Every tenth entry of each kind; the accountants' own
// tests use all of them.
#include <cmath>
#include <map>

#include "cli.hpp"
#include "golden.hpp"

namespace {

Json gaussian(double sigma) { return {{"event", "gaussian"}, {"noise_multiplier", sigma}}; }

Json steps_of(double q, double sigma, std::int64_t count) {
  return {
      {"event", "self_composed"},
      {"count", count},
      {"of", {{"event", "poisson_sampled"}, {"sampling_probability", q}, {"of", gaussian(sigma)}}}};
}

class Reference {
 public:
  Reference(const Json& golden, const Json& entry)
      : golden_(golden),
        kind_(entry.at("kind")),
        given_(entry.at("inputs")),
        expected_(entry.at("expected")),
        tolerance_(entry.at("tolerance")) {}

  /// \returns whether the command line can express this kind.
  bool check() const {
    if (kind_ == "gauss_eps") {
      const Json event = gaussian(given_.at("sigma"));
      for (const char* name : {"gdp", "pld", "saddle_point"}) {
        check_close(account(name, event, "epsilon"), expected_);
      }
    } else if (kind_ == "gauss_delta") {
      check_close(account("gdp", gaussian(given_.at("sigma")), "delta"), expected_);
    } else if (kind_ == "zcdp_eps_tight") {
      const Json event{{"event", "zcdp"}, {"rho", given_.at("rho")}};
      check_close(account("zcdp", event, "epsilon"), expected_.at("eps"));
    } else if (kind_ == "dpsgd_eps_rdp") {
      const Json event = steps_of(given_.at("q"), given_.at("sigma"), given_.at("steps"));
      check_close(account(rdp(), event, "epsilon"), expected_.at("eps"));
    } else if (kind_ == "het_eps_rdp") {
      check_close(account(rdp(), phases(), "epsilon"), expected_.at("eps"));
    } else if (kind_ == "pld_sgm_eps" || kind_ == "pld_het_eps") {
      check_exact(kind_ == "pld_het_eps"
                      ? phases()
                      : steps_of(given_.at("q"), given_.at("sigma"), given_.at("steps")));
    } else if (kind_ == "calib_sigma_pld") {
      const double sigma = calibrated("saddle_point").at("noise_multiplier");
      CHECK(sigma >= expected_.get<double>() * (1.0 - 1e-12));
      CHECK(sigma <= expected_.get<double>() * (1.0 + 1e-9));
      const double by_grid = calibrated("pld").at("noise_multiplier");
      CHECK(by_grid >= expected_.get<double>() * (1.0 - 1e-12));
      CHECK(by_grid <= expected_.get<double>() * (1.0 + 1e-4));
    } else if (kind_ == "calib_steps_pld") {
      CHECK(calibrated("saddle_point").at("steps") == expected_.at("steps"));
      CHECK(calibrated("pld").at("steps") <= expected_.at("steps"));
    } else if (kind_ == "calib_steps_rdp") {
      CHECK(calibrated(rdp()).at("steps") == expected_.at("steps"));
    } else {
      return false;
    }
    return true;
  }

 private:
  std::string rdp() const {
    const Json& orders = golden_.at("orders").at(given_.at("orders").get<std::string>());
    return "{kind: rdp, conversion: " + given_.at("conversion").get<std::string>() +
           ", orders: " + orders.dump() + "}";
  }

  Json phases() const {
    Json all = Json::array();
    for (const Json& part : given_.at("components"))
      all.push_back(steps_of(part.at(0), part.at(1), part.at(2)));
    return {{"event", "composed"}, {"of", std::move(all)}};
  }

  static Json answer_of(const Outcome& outcome) {
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return Json::parse(outcome.out);
  }

  Json full_account(const std::string& accountant, const Json& event,
                    const std::string& wanted) const {
    write_file(cli_.dir() / "event.json", event.dump());
    const char* given = wanted == "epsilon" ? "delta" : "eps";
    return answer_of(
        cli_({"account", "--accountant", accountant, "--event", "event.json",
              wanted == "epsilon" ? "--delta" : "--epsilon", given_.at(given).dump(), "--json"}));
  }
  double account(const std::string& accountant, const Json& event,
                 const std::string& wanted) const {
    return full_account(accountant, event, wanted).at(wanted);
  }

  Json calibrated(const std::string& accountant) const {
    const bool has_steps = given_.contains("steps");
    const Json answer = answer_of(
        cli_({"calibrate", "--accountant", accountant, "--target-epsilon",
              given_.at("target_eps").dump(), "--target-delta", given_.at("delta").dump(),
              "--sample-rate", given_.at("q").dump(), has_steps ? "--steps" : "--noise-multiplier",
              given_.at(has_steps ? "steps" : "sigma").dump(), "--json"}));
    CHECK(answer.at("epsilon") <= given_.at("target_eps"));
    return answer;
  }

  /// Checks an entry. The golden epsilon is for one direction; the command reports the larger.
  void check_exact(const Json& event) const {
    const std::string direction = given_.at("direction");
    const std::string asked = direction == "max" ? "both" : direction;
    check_close(account("{kind: saddle_point, direction: " + asked + "}", event, "epsilon"),
                expected_);
    const Json pld = full_account("pld", event, "epsilon");
    const Json exact = full_account("saddle_point", event, "epsilon");
    CHECK(pld.at("epsilon").get<double>() >= exact.at("lower").get<double>());
    CHECK(pld.at("lower").get<double>() <= exact.at("epsilon").get<double>());
    CHECK(pld.at("epsilon").get<double>() <= 1.001 * exact.at("epsilon").get<double>());
    CHECK(exact.at("epsilon").get<double>() >= expected_.get<double>() * (1.0 - 1e-9));
    CHECK(exact.at("bound") == "exact");
    CHECK_THAT(exact.at("note").get<std::string>(), ContainsSubstring("which pld proves"));
  }

  void check_close(double got, const Json& expected) const {
    const double want = expected;
    INFO("got " << got << ", expected " << want);
    CHECK(std::fabs(got - want) <= tolerance_.at("abs").get<double>() +
                                       tolerance_.at("rel").get<double>() * std::fabs(want));
  }

  const Json& golden_;
  std::string kind_;
  const Json &given_, &expected_, &tolerance_;
  Cli cli_;
};

}  // namespace

TEST_CASE("account and calibrate give the reference values") {
  const Json golden = golden_values();
  std::map<std::string, int> seen;
  for (const Json& entry : golden.at("entries")) {
    const std::string kind = entry.at("kind");
    if (seen[kind]++ % 10 != 0) continue;
    INFO(entry.at("id").get<std::string>());
    if (!Reference(golden, entry).check()) seen.erase(kind);
  }
  CHECK(seen.size() == 10);
}

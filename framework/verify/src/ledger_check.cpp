#include "ledger_check.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <variant>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/checked_answer.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/verify/verify.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;
using Release = LedgerContents::Release;

constexpr double kRounding = 1e-9;

bool near(double a, double b, double tolerance = kRounding) {
  return a == b || (std::isfinite(a) && std::isfinite(b) &&
                    std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b)));
}

/// The text with # in place of each number: "error # in # cells". Digits next to letters, as in
/// hashes, stay; so do more than 20 digits in sequence, because std::regex matches recursively.
std::string without_numbers(const std::string& text) {
  static const std::regex number(R"(\b\d{1,20}(\.\d{1,20})?(e[+-]?\d{1,3})?\b)");
  return std::regex_replace(text, number, "#");
}

/// Checks one ledger, line by line.
class Check {
 public:
  Check(const NamedLedger& ledger, const Manifest& manifest, const Plan* plan,
        std::map<std::string, PrivacyAnswer>& answers, std::vector<std::string>& problems)
      : ledger_(ledger), manifest_(manifest), plan_(plan), answers_(answers), problems_(problems) {}

  std::optional<LedgerAccount> account(const Json& facts) {
    check_first_line(facts);
    for (std::size_t i = 0; i < ledger_.contents.releases.size() && !failed_; ++i) check_release(i);
    if (failed_) return std::nullopt;
    check_totals();
    if (!failed_) check_last_line();
    if (failed_) return std::nullopt;
    return std::move(account_);
  }

 private:
  void fail(const std::string& place, const std::string& what) {
    failed_ = true;
    problems_.push_back(ledger_.name + place + ": " + what);
  }
  /// The place of a release in the file, whose first line is the "open" line.
  static std::string line(std::size_t release) { return ":" + std::to_string(release + 2); }

  void check_first_line(const Json& facts) {
    const Json& said = ledger_.contents.facts;
    for (const auto& [key, value] : facts.items()) {
      // a ledger of another version of PrivGrad may have the same content
      if (key == "privgrad") continue;
      const auto found = said.find(key);
      if (found != said.end() && nearly_equal(*found, value)) continue;
      return fail(":1", "has another '" + key + "' than manifest.yaml and facts.json");
    }
  }

  void check_release(std::size_t i) {
    const Release& release = ledger_.contents.releases[i];
    const bool is_step = release.what.empty();
    std::optional<Charge> planned;
    if (plan_ == nullptr) {
      planned = said(release);
    } else if (plan_->noise_adapts) {
      planned = is_step ? adapted_step(release) : next_check();
    } else {
      planned = is_step ? next_step() : next_beside(release);
    }
    if (!planned) return fail(line(i), "is a release that is not planned");
    const bool is_it = release.step == planned->step && release.what == planned->what &&
                       nearly_equal(release.release, to_json(planned->release)) &&
                       nearly_equal(release.event, to_json(planned->cost));
    if (!is_it) {
      return fail(line(i), "is not the release that the plan charges for there (step " +
                               std::to_string(planned->step) + ")");
    }
    const bool adapts = plan_ != nullptr && plan_->noise_adapts;
    if (is_step && plan_ != nullptr && !adapts && account_.steps >= plan_->affordable_steps)
      return fail(line(i), "is a step that the budget does not pay for");
    ++(is_step ? account_.steps : account_.beside);
    if (adapts) record(*planned, is_step);
    account_.costs.push_back(std::move(planned->cost));
  }

  /// The charge that a line states; nothing if the line is malformed.
  std::optional<Charge> said(const Release& release) const {
    try {
      const Event made = event_from_json(release.release.dump(), ledger_.name);
      const Event cost = event_from_json(release.event.dump(), ledger_.name);
      return Charge{release.step, made, cost, release.what};
    } catch (const ConfigError&) {
      return std::nullopt;
    }
  }

  /// The charge that the next step must have; nothing if an earlier release has not been charged.
  /// Statistics must be charged before all steps, and a report before the steps that depend on it.
  std::optional<Charge> next_step() const {
    std::uint64_t before = charges_of(plan_->statistics).size();
    if (plan_->report) before += plan_->report->between(account_.steps + 1);
    if (has_last_report_ || account_.beside < before || account_.steps >= plan_->charges.size())
      return std::nullopt;
    return plan_->charges[account_.steps];
  }

  /// The charge that the next release other than a step must have. The final report is the last
  /// release, and may come after any step, because runs may end after any step.
  std::optional<Charge> next_beside(const Release& release) {
    if (has_last_report_ || account_.beside >= plan_->beside.size()) return std::nullopt;
    const std::uint64_t statistics = charges_of(plan_->statistics).size();
    if (!plan_->report || account_.beside < statistics) return plan_->beside[account_.beside];
    Charge last = plan_->report->charge();
    if (release.what == last.what) {
      has_last_report_ = true;
      return last;
    }
    const Charge& between = plan_->beside[account_.beside];
    return between.step == account_.steps ? std::optional(between) : std::nullopt;
  }

  /// The charge of a step with adaptive noise, read from the line, because the noise was chosen
  /// during the run. The plan specifies only that it is a Gaussian, without amplification.
  std::optional<Charge> adapted_step(const Release& release) const {
    if (account_.steps >= plan_->steps()) return std::nullopt;
    // A measurement that was due before this step is missing, so it was not paid for.
    if (account_.beside != plan_->noise_adapts->checks_before(account_.steps + 1))
      return std::nullopt;
    const std::optional<Charge> step = said(release);
    if (!step || std::get_if<GaussianEvent>(&step->cost.kind()) == nullptr) return std::nullopt;
    return Charge{account_.steps, step->cost, step->cost};
  }

  std::optional<Charge> next_check() const {
    const AdaptiveNoisePlan& adapts = *plan_->noise_adapts;
    const std::uint64_t at = (account_.beside + 1) * adapts.measurement.every;
    if (!adapts.is_charged() || at != account_.steps) return std::nullopt;
    return adapts.check_charge(at);
  }

  void record(const Charge& charge, bool is_step) {
    NoiseRecord& noise = account_.noise;
    if (!is_step) return noise.checks.push_back(charge);
    noise.steps.push_back(charge);
    noise.noise_multiplier.push_back(std::get<GaussianEvent>(charge.cost.kind()).noise_multiplier);
  }

  /// Recomputes the totals. Releases that were paid for together have the same total, so the
  /// accountant is asked only after the last of these releases.
  void check_totals() {
    const auto& releases = ledger_.contents.releases;
    auto accountant = make_guard(manifest_.accountant);
    accountant->start(manifest_.adjacency);
    std::string history = sha256_hex(manifest_.accountant.component->full_name());
    account_.spent = answer(*accountant, history);
    for (std::size_t i = 0; i < releases.size() && !failed_; ++i) {
      accountant->compose(account_.costs[i], 1);
      history = sha256_hex(history.append(to_json(account_.costs[i]).dump()));
      if (i + 1 < releases.size() && releases[i + 1].epsilon == releases[i].epsilon) continue;
      account_.spent = answer(*accountant, history);
      check_total(i);
    }
    account_.noise.spent_epsilon = account_.spent.value;
  }

  void check_total(std::size_t i) {
    const Release& release = ledger_.contents.releases[i];
    const PrivacyAnswer& spent = account_.spent;
    if (!near(release.epsilon, spent.value, kOfProcessors)) {
      return fail(line(i), "says that epsilon is " + format_number(release.epsilon) +
                               " so far; derived again from its events it is " +
                               format_number(spent.value));
    }
    if (!nearly_equal(release.delta, manifest_.target_delta) ||
        (plan_ != nullptr && release.bound != std::string(to_text(spent.bound))))
      return fail(line(i), "says another delta or bound than the manifest and its accountant");
    if (manifest_.target_epsilon && spent.value > *manifest_.target_epsilon * (1.0 + kOfProcessors))
      return fail(line(i), "is more than privacy.target_epsilon allows");
    account_.spent.value = std::max(spent.value, release.epsilon);
  }

  PrivacyAnswer answer(const Accountant& accountant, const std::string& history) {
    const auto known = answers_.find(history);
    if (known != answers_.end()) return known->second;
    PrivacyAnswer spent =
        checked_guard(accountant.epsilon(manifest_.target_delta), manifest_.accountant.name());
    if (plan_ == nullptr || plan_->charges_are_bounds)
      spent = of_charges_that_are_bounds(std::move(spent));
    return answers_[history] = std::move(spent);
  }

  void check_last_line() {
    const LedgerContents& contents = ledger_.contents;
    if (!contents.status) return;  // already reported as a problem
    const std::string place = ":" + std::to_string(contents.releases.size() + 2);
    const auto status = status_of(*contents.status);
    if (!status) return fail(place, "has an unknown status");
    account_.status = *status;
    try {
      account_.steps_done = contents.close.at("steps_done").get<std::uint64_t>();
      const Json& epsilon = contents.close.at("epsilon");
      const bool is_it =
          contents.close.at("releases_charged") == contents.releases.size() &&
          first_difference({{"epsilon", epsilon}}, {{"epsilon", json_number(account_.spent.value)}})
              .empty() &&
          nearly_equal(contents.close.at("delta"), manifest_.target_delta);
      if (!is_it) return fail(place, "does not state the total of the lines before it");
    } catch (const Json::exception&) {
      return fail(place, "is not the last line that a run writes");
    }
    if (account_.steps_done > account_.steps)
      return fail(place, "says that steps were made which were not paid for");
    if (plan_ == nullptr) return;
    if (*status == RunStatus::stopped_early && !can_stop_here())
      return fail(place, "says that a report ended the run, but no report of the plan can");
    const bool all = plan_->federated == nullptr || plan_->federated->at_server;
    if (*status == RunStatus::completed && all &&
        ledger_.contents.facts.contains("client") == false && account_.steps_done != plan_->steps())
      fail(place, "says that the run was completed, but not all of its steps were made");
  }

  /// Whether the run may have stopped early after the last charged step: a report was due after
  /// this step, and more than `patience` reports were due in total.
  bool can_stop_here() const {
    const std::optional<PlannedReport>& report = plan_->report;
    if (!report || report->patience == 0 || account_.steps_done != account_.steps) return false;
    return report->is_due(account_.steps, plan_->affordable_steps) &&
           account_.steps / report->every > report->patience;
  }

  const NamedLedger& ledger_;
  const Manifest& manifest_;
  const Plan* plan_;  // null if the ledger's events are trusted
  std::map<std::string, PrivacyAnswer>& answers_;
  std::vector<std::string>& problems_;
  bool failed_ = false;
  bool has_last_report_ = false;
  LedgerAccount account_;
};

}  // namespace

namespace {

/// Whether a member of an object is an accountant's answer about the run, or follows directly from
/// such an answer.
bool is_answer(const Json& object, const std::string& key) {
  // whether the object is the member membership_test of statement.json
  const bool is_of_test = object.contains("found_at_most");
  return key == "epsilon" || key == "spent_epsilon" ||
         (key == "lower" && object.contains("bound")) ||
         (is_of_test && (key == "found_at_most" || key == "delta"));
}

bool are_alike(const Json& a, const Json& b, double of_answers);

/// \param object  the object of which `b` is the member `key`.
/// \param of_answers  the relative tolerance for answers of accountants.
bool are_members_alike(const Json& object, const std::string& key, const Json& a, const Json& b,
                       double of_answers) {
  if (key == "note" && a.is_string() && b.is_string())
    return without_numbers(a.get<std::string>()) == without_numbers(b.get<std::string>());
  const bool may_differ = is_answer(object, key) && a.is_number() && b.is_number();
  return may_differ ? near(a.get<double>(), b.get<double>(), of_answers)
                    : are_alike(a, b, of_answers);
}

bool are_alike(const Json& a, const Json& b, double of_answers) {
  if (a.is_number() && b.is_number()) {
    if (a.is_number_integer() && b.is_number_integer()) return a == b;
    return near(a.get<double>(), b.get<double>());
  }
  if (a.type() != b.type()) return false;
  if (!a.is_structured()) return a == b;
  if (a.size() != b.size()) return false;
  if (a.is_array()) {
    return std::equal(a.begin(), a.end(), b.begin(),
                      [&](const Json& x, const Json& y) { return are_alike(x, y, of_answers); });
  }
  // nlohmann::json sorts the members by key.
  auto other = b.begin();
  for (auto one = a.begin(); one != a.end(); ++one, ++other) {
    if (one.key() != other.key() || !are_members_alike(b, one.key(), *one, *other, of_answers))
      return false;
  }
  return true;
}

}  // namespace

bool nearly_equal(const Json& a, const Json& b) { return are_alike(a, b, kRounding); }

std::string first_difference(const Json& said, const Json& derived) {
  for (const auto& [key, value] : derived.items()) {
    if (!said.contains(key) || !are_members_alike(derived, key, said.at(key), value, kOfProcessors))
      return key;
  }
  return "";
}

bool are_files_of(const Versions& of_run, const Versions& versions) {
  const auto had = [&](const PluginFacts& plugin) {
    const auto same =
        std::ranges::find(of_run.plugins, plugin.name, [](const auto& one) { return one.name; });
    return same != of_run.plugins.end() && same->sha256 == plugin.sha256;
  };
  return of_run.privgrad == versions.privgrad && std::ranges::all_of(versions.plugins, had);
}

std::optional<RunStatus> status_of(const std::string& text) {
  for (const RunStatus status :
       {RunStatus::completed, RunStatus::budget_exhausted, RunStatus::stopped_early,
        RunStatus::interrupted, RunStatus::diverged, RunStatus::untrained}) {
    if (to_text(status) == text) return status;
  }
  return std::nullopt;
}

std::optional<LedgerAccount> LedgerChecker::check(const NamedLedger& ledger,
                                                  const Manifest& manifest, const Plan* plan,
                                                  const Json& facts) {
  try {
    return Check(ledger, manifest, plan, answers_, problems_).account(facts);
  } catch (const Error& problem) {
    problems_.push_back(ledger.name + ": " + problem.what());
    return std::nullopt;
  }
}

}  // namespace privgrad::core

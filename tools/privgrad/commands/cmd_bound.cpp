#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "accountant_call.hpp"
#include "command.hpp"
#include "output.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/names.hpp"
#include "privgrad/theorems/norm_bound.hpp"
#include "privgrad/theorems/utility_bound.hpp"
#include "privgrad/trust/event_json.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

using core::BudgetSplit;
using Json = nlohmann::json;

constexpr double kLargest = 1e300;

/// The numeric options of a call. Each is checked when it is needed.
class Numbers {
 public:
  explicit Numbers(const Arguments& arguments) : arguments_(arguments) {}

  bool has(const std::string& option) const {
    used_.insert(option);
    return arguments_.has(option);
  }

  /// \throws UsageError for a given option on which the answer does not depend, because the user
  ///   would believe that it had been used.
  void refuse_unused(const std::vector<Option>& options) const {
    for (const Option& option : options) {
      if (std::string_view(option.name) == "json" || !arguments_.has(option.name)) continue;
      if (used_.contains(option.name)) continue;
      throw UsageError(
          "bound " + arguments_.operand(0) + " does not use --" + std::string(option.name) +
          (has("alpha") || has("kappa") || has("budget") ? " with the other options that are given"
                                                         : ""));
    }
  }

  double above_zero(const std::string& option) const { return in(option, 0.0, kLargest); }

  double in(const std::string& option, double low, double high) const {
    if (!has(option)) throw UsageError("bound " + arguments_.operand(0) + " needs --" + option);
    return number_in(option, arguments_.text(option), {low, high});
  }

  double from_zero(const std::string& option) const {
    if (!has(option)) throw UsageError("bound " + arguments_.operand(0) + " needs --" + option);
    return number_in(option, arguments_.text(option),
                     {.low = 0.0, .high = kLargest, .with_low = true});
  }

  /// Returns the budget R, given or converted from (epsilon, delta) as in Hong et al. 2022.
  double budget() const {
    if (has("budget")) return above_zero("budget");
    if (!has("target-epsilon") || !has("target-delta")) {
      throw UsageError("bound " + arguments_.operand(0) +
                       " needs --budget, or --target-epsilon and --target-delta");
    }
    return 2.0 * core::rho_for(above_zero("target-epsilon"), in("target-delta", 0.0, 1.0));
  }

  /// Returns alpha, given or computed from the quantities that define it.
  /// \param runs  the number of runs that share the budget.
  double alpha(double runs = 1.0) const {
    if (has("alpha")) return runs * above_zero("alpha");
    return core::alpha_of({.parameters = above_zero("parameters"),
                           .clip_norm = above_zero("clip-norm"),
                           .budget = budget() / runs,
                           .smoothness = above_zero("smoothness"),
                           .examples = above_zero("examples"),
                           .initial_gap = above_zero("initial-gap")});
  }

  double kappa() const {
    const double kappa =
        has("kappa") ? above_zero("kappa") : above_zero("smoothness") / above_zero("pl-constant");
    if (kappa >= 1.0) return kappa;
    throw UsageError("kappa is " + format_number(kappa) +
                     ", allowed is at least 1: smoothness is never below the PL constant");
  }

  std::optional<std::uint64_t> steps() const {
    if (!has("steps")) return std::nullopt;
    return static_cast<std::uint64_t>(
        whole_number("steps", arguments_.text("steps"), 1, 100'000'000));
  }

 private:
  const Arguments& arguments_;
  mutable std::set<std::string, std::less<>> used_;
};

Json number(double value) { return core::json_number(value); }

/// Returns the bound for one schedule, at the given number of steps or at the best number.
template <class Bound>
Json answer(const Bound& bound, BudgetSplit split, std::optional<std::uint64_t> steps) {
  const core::BestSteps at = steps ? core::BestSteps{*steps, bound.bound(*steps, split)}
                                   : best_steps(bound, split, core::kMostSteps);
  return {{"steps", at.steps}, {"bound", number(at.bound)}, {"best", !steps.has_value()}};
}

template <class Bound>
Json both_schedules(const Bound& bound, std::optional<std::uint64_t> steps) {
  return {{"uniform", answer(bound, BudgetSplit::uniform, steps)},
          {"dynamic", answer(bound, BudgetSplit::dynamic, steps)}};
}

Json facts_of(const core::Descent& descent) {
  return {{"kappa", descent.kappa}, {"gamma", descent.gamma()}, {"alpha", number(descent.alpha)}};
}

Json descent(const Numbers& numbers) {
  const core::Descent descent{.kappa = numbers.kappa(), .alpha = numbers.alpha()};
  Json json = facts_of(descent);
  json["schedules"] = both_schedules(descent, numbers.steps());
  for (const auto& [name, split] :
       {std::pair{"uniform", BudgetSplit::uniform}, std::pair{"dynamic", BudgetSplit::dynamic}}) {
    const std::uint64_t printed = core::printed_steps(descent, split);
    json["printed"][name] = {{"steps", printed}, {"bound", number(descent.bound(printed, split))}};
  }
  json["theorem"] = "Hong et al. 2022, Theorem 4.1; T by minimising the bound itself";
  return json;
}

core::MomentumDescent momentum_descent(const Numbers& numbers, double kappa) {
  core::MomentumDescent descent{
      .kappa = kappa, .alpha = numbers.alpha(), .beta = 0.9, .eta0 = 0.0, .sampling = 0.0};
  if (numbers.has("beta")) descent.beta = numbers.in("beta", 0.0, 1.0);
  const double most = core::MomentumDescent::most_eta0(descent.kappa, descent.beta);
  descent.eta0 = numbers.has("eta0") ? numbers.above_zero("eta0") : most;
  if (descent.eta0 > most) {
    throw UsageError("--eta0 is " + format_number(descent.eta0) +
                     ", but the proof needs zeta >= 0, and allows at most " + format_number(most) +
                     " for this kappa and beta");
  }
  return descent;
}

Json facts_of(const core::MomentumDescent& descent) {
  return {{"kappa", descent.kappa},
          {"gamma", descent.gamma()},
          {"alpha", number(descent.alpha)},
          {"beta", descent.beta},
          {"eta0", descent.eta0},
          {"most_eta0", core::MomentumDescent::most_eta0(descent.kappa, descent.beta)},
          {"zeta", descent.zeta()}};
}

Json momentum(const Numbers& numbers) {
  const core::MomentumDescent descent = momentum_descent(numbers, numbers.kappa());
  Json json = facts_of(descent);
  json["schedules"] = both_schedules(descent, numbers.steps());
  json["theorem"] =
      "Hong et al. 2022, Theorem 4.5, its proof mended and with the exact weights; T by minimising "
      "the bound itself";
  return json;
}

Json sgd(const Numbers& numbers) {
  const double examples = numbers.above_zero("examples");
  const double batch =
      numbers.has("batch-size")
          ? numbers.above_zero("batch-size")
          : std::min(examples, std::max(examples * std::sqrt(numbers.budget()), 1.0));
  if (batch > examples) throw UsageError("--batch-size is above --examples");
  const double kappa = numbers.kappa();
  const double pl = numbers.has("pl-constant") ? numbers.above_zero("pl-constant")
                                               : numbers.above_zero("smoothness") / kappa;
  const double sampling =
      core::sampling_term(numbers.above_zero("parameters"), numbers.from_zero("gradient-noise"), pl,
                          batch, numbers.above_zero("initial-gap"));
  Json json;
  if (numbers.has("momentum")) {
    core::MomentumDescent descent = momentum_descent(numbers, kappa);
    descent.sampling = sampling / kappa;
    json = facts_of(descent);
    json["schedules"] = both_schedules(descent, numbers.steps());
    json["theorem"] =
        "Hong et al. 2022, Theorem 4.9, its proof mended and with the exact weights; T by "
        "minimising the bound itself";
  } else {
    const core::Descent descent{.kappa = kappa, .alpha = numbers.alpha()};
    json = facts_of(descent);
    json["schedules"] = both_schedules(descent, numbers.steps());
    for (auto& [name, schedule] : json["schedules"].items()) {
      schedule["bound"] = number(schedule["bound"].get<double>() + sampling);
    }
    json["theorem"] = "Hong et al. 2022, Theorem 4.8";
  }
  json["batch_size"] = batch;
  json["budget_of_batches"] = numbers.budget() * examples * examples / (batch * batch);
  json["sampling"] = sampling;
  json["note"] =
      "the budget of the batches assumes that sampling divides the cost by (N/n)^2, for which "
      "there is no zCDP guarantee; account sampled steps with rdp or pld";
  return json;
}

core::RiskFacts risk_facts(const Numbers& numbers) {
  const core::RiskFacts facts{.clip_norm = numbers.above_zero("clip-norm"),
                              .smoothness = numbers.above_zero("smoothness"),
                              .pl_constant = numbers.above_zero("smoothness") / numbers.kappa(),
                              .examples = numbers.above_zero("examples"),
                              .initial_gap = numbers.above_zero("initial-gap")};
  if (core::is_possible(facts)) return facts;
  const double most = facts.clip_norm * facts.clip_norm / (2.0 * facts.pl_constant);
  throw UsageError(
      "--initial-gap is " + format_number(facts.initial_gap) +
      ", but a strongly convex loss with this Lipschitz constant has at most G^2/(2 mu) = " +
      format_number(most) + ": there is no such loss, and no bound");
}

Json risk_stability(const Numbers& numbers) {
  const core::RiskFacts facts = risk_facts(numbers);
  const core::Descent descent{.kappa = numbers.kappa(), .alpha = numbers.alpha()};
  Json json = facts_of(descent);
  json["schedules"] = both_schedules(descent, numbers.steps());
  for (auto& [name, schedule] : json["schedules"].items()) {
    schedule["true_risk"] = number(core::true_risk_by_stability(
        facts, schedule["bound"].get<double>(), schedule["steps"].get<std::uint64_t>()));
  }
  json["theorem"] = "Hong et al. 2022, Theorems 4.11 and 4.12; the expected true excess risk";
  return json;
}

Json risk_probability(const Numbers& numbers) {
  const double p = numbers.in("probability", 0.0, 1.0);
  const std::uint64_t runs = core::repetitions_for(p);
  const core::RiskFacts facts = risk_facts(numbers);
  const core::Descent descent{.kappa = numbers.kappa(),
                              .alpha = numbers.alpha(static_cast<double>(runs))};
  Json json = facts_of(descent);
  json["runs"] = runs;
  json["failure_probability"] = std::min(1.0, 2.0 * p);
  json["schedules"] = both_schedules(descent, numbers.steps());
  for (auto& [name, schedule] : json["schedules"].items()) {
    schedule["true_risk"] =
        number(core::true_risk_in_probability(facts, schedule["bound"].get<double>(), p));
  }
  json["theorem"] = "Hong et al. 2022, Eq. 15, of the best of several runs that share the budget";
  json["note"] = "the budget does not pay for choosing the best of the runs";
  return json;
}

Json tables(const Numbers& numbers) {
  const double p = numbers.has("probability") ? numbers.in("probability", 0.0, 1.0) : 0.05;
  Json rows = Json::array();
  for (const core::TableRow& row : core::table_rows(
           numbers.above_zero("examples"), numbers.above_zero("parameters"), numbers.budget(),
           numbers.above_zero("target-epsilon"), numbers.in("target-delta", 0.0, 1.0),
           numbers.has("pl-constant") ? numbers.above_zero("pl-constant") : 1.0,
           numbers.has("clip-norm") ? numbers.above_zero("clip-norm") : 1.0, p)) {
    rows.push_back({{"table", row.table},
                    {"algorithm", row.algorithm},
                    {"formula", row.formula},
                    {"value", number(row.value)},
                    {"steps_formula", row.steps_formula},
                    {"steps", number(row.steps)}});
  }
  return {{"budget", numbers.budget()},
          {"probability", p},
          {"rows", std::move(rows)},
          {"note",
           "asymptotic: every constant is taken as 1, so values compare rows and predict no risk"}};
}

core::NormFacts norm_facts(const Numbers& numbers) {
  return {.parameters = numbers.above_zero("parameters"),
          .clip_norm = numbers.above_zero("clip-norm"),
          .smoothness = numbers.above_zero("smoothness"),
          .examples = numbers.above_zero("examples"),
          .initial_gap = numbers.above_zero("initial-gap"),
          .epsilon = numbers.above_zero("target-epsilon"),
          .delta = numbers.in("target-delta", 0.0, 1.0)};
}

Json answer_of(const core::NormBound& bound, const char* theorem) {
  if (!(bound.steps >= 2.0)) {
    throw UsageError("with these numbers the theorem takes " + short_number(bound.steps, 3) +
                     " steps, and says nothing of fewer than 2");
  }
  return {{"steps", number(bound.steps)},
          {"norms", {{"printed", number(bound.printed)}, {"proved", number(bound.proved)}}},
          {"theorem", theorem},
          {"note",
           "no gradient of a loss as assumed is longer than --clip-norm, so that a bound above it "
           "says nothing"}};
}

Json tree(const Numbers& numbers) {
  return answer_of(core::norm_bound_of_tree(norm_facts(numbers)),
                   "Tran and Cutkosky 2022, Theorem 6, and what Lemmas 5, 11 and 12 give, mended");
}

Json reduced_tree(const Numbers& numbers) {
  return answer_of(core::norm_bound_of_reduced_tree(norm_facts(numbers)),
                   "Tran and Cutkosky 2022, Theorem 9, and what Lemmas 5 and 11, mended, and 7 "
                   "give; its proof is incomplete");
}

struct Kind {
  const char* name;
  Json (*answer)(const Numbers&);
};

constexpr Kind kKinds[] = {{"descent", descent},
                           {"momentum", momentum},
                           {"sgd", sgd},
                           {"risk-stability", risk_stability},
                           {"risk-probability", risk_probability},
                           {"tables", tables},
                           {"tree", tree},
                           {"tree-reduced", reduced_tree}};

const Kind& kind_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) {
    if (name == kind.name) return kind;
    names.emplace_back(kind.name);
  }
  throw UsageError("there is no bound '" + name + "'" + nearest_or_all(name, names));
}

std::string text_of(const Json& value) {
  if (value.is_number_integer()) return value.dump();
  return value.is_null() ? "infinite" : short_number(value.get<double>(), 6);
}

std::string page_of(const Json& json) {
  std::string page = json.at("kind").get<std::string>();
  for (const auto& [name, value] : json.items()) {
    if (value.is_number()) page += ", " + name + " " + text_of(value);
  }
  page += "\n\n";
  if (json.contains("rows")) {
    Table table({Align::left, Align::left, Align::left, Align::right, Align::left, Align::right});
    table.add({"table", "algorithm", "formula", "value", "steps", "value"});
    for (const Json& row : json["rows"]) {
      table.add({row["table"], row["algorithm"], row["formula"], text_of(row["value"]),
                 row["steps_formula"], text_of(row["steps"])});
    }
    return page + table.text(2) + "\n" + json["note"].get<std::string>() + "\n";
  }
  if (json.contains("norms")) {
    Table table({Align::left, Align::right});
    table.add({"", "norm"});
    table.add({"as printed", text_of(json["norms"]["printed"])});
    table.add({"by its lemmas", text_of(json["norms"]["proved"])});
    return page + table.text(2) + "\n" + json["theorem"].get<std::string>() +
           "\nnote: " + json["note"].get<std::string>() + "\n";
  }
  const bool risk = json["schedules"]["uniform"].contains("true_risk");
  Table table({Align::left, Align::right, Align::right, Align::right});
  table.add({"", "steps", "bound", risk ? "true risk" : ""});
  for (const auto& [name, schedule] : json["schedules"].items()) {
    table.add({name, text_of(schedule["steps"]) + (schedule["best"].get<bool>() ? " (best)" : ""),
               text_of(schedule["bound"]), risk ? text_of(schedule["true_risk"]) : ""});
  }
  if (json.contains("printed")) {
    for (const auto& [name, printed] : json["printed"].items()) {
      table.add(
          {name + ", at the printed T", text_of(printed["steps"]), text_of(printed["bound"]), ""});
    }
  }
  page += table.text(2) + "\n" + json["theorem"].get<std::string>() +
          "\npremise: " + json["premise"].get<std::string>() + "\n";
  if (json.contains("note")) page += "note: " + json["note"].get<std::string>() + "\n";
  return page;
}

/// The premise of every bound that divides a budget among steps.
constexpr const char* kPremise =
    "each step is charged 1/sigma^2, as for full batches; sampled steps cost differently, so with "
    "sampling neither the bound nor its best number of steps holds";

int do_bound(const Arguments& arguments) {
  const Kind& kind = kind_named(arguments.operand(0));
  const Numbers numbers(arguments);
  Json json = kind.answer(numbers);
  numbers.refuse_unused(bound_command().usage.options);
  json["kind"] = kind.name;
  if (json.contains("schedules")) json["premise"] = kPremise;
  print_answer(arguments, json, page_of(json));
  return 0;
}

}  // namespace

Command bound_command() {
  return {
      .usage =
          {.name = "bound",
           .summary = "Utility bounds for concrete numbers: the loss that private training is "
                      "proved to reach with uniform\nand with dynamic noise, and the number of "
                      "steps with the best bound.",
           .operands = {"KIND"},
           .options = {{"kappa", "K",
                        "Smoothness over the Polyak-Lojasiewicz constant; or give both."},
                       {"alpha", "A", "D G^2 / (2 R M N^2 gap); or give its factors."},
                       {"parameters", "D", "Number of parameters."},
                       {"clip-norm", "G", "Clip norm, or Lipschitz constant of an example's loss."},
                       {"budget", "R",
                        "Sum of 1/sigma^2, twice the rho of zCDP; or give "
                        "--target-epsilon and --target-delta."},
                       {"target-epsilon", "E", "As in a manifest."},
                       {"target-delta", "D", "As in a manifest."},
                       {"smoothness", "M", "Of the loss."},
                       {"pl-constant", "MU",
                        "Of the Polyak-Lojasiewicz condition (strong convexity "
                        "for the risks)."},
                       {"examples", "N", "Number of training examples."},
                       {"initial-gap", "F", "Initial loss minus the least loss."},
                       {"steps", "T", "At this number of steps; default the best one."},
                       {"momentum", "", "sgd: with bias-corrected momentum, by its exact weights."},
                       {"beta", "B", "momentum: default 0.9."},
                       {"eta0", "E",
                        "momentum: learning rate times 2M; default the largest that the "
                        "proof allows."},
                       {"batch-size", "N",
                        "sgd: examples of a batch; default max(N sqrt(R), 1), which the "
                        "theorems take, at most --examples."},
                       {"gradient-noise", "S", "sgd: sigma_g, the noise of sampling."},
                       {"probability", "P", "risk-probability, tables: of failure."},
                       {"json", "", "Print the answer as JSON."}},
           .details =
               "KIND is one of\n"
               "  descent           gradient descent: gamma^T + alpha R sum gamma^(T-t) sigma_t^2\n"
               "  momentum          with bias-corrected momentum, by its exact weights\n"
               "  sgd               descent, with the term for the noise of sampling\n"
               "  risk-stability    the expected true excess risk of descent\n"
               "  risk-probability  the true excess risk of descent, but for a small probability\n"
               "  tables            the rows of the paper's tables, every constant taken as 1\n"
               "  tree              the gradient norm of momentum by tree aggregation\n"
               "  tree-reduced      the same with the variance reduced\n\n"
               "Hong, Wang and Zhou 2022, with the errors of the printed formulas mended: "
               "docs/algorithms/dynamic-budget.md. The last two: Tran and Cutkosky 2022, "
               "docs/experiments/tran2022.md.",
           .examples = {"privgrad bound descent --kappa 10 --alpha 1e-3",
                        "privgrad bound momentum --kappa 10 --alpha 1e-5 --beta 0.5 --json",
                        "privgrad bound tables --examples 1000 --parameters 60 --target-epsilon 4 "
                        "--target-delta 1e-8"}},
      .run = do_bound};
}

}  // namespace privgrad::tool

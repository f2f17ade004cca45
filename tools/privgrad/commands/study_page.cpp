#include "study_page.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "arguments.hpp"
#include "output.hpp"
#include "study_progress.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

using Json = nlohmann::json;

std::string number_or_dash(const Json& value, int decimals) {
  return value.is_number() ? fixed_text(value.get<double>(), decimals) : "-";
}

/// Returns the text of a p-value, rounded up so that the text never shows less than p.
std::string p_text(const Json& p) {
  if (!p.is_number()) return "-";
  if (p.get<double>() < 1e-4) return "<0.0001";
  return fixed_text(std::ceil(p.get<double>() * 1e4) / 1e4, 4);
}

std::string interval_text(const Json& interval) {
  if (!interval.is_array()) return "-";
  return "[" + fixed_text(interval[0].get<double>(), 4) + ", " +
         fixed_text(interval[1].get<double>(), 4) + "]";
}

std::string noise_text(const core::Plan& plan) {
  if (plan.noise_adapts) return "from " + short_number(plan.noise_multiplier.front()) + " on";
  const auto [least, most] = std::ranges::minmax_element(plan.noise_multiplier);
  return *least == *most ? short_number(*least)
                         : short_number(*least) + " to " + short_number(*most);
}

std::string counted(std::size_t number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

/// Whether this study is the search of another study. Its levels are then the arms of that study.
bool is_search(const core::Study& study) {
  return study.levels && study.levels->keys.front() == "for_arm";
}

std::string guarantee_text(const core::StudyPlan& plan) {
  if (is_search(*plan.study)) return "each calibrated to the guarantee of its arm";
  if (!plan.study->equal_privacy) return "not calibrated to one guarantee (equal_privacy: false)";
  if (plan.study->levels) {
    return "calibrated to one guarantee at each of " +
           counted(plan.study->levels->values.size(), "level") + " of " +
           plan.study->levels->keys.front();
  }
  const core::Manifest& first = *core::first_of_level(plan, 0).manifest;
  return "all calibrated to epsilon " + format_number(*first.target_epsilon) + ", delta " +
         format_number(first.target_delta) + ", " + std::string(to_text(first.adjacency)) +
         ", per " + std::string(to_text(PrivacyUnit::example));
}

/// Describes how equal privacy changes an arm's noise schedule.
std::string schedule_text(const core::Plan& plan) {
  if (plan.noise_adapts) return "ADAPTS within epsilon: a run may end early, or spend less";
  if (!plan.noise_is_rescaled) return "";
  return "RESCALED by " + short_number(plan.noise_factor) + " to meet epsilon";
}

/// States the largest possible number of seeds, if the results decide the number.
std::string more_seeds_text(const core::Study& study) {
  if (!study.seed_rule || study.seeds.size() == study.seed_rule->at_most) return "";
  return " (at most " + std::to_string(study.seed_rule->at_most) + " seeds)";
}

std::string stains_text(const std::vector<std::string>& stains) {
  std::string text;
  for (const std::string& stain : stains) text += "NOT COMPARABLE: " + stain + "\n";
  return text;
}

/// Returns a paragraph in lines of at most 100 characters.
std::string paragraph(const std::string& text) { return wrapped(text, 0, 100) + "\n"; }

std::string metric_table(const Json& results, const std::string& metric) {
  Table table({Align::left, Align::right, Align::right, Align::right, Align::right, Align::right,
               Align::right, Align::right, Align::right});
  table.add({metric, "mean", "std", "95 % interval", "vs baseline", "95 % interval", "p", "Holm",
             "sign flips"});
  for (const Json& arm : results.at("arms")) {
    const Json& own = arm.at("metrics").at(metric);
    std::vector<std::string> cells{arm.at("name").get<std::string>(),
                                   number_or_dash(own.at("mean"), 4),
                                   number_or_dash(own.at("std"), 4), interval_text(own.at("ci95"))};
    const auto versus = arm.at("versus_baseline").find(metric);
    if (versus == arm.at("versus_baseline").end()) {
      cells.push_back(arm.value("reference", false) ? "without privacy" : "baseline");
    } else {
      cells.push_back(number_or_dash(versus->at("difference"), 4));
      cells.push_back(interval_text(versus->at("ci95")));
      for (const char* p : {"p", "p_holm", "p_sign_flip"}) cells.push_back(p_text(versus->at(p)));
    }
    table.add(std::move(cells));
  }
  return table.text();
}

std::string statuses_text(const Json& results) {
  std::string text;
  for (const Json& arm : results.at("arms")) {
    for (const auto& [status, count] : arm.at("statuses").items()) {
      if (status == "completed") continue;
      text += arm.at("name").get<std::string>() + ": " + count.dump() + " of " +
              arm.at("runs").dump() + " runs ended as " + status +
              (status == "diverged" ? "; the arm is left out of every mean, comparison and choice"
                                    : "") +
              "\n";
    }
  }
  return text;
}

}  // namespace

std::string study_plan_page(const core::StudyPlan& plan, const std::vector<double>& seconds,
                            std::size_t left, int jobs) {
  const core::Study& study = *plan.study;
  const std::size_t runs = plan.run_count(), own = runs / study.seeds.size();
  const std::string same = own == plan.arms.size() ? ""
                                                   : " (" + std::to_string(plan.arms.size()) +
                                                         " counting arms that share their runs)";
  std::string text = study.name + ": " + counted(own, "arm") + same + " x " +
                     counted(study.seeds.size(), "seed") + " = " + counted(runs, "run") +
                     more_seeds_text(study) + ", " + guarantee_text(plan) + "\n" +
                     stains_text(plan.stains) + "\n";
  const auto any = [&](auto is) { return std::ranges::any_of(plan.arms, is); };
  const bool noted = own < plan.arms.size() || any([](const core::PlannedArm& arm) {
                       return !schedule_text(arm.plan).empty();
                     });
  const auto accountant = [](const core::PlannedArm& arm) {
    return arm.plan.accountants.front().name;
  };
  Table table({Align::left, Align::right, Align::left, Align::right, Align::left, Align::right,
               Align::left});
  table.add(
      {"arm", "epsilon", "by", "steps", "noise multiplier", "time a run", noted ? "note" : ""});
  double work = 0.0;
  for (std::size_t a = 0; a < plan.arms.size(); ++a) {
    const core::PlannedArm& arm = plan.arms[a];
    const bool is_own = plan.has_own_runs(a);
    if (is_own) work += seconds[a];
    table.add(
        {arm.arm->name, short_bound(arm.plan.epsilon().value), accountant(arm),
         std::to_string(arm.plan.affordable_steps), noise_text(arm.plan),
         is_own ? duration_text(seconds[a]) : "-",
         is_own ? schedule_text(arm.plan) : "the runs of " + plan.arms[arm.runs_of].arm->name});
  }
  text += table.text() + "\n";
  if (!is_search(study)) {
    text += "baseline: " + study.arms[study.baselines.front()].variant +
            (study.levels ? ", at each level\n" : "\n");
  }
  const double mean = work / static_cast<double>(own);
  const double total = mean * static_cast<double>(left) /
                       std::min<double>(jobs, std::max<double>(1.0, static_cast<double>(left)));
  text += (left == runs ? counted(runs, "run")
                        : std::to_string(left) + " of " + counted(runs, "run") + " left") +
          ", " + std::to_string(jobs) + " at a time: about " + duration_text(total) +
          ", without reading the data\n";
  return text;
}

std::string study_results_page(const Json& results) {
  std::string text = "\n";
  for (const Json& metric : results.at("metrics")) {
    text += metric_table(results, metric.at("name").get<std::string>()) + "\n";
  }
  text += statuses_text(results);
  for (const Json& words : results.at("search_words")) text += paragraph(words.get<std::string>());
  text += stains_text(results.at("stains").get<std::vector<std::string>>());
  for (const Json& remark : results.at("remarks"))
    text += paragraph("remark: " + remark.get<std::string>());
  for (const Json& words : results.at("words")) text += paragraph(words.get<std::string>());
  text += "\nWhat choosing the best arm costs\n";
  for (const Json& words : results.at("choice").at("words")) {
    text += paragraph(words.get<std::string>());
  }
  return text;
}

}  // namespace privgrad::tool

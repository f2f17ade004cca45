#include "study_page.hpp"

#include <algorithm>

#include "arguments.hpp"
#include "output.hpp"
#include "privgrad/record/facts.hpp"
#include "study_progress.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

std::string number_or_dash(const std::optional<double>& value) {
  return value ? fixed_text(*value, 4) : "-";
}

/// Returns the text of a p-value, rounded up so that the text never shows less than p.
std::string p_text(const std::optional<double>& p) {
  if (!p) return "-";
  if (*p < 1e-4) return "<0.0001";
  return fixed_bound(*p, 4);
}

std::string interval_text(const std::optional<core::Interval>& interval) {
  if (!interval) return "-";
  return "[" + fixed_text((*interval)[0], 4) + ", " + fixed_text((*interval)[1], 4) + "]";
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

std::string metric_table(const core::StudyResults& results, const std::string& metric) {
  Table table({Align::left, Align::right, Align::right, Align::right, Align::right, Align::right,
               Align::right, Align::right, Align::right});
  table.add({metric, "mean", "std", "95 % interval", "vs baseline", "95 % interval", "p", "Holm",
             "sign flips"});
  for (const core::ArmResults& arm : results.arms) {
    const core::MeanFacts& own = arm.metrics.at(metric);
    std::vector<std::string> cells{arm.name, number_or_dash(own.mean), number_or_dash(own.std_),
                                   interval_text(own.ci95)};
    const auto versus = arm.versus_baseline.find(metric);
    if (versus == arm.versus_baseline.end()) {
      cells.push_back(arm.is_reference() ? "without privacy" : "baseline");
    } else {
      const core::DifferenceFacts& facts = versus->second;
      cells.push_back(number_or_dash(facts.difference));
      cells.push_back(interval_text(facts.ci95));
      for (const auto& p : {facts.p, facts.p_holm, facts.p_sign_flip}) cells.push_back(p_text(p));
    }
    table.add(std::move(cells));
  }
  return table.text();
}

std::string statuses_text(const core::StudyResults& results) {
  std::string text;
  for (const core::ArmResults& arm : results.arms) {
    for (const auto& [status, count] : arm.statuses) {
      if (status == "completed") continue;
      text += arm.name + ": " + std::to_string(count) + " of " + std::to_string(arm.runs) +
              " runs ended as " + status +
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

std::string study_results_page(const nlohmann::json& json) {
  const auto results = core::facts_in<core::StudyResults>(json, "results.json");
  std::string text = "\n";
  for (const core::MetricFacts& metric : results.metrics)
    text += metric_table(results, metric.name) + "\n";
  text += statuses_text(results);
  for (const std::string& words : results.search_words) text += paragraph(words);
  text += stains_text(results.stains);
  for (const std::string& remark : results.remarks) text += paragraph("remark: " + remark);
  for (const std::string& words : results.words) text += paragraph(words);
  text += "\nWhat choosing the best arm costs\n";
  for (const std::string& words : results.choice.words) text += paragraph(words);
  return text;
}

}  // namespace privgrad::tool

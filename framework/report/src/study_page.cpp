#include "study_page.hpp"

#include <algorithm>
#include <map>
#include <system_error>

#include "choice_section.hpp"
#include "digits.hpp"
#include "document.hpp"
#include "factors_section.hpp"
#include "html.hpp"
#include "privgrad/names.hpp"
#include "privgrad/record/short_numbers.hpp"
#include "record.hpp"
#include "slots.hpp"
#include "step_range.hpp"
#include "study_record.hpp"
#include "study_rounds.hpp"

namespace privgrad::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using core::short_bound;
using core::short_number;
using core::short_range;

constexpr std::size_t kMostSentences = 8;  // sentences shown without a click
// A chart over epsilon is left out if all epsilons differ by less (a relative difference).
constexpr double kSameEpsilon = 0.005;

class StudyPage {
 public:
  explicit StudyPage(const fs::path& directory)
      : record_(directory), arms_(record_.arms), metrics_(record_.metrics) {}

  Page page() {
    std::string body = head();
    body += epsilon_section();
    body += factors_section(record_, charts_);
    body += arms_section();
    body += pairs_section();
    body += choice_section(results_.choice);
    body += curves_section();
    body += federated_section(record_, charts_);
    body += spending_section();
    body += runs_section();
    body += unaccounted_section();
    std::string versions =
        facts({{"PrivGrad", study_.privgrad.empty() ? "not recorded" : study_.privgrad}});
    if (!record_.lock.empty()) versions += folded_file("privgrad.lock", record_.lock);
    body += section("versions", "Versions", versions);
    body += section("study", "The study, as planned",
                    folded_file("study.json", record_.study_json.dump(
                                                  2, ' ', false, Json::error_handler_t::replace)));
    return document(name() + " - PrivGrad study", body, std::move(charts_));
  }

 private:
  std::string name() const { return record_.name(); }
  bool is_baseline(const Arm& arm) const { return record_.is_baseline(arm); }

  static std::string warning(const std::string& content) {
    return "<p class=\"warning\" role=\"note\">" + escaped(content) + "</p>\n";
  }

  std::string head() const {
    const std::size_t seeds = study_.seeds.size();
    std::string html =
        unverified_banner(record_.problems) + "<h1>" + escaped(name()) +
        "</h1>\n<p class=\"lead\">A study by PrivGrad: " + std::to_string(arms_.size()) +
        " arms, " + std::to_string(seeds) + (seeds == 1 ? " seed" : " seeds") + " each</p>\n";
    const std::string done =
        std::to_string(record_.done_runs) + " of " + std::to_string(record_.planned_runs);
    if (record_.done_runs < record_.planned_runs || !record_.has_results) {
      html += warning("This study is not finished: " + done +
                      " runs have come to their end. Means and comparisons appear once all have.");
    } else {
      html += paragraph("All " + done + " runs have come to their end.");
    }
    core::Texts stains = study_.stains;
    for (const std::string& stain : results_.stains)
      if (std::ranges::find(stains, stain) == stains.end()) stains.push_back(stain);
    for (const std::string& stain : stains) html += warning(stain);
    for (const auto& remark : study_.remarks) html += warning(remark);
    html += warning(
        "None of the models is for release: the runs of a study have seeds, so that arms can be "
        "compared in pairs, and anyone who knows a seed can remove the noise of its run. The "
        "epsilons are those of the same runs with random keys.");
    return html + guarantee();
  }

  std::string guarantee() const {
    const auto &epsilon = study_.target_epsilon, &delta = study_.target_delta;
    std::vector<std::pair<std::string, std::string>> rows;
    rows.push_back({"privacy of each arm's run",
                    epsilon && delta ? "epsilon at most " + short_bound(*epsilon, kBoundDigits) +
                                           " at delta " + short_number(*delta, 6)
                                     : "differs between the arms, see the table"});
    rows.push_back({"adjacency", study_.adjacency.value_or("differs") + ", per " + study_.unit});
    rows.push_back({"baseline", study_.baseline.empty() ? "none" : record_.baseline_words()});
    return facts(rows);
  }

  static std::string value_with_interval(const core::MeanFacts& own) {
    if (!own.mean) return "-";
    return own.ci95 ? with_interval(*own.mean, *own.ci95) : short_number(*own.mean, 4);
  }

  std::string arms_section() {
    std::vector<std::string> headings{"arm",     "runs", "steps",
                                      "epsilon", "kind", "noise multiplier"};
    std::vector<bool> numbers{false, true, true, true, false, true};
    for (const std::string& metric : metrics_) {
      headings.push_back(spoken(metric) + " (95 %)");
      numbers.push_back(true);
    }
    HtmlTable table(
        "Each arm with what its run costs (rounded up) and what it gives: the mean over seeds, and "
        "its 95 % interval (Student's t).",
        headings, numbers);
    for (const Arm& arm : arms_) {
      const std::string epsilon =
          arm.epsilon ? short_bound(*arm.epsilon, kBoundDigits) : "infinite";
      std::vector<std::string> cells{
          arm.name + role_of(arm),           runs_of(arm), steps_of(arm), epsilon,
          arm.bound + ", " + arm.accountant, noise_of(arm)};
      for (const std::string& metric : metrics_)
        cells.push_back(value_with_interval(record_.mean_of(arm, metric)));
      table.add(cells);
    }
    std::string charts;
    int drawn = 0;
    // For a grid with many arms, the charts of the factors replace the charts of the arms.
    const bool is_grid = record_.factors().size() > 1 && arms_.size() > kMostCurves;
    for (const std::string& metric : metrics_) {
      if (is_grid) break;
      charts += mean_chart(metric, ++drawn);
      charts += epsilon_chart(metric, drawn);
    }
    std::string html = "<div class=\"charts\">\n" + charts + "</div>\n" + table.html();
    if (record_.has_results && same_epsilon() && !record_.has_levels()) {
      html += paragraph("There is no chart over epsilon: all arms have the same, to within " +
                        short_number(100.0 * kSameEpsilon) + " %.");
    }
    if (arms_.size() > kMostCurves)
      html = folded("All " + std::to_string(arms_.size()) + " arms, one by one", html);
    return section("arms", "The arms", html);
  }

  std::string role_of(const Arm& arm) const {
    if (arm.is_reference()) return " (without privacy)";
    return is_baseline(arm) ? " (baseline)" : "";
  }

  std::string runs_of(const Arm& arm) const {
    if (arm.same_as) return "those of " + *arm.same_as;
    std::map<std::string, int> statuses;
    for (const RunRecord& run : arm.runs) {
      ++statuses[run.summary->status];
    }
    std::string words;
    for (const auto& [status, count] : statuses) {
      words += (words.empty() ? "" : ", ") + std::to_string(count) + " " + spoken(status);
    }
    return words.empty() ? "0" : words;
  }

  /// The number of steps in an arm's runs; before any run has ended, the planned number.
  std::string steps_of(const Arm& arm) const {
    std::vector<double> made;
    for (const RunRecord& run : arm.runs) {
      made.push_back(static_cast<double>(run.summary->steps));
    }
    return made.empty() ? std::to_string(arm.steps) + " planned" : range_of(made);
  }

  static std::string noise_of(const Arm& arm) {
    const auto& range = arm.noise_multiplier;
    if (range.size() != 2 || !range[0] || !range[1]) return "-";
    if (arm.noise_adapts) return "from " + short_number(*range[0]) + " on, adapting";
    return short_range(*range[0], *range[1]);
  }

  std::string mean_chart(const std::string& metric, int at) {
    Chart chart{.id = "means-" + std::to_string(at),
                .title = "Mean " + spoken(metric) + " of each arm",
                .x = spoken(metric),
                .y = "",
                .says =
                    "What each arm is worth at its privacy. The whiskers are 95 % intervals over "
                    "seeds; arms are compared by their paired differences, which are sharper."};
    for (const Arm& arm : arms_) {
      const core::MeanFacts& own = record_.mean_of(arm, metric);
      if (!own.mean) continue;
      const auto [low, high] = own.ci95.value_or(core::Interval{*own.mean, *own.mean});
      chart.rows.push_back({arm.name, *own.mean, low, high, arm.colour});
    }
    return charts_.add(std::move(chart));
  }

  bool same_epsilon() const {
    std::vector<double> all;
    for (const Arm& arm : arms_) {
      if (arm.is_reference()) continue;
      if (!arm.epsilon) return false;
      all.push_back(*arm.epsilon);
    }
    if (all.empty()) return false;
    const auto [low, high] = std::ranges::minmax_element(all);
    return *high - *low <= kSameEpsilon * *high;
  }

  std::string epsilon_chart(const std::string& metric, int at) {
    if (same_epsilon() || record_.has_levels()) return "";
    Chart chart{.id = "epsilon-" + std::to_string(at),
                .title = "Mean " + spoken(metric) + " against epsilon",
                .x = "epsilon",
                .y = spoken(metric),
                .says =
                    "What privacy buys: arms to the left give more of it. Arms of different "
                    "epsilon are not a comparison of methods."};
    for (const Arm& arm : arms_) {
      const auto& mean = record_.mean_of(arm, metric).mean;
      if (!arm.epsilon || !mean) continue;
      chart.series.push_back({.name = arm.name,
                              .points = {{*arm.epsilon, *mean}},
                              .markers = true,
                              .colour = arm.colour});
    }
    return charts_.add(std::move(chart));
  }

  std::string pairs_section() {
    if (!record_.has_results || study_.baseline.empty()) {
      return section("pairs", "Compared with the baseline",
                     paragraph("There is nothing to compare yet."));
    }
    std::string html, searched;
    for (const std::string& words : results_.search_words) searched += paragraph(words);
    for (const std::string& sentence : results_.words)
      html += "<li>" + escaped(sentence) + "</li>\n";
    if (!html.empty()) html = "<ul>\n" + html + "</ul>\n";
    // Many sentences would hide the charts and tables below, which show the same results, so the
    // sentences are folded, and left out in print.
    const std::size_t sentences = results_.words.size();
    if (sentences > kMostSentences) {
      html = "<details class=\"twice\"><summary>In sentences (" + std::to_string(sentences) +
             ")</summary>\n" + html + "</details>\n";
    }
    int drawn = 0;
    for (const std::string& metric : metrics_) html += pairs_of(metric, ++drawn);
    return section("pairs", "Compared with the baseline", searched + html);
  }

  std::string pairs_of(const std::string& metric, int at) {
    HtmlTable table(
        "Difference in " + spoken(metric) + " to " + record_.baseline_words() +
            ", paired by seed. p is for the mean difference being zero; Holm's correction is over "
            "the arms.",
        {"arm", "difference", "95 % interval", "p (t)", "p (t, Holm)", "p (sign flip, Holm)"},
        {false, true, true, true, true, true});
    Chart chart{.id = "pairs-" + std::to_string(at),
                .title = "Difference in " + spoken(metric) + " to " + record_.baseline_words(),
                .x = "difference in " + spoken(metric),
                .y = "",
                .says =
                    "Which arms differ from the baseline. An interval that holds the line at 0 is "
                    "no proof that there is no difference; the intervals are not corrected for "
                    "their number, the p-values in the table are."};
    for (const Arm& arm : arms_) {
      if (is_baseline(arm)) continue;
      const core::DifferenceFacts& versus = record_.difference_of(arm, metric);
      const auto& difference = versus.difference;
      const auto& interval = versus.ci95;
      if (!difference) continue;
      const auto p = [](const auto& value) { return value ? short_bound(*value, 2) : "-"; };
      const std::string sign = *difference > 0.0 ? "+" : "";
      const std::string both =
          interval ? with_interval(*difference, *interval) : short_number(*difference, 3) + " -";
      const std::size_t space = both.find(' ');
      table.add({arm.name, sign + both.substr(0, space), both.substr(space + 1), p(versus.p),
                 p(versus.p_holm), p(versus.p_sign_flip_holm)});
      const auto [low, high] = interval.value_or(core::Interval{*difference, *difference});
      chart.rows.push_back({arm.name, *difference, low, high, arm.colour});
    }
    if (table.empty()) return "";
    chart.levels.push_back({"no difference", 0.0});
    const std::size_t count = chart.rows.size();
    const std::string html =
        "<div class=\"charts\">\n" + charts_.add(std::move(chart)) + "</div>\n" + table.html();
    return count <= kMostCurves
               ? html
               : "<details class=\"twice\"><summary>" + escaped(spoken(metric)) + ": all " +
                     std::to_string(count) + " differences</summary>\n" + html + "</details>\n";
  }

  /// States which arms the charts over the steps show; "" if they show all arms.
  std::string chosen_words() const {
    const std::size_t shown = record_.curves().size();
    const auto own = std::ranges::count_if(arms_, [](const Arm& arm) { return !arm.same_as; });
    if (shown == static_cast<std::size_t>(own)) return "";
    const std::string asked = study_.curves.empty() ? "" : ", the arms that the study names";
    return " Drawn are the baseline" + asked + " and the best of the " + std::to_string(own) +
           " arms.";
  }

  /// Draws the mean of each variant at each level, if the levels are numbers, such as epsilons.
  std::string epsilon_section() {
    if (!record_.has_levels()) return "";
    const core::Texts& keys = study_.levels->keys;
    const auto values = numbers_of(study_.levels->labels);
    if (!values || values->size() < 2 || keys.empty()) return "";
    const std::string level = record_.title_of(keys.front());
    std::string figures;
    int drawn = 0;
    for (const std::string& metric : metrics_) {
      Chart chart{.id = "levels-" + std::to_string(++drawn),
                  .title = "Mean " + spoken(metric) + " against " + level,
                  .x = level,
                  .y = spoken(metric),
                  .says = "What each method is worth at each " + level +
                          ". Bands are 95 % intervals over seeds." +
                          (variants_drawn().size() < kMostCurves ? "" : chosen_words()),
                  .log_x = is_logarithmic(*values)};
      for (const std::string& variant : variants_drawn())
        chart.series.push_back(over_levels(variant, metric));
      figures += charts_.add(std::move(chart));
    }
    if (figures.empty()) return "";
    return section("levels", "Over " + level, "<div class=\"charts\">\n" + figures + "</div>\n");
  }

  std::vector<std::string> variants_drawn() const {
    std::vector<std::string> names;
    const auto add = [&](const Arm& arm) {
      const bool is_new = std::ranges::find(names, arm.variant) == names.end();
      if (is_new && names.size() < kMostCurves) names.push_back(arm.variant);
    };
    for (const Arm& arm : arms_)
      if (record_.is_baseline(arm) || arm.is_reference()) add(arm);
    for (const Arm* arm : record_.curves()) add(*arm);
    for (const Arm& arm : arms_) add(arm);
    return names;
  }

  Series over_levels(const std::string& variant, const std::string& metric) const {
    Series series{.name = variant, .points = {}};
    std::map<double, const core::MeanFacts*> by_level;
    for (const Arm& arm : arms_) {
      if (arm.variant != variant) continue;
      series.dashed = arm.is_reference();
      series.colour = arm.colour;
      const core::MeanFacts& own = record_.mean_of(arm, metric);
      const auto value = numbers_of({arm.level.value_or("")});
      if (value && own.mean) by_level[value->front()] = &own;
    }
    for (const auto& [x, own] : by_level) {
      series.points.push_back({x, *own->mean});
      if (const auto& ends = own->ci95) series.bands.push_back({x, (*ends)[0], (*ends)[1]});
    }
    if (series.bands.size() != series.points.size()) series.bands.clear();
    return series;
  }

  std::string curves_section() {
    static constexpr std::pair<const char*, core::Nullable<double> core::Metrics::*> kCurves[] = {
        {"test accuracy", &Measurement::test_accuracy},
        {"test loss", &Measurement::test_loss},
        {"train accuracy", &Measurement::train_accuracy},
        {"train loss", &Measurement::train_loss}};
    std::string figures;
    int drawn = 0;
    for (const auto& [title, value] : kCurves) {
      Chart chart{.id = "curve-" + std::to_string(++drawn),
                  .title = "Mean " + std::string(title) + " over the steps",
                  .x = "step",
                  .y = title,
                  .says =
                      "How fast each arm learns, and whether it still did where it ended. The "
                      "95 % intervals over seeds hold at each step on its own; of more than three "
                      "arms a few are drawn." +
                      chosen_words()};
      chart.share = std::string_view(title).ends_with("accuracy");
      for (const Arm* arm : record_.curves())
        chart.series.push_back(curve(*arm, value, &Measurement::step));
      figures += charts_.add(std::move(chart));
    }
    if (figures.empty()) figures = paragraph("Nothing was measured yet.");
    return section("curves", "Learning curves", "<div class=\"charts\">\n" + figures + "</div>\n");
  }

  std::string spending_section() {
    Chart spent{.id = "spent",
                .title = "Epsilon spent",
                .x = "step",
                .y = "epsilon",
                .says =
                    "When each arm spends its privacy. All seeds of an arm spend the same, unless "
                    "its noise adapts; then the first seed is drawn."};
    spent.from_zero = true;
    std::map<std::string, std::vector<Series>> slots;
    for (const Arm* shown : record_.curves()) {
      const Arm& arm = *shown;
      if (arm.runs.empty()) continue;
      const RunRecord& run = arm.runs.front();
      Series series{
          .name = arm.name, .points = {{0.0, 0.0}}, .stepped = true, .colour = arm.of_level};
      series.points.insert(series.points.end(), run.spent.begin(), run.spent.end());
      if (!run.spent.empty()) add_or_name(spent.series, std::move(series));
      if (!run.schedules) continue;
      const std::string source = (run.directory / "schedules.json").string();
      for (const auto& [slot, values] : run.schedules->slots) {
        add_or_name(slots[slot], {.name = arm.name,
                                  .points = slot_points(*run.schedules, slot, source),
                                  .stepped = true,
                                  .colour = arm.of_level});
      }
    }
    std::string figures = charts_.add(std::move(spent));
    std::vector<std::pair<std::string, std::string>> constants;
    int drawn = 0;
    for (auto& [slot, series] : slots) {
      const SlotWords words = words_of_slot(slot);
      if (const auto value = only_value(series)) {
        constants.push_back({words.title, short_number(*value, 6) + " in every step of all arms"});
        continue;
      }
      figures += charts_.add({.id = "slot-" + std::to_string(++drawn),
                              .title = words.title,
                              .x = "step",
                              .y = "",
                              .says = words.says,
                              .series = std::move(series)});
    }
    if (figures.empty() && constants.empty()) return "";
    return section("spending", "Spending and schedules",
                   "<div class=\"charts\">\n" + figures + "</div>\n" +
                       (constants.empty() ? "" : facts(constants)));
  }

  /// Lists the value of every run, with a link to the run's own page.
  std::string runs_section() const {
    if (record_.done_runs == 0 || metrics_.empty()) return "";
    std::vector<std::string> headings{"arm"};
    std::vector<bool> numbers{false};
    for (const core::Count seed : study_.seeds) {
      headings.push_back("seed " + std::to_string(seed));
      numbers.push_back(true);
    }
    HtmlTable table("Each run: its " + spoken(metrics_.front()) +
                        ", or how it ended. The links lead to the runs' own pages, below the "
                        "folder of the study.",
                    headings, numbers);
    for (const Arm& arm : arms_) {
      if (arm.same_as) continue;
      std::vector<Link> cells;
      for (const core::Count seed : study_.seeds) {
        const std::string path = "runs/" + arm.name + "/seed-" + std::to_string(seed);
        const auto at = std::ranges::find(arm.run_paths, path);
        if (at == arm.run_paths.end()) {
          cells.push_back({"-", ""});
          continue;
        }
        const RunRecord& run = arm.runs[static_cast<std::size_t>(at - arm.run_paths.begin())];
        cells.push_back({outcome_of(run), path + "/report.html"});
      }
      table.add_links(arm.name, cells);
    }
    return section("runs", "The runs", table.html());
  }

  /// A run's value of the first metric; how the run ended, if there is no value.
  std::string outcome_of(const RunRecord& run) const {
    std::string outcome = spoken(run.summary->status);
    core::Metrics::members(run.summary->metrics, [&](std::string_view name, const auto& value) {
      if (value && name == metrics_.front()) outcome = digits(value);
    });
    return outcome;
  }

  std::string unaccounted_section() const {
    std::map<std::string, std::vector<std::string>> arms_with;
    for (const Arm& arm : arms_) {
      for (const std::string& what : arm.unaccounted) arms_with[what].push_back(arm.name);
    }
    std::string html;
    for (const auto& [what, arms] : arms_with) {
      html += "<li><strong>" + escaped(what) + "</strong>: " +
              (arms.size() == arms_.size() ? "in all arms" : "in " + escaped(listed(arms))) +
              "</li>\n";
    }
    html = html.empty() ? paragraph("Nothing in any arm: every use of private rows was charged.")
                        : paragraph("Read off private rows, and charged nowhere:") + "<ul>\n" +
                              html + "</ul>\n";
    return section("unaccounted", "What was not accounted for", html);
  }

  const StudyRecord record_;
  const core::StudyFacts& study_ = record_.study;
  const core::StudyResults& results_ = record_.results;
  const std::vector<Arm>& arms_;
  const std::vector<std::string>& metrics_;
  Charts charts_;
};

}  // namespace

bool is_study(const fs::path& directory) {
  std::error_code failure;
  return fs::exists(directory / "study.json", failure);
}

Page study_page(const fs::path& directory) { return StudyPage(directory).page(); }

}  // namespace privgrad::report

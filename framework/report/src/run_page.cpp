#include "run_page.hpp"

#include <algorithm>
#include <functional>

#include "audit_words.hpp"
#include "digits.hpp"
#include "document.hpp"
#include "evaluation_section.hpp"
#include "federated_section.hpp"
#include "html.hpp"
#include "privgrad/record/short_numbers.hpp"
#include "slots.hpp"

namespace privgrad::report {
namespace {

using Json = nlohmann::json;
using core::short_bound;
using core::short_lower_bound;
using core::short_number;

/// A kind of bound, in words.
std::string bound_words(const std::string& bound) {
  if (bound == "upper") return "upper bound";
  if (bound == "exact") return "exact";
  if (bound == "estimate") return "estimate, no bound";
  return bound;
}

/// Formats a paragraph of the statement, with a short first sentence in bold.
std::string statement_paragraph(const std::string& words) {
  constexpr std::size_t kLongestSubject = 40;
  const std::size_t stop = words.find(". ");
  if (stop > kLongestSubject) return paragraph(words);
  return "<p><strong>" + escaped(words.substr(0, stop + 1)) + "</strong>" +
         escaped(words.substr(stop + 1)) + "</p>\n";
}

class RunPage {
 public:
  RunPage(const RunRecord& record, std::optional<AuditShown> audit)
      : record_(record),
        audit_(std::move(audit)),
        summary_(record.summary.value_or(core::Summary{})),
        statement_(record.statement.value_or(core::Statement{})) {}

  Page page() {
    std::string body = head();
    body += training_section();
    body += evaluation_section(summary_.test_evaluation,
                               (record_.directory / "summary.json").string(), charts_);
    body += federated_section(record_, charts_);
    body += schedule_section();
    body += privacy_section();
    body += unaccounted_section();
    body += declared_section();
    body += version_section();
    body += section("manifest", "The manifest, as resolved",
                    folded_file("manifest.yaml", record_.manifest));
    return document(name() + " - PrivGrad run", body, std::move(charts_));
  }

 private:
  std::string name() const {
    if (!summary_.name.empty()) return summary_.name;
    return statement_.name.empty() ? "run" : statement_.name;
  }

  static std::string recorded(const std::string& words) {
    return words.empty() ? "not recorded" : words;
  }
  bool has_noise() const { return record_.statement ? statement_.noise : record_.has_ledger; }
  bool ended() const { return record_.summary.has_value(); }

  /// The spent epsilon: from the summary if the run has ended, otherwise from its ledger.
  std::optional<double> epsilon() const {
    return ended() ? summary_.epsilon.plain() : record_.last_epsilon;
  }

  std::optional<core::Count> planned_steps() const {
    if (ended()) return summary_.planned_steps;
    if (!record_.statement) return std::nullopt;
    return statement_.planned_steps;
  }

  std::string what_happened() const {
    const std::string planned = planned_steps() ? std::to_string(*planned_steps()) : "unknown";
    if (!ended()) {
      return "This run was interrupted, or it is still running: it has no summary. " +
             (record_.has_ledger ? std::to_string(record_.charged_steps) + " of " + planned +
                                       " planned steps had been paid for by then."
                                 : "It was planned to make " + planned + " steps.");
    }
    const std::string& status = summary_.status;
    const std::string steps = std::to_string(summary_.steps);
    if (status == "completed") return "Completed all " + steps + " steps.";
    const std::string after = " after step " + steps + " of " + planned;
    if (status == "budget_exhausted") {
      return "The privacy budget was spent" + after + ": the model is the one that it paid for.";
    }
    if (status == "stopped_early") {
      return "Stopped early" + after +
             ", by the accuracies that it had released; the guarantee is that of all steps.";
    }
    if (status == "interrupted") return "Interrupted" + after + ": the model is the one so far.";
    if (status == "diverged") {
      return "Diverged" + after +
             ": parameters or losses were not finite; the model is the last whose parameters were.";
    }
    if (status == "untrained") {
      return "No client's model ever arrived: the model is the initial one, and the clients' "
             "charges stand.";
    }
    return "Ended with status '" + status + "'" + after + ".";
  }

  std::string head() const {
    std::string html = unverified_banner(record_.problems) + "<h1>" + escaped(name()) +
                       "</h1>\n<p class=\"lead\">A training run by PrivGrad";
    if (!summary_.mode.empty()) html += ", " + escaped(summary_.mode) + " mode";
    if (!statement_.date.empty()) html += ", begun " + escaped(statement_.date);
    html += "</p>\n";
    const bool completed = summary_.status == "completed";
    html += (completed ? "<p>" : "<p class=\"warning\" role=\"note\">") + escaped(what_happened()) +
            "</p>\n";
    if (!statement_.stain.empty())
      html += "<p class=\"warning\" role=\"note\">" + escaped(statement_.stain) + "</p>\n";
    if (const std::string untested = untested_plugins(); !untested.empty()) {
      html +=
          "<p class=\"warning\" role=\"note\">Not on record as having passed the conformance "
          "tests: " +
          escaped(untested) + "</p>\n";
    }
    for (const std::string& note : record_.notes) {
      html += "<p class=\"warning\" role=\"note\">" + escaped(note) + "</p>\n";
    }
    return html + lead_lines() + tiles();
  }

  /// The first paragraphs of the statement after its warning: the protected unit, the guarantee,
  /// the meaning of the numbers, and a remark if the guarantee is weak.
  std::string lead_lines() const {
    std::string lines;
    for (std::size_t i = statement_.stain.empty() ? 0 : 1; i < on_top(); ++i)
      lines += statement_paragraph(statement_.prose[i]);
    return lines.empty() ? "" : "<div class=\"short\">\n" + lines + "</div>\n";
  }
  std::size_t on_top() const {
    return std::min(
        statement_.prose.size(),
        (statement_.stain.empty() ? 0 : 1) + statement_.lead.size() + statement_.remarks.size());
  }

  static std::string tile(const std::string& what, const std::string& value,
                          const std::string& more) {
    return "<dl class=\"tile\"><dt>" + escaped(what) + "</dt><dd>" + escaped(value) + "</dd>" +
           (more.empty() ? "" : "<dd class=\"more\">" + escaped(more) + "</dd>") + "</dl>\n";
  }

  std::string tiles() const {
    std::string html = "<div class=\"tiles\">\n";
    if (!has_noise()) {
      html += tile("epsilon", "infinite", "no noise was added");
    } else if (const auto spent = epsilon()) {
      const std::string bound = ended() ? summary_.bound : recorded(statement_.bound);
      html +=
          tile("epsilon", (bound == "exact" ? "" : "\u2264 ") + short_bound(*spent, kBoundDigits),
               bound_words(bound) + " by " + prover() +
                   (ended() ? "" : ", of the charges in the ledger"));
    } else {
      html +=
          tile("epsilon", record_.charged_steps == 0 && !ended() ? "0" : "infinite",
               record_.charged_steps == 0 && !ended() ? "nothing was charged" : "none is proved");
    }
    if (audit_) {
      html += tile("epsilon, audited", "\u2265 " + lower_number(*audit_),
                   "with confidence " + confidence_words(*audit_));
    }
    if (has_noise()) {
      html += tile("delta", record_.statement ? short_number(statement_.delta, 6) : "-",
                   "per " + recorded(statement_.unit) + ", " + recorded(statement_.adjacency));
    }
    for (const auto& [value, what] : {std::pair{summary_.metrics.test_accuracy, "test accuracy"},
                                      std::pair{summary_.metrics.test_loss, "test loss"}})
      if (value) html += tile(what, digits(value), "of the final model");
    if (ended()) html += tile("parameters", std::to_string(summary_.parameters), "");
    return html + "</div>\n";
  }

  std::string privacy_section() {
    std::string html;
    const auto& prose = statement_.prose;
    for (std::size_t i = on_top(); i < prose.size(); ++i) html += statement_paragraph(prose[i]);
    html = prose.empty() ? paragraph("This run left no statement.")
                         : folded("The statement in full", html);
    if (audit_) html += statement_paragraph(audit_paragraph(*audit_)) + audit_bar(*audit_);
    html += accountant_table();
    html += with_allocation();
    return section("privacy", "Privacy statement", html);
  }

  std::string prover() const {
    return recorded(statement_.proved_by.empty() ? statement_.accountant : statement_.proved_by);
  }

  std::string accountant_table() const {
    if (!record_.statement || !has_noise()) return "";
    HtmlTable table(
        "What each accountant answers at this delta. Epsilon is rounded up, lower bounds are "
        "rounded down.",
        {"accountant", "steps", "epsilon", "kind", "true value at least", "note"},
        {false, true, true, false, true, false});
    const auto add = [&](const core::Answer& answer, const std::string& who, std::uint64_t steps,
                         const char* planned) {
      table.add({who, std::to_string(steps) + planned, epsilon_words(answer.epsilon),
                 bound_words(answer.bound),
                 answer.lower ? short_lower_bound(*answer.lower, kBoundDigits) : "-", answer.note});
    };
    add(statement_, prover() + " (guards the budget)", statement_.accounted_steps,
        statement_.status == "unfinished" ? ", planned" : "");
    for (const auto& other : statement_.also)
      add(other, other.accountant, other.steps, ", planned");
    return table.html();
  }

  static std::string epsilon_words(const std::optional<double>& epsilon) {
    return epsilon ? short_bound(*epsilon, kBoundDigits) : "infinite";
  }

  /// States what the planned steps would cost with the sampler `allocation`.
  std::string with_allocation() const {
    const auto& price = statement_.sampling.with_allocation;
    if (!price) return "";
    return paragraph(
        "If each example drew its step of an epoch by itself (the sampler allocation with "
        "steps_per_epoch " +
        std::to_string(price->steps_per_epoch) + "), the planned steps would cost epsilon " +
        epsilon_words(price->epsilon) + " under " + price->adjacency +
        " at the same noise, by the accountant pld.");
  }

  std::string epsilon_chart() {
    Chart chart{.id = "epsilon",
                .title = "Epsilon spent",
                .x = "step",
                .y = "epsilon",
                .says =
                    "How the guarantee is used up. Steps are paid for in blocks before they are "
                    "made, so the line is never below what was spent by then."};
    if (statement_.federated)
      chart.says += " It is what was charged to the client that was charged most.";
    if (!record_.spent.empty()) {
      Series series{.name = "spent", .points = {{0.0, 0.0}}, .stepped = true};
      series.points.insert(series.points.end(), record_.spent.begin(), record_.spent.end());
      chart.series.push_back(std::move(series));
    }
    if (statement_.target_epsilon) chart.levels.push_back({"budget", *statement_.target_epsilon});
    chart.from_zero = true;
    return charts_.add(std::move(chart));
  }

  /// \param value  returns a number of a measurement, or nothing.
  std::vector<Point> measured(const auto& value) const {
    std::vector<Point> points;
    for (const Measurement& one : record_.measurements)
      if (const auto y = std::invoke(value, one)) points.push_back(point(*one.step, *y));
    return points;
  }

  std::string training_section() {
    std::string html;
    html += charts_.add({.id = "loss",
                         .title = "Loss",
                         .x = "step",
                         .y = "mean loss",
                         .says = "Whether training still gets better where it ends. Test far above "
                                 "train is overfitting, which the noise makes rare.",
                         .series = {{"train", measured(&Measurement::train_loss)},
                                    {"test", measured(&Measurement::test_loss)}}});
    html += charts_.add({.id = "accuracy",
                         .title = "Accuracy",
                         .x = "step",
                         .y = "share of right answers",
                         .says = "What the model is worth at each point of the run, and so at each "
                                 "value of epsilon.",
                         .series = {{"train", measured(&Measurement::train_accuracy)},
                                    {"test", measured(&Measurement::test_accuracy)}},
                         .share = true});
    html += charts_.add(
        {.id = "clipped",
         .title = "Clipped share of the batch, as released",
         .x = "step",
         .y = "noised share",
         .says =
             "How many examples had a gradient longer than the clip norm. The numbers carry the "
             "noise that they were released with, so they can leave the range from 0 to 1.",
         .series = {{"clipped", measured([](const Measurement& one) {
                       return one.clipped_fraction.value_or(std::nullopt);
                     })}}});
    html += excess_chart();
    if (html.empty()) {
      return section("training", "Training",
                     paragraph("No loss and no accuracy: nothing was measured, because release "
                               "mode shows no exact values of private rows."));
    }
    const auto& seconds = summary_.seconds;
    return section(
        "training", "Training",
        "<div class=\"charts\">\n" + html + "</div>\n" +
            (seconds ? paragraph("The steps took " + short_number(*seconds, 3) + " s.") : ""));
  }

  /// Draws the excess risk that was predicted before the run, and the measured excess risk.
  std::string excess_chart() {
    if (!record_.schedules || !record_.schedules->predicted_excess) return "";
    const core::PredictedExcess& predicted = *record_.schedules->predicted_excess;
    Series bound{.name = "bound on the expectation",
                 .points = listed_points(predicted, "predicted_excess",
                                         (record_.directory / "schedules.json").string())};
    Series seen{.name = "measured", .points = {}, .markers = true};
    const std::vector<Point> losses = measured(&Measurement::train_loss);
    const double gap = losses.empty() ? 0.0 : losses.front().y - predicted.optimum;
    if (!losses.empty() && losses.front().x == 0.0 && gap > 0.0) {
      for (const Point& point : losses)
        seen.points.push_back({point.x, (point.y - predicted.optimum) / gap});
    }
    return charts_.add(
        {.id = "excess",
         .title = "Excess risk, predicted and measured",
         .x = "step",
         .y = "relative to the risk before the first step",
         .says =
             "Whether the constants of the manifest (utility) describe this loss: the bound is "
             "Theorem 4.1 of Hong et al. 2022 for them and for the noise of this plan. Points "
             "that stay above it say that they do not, or that steps are not 1/smoothness long.",
         .series = {std::move(bound), std::move(seen)},
         .from_zero = true});
  }

  std::string schedule_section() {
    const char* const title = "Privacy spent, and schedules";
    std::string figures = epsilon_chart();
    if (!record_.schedules) {
      return section("schedules", title,
                     "<div class=\"charts\">\n" + figures + "</div>\n" +
                         paragraph("This run left no record of its schedules."));
    }
    const std::string source = (record_.directory / "schedules.json").string();
    std::vector<std::pair<std::string, std::string>> constants;
    bool exact = true;
    int drawn = 0;
    for (const auto& [slot, values] : record_.schedules->slots) {
      const std::vector<Point> points = slot_points(*record_.schedules, slot, source);
      const SlotWords words = words_of_slot(slot);
      exact = exact && values.exact;
      const bool varies = std::ranges::any_of(
          points, [&](const Point& point) { return point.y != points.front().y; });
      if (!varies) {
        if (!points.empty()) {
          constants.push_back({words.title, short_number(points.front().y, 6) + " in every step"});
        }
        continue;
      }
      figures += charts_.add({.id = "slot-" + std::to_string(++drawn),
                              .title = words.title,
                              .x = "step",
                              .y = "",
                              .says = words.says,
                              .series = {{words.title, points, {}, true}}});
    }
    if (!record_.schedules->slots.contains("clip_norm")) {
      const SlotWords words = words_of_slot("clip_norm");
      figures += charts_.add({.id = "slot-adapted",
                              .title = words.title + ", as adapted",
                              .x = "step",
                              .y = "",
                              .says = "The clip norm that the next step uses. It follows from "
                                      "counts that were released and charged.",
                              .series = {{words.title, measured(&Measurement::clip_norm)}}});
    }
    std::string html = "<div class=\"charts\">\n" + figures + "</div>\n";
    if (!constants.empty()) html += facts(constants);
    if (!exact) {
      html +=
          paragraph("Schedules with many changes are drawn from values at steps spread evenly.");
    }
    if (!ended() || summary_.steps != summary_.planned_steps) {
      html +=
          paragraph("These are the schedules as planned, also for the steps that were not made.");
    }
    return section("schedules", title, html);
  }

  std::string unaccounted_section() const {
    std::string html;
    if (!record_.statement) {
      for (const std::string& what : summary_.unaccounted) {
        html += "<li>" + escaped(what) + "</li>\n";
      }
    } else {
      for (const auto& [what, reaches, because] : statement_.unaccounted)
        html += "<li><strong>" + escaped(what) +
                "</strong>: " + (because.empty() ? "" : escaped(because) + "; ") +
                (reaches == "shown_values" ? "shown beside the model; training does not use it"
                                           : "the model depends on it") +
                "</li>\n";
    }
    if (html.empty()) {
      html =
          ended() || record_.statement
              ? paragraph(
                    "Nothing that PrivGrad read: each use that it made of private rows was "
                    "charged. It cannot know where the numbers that the author declares come from.")
              : paragraph("Unknown: the run left neither a statement nor a summary.");
    } else {
      html = paragraph("Private rows could be seen in these, and nothing was charged for them:") +
             "<ul>\n" + html + "</ul>\n";
    }
    return section("unaccounted", "What was not accounted for", html);
  }

  std::string declared_section() const {
    if (!statement_.declared) return "";
    HtmlTable table("Epsilon does not cover what the author read off private rows.",
                    {"key of the manifest", "value"});
    for (const auto& [key, value] : *statement_.declared) table.add({key, value});
    return section("declared", "Declared by the author and taken as public",
                   table.empty() ? paragraph("Nothing.") : table.html());
  }

  /// The names of the plugins without a record of tests, except plugins that came with this build.
  std::string untested_plugins() const {
    std::string names;
    for (const auto& [name, version, sha256, tested] : statement_.versions.plugins)
      if (tested == core::Tested(false) || tested == core::Tested("allowed"))
        names += (names.empty() ? "" : ", ") + name;
    return names;
  }

  /// Statements of earlier versions lack the member `tested`.
  static std::string tested_words(const std::optional<core::Tested>& said) {
    if (!said) return "not recorded";
    if (said == core::Tested(true)) return "yes";
    if (said == core::Tested("built_in"))
      return "built with PrivGrad; its tests have not been run yet";
    return said == core::Tested("allowed") ? "allowed by hash without a record" : "not on record";
  }

  std::string version_section() const {
    std::string html =
        facts({{"PrivGrad", recorded(statement_.versions.privgrad)},
               {"arithmetic of sums and noise", recorded(statement_.arithmetic)},
               {"floating point", statement_.floating_point.value_or("") == "exact"
                                      ? "exact: the guarantee is about the bits that were released"
                                      : "not covered"},
               {"randomness", recorded(statement_.randomness)}});
    HtmlTable table("The plugins that made this run.",
                    {"plugin", "version", "SHA-256 of the file", "passed its tests"});
    for (const auto& [name, version, sha256, tested] : statement_.versions.plugins)
      table.add({name, version, sha256, tested_words(tested)});
    if (!table.empty()) html += folded("Plugins", table.html());
    if (!record_.lock.empty()) html += folded_file("privgrad.lock", record_.lock);
    html += last_lines();
    return section("versions", "Versions", html);
  }

  /// Lists hashes by which readers can check later that the record has not changed.
  std::string last_lines() const {
    if (record_.last_lines.empty()) return "";
    HtmlTable table("What this page was made from: the last line of each ledger binds all files.",
                    {"ledger", "SHA-256 of its last line"});
    for (const auto& [name, hash] : record_.last_lines) table.add({name, hash});
    return table.html();
  }

  const RunRecord& record_;
  const std::optional<AuditShown> audit_;
  const core::Summary summary_;
  const core::Statement statement_;
  Charts charts_;
};

}  // namespace

Page run_page(RunRecord record) {
  auto audit = read_audit(record);
  return RunPage(record, std::move(audit)).page();
}

}  // namespace privgrad::report

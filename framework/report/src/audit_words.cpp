#include "audit_words.hpp"

#include <algorithm>
#include <cmath>

#include "html.hpp"
#include "privgrad/error.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/record/short_numbers.hpp"

namespace privgrad::report {
namespace {

using Json = nlohmann::json;
using core::number_text;
using core::short_number;

constexpr const char* kFile = "audit.json";

std::string upper_text(double value) { return core::fixed_bound(value, 2); }
std::string lower_text(double value) { return core::fixed_lower_bound(value, 2); }

double number_of(const Json& audit, const char* key, const std::string& source) {
  const auto value = number(audit, key, source);
  if (!value || *value < 0.0)
    throw IoError(source + ": has no '" + key + "' of at least 0, as an audit writes it");
  return *value;
}

/// Whether the hashes in `audits` are the hashes of the record's ledgers and manifest.
bool is_of(const RunRecord& record, const Json& audits) {
  if (record.last_lines.empty() || audits.size() != record.last_lines.size() + 1) return false;
  for (const auto& [name, hash] : record.last_lines)
    if (audits.value(name, Json()) != hash) return false;
  const auto manifest = core::RecordDirectory(record.directory).sha256("manifest.yaml");
  return manifest && audits.value("manifest.yaml", Json()) == *manifest;
}

}  // namespace

std::optional<AuditShown> read_audit(RunRecord& record) {
  const auto file = record.directory / kFile;
  const core::RecordDirectory directory(record.directory);
  if (!record.statement || !directory.has(kFile)) return std::nullopt;
  const std::string source = file.string();
  const Json audit = read_object(file);
  const std::optional<double> proved = record.statement->epsilon;
  AuditShown shown{.lower = number_of(audit, "epsilon_lower", source),
                   .upper = number_of(audit, "epsilon_upper", source),
                   .confidence = number_of(audit, "confidence", source),
                   .of_the_same_files =
                       core::facts_in<core::Versions>(members(audit, "versions", source), source) ==
                       record.statement->versions,
                   .method = text(audit, "method", source).value_or("unknown"),
                   .canaries = number_of(audit, "canaries", source),
                   .runs = number_of(audit, "runs", source),
                   .guesses = number_of(audit, "guesses", source),
                   .correct = number_of(audit, "correct", source)};
  // The last digits may differ, because processors may round logarithms differently.
  const bool same_epsilon = proved && std::fabs(*proved - shown.upper) <= 1e-9 * *proved;
  if (!record.problems.empty() || !same_epsilon ||
      !is_of(record, members(audit, "audits", source))) {
    record.notes.push_back(
        "audit.json is not an audit of this record, and is not shown: see privgrad verify.");
    return std::nullopt;
  }
  shown.upper = *proved;
  return shown;
}

std::string confidence_words(const AuditShown& audit) {
  return short_number(100.0 * audit.confidence, 6) + " %";
}

std::string lower_number(const AuditShown& audit) { return lower_text(audit.lower); }

std::string bracket_words(const AuditShown& audit) {
  return "epsilon is at most " + upper_text(audit.upper) + " (proved), and at least " +
         lower_number(audit) + " (audited, " + confidence_words(audit) + ")";
}

std::string audit_paragraph(const AuditShown& audit) {
  const auto whole = [](double value) { return short_number(value, 15); };
  const std::string how =
      audit.runs > 1.0
          ? whole(audit.runs) + " runs with a canary that was there in about half of them"
          : whole(audit.canaries) + " canaries in one run, each present or absent by a coin";
  std::string words =
      "Audit. By an attack on the " +
      std::string(audit.of_the_same_files ? "code that ran, "
                                          : "plan of this run, with plugins or a program that are "
                                            "not the files that it had, ") +
      bracket_words(audit) + ": " + how + ", " + whole(audit.correct) + " of " +
      whole(audit.guesses) + " guesses right, bounded by the method " + audit.method +
      ". Rows beside the canaries were drawn from a public law, and cost nobody any privacy. A "
      "lower bound says what this attack found; it proves nothing about privacy, and no ledger "
      "binds it.";
  if (audit.lower > audit.upper)
    words += " It is above what was proved: what ran is not what was proved.";
  return words;
}

std::string audit_bar(const AuditShown& audit) {
  constexpr double kWidth = 640.0, kMargin = 10.0;
  const double most = std::max({audit.upper, audit.lower, 1e-9}) * 1.15;
  const auto at = [&](double epsilon) {
    return number_text(kMargin + (kWidth - 2.0 * kMargin) * epsilon / most,
                       std::chars_format::fixed, 1);
  };
  const auto span = [&](const char* kind, double from, double to) {
    const double length = std::max(0.0, (kWidth - 2.0 * kMargin) * (to - from) / most);
    return "<rect class=\"" + std::string(kind) + "\" x=\"" + at(from) +
           "\" y=\"34\" height=\"22\" width=\"" + number_text(length, std::chars_format::fixed, 1) +
           "\"/>\n";
  };
  // A label extends from its mark towards the farther edge, where there is more room.
  const auto label = [&](double epsilon, const char* y, const std::string& words) {
    return "<text x=\"" + at(epsilon) + "\" y=\"" + y + "\" text-anchor=\"" +
           (epsilon > 0.5 * most ? "end" : "start") + "\">" + escaped(words) + "</text>\n";
  };
  const auto mark = [&](double epsilon) {
    return "<line x1=\"" + at(epsilon) + "\" x2=\"" + at(epsilon) +
           "\" y1=\"28\" y2=\"62\" class=\"edge\"/>\n";
  };
  return "<figure class=\"chart bracket\">\n<h3>Epsilon, from both sides</h3>\n<svg viewBox=\"0 0 "
         "640 92\" role=\"img\" aria-label=\"" +
         escaped(bracket_words(audit)) + "\">\n" + span("audited", 0.0, audit.lower) +
         span("between", audit.lower, audit.upper) +
         span("proved", std::max(audit.upper, audit.lower), most) + mark(audit.lower) +
         mark(audit.upper) +
         label(audit.lower, "80",
               "at least " + lower_number(audit) + " (audited, " + confidence_words(audit) + ")") +
         label(audit.upper, "22", "at most " + upper_text(audit.upper) + " (proved)") +
         "</svg>\n<figcaption>The true epsilon of the worst case lies between the two: below the "
         "left edge the audit excludes it, with this confidence, and above the right one the proof "
         "does. A wide gap says that the attack is weak, not that the proof is "
         "loose.</figcaption>\n</figure>\n";
}

}  // namespace privgrad::report

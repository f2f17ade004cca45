#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "accountant_call.hpp"
#include "command.hpp"
#include "manifest_call.hpp"
#include "output.hpp"
#include "planning_display.hpp"
#include "plugins.hpp"
#include "privgrad/api/auditing.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/studies/audit.hpp"
#include "privgrad/studies/run_audit.hpp"
#include "stop_signals.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

constexpr int kMostThreads = 4096, kMostRuns = 10'000'000, kMostCanaries = 1 << 24;

core::AuditOptions options_of(const Arguments& arguments) {
  core::AuditOptions options;
  if (arguments.has("canaries")) {
    options.canaries = static_cast<std::uint64_t>(
        whole_number("canaries", arguments.text("canaries"), 1, kMostCanaries));
  }
  if (arguments.has("runs")) {
    options.kind = core::AuditKind::repeated;
    options.runs =
        static_cast<std::uint64_t>(whole_number("runs", arguments.text("runs"), 1, kMostRuns));
  }
  if (arguments.has("neighbours")) {
    if (arguments.has("canaries"))
      throw UsageError(
          "--neighbours rounding and lattice fix both data sets, so --canaries cannot be used with "
          "them");
    options.kind = core::AuditKind::repeated;
    options.neighbours = api::neighbours_of(arguments.text("neighbours"), "--neighbours");
  }
  if (arguments.has("exposure")) {
    if (arguments.has("runs") || arguments.has("neighbours"))
      throw UsageError("--exposure audits one run; it cannot be used with --runs or --neighbours");
    options.exposure = true;
  }
  if (arguments.has("confidence"))
    options.confidence = number_in("confidence", arguments.text("confidence"), {0.0, 1.0});
  options.threads = arguments.has("threads")
                        ? whole_number("threads", arguments.text("threads"), 1, kMostThreads)
                        : core::available_threads();
  return options;
}

std::string percent(double confidence) { return short_number(100.0 * confidence) + " %"; }

/// \param ending  the last sentence, about the permitted use of the page.
std::string page_of(const std::string& name, const core::AuditResult& result,
                    const std::string& ending) {
  const std::string upper = std::isfinite(result.epsilon_upper)
                                ? "at most " + fixed_bound(result.epsilon_upper, 2) + " (proved)"
                                : std::string("not bounded: noise is off");
  std::string text = name + ": epsilon " + upper + ", at least " +
                     fixed_lower_bound(result.bound().epsilon, 2) + " (audited, " +
                     percent(result.confidence) + ")\n\n";
  text += "delta      " + short_number(result.delta) + "\n";
  text += "adjacency  " + std::string(to_text(result.adjacency)) + "\n";
  text += "runs       " + std::to_string(result.runs) + ", of " + std::to_string(result.steps) +
          " steps, with " + std::to_string(result.canaries) +
          (result.canaries == 1 ? " canary" : " canaries") + "\n";
  text += "time       " + duration_text(result.seconds) + "\n\n";
  Table table({Align::left, Align::right, Align::right, Align::left});
  table.add({"method", "epsilon", "right", "holds for"});
  for (const core::AuditBound& bound : result.bounds) {
    table.add({bound.method, fixed_lower_bound(bound.epsilon, 2),
               std::to_string(bound.guesses.correct) + " of " + std::to_string(bound.guesses.made),
               bound.assumes_sampling   ? "Gaussian releases, sampled"
               : bound.assumes_gaussian ? "Gaussian releases"
                                        : "any release"});
  }
  text += table.text(2);
  if (const auto& exposure = result.exposure) {
    text += "\nexposure   " + fixed_text(exposure->mean_bits, 2) + " of " +
            fixed_text(exposure->most_bits(), 2) + " bits, the mean of " +
            std::to_string(exposure->trained) +
            " canaries that were trained on; 1.44 are expected of a model that remembers none, and "
            "at most " +
            fixed_bound(exposure->most_expected_bits, 2) + " by the proof\n";
  }
  text += "\nThe first method was chosen before the run; the others are for comparison.\n";
  return text + ending;
}

int conclude(const core::AuditResult& result) {
  if (!result.contradicts()) return 0;
  complain("error", "the audit contradicts the proof: epsilon is above " +
                        short_lower_bound(result.bound().epsilon) + " with confidence " +
                        percent(result.confidence) + ", and was proved to be at most " +
                        short_bound(result.epsilon_upper));
  return 3;
}

int audit_manifest(const Arguments& arguments, const core::AuditOptions& options) {
  const host::PluginHost host = load_plugins(arguments);
  core::Manifest manifest =
      core::load_manifest(arguments.operand(0), arguments.texts("set"), host.catalog());
  const core::AuditResult result = core::audit(make_shown_plan(manifest, arguments), options);
  print_answer(arguments, core::to_json(result),
               page_of(manifest.name, result,
                       "Private rows were used and nothing was charged: nothing of this is for "
                       "release.\n"));
  return conclude(result);
}

/// Writes audit.json, and rewrites report.html, which shows the audit.
int audit_directory(const Arguments& arguments, const core::AuditOptions& options) {
  if (arguments.has("set")) throw UsageError("--set cannot change the manifest of a run");
  const core::RecordDirectory directory{fs::path(arguments.operand(0))};
  const host::PluginHost host = load_plugins(arguments);
  const core::RunAudit made = api::audit_directory(directory, host.catalog(), options);
  print_answer(arguments, made.record,
               page_of(directory.path().string(), made.result,
                       "No data was read: " + (directory.path() / "audit.json").string() +
                           " may be handed on with the run.\n"));
  return conclude(made.result);
}

int do_audit(const Arguments& arguments) {
  core::AuditOptions options = options_of(arguments);
  const StopSignals signals;
  options.stop = &signals.flag();
  std::error_code failure;
  return fs::is_directory(arguments.operand(0), failure) ? audit_directory(arguments, options)
                                                         : audit_manifest(arguments, options);
}

}  // namespace

Command audit_command() {
  return {
      .usage =
          {.name = "audit",
           .summary = "Bounds the epsilon of a manifest from below, by attacking it: trains with "
                      "canaries among the\nrows and guesses, from what is released, which of them "
                      "were there. Releases nothing.",
           .operands = {"MANIFEST"},
           .options = {set_option(),
                       {"canaries", "M",
                        "Canaries of one run, in place of as many rows; default 1000, or all rows. "
                        "With --runs: places for the canary, of which the first two thirds of the "
                        "runs choose one."},
                       {"runs", "N",
                        "Train N times instead, with one canary that is present in about half of "
                        "the runs; default 1000 with --neighbours."},
                       {"neighbours", "WHICH",
                        "For repeated runs: canary (the default) or, for the model linear, rows "
                        "crafted to exploit floating point: rounding or lattice."},
                       {"exposure", "",
                        "For loss: next_token: canaries are rows of random tokens, and their "
                        "losses under the last step's model are compared with those of rows that "
                        "it was not trained on."},
                       {"confidence", "P", "Of the lower bound; default 0.99."},
                       {"threads", "N",
                        "Threads to compute with; default all. The result does not depend on it."},
                       {"json", "", "Print one JSON document."},
                       policy_option(),
                       plugin_dir_option()},
           .details =
               "Data sets that differ in one canary are neighbours under the manifest's adjacency. "
               "No account is charged\nand no file is left; do not publish the result for private "
               "rows unless you could also publish one more\nrun of the manifest.\n\n"
               "MANIFEST may be the directory of a run: its plan is audited on rows that are drawn "
               "from a public law,\nno data is read, and audit.json in the directory has the "
               "result, which the run's page and statement\nshow. docs/audit.md says how bounds "
               "are computed.\n\n"
               "exit codes: 0 done, 2 the call or the manifest is wrong, 3 refused for privacy, or "
               "the lower bound is\nabove the proved one, 4 a file could not be read or written",
           .examples = {"privgrad audit examples/manifests/quickstart.yaml",
                        "privgrad audit m.yaml --canaries 5000 --confidence 0.95 --json",
                        "privgrad audit m.yaml --runs 3000 --set steps=1",
                        "privgrad audit m.yaml --runs 3000 --canaries 20",
                        "privgrad audit examples/manifests/visits.yaml --exposure",
                        "privgrad audit runs/e2"}},
      .run = do_audit};
}

}  // namespace privgrad::tool

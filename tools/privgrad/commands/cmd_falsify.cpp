#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "command.hpp"
#include "manifest_call.hpp"
#include "output.hpp"
#include "planning_display.hpp"
#include "plugins.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/falsify/falsify.hpp"

namespace privgrad::tool {
namespace {

constexpr int kRefused = 3;

std::string page(const core::Falsified& result) {
  std::string text;
  for (const core::Difference& one : result.differences) {
    text += "DIFFERS  " + one.what + (one.step ? ", step " + std::to_string(*one.step) : "") +
            ", with " + one.neighbour + ": " + one.detail + "\n";
  }
  for (const std::string& what : result.not_compared) text += "not compared: " + what + "\n";
  if (result.neighbours.empty()) return text;
  text += std::to_string(result.neighbours.size()) + " neighbours, " +
          std::to_string(result.steps) + " step(s) each, " + std::to_string(result.participations) +
          " of them with the row that differs; " + std::to_string(result.coordinates) +
          " released numbers recomputed\n";
  return text + (result.differences.empty() ? "no unexpected differences\n"
                                            : "the noise does not cover these differences\n");
}

int do_falsify(const Arguments& arguments) {
  const host::PluginHost host = load_plugins(arguments);
  core::Manifest manifest =
      core::load_manifest(arguments.operand(0), arguments.texts("set"), host.catalog());
  const core::Plan plan = make_shown_plan(manifest, arguments);
  core::FalsifyOptions options{.threads = core::available_threads()};
  if (arguments.has("steps"))
    options.steps =
        static_cast<std::uint64_t>(whole_number("steps", arguments.text("steps"), 1, 1'000'000));
  const core::Falsified result = core::falsify(plan, options);
  print_answer(arguments, core::to_json(result), page(result));
  return result.differences.empty() ? 0 : kRefused;
}

}  // namespace

Command falsify_command() {
  return {
      .usage = {.name = "falsify",
                .summary = "Tries to refute a manifest: trains on two data sets that differ in "
                           "one row, with the same\nkeys, and names what differs and should not "
                           "(exit code 3).",
                .operands = {"MANIFEST"},
                .options = {set_option(),
                            {"steps", "N", "Compare at most the first N steps (default 16)."},
                            {"json", "", "Print what was found, and what was compared, as JSON."},
                            policy_option(),
                            plugin_dir_option()},
                .details =
                    "Deterministic, without statistics: every released number is recomputed "
                    "from each row's own\npart, the noise and the divisor, and compared bit for "
                    "bit. The second run continues with the\nreleases of the first, and everything "
                    "that follows from them must be the same, including the\nfiles. Finding "
                    "nothing proves nothing. What it prints quotes private values. It releases "
                    "nothing\nand charges no account.",
                .examples = {"privgrad falsify examples/manifests/quickstart.yaml",
                             "privgrad falsify m.yaml --steps 50 --json"}},
      .run = do_falsify};
}

}  // namespace privgrad::tool

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "accountant_call.hpp"
#include "command.hpp"
#include "output.hpp"
#include "plugins.hpp"

namespace privgrad::tool {
namespace {

double required(const Arguments& arguments, const std::string& option, const Interval& allowed) {
  if (!arguments.has(option)) throw UsageError("--" + option + " is missing");
  return number_in(option, arguments.text(option), allowed);
}

api::CalibrationQuestion question_of(const Arguments& arguments) {
  constexpr int kMostSteps = std::numeric_limits<int>::max();
  const auto steps_in = [&](const std::string& option) {
    return static_cast<std::uint64_t>(whole_number(option, arguments.text(option), 1, kMostSteps));
  };
  api::CalibrationQuestion question{
      .target_epsilon = required(arguments, "target-epsilon", {0.0, HUGE_VAL}),
      .target_delta = required(arguments, "target-delta", {0.0, 1.0}),
      .sample_rate = {},
      .allocation = {},
      .steps = {},
      .noise_multiplier = {}};
  if (arguments.has("sample-rate") && arguments.has("allocation"))
    throw UsageError("give one of --sample-rate and --allocation");
  if (arguments.has("allocation")) {
    question.allocation = steps_in("allocation");
  } else {
    question.sample_rate =
        required(arguments, "sample-rate", {.low = 0.0, .high = 1.0, .with_high = true});
  }
  if (arguments.has("steps") == arguments.has("noise-multiplier"))
    throw UsageError("give one of --steps and --noise-multiplier; the other one is computed");
  if (arguments.has("steps")) {
    question.steps = steps_in("steps");
  } else {
    question.noise_multiplier =
        number_in("noise-multiplier", arguments.text("noise-multiplier"), {0.0, HUGE_VAL});
  }
  return question;
}

std::string text_of(const AccountantCall& call, const api::Calibration& made) {
  const PrivacyAnswer& result = made.result;
  return "noise multiplier  " + format_number(made.noise_multiplier) + "\nsteps             " +
         std::to_string(made.steps) +
         (made.question.allocation
              ? "\nallocation        one of " + std::to_string(*made.question.allocation) +
                    " steps of an epoch"
              : "\nsample rate       " + format_number(*made.question.sample_rate)) +
         "\nepsilon           " + short_bound(result.value) + " (" +
         std::string(to_text(result.bound)) + "), target " +
         format_number(made.question.target_epsilon) + "\ndelta             " +
         format_number(made.question.target_delta) + "\naccountant        " + call.name() + ", " +
         std::string(to_text(call.adjacency())) + "\n" +
         (result.note.empty() ? "" : "note              " + result.note + "\n");
}

int do_calibrate(const Arguments& arguments) {
  const host::PluginHost host = load_plugins(arguments);
  const api::CalibrationQuestion question = question_of(arguments);
  const auto asked = [&]() -> std::pair<AccountantCall, api::Calibration> {
    if (!arguments.has("accountant"))
      return api::tightest_calibration(adjacency_of(arguments), host.catalog(), question);
    AccountantCall call = accountant_call(arguments, host.catalog());
    api::Calibration made = api::calibrate(call, question);
    return {std::move(call), std::move(made)};
  };
  const auto [call, made] = asked();
  print_answer(arguments, api::to_json(call, made), text_of(call, made));
  return 0;
}

}  // namespace

Command calibrate_command() {
  return {
      .usage =
          {.name = "calibrate",
           .summary = "Finds the noise for a number of steps, or the number of steps for a noise, "
                      "that meets a\nguarantee. The result has been checked: its epsilon is at "
                      "most the target.",
           .operands = {},
           .options = {accountant_option(),
                       {"target-epsilon", "E", "Above 0."},
                       {"target-delta", "D", "In (0, 1)."},
                       {"sample-rate", "Q",
                        "Probability that an example is in a batch (Poisson sampling), in (0, 1]."},
                       {"allocation", "T",
                        "Instead of --sample-rate: epochs of T steps, in each of which every "
                        "example takes part in one step, drawn at random (random allocation)."},
                       {"steps", "T", "The noise multiplier is computed."},
                       {"noise-multiplier", "S", "The number of steps is computed."},
                       adjacency_option(),
                       {"json", "", "Print one JSON document."},
                       plugin_dir_option()},
           .details =
               "A schedule of changing noise is calibrated by its manifest: see privgrad plan.",
           .examples =
               {"privgrad calibrate --target-epsilon 2 --target-delta 1e-5 --sample-rate 0.01 "
                "--steps 1000",
                "privgrad calibrate --accountant zcdp --target-epsilon 2 --target-delta 1e-5 "
                "--sample-rate 1 --noise-multiplier 30 --json",
                "privgrad calibrate --accountant pld --target-epsilon 2 --target-delta 1e-5 "
                "--allocation 100 --steps 500"}},
      .run = do_calibrate};
}

}  // namespace privgrad::tool

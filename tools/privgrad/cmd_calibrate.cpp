#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "accountant_call.hpp"
#include "command.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/trust/calibrate.hpp"
#include "privgrad/trust/checked_answer.hpp"
#include "privgrad/trust/event_json.hpp"

namespace privgrad::tool {
namespace {

/// What the call asks for: the guarantee, the sampling, and one of noise and steps.
class Calibration {
 public:
  Calibration(const Arguments& arguments, const AccountantCall& call)
      : call_(call),
        target_epsilon_(required(arguments, "target-epsilon", HUGE_VAL)),
        target_delta_(required(arguments, "target-delta", 1.0)),
        sample_rate_(required(arguments, "sample-rate", std::nextafter(1.0, 2.0))) {
    if (arguments.has("steps") == arguments.has("noise-multiplier")) {
      throw UsageError("give one of --steps and --noise-multiplier; the other one is computed");
    }
    if (arguments.has("steps")) {
      steps_ = static_cast<std::uint64_t>(
          whole_number("steps", arguments.text("steps"), 1, std::numeric_limits<int>::max()));
      noise_multiplier_ = core::smallest_scale(
          [&](double candidate) { return answer(candidate, steps_).value; }, target_epsilon_);
    } else {
      noise_multiplier_ =
          number_in("noise-multiplier", arguments.text("noise-multiplier"), 0.0, HUGE_VAL);
      steps_ = core::largest_count(
          [&](std::uint64_t candidate) { return answer(noise_multiplier_, candidate).value; },
          target_epsilon_);
    }
    result_ = answer(noise_multiplier_, steps_);
    if (steps_ == 0) {
      result_.note = "not a single step fits: it costs epsilon " +
                     short_bound(answer(noise_multiplier_, 1).value);
    }
  }

  nlohmann::json json() const {
    return {{"noise_multiplier", noise_multiplier_},
            {"steps", steps_},
            {"sample_rate", sample_rate_},
            {"epsilon", core::json_number(result_.value)},
            {"delta", target_delta_},
            {"target_epsilon", target_epsilon_},
            {"bound", to_text(result_.bound)},
            {"lower", result_.lower ? core::json_number(*result_.lower) : nlohmann::json(nullptr)},
            {"accountant", call_.name()},
            {"adjacency", to_text(call_.adjacency())},
            {"note", result_.note}};
  }

  std::string text() const {
    return "noise multiplier  " + format_number(noise_multiplier_) + "\nsteps             " +
           std::to_string(steps_) + "\nsample rate       " + format_number(sample_rate_) +
           "\nepsilon           " + short_bound(result_.value) + " (" +
           std::string(to_text(result_.bound)) + "), target " + format_number(target_epsilon_) +
           "\ndelta             " + format_number(target_delta_) + "\naccountant        " +
           call_.name() + ", " + std::string(to_text(call_.adjacency())) + "\n" +
           (result_.note.empty() ? "" : "note              " + result_.note + "\n");
  }

 private:
  static double required(const Arguments& arguments, const std::string& option, double below) {
    if (!arguments.has(option)) throw UsageError("--" + option + " is missing");
    return number_in(option, arguments.text(option), 0.0, below);
  }

  /// What `steps` steps with this noise cost.
  /// \throws PrivacyError if it is no bound.
  PrivacyAnswer answer(double noise_multiplier, std::uint64_t steps) const {
    const Event noise = Event::gaussian(noise_multiplier);
    // Every example in every step needs no sampling, which not every accountant has.
    const Event step = sample_rate_ == 1.0 ? noise : Event::poisson_sampled(sample_rate_, noise);
    return core::checked_guard(call_.after(step, steps)->epsilon(target_delta_), call_.name());
  }

  const AccountantCall& call_;
  double target_epsilon_;
  double target_delta_;
  double sample_rate_;
  double noise_multiplier_ = 0.0;
  std::uint64_t steps_ = 0;
  PrivacyAnswer result_;
};

int do_calibrate(const Arguments& arguments) {
  const host::PluginHost host = load_plugins(arguments);
  const AccountantCall call(arguments, host.catalog());
  const Calibration calibration(arguments, call);
  if (arguments.has("json")) {
    print_json(calibration.json());
  } else {
    print(calibration.text());
  }
  return 0;
}

}  // namespace

Command calibrate_command() {
  return {
      .usage =
          {.name = "calibrate",
           .summary =
               "Finds the noise for a number of steps, or the number of steps for a noise, that "
               "meets "
               "a\nguarantee. What comes back was checked: its epsilon is at most the target.",
           .operands = {},
           .options =
               {accountant_option(),
                {.name = "target-epsilon", .value = "E", .doc = "Above 0."},
                {.name = "target-delta", .value = "D", .doc = "In (0, 1)."},
                {.name = "sample-rate",
                 .value = "Q",
                 .doc =
                     "Probability of an example to be in a batch (Poisson sampling), in (0, 1]."},
                {.name = "steps", .value = "T", .doc = "The noise multiplier is computed."},
                {.name = "noise-multiplier",
                 .value = "S",
                 .doc = "The number of steps is computed."},
                adjacency_option(),
                {.name = "json", .value = "", .doc = "Print one JSON document."},
                plugin_dir_option()},
           .details =
               "A schedule of changing noise is calibrated by its manifest: see privgrad plan.",
           .examples =
               {"privgrad calibrate --accountant zcdp --target-epsilon 2 --target-delta 1e-5 "
                "--sample-rate 1 --steps 100",
                "privgrad calibrate --accountant zcdp --target-epsilon 2 --target-delta 1e-5 "
                "--sample-rate 1 --noise-multiplier 30 --json"}},
      .run = do_calibrate};
}

}  // namespace privgrad::tool

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "account_file.hpp"
#include "accountant_call.hpp"
#include "command.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/record/event_dp_accounting.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::tool {
namespace {

std::string read_event_text(const std::string& file) {
  if (file == "-") return core::read_standard_input(core::kMostEventBytes);
  return core::read_whole(file, core::kMostEventBytes);
}

/// A number of the range, or nothing if it was not given.
std::optional<double> given(const Arguments& arguments, const char* option, double high,
                            bool include_low = false) {
  if (!arguments.has(option)) return std::nullopt;
  return number_in(option, arguments.text(option),
                   {.low = 0.0, .high = high, .with_low = include_low});
}

int do_account(const Arguments& arguments) {
  if (is_about_account_file(arguments)) return do_account_file(arguments);
  for (const char* other : {"close", "run", "unit", "name", "target-epsilon", "target-delta"}) {
    if (arguments.has(other))
      throw UsageError(std::string("--") + other + " goes with --open or --ledger");
  }
  if (!arguments.has("event")) throw UsageError("--event FILE is missing ('-' is standard input)");
  const std::string& file = arguments.text("event");
  const std::string source = file == "-" ? "standard input" : file;
  const Event event = core::event_from_json(read_event_text(file), source);
  if (arguments.has("dp-accounting")) {
    print(core::to_dp_accounting(event) + "\n");
    return 0;
  }
  if (arguments.has("delta") == arguments.has("epsilon")) {
    throw UsageError("give one of --delta and --epsilon; the other one is computed");
  }
  const host::PluginHost host = load_plugins(arguments);
  const auto delta = given(arguments, "delta", 1.0);
  const auto epsilon = given(arguments, "epsilon", HUGE_VAL, true);
  const auto asked = [&]() -> std::pair<AccountantCall, calls::Account> {
    if (!arguments.has("accountant"))
      return calls::tightest_account(adjacency_of(arguments), host.catalog(), event, delta,
                                     epsilon);
    AccountantCall call = accountant_call(arguments, host.catalog());
    calls::Account account = calls::account(call, event, delta, epsilon);
    return {std::move(call), std::move(account)};
  };
  const auto [call, result] = asked();
  const std::optional<double>& lower = result.answer.lower;
  if (arguments.has("json")) {
    print_json(calls::to_json(call, result));
    return 0;
  }
  print("epsilon     " + short_bound(result.epsilon) + "\ndelta       " +
        short_bound(result.delta) + "\nbound       " + std::string(to_text(result.answer.bound)) +
        (lower ? ", at least " + short_number(*lower, 6) : "") + "\naccountant  " + call.name() +
        (result.answer.note.empty() ? "" : ": " + result.answer.note) + "\nadjacency   " +
        std::string(to_text(call.adjacency())) + "\n");
  return 0;
}

}  // namespace

Command account_command() {
  return {
      .usage =
          {.name = "account",
           .summary = "Tells what an event costs: epsilon at a delta, or delta at an epsilon. "
                      "Opens and shows\naccounts that all runs on the same private data share.",
           .operands = {},
           .options =
               {accountant_option(),
                {.name = "event",
                 .value = "FILE",
                 .doc = "A JSON file with one event; '-' is standard input."},
                {.name = "delta", .value = "D", .doc = "In (0, 1); epsilon is computed."},
                {.name = "epsilon", .value = "E", .doc = "At least 0; delta is computed."},
                adjacency_option(),
                {.name = "dp-accounting",
                 .value = "",
                 .doc = "Only print the event as the Python package dp_accounting writes it."},
                {.name = "ledger",
                 .value = "FILE",
                 .doc = "Show an account: what is left, and who has spent the rest."},
                {.name = "close",
                 .value = "ID",
                 .doc = "With --ledger: settle the reservation of a run that was killed."},
                {.name = "run",
                 .value = "DIR",
                 .doc = "With --close: count what the ledger of this run says, if it ended and "
                        "was never resumed."},
                {.name = "open",
                 .value = "FILE",
                 .doc = "Open an account, kept by --accountant: a privacy filter."},
                {.name = "target-epsilon",
                 .value = "E",
                 .doc = "With --open: the budget of all runs together."},
                {.name = "target-delta", .value = "D", .doc = "With --open: its delta."},
                {.name = "unit", .value = "U", .doc = "With --open: example (default) or client."},
                {.name = "name",
                 .value = "NAME",
                 .doc = "With --open: what to call the data; default the file's name."},
                {.name = "json", .value = "", .doc = "Print one JSON document."},
                plugin_dir_option()},
           .details = "An event is what a mechanism did to the data, e.g. 1000 steps of DP-SGD:\n"
                      "  {\"event\": \"self_composed\", \"count\": 1000, \"of\": {\"event\": "
                      "\"poisson_sampled\",\n"
                      "   \"sampling_probability\": 0.01, \"of\": {\"event\": \"gaussian\", "
                      "\"noise_multiplier\": 1.0}}}\n"
                      "The noise multiplier is the noise's standard deviation over the L2 bound of "
                      "one example's\n"
                      "contribution; the accountant doubles the sensitivity under replace_one. "
                      "`privgrad plan --json`\n"
                      "prints the event of a manifest.",
           .examples =
               {"privgrad account --event event.json --delta 1e-5",
                "privgrad account --accountant rdp --event - --epsilon 1 --json < event.json",
                "privgrad account --open patients.account --accountant zcdp --target-epsilon 8 "
                "--target-delta 1e-6",
                "privgrad account --ledger patients.account"}},
      .run = do_account};
}

}  // namespace privgrad::tool

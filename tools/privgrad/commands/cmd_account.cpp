#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "account_file.hpp"
#include "accountant_call.hpp"
#include "command.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/api/trade_off.hpp"
#include "privgrad/record/event_dp_accounting.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/files.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

std::string read_event_text(const std::string& file) {
  if (file == "-") return core::read_standard_input(core::kMostEventBytes);
  return core::read_whole(file, core::kMostEventBytes);
}

/// Returns the value of a numeric option, checked against its range; nothing if it was not given.
std::optional<double> given(const Arguments& arguments, const char* option, double high,
                            bool include_low = false) {
  if (!arguments.has(option)) return std::nullopt;
  return number_in(option, arguments.text(option),
                   {.low = 0.0, .high = high, .with_low = include_low});
}

/// Prints the trade-off as a table: for each false positive rate of a membership test, the highest
/// true positive rate and the lowest false negative rate.
int show_curve(const Arguments& arguments, const Event& event) {
  for (const char* other : {"delta", "epsilon"}) {
    if (arguments.has(other))
      throw UsageError(std::string("--") + other + " is one point; --curve takes its own");
  }
  const host::PluginHost host = load_plugins(arguments);
  const Adjacency adjacency = adjacency_of(arguments);
  const auto curve =
      api::trade_off(arguments.has("accountant")
                         ? std::vector<AccountantCall>{accountant_call(arguments, host.catalog())}
                         : api::proving_accountants(adjacency, host.catalog()),
                     event);
  if (arguments.has("json")) {
    print_json(api::to_json(curve, adjacency));
    return 0;
  }
  Table table({Align::left, Align::left, Align::left, Align::left});
  table.add({"wrongly accused", "found at most", "missed at least", "proved by"});
  for (const api::TradeOffPoint& point : curve) {
    table.add({short_number(point.bound.wrongly), short_bound(point.bound.found),
               core::short_lower_bound(core::least_missed(point.bound)),
               point.accountant + ": epsilon " + short_bound(point.bound.by.epsilon) + ", delta " +
                   short_bound(point.bound.by.delta)});
  }
  print(table.text() + "adjacency        " + std::string(to_text(adjacency)) + "\n");
  return 0;
}

/// Refuses --delta 0, with an explanation for users who expect a pure guarantee.
void refuse_no_delta(const Arguments& arguments) {
  if (!arguments.has("delta") || number_in("delta", arguments.text("delta"),
                                           {.low = 0.0, .high = 1.0, .with_low = true}) > 0.0)
    return;
  throw UsageError(
      "--delta is 0, allowed is (0, 1): with delta 0 no epsilon holds for Gaussian noise, however "
      "much there is; ask for the delta at an epsilon (--epsilon), which is 0 where a pure "
      "guarantee holds");
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
  if (arguments.has("curve")) return show_curve(arguments, event);
  if (arguments.has("delta") == arguments.has("epsilon")) {
    throw UsageError("give one of --delta, --epsilon and --curve");
  }
  refuse_no_delta(arguments);
  const host::PluginHost host = load_plugins(arguments);
  const auto delta = given(arguments, "delta", 1.0);
  const auto epsilon = given(arguments, "epsilon", HUGE_VAL, true);
  const auto asked = [&]() -> std::pair<AccountantCall, api::Account> {
    if (!arguments.has("accountant"))
      return api::tightest_account(adjacency_of(arguments), host.catalog(), event, delta, epsilon);
    AccountantCall call = accountant_call(arguments, host.catalog());
    api::Account account = api::account(call, event, delta, epsilon);
    return {std::move(call), std::move(account)};
  };
  const auto [call, result] = asked();
  const std::optional<double>& lower = result.answer.lower;
  if (arguments.has("json")) {
    print_json(api::to_json(call, result));
    return 0;
  }
  print("epsilon     " + short_bound(result.epsilon) + "\ndelta       " +
        short_bound(result.delta) + "\nbound       " + std::string(to_text(result.answer.bound)) +
        (lower ? ", at least " + core::short_lower_bound(*lower) : "") + "\naccountant  " +
        call.name() + (result.answer.note.empty() ? "" : ": " + result.answer.note) +
        "\nadjacency   " + std::string(to_text(call.adjacency())) + "\n");
  return 0;
}

}  // namespace

Command account_command() {
  return {
      .usage =
          {.name = "account",
           .summary = "Computes the cost of an event: epsilon at a delta, delta at an epsilon, or "
                      "how much a test for\nmembership can find. Opens and shows accounts that all "
                      "runs on the same private data share.",
           .operands = {},
           .options = {accountant_option(),
                       {"event", "FILE", "A JSON file with one event; '-' is standard input."},
                       {"delta", "D", "In (0, 1); epsilon is computed."},
                       {"epsilon", "E", "At least 0; delta is computed."},
                       {"curve", "",
                        "The most members that a test for membership can find, where it wrongly "
                        "accuses 0.001 to 0.5 of all outsiders."},
                       adjacency_option(),
                       {"dp-accounting", "",
                        "Only print the event as the Python package dp_accounting writes it."},
                       {"ledger", "FILE",
                        "Show an account: what is left, and which runs have spent the rest."},
                       {"close", "ID",
                        "With --ledger: settle the reservation of a run that was killed."},
                       {"run", "DIR",
                        "With --close: charge only what the ledger of this run says, if the run "
                        "ended and was never resumed."},
                       {"open", "FILE", "Open an account, kept by --accountant: a privacy filter."},
                       {"target-epsilon", "E", "With --open: the budget of all runs together."},
                       {"target-delta", "D", "With --open: its delta."},
                       {"unit", "U", "With --open: example (default) or client."},
                       {"name", "NAME",
                        "With --open: a name for the data; default the file's name."},
                       {"json", "", "Print one JSON document."},
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

#include "account_file.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "accountant_call.hpp"
#include "command.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/trust/data_account.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/ledger_reader.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using core::AccountEntry;
using core::DataAccount;

PrivacyUnit unit_of(const Arguments& arguments) {
  if (!arguments.has("unit")) return PrivacyUnit::example;
  const std::string& text = arguments.text("unit");
  for (const PrivacyUnit unit : {PrivacyUnit::example, PrivacyUnit::client}) {
    if (text == to_text(unit)) return unit;
  }
  throw UsageError("--unit is '" + text + "', expected example or client");
}

int open_account(const Arguments& arguments) {
  for (const char* needed : {"accountant", "target-epsilon", "target-delta"}) {
    if (!arguments.has(needed)) throw UsageError(std::string("--") + needed + " is missing");
  }
  const host::PluginHost host = load_plugins(arguments);
  const AccountantCall call = accountant_call(arguments, host.catalog());
  if (!call.after(Event::nothing())->is_filter()) {
    throw PrivacyError(
        "accountant " + call.name() +
        " is not a privacy filter: runs on an account are chosen from the results of earlier ones, "
        "which its proof does not cover; use zcdp, or for sampled steps '{kind: rdp_filter, order: "
        "16}'");
  }
  const fs::path file = arguments.text("open");
  DataAccount::open(
      file, {.name = arguments.has("name") ? arguments.text("name") : file.stem().string(),
             .adjacency = call.adjacency(),
             .unit = unit_of(arguments),
             .target_epsilon =
                 number_in("target-epsilon", arguments.text("target-epsilon"), {0.0, HUGE_VAL}),
             .target_delta = number_in("target-delta", arguments.text("target-delta"), {0.0, 1.0}),
             .accountant = core::to_yaml(call.resolved())});
  print_answer(arguments, {{"opened", DataAccount(file).first_hash()}},
               "opened " + file.string() +
                   "; name it in manifests: privacy: {account: " + file.string() + "}\n");
  return 0;
}

/// Returns the largest zCDP cost that the account can still pay, with a relative error of at most
/// 1e-12; 0 if nothing is left. Unlike epsilon, such costs of several runs simply add up.
double left_rho(const DataAccount& account, Accountant& filter) {
  const auto fits = [&](double rho) {
    return account.spent(filter, Event::zcdp(rho)).value <= account.terms().target_epsilon;
  };
  if (!fits(0.0)) return 0.0;
  double above = 1.0;
  while (fits(above)) above *= 2.0;
  double rho = 0.0;
  while (above - rho > 1e-12 * above) {
    const double middle = 0.5 * (rho + above);
    (fits(middle) ? rho : above) = middle;
    if (above < 1e-30) break;
  }
  return rho;
}

struct Shown {
  const DataAccount& account;
  Accountant& filter;

  double epsilon_of(const Event& event) const {
    filter.start(account.terms().adjacency);
    filter.compose(event, 1);
    return filter.epsilon(account.terms().target_delta).value;
  }
};

Json account_json(const Shown& shown, const std::string& accountant) {
  const core::AccountTerms& terms = shown.account.terms();
  const double rho = left_rho(shown.account, shown.filter);
  Json runs = Json::array();
  for (const AccountEntry& entry : shown.account.entries()) {
    runs.push_back({{"reservation", entry.id},
                    {"run", entry.run},
                    {"status", entry.status},
                    {"settled", entry.settled.has_value()},
                    {"resumed", entry.resumed},
                    {"event", core::to_json(entry.cost())},
                    {"epsilon", core::json_number(shown.epsilon_of(entry.cost()))}});
  }
  return {{"name", terms.name},
          {"adjacency", to_text(terms.adjacency)},
          {"unit", to_text(terms.unit)},
          {"accountant", accountant},
          {"target_epsilon", terms.target_epsilon},
          {"target_delta", terms.target_delta},
          {"epsilon", core::json_number(shown.account.spent(shown.filter).value)},
          {"left", {{"rho", rho}, {"epsilon", shown.epsilon_of(Event::zcdp(rho))}}},
          {"runs", std::move(runs)},
          {"opened", shown.account.first_hash()},
          {"last_hash", shown.account.last_hash()}};
}

std::string account_page(const Json& account) {
  std::string text = "account     " + account.at("name").get<std::string>() + ", per " +
                     account.at("unit").get<std::string>() + " under " +
                     account.at("adjacency").get<std::string>() + "\nbudget      epsilon " +
                     short_bound(account.at("target_epsilon").get<double>()) + " at delta " +
                     short_bound(account.at("target_delta").get<double>()) + ", kept by " +
                     account.at("accountant").get<std::string>() + "\nspent       epsilon " +
                     short_bound(account.at("epsilon").get<double>()) + "\nleft        rho " +
                     short_number(account.at("left").at("rho").get<double>(), 5) +
                     ", which alone is epsilon " +
                     short_number(account.at("left").at("epsilon").get<double>(), 5) +
                     "\nlast hash   " + account.at("last_hash").get<std::string>() + "\n";
  if (account.at("runs").empty()) return text;
  Table table({Align::left, Align::left, Align::left, Align::right});
  table.add({"reservation", "run", "status", "epsilon alone"});
  for (const Json& run : account.at("runs")) {
    table.add({run.at("reservation"), run.at("run").value("name", std::string("?")),
               run.at("status"), short_bound(run.at("epsilon").get<double>())});
  }
  return text + "\n" + table.text(0);
}

/// Returns the part of a reservation that its run has spent: the total of the run's ledger, or the
/// whole reservation if the run may have continued from a copy.
Event spent_by(const fs::path& directory, const AccountEntry& entry) {
  const fs::path file = directory / "ledger.jsonl";
  if (!fs::exists(file)) {
    throw IoError(file.string() +
                  ": there is no such ledger; without --run the whole reservation counts as spent");
  }
  if (core::is_being_written(file))
    throw PrivacyError(file.string() + ": the run is still going on, and may spend more");
  const core::LedgerContents ledger = core::read_ledger(file);
  const Json account = ledger.facts.value("account", Json::object());
  if (account.value("reservation", std::string()) != entry.id)
    throw PrivacyError(file.string() + ": is not the ledger of reservation " + entry.id);
  const auto in_full = [&](const std::string& why) {
    complain("note", file.string() + ": " + why + ": the whole reservation counts as spent");
    return entry.reserved;
  };
  if (!ledger.status) {
    return in_full(
        "the run was interrupted before its last line, so this may be an early copy of a ledger "
        "that continued");
  }
  if (entry.resumed || !entry.begun)
    return in_full("the run was or may have been resumed, so a copy of it may have spent more");
  std::vector<Event> costs;
  for (const auto& release : ledger.releases)
    costs.push_back(core::event_from_json(release.event.dump(), file.string()));
  return compose_runs(costs);
}

void close_reservation(DataAccount& account, Accountant& filter, const Arguments& arguments) {
  const std::string& id = arguments.text("close");
  const auto entry = std::ranges::find_if(account.entries(),
                                          [&](const AccountEntry& one) { return one.id == id; });
  if (entry == account.entries().end())
    throw UsageError("--close is '" + id + "', and there is no such reservation");
  const bool has_ledger =
      arguments.has("run") && fs::exists(fs::path(arguments.text("run")) / "ledger.jsonl");
  if (!has_ledger && account.give_back(filter, id)) {
    return complain("note", "no ledger was opened on the reservation " + id +
                                ": nothing was charged, and all of it is given back");
  }
  const Event cost =
      arguments.has("run") ? spent_by(arguments.text("run"), *entry) : Event(entry->reserved);
  account.settle(filter, id, cost, "closed");
}

int show_account(const Arguments& arguments) {
  const host::PluginHost host = load_plugins(arguments);
  const fs::path file = arguments.text("ledger");
  DataAccount account(file);
  const AccountantCall call(account.terms().accountant, account.terms().adjacency, host.catalog());
  const auto filter = call.after(Event::nothing());
  if (arguments.has("close")) close_reservation(account, *filter, arguments);
  const Json shown = account_json({account, *filter}, call.name());
  print_answer(arguments, shown, account_page(shown));
  return 0;
}

}  // namespace

bool is_about_account_file(const Arguments& arguments) {
  return arguments.has("open") || arguments.has("ledger");
}

int do_account_file(const Arguments& arguments) {
  for (const char* other : {"event", "delta", "epsilon", "dp-accounting"}) {
    if (arguments.has(other)) {
      throw UsageError(std::string("--") + other + " is about one event, not about an account");
    }
  }
  if (arguments.has("open") && arguments.has("ledger"))
    throw UsageError("give one of --open and --ledger");
  return arguments.has("open") ? open_account(arguments) : show_account(arguments);
}

}  // namespace privgrad::tool

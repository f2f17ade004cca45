#include "by_events.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ledger_check.hpp"
#include "privgrad/error.hpp"
#include "privgrad/record/evidence.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/trust/checked_answer.hpp"
#include "run_files.hpp"
#include "second_accountant.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

/// The manifest, with removed components replaced by their successors; all other parts, including
/// the accountant, are read as usual.
Manifest manifest_without(std::span<const RemovedComponent* const> removed,
                          const RecordDirectory& directory, const Catalog& catalog) {
  std::vector<std::string> overrides;
  for (const RemovedComponent* one : removed)
    overrides.push_back(std::string(one->key) + "=" + std::string(one->successor));
  return manifest_of(directory, catalog, DataFiles::may_be_missing, overrides);
}

std::vector<LedgerAccount> accounts_of(const Evidence& evidence, const Manifest& manifest,
                                       std::optional<std::size_t> client, Verification& result) {
  const Json facts{
      {"type", "open"},
      {"accountant", manifest.accountant.component->full_name()},
      {"target_epsilon", manifest.target_epsilon ? Json(*manifest.target_epsilon) : Json(nullptr)},
      {"target_delta", manifest.target_delta}};
  LedgerChecker checker(result.problems);
  std::vector<LedgerAccount> accounts;
  for (const NamedLedger& ledger : evidence.ledgers) {
    if (client && ledger.name != ledger_of_client(*client)) continue;
    if (auto account = checker.check(ledger, manifest, nullptr, facts))
      accounts.push_back(std::move(*account));
  }
  return accounts;
}

/// Checks that the statement promises no smaller epsilon than the ledgers show, and no other delta,
/// and that summary.json contains the same statement.
void check_statement(const RecordDirectory& directory, double epsilon, double delta,
                     std::vector<std::string>& problems) {
  const Json statement = object_of(directory, "statement.json");
  const auto said = facts_in<Statement>(statement, "statement.json");
  if (!said.epsilon || *said.epsilon * (1.0 + kOfProcessors) < epsilon ||
      !nearly_equal(said.delta, delta)) {
    problems.emplace_back(
        "statement.json: says a smaller epsilon, or another delta, than follows from the events "
        "of the ledgers");
  }
  if (object_of(directory, "summary.json").value("statement", Json()) != statement)
    problems.emplace_back("summary.json: holds another statement than statement.json");
}

}  // namespace

Verification verify_by_events(const RecordDirectory& directory, const Catalog& catalog,
                              std::optional<std::size_t> client,
                              std::span<const RemovedComponent* const> removed) {
  Verification result;
  const Evidence evidence = read_evidence(directory);
  result.problems = evidence.problems;
  result.seals = evidence.seals();
  try {
    const Manifest manifest = manifest_without(removed, directory, catalog);
    result.adjacency = manifest.adjacency;
    if (manifest.noise_off) {
      result.problems.emplace_back(kNoNoise);
      return result;
    }
    const auto accounts = accounts_of(evidence, manifest, client, result);
    if (accounts.empty() || (!client && accounts.size() != evidence.ledgers.size())) return result;
    const auto fullest = std::ranges::max_element(
        accounts, [](const auto& a, const auto& b) { return a.spent.value < b.spent.value; });
    const auto charged_of = [&](const LedgerAccount& account) {
      return Charged{account.spent, account.costs, true};
    };
    ask_accountants(
        manifest, catalog, false, charged_of(*fullest), accounts.size(),
        [&](std::size_t i) { return charged_of(accounts[i]); }, result);
    if (fullest->status != RunStatus::unfinished && result.epsilon)
      check_statement(directory, *result.epsilon, manifest.target_delta, result.problems);
  } catch (const Error& failure) {
    result.problems.push_back(first_line(failure.what()));
  } catch (const Json::exception&) {
    result.problems.emplace_back("statement.json: is not what a run writes");
  }
  for (const RemovedComponent* one : removed) {
    result.notes.push_back(
        "the plan cannot be recomputed: " + to_text(*one) +
        "; the charges were taken from the ledgers, and only their total was recomputed");
  }
  return result;
}

}  // namespace privgrad::core

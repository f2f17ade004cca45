#include <string>
#include <vector>

#include "privgrad/data/data_commitment.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/record/evidence.hpp"
#include "privgrad/verify/verify.hpp"
#include "run_files.hpp"

namespace privgrad::core {

std::vector<std::string> verify_data(const RecordDirectory& directory, const Catalog& catalog,
                                     const std::filesystem::path& opening) {
  const Manifest manifest = manifest_of(directory, catalog, DataFiles::are_there);
  if (opening.empty() && !manifest.seed)
    throw ConfigError("the run has no seed, so checking its data needs --opening FILE");
  const Opening secret = opening.empty() ? opening_of_seed(*manifest.seed) : read_opening(opening);
  const auto setting = make_setting(manifest);
  const RunData data = read_rows(manifest.data, *setting);
  const std::string now = commitment_to(secret, data.train);
  std::vector<std::string> problems;
  const Evidence evidence = read_evidence(directory);
  for (const NamedLedger& ledger : evidence.ledgers) {
    const nlohmann::json value = ledger.contents.facts.value("data_commitment", nlohmann::json());
    if (value == now) continue;
    problems.push_back(ledger.name + ":1: " +
                       (value.is_null()
                            ? "has no commitment to data"
                            : "its commitment does not match this data and this opening"));
    break;
  }
  if (evidence.ledgers.empty()) problems.emplace_back("ledger.jsonl: is missing");
  return problems;
}

}  // namespace privgrad::core

#include "privgrad/record/evidence.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostLedgers = 1'000'000;

/// Returns 12 for "client-12.jsonl"; nothing for a name that no run writes.
std::optional<std::size_t> client_of(const std::string& name) {
  constexpr std::string_view kBegin = "client-", kEnd = ".jsonl";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
  const std::string digits = name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  if (digits.empty() || digits.size() > 9 ||
      !std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  const std::size_t client = std::stoul(digits);
  if (std::to_string(client) != digits) return std::nullopt;
  return client;
}

class EvidenceReader {
 public:
  explicit EvidenceReader(const RecordDirectory& directory) : directory_(directory) {}

  Evidence read() {
    for (const std::string& name : ledger_names()) read_ledger(name);
    for (const NamedLedger& ledger : evidence_.ledgers) {
      check_end(ledger);
      check_bound(ledger, ledger.contents.facts, "binds", "the first line",
                  {std::begin(kBoundAtStart), std::end(kBoundAtStart)});
      if (ledger.contents.status) {
        const Json& facts = ledger.contents.facts;
        check_bound(ledger, ledger.contents.close, "files", "the last line",
                    is_of_client_alone(facts) ? files_bound_by_client()
                                              : files_bound_at_end(facts.contains("rounds")));
      }
    }
    return std::move(evidence_);
  }

 private:
  std::vector<std::string> ledger_names() {
    std::vector<std::string> names;
    if (directory_.has("ledger.jsonl")) names.emplace_back("ledger.jsonl");
    std::set<std::size_t> clients;
    std::vector<std::string> found;
    try {
      found = directory_.names("ledgers", kMostLedgers);
    } catch (const IoError& problem) {
      report("ledgers", problem.what());
    }
    for (const std::string& name : found) {
      if (const auto client = client_of(name)) {
        clients.insert(*client);
      } else {
        report("ledgers/" + name, "ledgers/" + name + ": is not a ledger of a run");
      }
    }
    for (const std::size_t client : clients)
      names.push_back("ledgers/client-" + std::to_string(client) + ".jsonl");
    return names;
  }

  void read_ledger(const std::string& name) {
    try {
      evidence_.ledgers.push_back(
          {name, parse_ledger(directory_.read(name, kMostLedgerBytes), name)});
    } catch (const IoError& problem) {
      report(name, problem.what());
    }
  }

  void check_end(const NamedLedger& ledger) {
    const LedgerContents& contents = ledger.contents;
    if (contents.torn_tail) {
      report(ledger.name, ledger.name + ": its last line is truncated");
    } else if (contents.first_hash.empty()) {
      report(ledger.name, ledger.name + ": is empty");
    } else if (!contents.status) {
      report(ledger.name, ledger.name +
                              ": is not closed: the run was interrupted or is still running, or "
                              "its last lines were removed");
    }
  }

  /// Checks that the object `key` of `line` has a hash for each of `names` and no other members,
  /// and that the files match these hashes.
  void check_bound(const NamedLedger& ledger, const Json& line, const char* key,
                   const std::string& place, const std::vector<std::string>& names) {
    if (!line.is_object()) return;
    const auto bound = line.find(key);
    bool is_right = bound != line.end() && bound->is_object() && bound->size() == names.size();
    for (const std::string& name : names) {
      is_right = is_right && bound->contains(name) && bound->at(name).is_string() &&
                 is_sha256_hex(bound->at(name).get_ref<const std::string&>());
    }
    if (!is_right) {
      report(ledger.name, ledger.name + ": " + place + " does not bind the files of a run");
      return;
    }
    for (const std::string& name : names) check_file(name, bound->at(name), ledger.name, place);
  }

  void check_file(const std::string& name, const std::string& hash, const std::string& ledger,
                  const std::string& place) {
    try {
      const auto known = hashes_.find(name);
      const auto now = known != hashes_.end() ? known->second : directory_.sha256(name);
      hashes_[name] = now;
      if (!now) {
        report(name, name + ": is missing");
      } else if (*now != hash) {
        report(name, name + ": is not the file that " + place + " of " + ledger + " binds");
      }
    } catch (const IoError& problem) {
      report(name, problem.what());
    }
  }

  void report(const std::string& file, std::string what) {
    if (reported_.insert(file).second) evidence_.problems.push_back(std::move(what));
  }

  const RecordDirectory& directory_;
  Evidence evidence_;
  std::map<std::string, std::optional<std::string>> hashes_;
  std::set<std::string> reported_;
};

}  // namespace

std::vector<std::string> files_bound_at_end(bool is_federated) {
  std::vector<std::string> names{"metrics.jsonl", "model.safetensors", "schedules.json",
                                 "statement.json", "summary.json"};
  if (is_federated) names.insert(names.end(), {"clients.json", "rounds.jsonl"});
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> files_bound_by_client() {
  return {"metrics.jsonl", "schedules.json", "statement.json"};
}

bool is_of_client_alone(const Json& facts) { return facts.is_object() && facts.contains("run"); }

std::vector<std::pair<std::string, std::string>> Evidence::seals() const {
  std::vector<std::pair<std::string, std::string>> all;
  for (const NamedLedger& ledger : ledgers)
    all.emplace_back(ledger.name, ledger.contents.last_hash);
  return all;
}

Evidence read_evidence(const RecordDirectory& directory) {
  return EvidenceReader(directory).read();
}

std::string joint_hash(std::span<const std::pair<std::string, std::string>> hashes) {
  if (hashes.size() == 1) return hashes.front().second;
  Sha256 all;
  for (const auto& [name, hash] : hashes) {
    all.add(name);
    all.add(" ");
    all.add(hash);
    all.add("\n");
  }
  return all.hex();
}

}  // namespace privgrad::core

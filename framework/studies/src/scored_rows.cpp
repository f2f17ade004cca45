#include "privgrad/studies/scored_rows.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/plan/read_data.hpp"

namespace privgrad::core {
namespace {

/// The keys of `data` that select rows, or apply to rows after reading. Any other key may change
/// the numbers that are read from a row.
constexpr std::array<std::string_view, 15> kWhichRows{
    "train",     "test",       "split",          "name",        "limit",
    "sample",    "test_limit", "test_skip",      "seed",        "rows",
    "test_rows", "size",       "test_is_public", "keep_labels", "transforms"};

/// The keys of kWhichRows that the core reads, for every data source.
constexpr std::array<std::string_view, 4> kAfterReading{"size", "sample", "test_is_public",
                                                        "transforms"};

/// The section `data` without some of its keys, as YAML; "" if there is no section.
std::string data_without(const Value& manifest, std::span<const std::string_view> keys) {
  const Value* data = manifest.find("data");
  if (data == nullptr) return "";
  Value::Object members = std::get<Value::Object>(data->data());
  std::erase_if(members, [&](const Value::Member& member) {
    return std::ranges::find(keys, member.key) != keys.end();
  });
  return to_yaml(Value(std::move(members)));
}

std::string data_of(const PlannedArm& arm) { return data_without(arm.manifest->resolved, {}); }

std::vector<std::string> hashes_of(const Dataset& rows) {
  std::vector<std::string> hashes;
  std::vector<float> features(rows.row_size()), target(1);
  for (std::uint32_t i = 0; i < rows.rows(); ++i) {
    const std::uint32_t row[]{i};
    rows.gather(row, features, target);
    hashes.push_back(sha256_hex(std::string_view(reinterpret_cast<const char*>(features.data()),
                                                 features.size() * sizeof(float))));
  }
  return hashes;
}

/// The number of rows in the first data set that are also in the second.
std::uint64_t shared_by(const std::vector<std::string>& rows,
                        const std::vector<std::string>& others) {
  const std::set<std::string> known(others.begin(), others.end());
  return static_cast<std::uint64_t>(
      std::ranges::count_if(rows, [&](const std::string& hash) { return known.contains(hash); }));
}

}  // namespace

bool read_alike(const Manifest& one, const Manifest& other) {
  // The effects of a key are known only for PrivGrad's own data sources.
  const bool is_known = one.data.component->plugin->name.starts_with("privgrad.");
  const std::span<const std::string_view> keys =
      is_known ? std::span<const std::string_view>(kWhichRows) : kAfterReading;
  return data_without(one.resolved, keys) == data_without(other.resolved, keys);
}

ScoredRows scored_rows(const StudyPlan& search, const StudyPlan& comparison) {
  const bool of_test = search.study->metrics.front().name.starts_with("test_");
  ScoredRows most{.split = of_test ? "test" : "training", .read_alike = true};
  std::set<std::pair<std::string, std::string>> seen;
  for (const PlannedArm& arm : comparison.arms) {
    const PlannedArm& searched =
        first_of_level(search, static_cast<std::size_t>(&arm - comparison.arms.data()));
    if (!seen.emplace(data_of(searched), data_of(arm)).second) continue;
    most.data_sets = seen.size();
    most.read_alike = most.read_alike && read_alike(*searched.manifest, *arm.manifest);
    const RunData scored = read_rows(searched.manifest->data, *searched.plan.setting);
    const RunData used = read_rows(arm.manifest->data, *arm.plan.setting);
    const auto own = hashes_of(of_test ? scored.test : scored.train);
    most.rows = std::max<std::uint64_t>(most.rows, own.size());
    const auto trained = hashes_of(used.train);
    most.also_trained_on = std::max(most.also_trained_on, shared_by(own, trained));
    most.also_tested_on = std::max(most.also_tested_on, shared_by(own, hashes_of(used.test)));
    most.training_in_common = std::max(most.training_in_common,
                                       shared_by(of_test ? hashes_of(scored.train) : own, trained));
  }
  return most;
}

std::string trained_on_different_rows(const StudyPlan& plan, const StudyRuns& runs) {
  constexpr std::array<std::string_view, 1> kAfterReading{"transforms"};
  // For each section `data` and seed: the commitment, and a run that has it.
  std::map<std::pair<std::string, std::uint64_t>, std::pair<std::string, std::string>> known;
  for (std::size_t a = 0; a < runs.size(); ++a) {
    const std::string data = data_without(plan.arms[a].manifest->resolved, kAfterReading);
    for (std::size_t s = 0; s < runs[a].size(); ++s) {
      const std::string& commitment = runs[a][s].data_commitment;
      if (commitment.empty()) continue;
      const std::uint64_t seed = plan.study->seeds[s];
      const std::string name = plan.arms[a].arm->name + "/seed-" + std::to_string(seed);
      const auto [first, is_new] = known.try_emplace({data, seed}, commitment, name);
      if (first->second.first != commitment) return first->second.second + " and " + name;
    }
  }
  return "";
}

std::string words_of(const ScoredRows& rows) {
  const std::string most = rows.data_sets > 1 ? "up to " : "";
  const std::string text =
      "Candidates were scored on " + most + std::to_string(rows.rows) + " rows";
  if (!rows.read_alike) {
    return text +
           ". The comparison reads its rows in another way than the search, so it is not known how "
           "many of these it tests on or trains on.";
  }
  if (rows.also_tested_on == 0 && rows.also_trained_on == 0)
    return text + ", none of which the comparison tests on or trains on.";
  const auto some = [&](std::uint64_t count) {
    return count == 0 ? "none" : most + std::to_string(count);
  };
  return text + "; of these the comparison tests on " + some(rows.also_tested_on) +
         " and trains on " + some(rows.also_trained_on) + ".";
}

}  // namespace privgrad::core

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/dataset.hpp"
#include "privgrad/model/initial_weights.hpp"
#include "privgrad/plan/kept_numbers.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

struct Plan;

/// The account that a run was paid from, as its statement names it.
struct AccountFacts {
  std::string name;
  std::string opened;      ///< The hash of its first line.
  std::string accountant;  ///< The filter's full name.
  double target_epsilon = 0.0, target_delta = 0.0;
};

/// What a plan was made from beside its manifest and its plugins: facts.json of a run directory.
/// With it anybody makes the same plan again without the data.
///
/// Nothing in it is private that the run has not stated anyway: the size is the public one, and
/// where it was read off the data, statement and `unaccounted` say so.
struct PublicFacts {
  ExampleShape shape;              ///< Of the examples as read.
  std::uint64_t dataset_size = 0;  ///< The public one, > 0.
  bool has_test_rows = false;
  /// As in DataInfo.
  std::vector<std::string> unaccounted;
  bool first_rows_only = false, rows_chosen_by_value = false;
  std::vector<std::string> class_names = {};    ///< As in DataInfo.
  std::vector<std::string> feature_names = {};  ///< As in DataInfo.
  Value reading = {};                           ///< As in DataInfo.
  std::vector<std::uint64_t> shard_sizes;       ///< Of federated runs: one per client; else none.
  /// What the plan calibrated (KeptNumbers); nothing: it is still to be found.
  std::optional<std::vector<double>> scales;
  /// The key that a public order of examples was drawn with, in hex, where no seed says it: the
  /// cost is that of the order, which nothing keeps secret, and the key draws nothing else.
  std::optional<std::string> order_key;
  std::optional<AccountFacts> account;  ///< Of runs with one.
  std::optional<WeightsFacts> weights;  ///< Of runs that begin from trained weights.
};

PublicFacts facts_of(const Plan& plan);
/// The same without what the plan found: what programs that plan for themselves agree on.
PublicFacts facts_of_data(const Plan& plan);

nlohmann::json to_json(const AccountFacts& account);
nlohmann::json to_json(const PublicFacts& facts);

/// \param text  of a facts.json.
/// \throws ConfigError naming what is wrong.
PublicFacts facts_from_json(std::string_view text);

/// What the run of this directory recorded.
/// \throws IoError if there is nothing, or nothing that a run writes.
PublicFacts read_facts(const std::filesystem::path& directory);

/// What a plan of that run found, to make it again.
/// \param schedules  as KeptNumbers had them.
/// \throws IoError, as read_facts().
std::shared_ptr<KeptNumbers> kept_numbers(const std::filesystem::path& directory,
                                          const PublicFacts& recorded, std::string_view schedules);

}  // namespace privgrad::core

// The public facts behind a run's plan: with facts.json anyone can repeat the plan without data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/dataset.hpp"
#include "privgrad/model/initial_weights.hpp"
#include "privgrad/plan/kept_numbers.hpp"
#include "privgrad/record/statement_facts.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

struct Plan;

/// The facts from which a plan was made, apart from its manifest and its plugins: facts.json of a
/// run directory. With these facts, anyone can recreate the plan without the data.
///
/// They contain private facts only if the run has stated these anyway: the size is the public size,
/// and if it was counted from the data, the statement and `unaccounted` say so.
struct PublicFacts {
  ExampleShape shape;              ///< The shape of the examples as read.
  std::uint64_t dataset_size = 0;  ///< The public size, > 0.
  bool has_test_rows = false;
  /// The same as in DataInfo.
  std::vector<std::string> unaccounted;
  bool first_rows_only = false, rows_chosen_by_value = false;
  std::vector<std::string> class_names = {};    ///< The same as in DataInfo.
  std::vector<std::string> feature_names = {};  ///< The same as in DataInfo.
  Value reading = {};                           ///< The same as in DataInfo.
  /// One per client of a federated run, otherwise empty.
  std::vector<std::uint64_t> shard_sizes;
  /// The scales that the plan calibrated (KeptNumbers); if absent: not computed yet.
  std::optional<std::vector<double>> scales;
  std::vector<double> optimized = {};  ///< The numbers that the aggregator optimised (KeptNumbers).
  /// The key with which a public order of examples was drawn, in hex, if no seed determines it. The
  /// plan is charged for this order, which is not secret, and the key draws nothing else.
  std::optional<std::string> order_key;
  /// The account that paid for the run; nothing if the manifest names none.
  std::optional<AccountFacts> account;
  std::optional<WeightsFacts> weights;  ///< For runs that begin from trained weights.
  std::map<std::string, std::string> model_files = {};  ///< As in Setting.
};

PublicFacts facts_of(const Plan& plan);
/// The facts without the numbers that the plan computed: programs that plan separately agree on
/// these facts.
PublicFacts facts_of_data(const Plan& plan);
/// facts_of_data() without the account of one site: a server and its clients agree on these facts.
nlohmann::json shared_facts_of(const Plan& plan);

nlohmann::json to_json(const PublicFacts& facts);

/// \param text  content of a facts.json.
/// \throws ConfigError that describes the mistake.
PublicFacts facts_from_json(std::string_view text);

/// The facts that the run of this directory recorded.
/// \throws IoError if there are no facts, or if no run can have written them.
PublicFacts read_facts(const std::filesystem::path& directory);

/// The numbers of the plan in this run directory, for repeating the plan.
/// \param schedules  the text stored by KeptNumbers.
/// \throws IoError if facts or schedules do not have the numbers of a plan.
std::shared_ptr<KeptNumbers> kept_numbers(const std::filesystem::path& directory,
                                          const PublicFacts& recorded, std::string_view schedules);

}  // namespace privgrad::core

#include "privgrad/plan/public_facts.hpp"

#include <nlohmann/json.hpp>

#include "privgrad/error.hpp"
#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/json_problem.hpp"

namespace privgrad::core {

using Json = nlohmann::json;

namespace {

/// Refuses unrealistic sizes, because planning for them would exhaust a verifier's memory.
void check_sizes(const PublicFacts& facts) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 32;
  const bool fits = element_count(facts.shape.features) <= kMost && facts.shape.classes <= kMost &&
                    facts.dataset_size <= kMost;
  if (!fits) throw ConfigError("has a shape or a size above 4294967296");
}

}  // namespace

PublicFacts facts_of(const Plan& plan) {
  PublicFacts facts = facts_of_data(plan);
  facts.scales = plan.setting->kept->scales();
  facts.optimized = plan.setting->kept->optimized();
  return facts;
}

Json shared_facts_of(const Plan& plan) {
  PublicFacts facts = facts_of_data(plan);
  facts.account.reset();
  return to_json(facts);
}

PublicFacts facts_of_data(const Plan& plan) {
  const Setting& setting = *plan.setting;
  PublicFacts facts{.shape = setting.info.shape,
                    .dataset_size = setting.dataset_size,
                    .has_test_rows = setting.info.has_test_split,
                    .unaccounted = setting.info.unaccounted,
                    .first_rows_only = setting.info.first_rows_only,
                    .rows_chosen_by_value = setting.info.rows_chosen_by_value,
                    .class_names = setting.info.class_names,
                    .feature_names = setting.info.feature_names,
                    .reading = setting.info.reading,
                    .shard_sizes = {},
                    .scales = std::nullopt,
                    .optimized = {},
                    .order_key = plan.order_key,
                    .account = plan.account,
                    .weights = setting.weights,
                    .model_files = setting.model_files};
  if (plan.federated) {
    for (const ClientPlan& client : plan.federated->clients)
      facts.shard_sizes.push_back(client.plan->dataset_size);
  }
  return facts;
}

Json to_json(const PublicFacts& facts) {
  Json json{{"facts", 1},
            {"features", facts.shape.features},
            {"classes", facts.shape.classes},
            {"dataset_size", facts.dataset_size},
            {"has_test_rows", facts.has_test_rows},
            {"unaccounted", facts.unaccounted},
            {"first_rows_only", facts.first_rows_only},
            {"rows_chosen_by_value", facts.rows_chosen_by_value},
            {"shard_sizes", facts.shard_sizes},
            {"order_key", facts.order_key ? Json(*facts.order_key) : Json(nullptr)},
            {"account", facts.account ? to_json(*facts.account) : Json(nullptr)}};
  if (!facts.class_names.empty()) json["class_names"] = facts.class_names;
  if (!facts.feature_names.empty()) json["feature_names"] = facts.feature_names;
  if (!facts.reading.is_null()) json["reading"] = value_to_json(facts.reading);
  if (facts.scales) json["scales"] = *facts.scales;
  if (!facts.optimized.empty()) json["optimized"] = facts.optimized;
  if (facts.weights) json["weights"] = to_json(*facts.weights);
  if (!facts.model_files.empty()) json["model_files"] = facts.model_files;
  return json;
}

PublicFacts facts_from_json(std::string_view text) {
  constexpr int kDeepest = 8;
  if (const std::string wrong = json_problem(kDeepest, text); !wrong.empty())
    throw ConfigError(wrong);
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw ConfigError("holds no JSON object");
  try {
    if (json.at("facts") != 1) throw ConfigError("'facts' is not 1, the only version there is");
    PublicFacts facts;
    facts.shape.features = json.at("features").get<Shape>();
    facts.shape.classes = json.at("classes").get<std::size_t>();
    facts.dataset_size = json.at("dataset_size").get<std::uint64_t>();
    facts.has_test_rows = json.at("has_test_rows").get<bool>();
    facts.unaccounted = json.at("unaccounted").get<std::vector<std::string>>();
    facts.first_rows_only = json.at("first_rows_only").get<bool>();
    facts.rows_chosen_by_value = json.at("rows_chosen_by_value").get<bool>();
    if (json.contains("class_names"))
      facts.class_names = json.at("class_names").get<std::vector<std::string>>();
    if (!facts.class_names.empty() && facts.class_names.size() != facts.shape.classes)
      throw ConfigError("does not have as many class names as classes");
    if (json.contains("feature_names"))
      facts.feature_names = json.at("feature_names").get<std::vector<std::string>>();
    if (!facts.feature_names.empty() &&
        facts.feature_names.size() != element_count(facts.shape.features))
      throw ConfigError("does not have as many names of features as features");
    if (json.contains("reading")) facts.reading = value_from_json(json.at("reading"));
    facts.shard_sizes = json.at("shard_sizes").get<std::vector<std::uint64_t>>();
    if (json.contains("scales")) facts.scales = json.at("scales").get<std::vector<double>>();
    if (json.contains("optimized"))
      facts.optimized = json.at("optimized").get<std::vector<double>>();
    if (!json.at("order_key").is_null()) facts.order_key = json.at("order_key").get<std::string>();
    if (const Json& account = json.at("account"); !account.is_null())
      facts.account = facts_in<AccountFacts>(account, "account");
    if (json.contains("weights"))
      facts.weights = facts_in<WeightsFacts>(json.at("weights"), "weights");
    if (json.contains("model_files"))
      facts.model_files = json.at("model_files").get<std::map<std::string, std::string>>();
    // Writing must reproduce the JSON that was read, which proves that no number was read as a
    // different type.
    if (to_json(facts) != json) throw ConfigError("holds what no run writes");
    check_sizes(facts);
    return facts;
  } catch (const IoError& problem) {
    throw ConfigError(problem.what());
  } catch (const Json::exception& problem) {
    throw ConfigError(problem.what());
  }
}

PublicFacts read_facts(const std::filesystem::path& directory) {
  constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  const std::filesystem::path file = directory / "facts.json";
  try {
    return facts_from_json(read_whole(file, kMostBytes));
  } catch (const ConfigError& problem) {
    throw IoError(file.string() + ": " + problem.what());
  }
}

std::shared_ptr<KeptNumbers> kept_numbers(const std::filesystem::path& directory,
                                          const PublicFacts& recorded, std::string_view schedules) {
  try {
    if (!recorded.scales) throw ConfigError("has no scales, which every run records");
    return std::make_shared<KeptNumbers>(*recorded.scales, recorded.optimized, schedules);
  } catch (const ConfigError& problem) {
    throw IoError((directory / "facts.json").string() + ": " + problem.what());
  }
}

}  // namespace privgrad::core

#include "privgrad/plan/public_facts.hpp"

#include <nlohmann/json.hpp>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;
using core::PublicFacts;
using Json = nlohmann::json;

namespace {

PublicFacts recorded() {
  return {.shape = {{2, 3}, 2},
          .dataset_size = 10,
          .has_test_rows = true,
          .unaccounted = {"pca"},
          .rows_chosen_by_value = true,
          .class_names = {"no", "yes"},
          .shard_sizes = {4, 6},
          .scales = std::vector<double>{1.5},
          .order_key = "ab",
          .account = core::AccountFacts{"patients", "cd", "test/exact", 3.0, 1e-5},
          .weights = {}};
}

PublicFacts read_with(const std::string& key, const Json& value) {
  Json json = to_json(recorded());
  json[key] = value;
  return core::facts_from_json(json.dump());
}

}  // namespace

TEST_CASE("facts that are read again are those that were written", "[facts]") {
  const Json json = to_json(recorded());
  const PublicFacts read = core::facts_from_json(json.dump());
  CHECK(to_json(read) == json);
  CHECK(read.dataset_size == 10);
  CHECK(read.rows_chosen_by_value);
  CHECK_FALSE(read.first_rows_only);
  CHECK(read.scales == recorded().scales);
  CHECK(read.account->target_delta == 1e-5);
}

TEST_CASE("facts that no run writes are refused", "[facts][privacy]") {
  CHECK_NOTHROW(read_with("dataset_size", 11));
  for (const auto& [key, value] : std::vector<std::pair<std::string, Json>>{
           {"facts", 2},
           {"more", 1},
           {"dataset_size", 10.5},
           {"dataset_size", -1},
           {"dataset_size", std::uint64_t{1} << 33},
           {"features", {std::uint64_t{1} << 20, std::uint64_t{1} << 20}},
           {"classes", 3},  // there are two names
           {"feature_names", {"a"}},
           {"has_test_rows", 1},
           {"order_key", 7},
           {"account", {{"name", "x"}}},
           {"class_names", Json::array()}})
    CHECK_THROWS_AS(read_with(key, value), ConfigError);
  for (const char* text : {"", "[]", "{", "{}", "null"})
    CHECK_THROWS_AS(core::facts_from_json(text), ConfigError);
}

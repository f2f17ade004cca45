#include "privgrad/statement/model_description.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/model/model_file.hpp"
#include "privgrad/model/network_json.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

Json component_json(const ComponentUse& use) {
  return {{"kind", use.component->full_name()}, {"params", value_to_json(use.params.value())}};
}

Json preprocessing_json(const Plan& plan) {
  Json list = Json::array();
  for (std::size_t i = 0; i < plan.manifest->transforms.size(); ++i) {
    Json one = component_json(plan.manifest->transforms[i]);
    one["is_known"] = plan.setting->is_restorable.at(i);
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

std::map<std::string, std::string> model_description(const Plan& plan,
                                                     const ReleasedCounts& counts) {
  const Manifest& manifest = *plan.manifest;
  Network network = plan.setting->whole;
  if (auto weights = class_weights_of(plan, counts); !weights.empty())
    network.class_weights = std::move(weights);
  const DataInfo& info = plan.setting->info;
  const Json input{{"features", info.shape.features}, {"classes", info.shape.classes}};
  std::map<std::string, std::string> description{
      {"model_format", std::string(model_format_of(network))},
      {"input", input.dump()},
      {"classes", Json(class_names(info.shape, info.class_names)).dump()},
      {"preprocessing", preprocessing_json(plan).dump()},
      {"network", to_json(network).dump()},
      {"model", component_json(manifest.model).dump()},
      {"backend", component_json(manifest.backend).dump()}};
  if (!info.feature_names.empty()) description["features"] = Json(info.feature_names).dump();
  if (!info.reading.is_null()) {
    const Json data{{"kind", manifest.data.component->full_name()},
                    {"params", value_to_json(info.reading)}};
    description["data"] = data.dump();
  }
  return description;
}

}  // namespace privgrad::core

#include "run_files.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "privgrad/error.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/model/model_file.hpp"
#include "privgrad/model/network_json.hpp"
#include "privgrad/trust/json_problem.hpp"

namespace privgrad::core {

Manifest manifest_of(const RecordDirectory& directory, const Catalog& catalog, DataFiles files,
                     const std::vector<std::string>& overrides) {
  const std::string text = directory.read("manifest.yaml", kMaxYamlBytes);
  return parse_manifest(text, directory.path() / "manifest.yaml", overrides, catalog, files);
}

nlohmann::json object_of(const RecordDirectory& directory, const std::string& name) {
  const std::string text = directory.read(name, kMostDocument);
  if (const std::string wrong = json_problem(kDeepest, text); !wrong.empty())
    throw IoError(name + ": " + wrong);
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) throw IoError(name + ": holds no JSON object");
  return json;
}

std::string ledger_of_client(std::size_t client) {
  return "ledgers/client-" + std::to_string(client) + ".jsonl";
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::map<std::string, std::string> in_todays_form(std::map<std::string, std::string> metadata) {
  std::string& format = metadata["model_format"];
  std::string& network = metadata["network"];
  if (format != "1" || !json_problem(kDeepest, network).empty()) return metadata;
  const auto described = nlohmann::json::parse(network, nullptr, false);
  const auto is_shortcut = [](const nlohmann::json& layer) {
    return layer.is_object() && layer.value("layer", nlohmann::json()) == "shortcut";
  };
  if (!described.is_object() || !described.contains("layers") ||
      std::none_of(described["layers"].begin(), described["layers"].end(), is_shortcut)) {
    return metadata;
  }
  try {
    const Network read = network_from_json(described);
    format = model_format_of(read);
    network = to_json(read).dump();
  } catch (const ConfigError&) {  // reported by the comparison
  }
  return metadata;
}

}  // namespace privgrad::core

#include "run_files.hpp"

#include <nlohmann/json.hpp>

#include "privgrad/error.hpp"
#include "privgrad/manifest/yaml.hpp"
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

}  // namespace privgrad::core

#include "privgrad/manifest/data_section.hpp"

#include <utility>
#include <variant>

#include "manifest_reader.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/manifest/yaml.hpp"

namespace privgrad::core {
namespace {

/// A manifest's section stands under `data`; by itself it has a kind.
Value as_root(Value given) {
  if (given.find("data") != nullptr && given.find("kind") == nullptr) return given;
  Value root{Value::Object{}};
  root.mark = given.mark;
  root.set("data", std::move(given));
  return root;
}

}  // namespace

DataSection parse_data_section(std::string_view text, const std::filesystem::path& name,
                               const std::filesystem::path& folder, const Catalog& catalog) {
  ManifestProblems problems(one_line(name.string(), 4096));
  std::vector<Problem> found;
  std::optional<Value> given = parse_yaml(text, found);
  problems.add_yaml(found);
  if (!given) problems.throw_if_any();
  const Value root = as_root(std::move(*given));
  const std::filesystem::path beside = folder / "section";
  Manifest manifest =
      ManifestReader(root, beside, catalog, problems, DataFiles::are_there).load_data();
  problems.throw_if_any();
  return {.data = std::move(manifest.data),
          .transforms = std::move(manifest.transforms),
          .size = manifest.dataset_size,
          .test_is_public = manifest.test_is_public};
}

}  // namespace privgrad::core

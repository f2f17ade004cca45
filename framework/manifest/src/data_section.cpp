#include "privgrad/manifest/data_section.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "manifest_reader.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/manifest/yaml.hpp"

namespace privgrad::core {
namespace {

/// Accepts a whole manifest, which has the section under `data`, and the section by itself, which
/// has a kind.
Value as_root(Value given) {
  if (given.find("data") != nullptr && given.find("kind") == nullptr) return given;
  Value root{Value::Object{}};
  root.mark = given.mark;
  root.set("data", std::move(given));
  return root;
}

bool takes(const Component& component, const std::string& key) {
  const std::vector<ParamSpec>& params = component.factory.info.params;
  return std::ranges::any_of(params, [&](const ParamSpec& param) { return param.name == key; });
}

/// Adds known parameters that the section does not give. Columns declared for one kind of table
/// also apply to files of another kind.
void complete(Value& root, const Catalog& catalog, const KnownReading& known) {
  Value* section = root.find("data");
  const Value* kind = section == nullptr ? nullptr : section->find("kind");
  const auto* name = kind == nullptr ? nullptr : std::get_if<std::string>(&kind->data());
  const auto* params = std::get_if<Value::Object>(&known.params.data());
  if (name == nullptr || params == nullptr) return;
  const Component* component = nullptr;
  try {
    component = &catalog.find<DataSource>(*name);
  } catch (const Error&) {
    return;  // the section's reader reports the invalid kind
  }
  if (component->full_name() != known.source) {
    const Value* rows = section->find("train");
    const bool are_in_a_file = rows != nullptr && std::holds_alternative<std::string>(rows->data());
    if (!are_in_a_file || known.params.find("columns") == nullptr || !takes(*component, "columns"))
      return;
  }
  for (const Value::Member& member : *params) {
    if (section->find(member.key) != nullptr || !takes(*component, member.key)) continue;
    Value value = member.value;
    value.mark = section->mark;
    section->set(member.key, std::move(value));
  }
}

}  // namespace

DataSection parse_data_section(std::string_view text, const std::filesystem::path& name,
                               const std::filesystem::path& folder, const Catalog& catalog,
                               const KnownReading* known) {
  ManifestProblems problems(one_line(name.string(), 4096));
  std::vector<Problem> found;
  std::optional<Value> given = parse_yaml(text, found);
  problems.add_yaml(found);
  if (!given) problems.throw_if_any();
  if (!std::holds_alternative<Value::Object>(given->data())) {
    // The file may contain the rows themselves, so its content is not shown.
    problems.add(
        given->mark, "",
        "contains no section data, expected an object; for the rows of a table write {kind: "
        "csv, train: " +
            name.filename().string() + "}");
    problems.throw_if_any();
  }
  Value root = as_root(std::move(*given));
  if (known != nullptr) complete(root, catalog, *known);
  const std::filesystem::path beside = folder / "section";
  Manifest manifest =
      ManifestReader(root, beside, catalog, problems, DataFiles::are_there).load_data();
  problems.throw_if_any();
  return {.data = std::move(manifest.data),
          .transforms = std::move(manifest.transforms),
          .size = manifest.dataset_size,
          .test_is_public = manifest.test_is_public,
          .streaming = std::move(manifest.streaming)};
}

}  // namespace privgrad::core

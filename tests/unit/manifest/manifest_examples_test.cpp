#include <algorithm>
#include <map>
#include <set>

#include "house_plugins.hpp"
#include "privgrad/manifest/manifest.hpp"

using namespace privgrad;
using namespace privgrad::core;

namespace {

bool is_built(std::string_view kind, std::string_view name) {
  return std::ranges::any_of(house().components(), [&](const Component& component) {
    return component.factory.kind == kind && component.factory.info.name == name;
  });
}

/// Every manifest of examples/manifests by its file name, read without looking for its data.
std::map<std::string, Manifest> example_manifests() {
  std::map<std::string, Manifest> all;
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "examples/manifests")) {
    const std::string name = entry.path().filename();
    CAPTURE(name);
    std::vector<std::string> overrides;
    if (name == "cluster.yaml" && !is_built("cluster", "mpi")) {
      WARN("cluster.yaml is read without its cluster: this build has no plugin mpi");
      overrides = {"cluster=local"};
    }
    all.emplace(name, parse_manifest(read_file(entry.path()), entry.path(), overrides, house(),
                                     DataFiles::may_be_missing));
  }
  return all;
}

}  // namespace

TEST_CASE("the example manifests fit the built-in plugins", "[manifest_examples]") {
  const std::string list = read_file(kSource / "examples/README.md");
  for (const auto& [name, manifest] : example_manifests()) {
    CAPTURE(name);
    CHECK(manifest.mode == Mode::research);
    CHECK_FALSE(manifest.seed.has_value());
    CHECK(to_yaml(manifest.resolved) ==
          to_yaml(parse_manifest(to_yaml(manifest.resolved), kSource / name, {}, house(),
                                 DataFiles::may_be_missing)
                      .resolved));
    CHECK_THAT(list, ContainsSubstring("(manifests/" + name + ")"));
  }
}

TEST_CASE("every built-in component stands in an example manifest", "[manifest_examples]") {
  std::set<const Component*> used;
  for (const auto& [name, manifest] : example_manifests()) {
    for (const ComponentUse* use : components_of(manifest)) used.insert(use->component);
    used.insert(manifest.cluster.component);
  }
  std::vector<std::string> missing;
  for (const Component& component : house().components()) {
    if (!used.contains(&component))
      missing.push_back(std::string(component.factory.kind) + "/" + component.factory.info.name);
  }
  // This model needs the folder of a public model, which no example can provide.
  CHECK(missing == std::vector<std::string>{"model/pretrained"});
}

namespace {

/// Reads the manifest in a file, with changes. Release mode requires plugins with a record of
/// tests. Not every build has records, so the plugins are allowed by their hashes.
Manifest of_tested_plugins(const std::filesystem::path& file, std::vector<std::string> changes) {
  const std::string text = read_file(file);
  std::string accepted;
  std::vector<std::string> research = changes;
  research.push_back("mode=research");
  for (const UsedPlugin& used : plugins_of(parse_manifest(text, file, research, house())))
    accepted += (accepted.empty() ? "" : ", ") + used.plugin->sha256;
  changes.push_back("allow.plugins=[" + accepted + "]");
  return parse_manifest(text, file, changes, house());
}

}  // namespace

TEST_CASE("a hash that only the manifest's cluster needs is not for nothing",
          "[manifest_examples]") {
  const std::filesystem::path file = kSource / "examples/manifests/shapes.yaml";
  const auto load = [&](const std::vector<std::string>& changes) {
    return parse_manifest(read_file(file), file, changes, house());
  };
  const std::string hash = load({}).cluster.component->plugin->sha256;
  CHECK(allowed_for_nothing(load({"allow.plugins=[" + hash + "]"})).empty());
  CHECK(allowed_for_nothing(load({"allow.plugins=[" + hash + "]", "cluster=null"})) ==
        std::vector{hash});
}

TEST_CASE("the recipes fit the built-in plugins, and are for release", "[manifest_examples]") {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "examples/recipes")) {
    CAPTURE(entry.path().string());
    const Manifest manifest = of_tested_plugins(entry.path(), {});
    CHECK(manifest.mode == Mode::release);
    names.insert(manifest.name);
  }
  CHECK(names == std::set<std::string>{"fashion-mnist", "mnist"});
}

TEST_CASE("so does the manifest of texts, whose files are fetched", "[manifest_examples]") {
  const std::string rows = (kSource / "examples/data/reviews.csv").string();
  const Manifest manifest = of_tested_plugins(
      kSource / "examples/text/reuters-r8.yaml",
      {"data.train=" + rows, "data.test=" + rows,
       "data.tokenizer=" + (kSource / "examples/data/reviews-tokenizer.json").string(),
       "model.path=" + (kSource / "plugins/models/pretrained/sample/bert").string()});
  CHECK(manifest.mode == Mode::release);
}

#include <set>

#include "house_plugins.hpp"
#include "privgrad/manifest/manifest.hpp"

using namespace privgrad;
using namespace privgrad::core;

TEST_CASE("the example manifests fit the built-in plugins", "[manifest_examples]") {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "examples/manifests")) {
    CAPTURE(entry.path().string());
    const std::string text = read_file(entry.path());
    // Empty files stand in for the data sets: a manifest is checked without looking into them.
    const TempDir root;
    const std::filesystem::path folder = root.path() / "manifests";
    std::filesystem::create_directories(root.path() / "data");
    write_file(root.path() / "data/patients.csv", "");
    for (const char* split : {"train", "t10k"}) {
      std::filesystem::create_directories(folder / "mnist");
      for (const char* what : {"-images-idx3-ubyte.gz", "-labels-idx1-ubyte.gz"}) {
        write_file(folder / "mnist" / (std::string(split) + what), "");
      }
    }
    const auto file = folder / entry.path().filename();
    const Manifest manifest = parse_manifest(text, file, {}, house());
    CHECK(manifest.mode == Mode::research);
    CHECK_FALSE(manifest.seed.has_value());
    CHECK(to_yaml(manifest.resolved) ==
          to_yaml(parse_manifest(to_yaml(manifest.resolved), file, {}, house()).resolved));
    names.insert(manifest.name);
  }
  CHECK(names == std::set<std::string>{"crafted", "discrete-noise", "fashion-mnist", "mnist-cnn",
                                       "mnist-mlp", "mnist-scattering", "mnist35-dynamic",
                                       "mnist35-uniform", "patients", "quickstart"});
}

TEST_CASE("the recipes fit the built-in plugins, and are for release", "[manifest_examples]") {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "examples/recipes")) {
    CAPTURE(entry.path().string());
    const std::string text = read_file(entry.path());
    // Release mode wants plugins that are on record as tested. Not every build has records, so these are accepted as
    // they are: what is looked at here is the manifest.
    std::string accepted;
    for (const UsedPlugin& used :
         plugins_of(parse_manifest(text, entry.path(), {"mode=research"}, house()))) {
      accepted += (accepted.empty() ? "" : ", ") + used.plugin->sha256;
    }
    const Manifest manifest =
        parse_manifest(text, entry.path(), {"allow.plugins=[" + accepted + "]"}, house());
    CHECK(manifest.mode == Mode::release);
    names.insert(manifest.name);
  }
  CHECK(names == std::set<std::string>{"fashion-mnist", "mnist"});
}

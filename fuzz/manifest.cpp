// Manifests, checked against the built-in plugins.
#include "privgrad/manifest/manifest.hpp"

#include "harness/fuzz.hpp"

void read_input(std::string_view input) {
  using namespace privgrad::core;
  const auto file = fuzz::scratch_folder() / "manifest.yaml";
  const Manifest manifest = parse_manifest(input, file, {}, fuzz::catalog());
  const std::string resolved = to_yaml(manifest.resolved);
  const Manifest again = parse_manifest(resolved, file, {}, fuzz::catalog());
  fuzz::require(to_yaml(again.resolved) == resolved, "a resolved manifest resolves to itself");
}

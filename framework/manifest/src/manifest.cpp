#include "privgrad/manifest/manifest.hpp"

#include <utility>

#include "manifest_overrides.hpp"
#include "manifest_reader.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;

Manifest changed_manifest(Value root, const fs::path& file,
                          const std::vector<std::string>& overrides, const Catalog& catalog,
                          const std::vector<ManifestChange>& changes, ManifestProblems& problems,
                          DataFiles data_files = DataFiles::are_there) {
  apply_overrides(overrides, root, problems);
  apply_changes(changes, root, problems);
  Manifest manifest = ManifestReader(root, file, catalog, problems, data_files).load();
  problems.throw_if_any();
  return manifest;
}

Manifest make_manifest(std::string_view text, const fs::path& file,
                       const std::vector<std::string>& overrides, const Catalog& catalog,
                       const std::vector<ManifestChange>& changes,
                       DataFiles data_files = DataFiles::are_there) {
  ManifestProblems problems(one_line(file.string(), 4096));
  std::vector<Problem> found;
  std::optional<Value> root = parse_yaml(text, found);
  problems.add_yaml(found);
  if (!root) problems.throw_if_any();
  return changed_manifest(std::move(*root), file, overrides, catalog, changes, problems,
                          data_files);
}

}  // namespace

std::string_view to_text(Aggregation aggregation) {
  return aggregation == Aggregation::fed_avg ? "fed_avg" : "dp_fed_avg";
}

std::string_view to_text(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::floating ? "float" : "exact";
}

std::string_view to_text(EstimateMode mode) {
  switch (mode) {
    case EstimateMode::private_sums:
      return "private";
    case EstimateMode::from_models:
      return "from_models";
    case EstimateMode::unaccounted:
      return "unaccounted";
  }
  return "?";
}

std::string Manifest::position_of(std::string_view dotted_key) const {
  const auto found = positions.find(dotted_key);
  if (found != positions.end()) return found->second;
  const auto whole = positions.find(std::string_view());
  return whole == positions.end() ? std::string() : whole->second;
}

std::string error_text(const Manifest& manifest, std::string_view key, std::string_view what) {
  std::string text = manifest.position_of(key);
  return text.append(": error: ").append(key).append(": ").append(what);
}

ManifestError error_at(const Manifest& manifest, std::string_view key, std::string_view what) {
  return ManifestError({error_text(manifest, key, what)});
}

PrivacyError privacy_error_at(const Manifest& manifest, std::string_view key,
                              std::string_view what) {
  return PrivacyError(error_text(manifest, key, what));
}

std::string read_yaml_file(const fs::path& file) {
  // One byte more than the limit is enough to detect that the file is too long.
  return read_beginning(file, kMaxYamlBytes + 1);
}

Manifest load_manifest(const fs::path& file, const std::vector<std::string>& overrides,
                       const Catalog& catalog, const std::vector<ManifestChange>& changes) {
  return make_manifest(read_yaml_file(file), file, overrides, catalog, changes);
}

Manifest parse_manifest(std::string_view text, const fs::path& file,
                        const std::vector<std::string>& overrides, const Catalog& catalog,
                        DataFiles data_files) {
  return make_manifest(text, file, overrides, catalog, {}, data_files);
}

Manifest check_manifest(Value root, const fs::path& file, const std::vector<std::string>& overrides,
                        const Catalog& catalog, const std::vector<ManifestChange>& changes,
                        DataFiles data_files) {
  ManifestProblems problems(one_line(file.string(), 4096));
  return changed_manifest(std::move(root), file, overrides, catalog, changes, problems, data_files);
}

Value with_overrides(Value root, const std::vector<std::string>& overrides) {
  ManifestProblems problems("");
  apply_overrides(overrides, root, problems);
  problems.throw_if_any();
  return root;
}

std::vector<const ComponentUse*> components_of(const Manifest& manifest) {
  std::vector<const ComponentUse*> uses{&manifest.data};
  for (const ComponentUse& use : manifest.transforms) uses.push_back(&use);
  for (const ComponentUse* use :
       {&manifest.model, &manifest.backend, &manifest.sampler, &manifest.clipping,
        &manifest.aggregator, &manifest.optimizer, &manifest.noise_multiplier, &manifest.noise_std,
        &manifest.clip_norm, &manifest.learning_rate, &manifest.batch_size, &manifest.accountant}) {
    uses.push_back(use);
  }
  for (const ComponentUse& use : manifest.also) uses.push_back(&use);
  if (manifest.account) uses.push_back(&manifest.account->filter);
  if (manifest.federated) {
    const Federated& federated = *manifest.federated;
    for (const ComponentUse* use :
         {&federated.partition, &federated.participation, &federated.local_iterations,
          &federated.client_clipping, &federated.server_optimizer}) {
      uses.push_back(use);
    }
  }
  // A manifest without noise need not name an accountant.
  std::erase_if(uses, [](const ComponentUse* use) { return use->component == nullptr; });
  return uses;
}

}  // namespace privgrad::core

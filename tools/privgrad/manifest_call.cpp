#include "manifest_call.hpp"

#include "privgrad/host/lock_file.hpp"

namespace privgrad::tool {

Option set_option() {
  return {.name = "set",
          .value = "KEY=VALUE",
          .doc =
              "Override one value of the manifest; KEY is dotted (schedules.clip_norm), VALUE is "
              "YAML.",
          .repeatable = true};
}

std::vector<const core::ComponentUse*> components_of(const core::Manifest& manifest) {
  std::vector<const core::ComponentUse*> uses{&manifest.data};
  for (const core::ComponentUse& use : manifest.transforms) uses.push_back(&use);
  for (const core::ComponentUse* use :
       {&manifest.model, &manifest.backend, &manifest.sampler, &manifest.clipping,
        &manifest.aggregator, &manifest.optimizer, &manifest.noise_multiplier, &manifest.noise_std,
        &manifest.clip_norm, &manifest.learning_rate, &manifest.batch_size, &manifest.accountant}) {
    uses.push_back(use);
  }
  for (const core::ComponentUse& use : manifest.also) uses.push_back(&use);
  // A manifest without noise need not say who would have accounted for it.
  std::erase_if(uses, [](const core::ComponentUse* use) { return use->component == nullptr; });
  return uses;
}

std::string lock_text(const std::vector<const core::Manifest*>& manifests) {
  std::vector<PluginIdentity> used;
  for (const core::Manifest* manifest : manifests) {
    for (const core::ComponentUse* use : components_of(*manifest)) {
      used.push_back(*use->component->plugin);
      if (use->certifier != nullptr) used.push_back(*use->certifier->plugin);
    }
  }
  return host::lock_file_text(used);
}

}  // namespace privgrad::tool

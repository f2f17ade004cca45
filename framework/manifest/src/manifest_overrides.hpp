// Applies `--set` and the changes of studies to a manifest before it is checked.
#pragma once

#include <string>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

/// Applies each `--set KEY=VALUE` to the manifest, in order.
///
/// KEY is dotted; numbers are indices into lists, where the index one past the end appends. Missing
/// nodes on the path are created; a component given only by its name becomes {kind: NAME}. VALUE is
/// YAML and replaces the whole node, so `optimizer=adam` drops the parameters of the previous
/// optimizer; `null` removes the key.
void apply_overrides(const std::vector<std::string>& overrides, Value& manifest,
                     ManifestProblems& problems);

/// Applies changes from another file in the same way. Values keep their places in that file.
void apply_changes(const std::vector<ManifestChange>& changes, Value& manifest,
                   ManifestProblems& problems);

}  // namespace privgrad::core

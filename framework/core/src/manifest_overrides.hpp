#pragma once

#include <string>
#include <vector>

#include "manifest_problems.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

/// \returns what stands before the first '=' of each `--set KEY=VALUE`.
std::vector<std::string> override_keys(const std::vector<std::string>& overrides);

/// Applies each `--set KEY=VALUE` to the manifest, in order.
///
/// KEY is dotted; numbers are indices into lists, where the index one past the end appends. What is
/// missing on the way is created; a component given by its name alone becomes {kind: NAME} on the
/// way. VALUE is YAML and replaces the whole node, so `optimizer=adam` drops the parameters of
/// whatever optimizer stood there; `null` removes the key.
void apply_overrides(const std::vector<std::string>& overrides, Value& manifest,
                     ManifestProblems& problems);

}  // namespace privgrad::core

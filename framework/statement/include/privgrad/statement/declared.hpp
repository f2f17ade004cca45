#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {

/// One thing that a manifest says of its data.
struct Declared {
  std::string key;    ///< Dotted, as in the manifest: "data.columns.0".
  std::string value;  ///< On one line, as a manifest could write it.
};

/// What the author of a manifest declares of the data, and plans, statements and pages take as public
/// on the author's word: ranges, lists of values, fills, labels, sizes, and every other number and
/// text that the data source, a transform or the partition is given and that is not its default.
/// Left out are files, switches and words of a fixed list, unless they stand in an object, and what
/// the release of a private statistic costs.
std::vector<Declared> declared_facts(const Manifest& manifest);

/// As plans and statements hold it: a list of {key, value}.
nlohmann::json to_json(const std::vector<Declared>& all);

/// What a statement says of them, in sentences; "" where there is nothing. Long lists are shortened.
std::string declared_prose(const nlohmann::json& statement);

}  // namespace privgrad::core

// The facts that a manifest declares about its data, and that statements take as public on its word.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {

/// One fact that a manifest declares about its data.
struct Declared {
  std::string key;    ///< Dotted, as in the manifest: "data.columns.0".
  std::string value;  ///< On one line, as a manifest could write it.
};

/// The facts that the author of a manifest declares about the data, and that plans, statements and
/// pages take as public on the author's word: ranges, lists of values, fills, labels, sizes, and
/// every other number and text that the data source, a transform or the partition is given and that
/// is not its default. Left out are files, switches and words of a fixed list, unless they stand in
/// an object, and the price of releasing a private statistic.
std::vector<Declared> declared_facts(const Manifest& manifest);

/// The facts in plans and statements: a list of {key, value}.
nlohmann::json to_json(const std::vector<Declared>& all);

/// A statement's sentences about them; "" where there are none. Long lists are shortened.
std::string declared_prose(const nlohmann::json& statement);

}  // namespace privgrad::core

// The facts that a manifest declares about its data, which statements accept as public.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// One fact that a manifest declares about its data.
struct Declared {
  std::string key;    ///< Dotted, as in the manifest: "data.columns.0".
  std::string value;  ///< The value on one line, in the form of a manifest.
};

/// The facts that a manifest's author declares about the data, and that plans, statements and pages
/// accept as public on the author's word: ranges, lists of values, fills, labels, sizes, and every
/// other non-default parameter of the data source, a transform or the partition. Parameters that
/// name files, or that only concern the release of a statistic, are omitted.
std::vector<Declared> declared_facts(const Manifest& manifest);

/// The same facts, and the hashes of files that are read but contain no rows, such as a tokenizer
/// or the description of a public model: naming such a file declares it public.
std::vector<Declared> declared_facts(const Plan& plan);

/// The facts as plans and statements contain them: a list of {key, value}.
nlohmann::json to_json(const std::vector<Declared>& all);

/// A statement's sentences about the facts; "" if there are none. Long lists are shortened.
std::string declared_prose(const nlohmann::json& statement);

}  // namespace privgrad::core

// The facts that a manifest declares about its data, which statements accept as public.
#pragma once

#include <string>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/record/statement_facts.hpp"

namespace privgrad::core {

/// The facts that a manifest's author declares about the data, and that plans, statements and pages
/// accept as public on the author's word: ranges, lists of values, fills, labels, sizes, and every
/// other non-default parameter of the data source, a transform or the partition. Parameters that
/// name files, or that only concern the release of a statistic, are omitted.
std::vector<Declared> declared_facts(const Manifest& manifest);

/// The facts that the plan's manifest declares, and the hashes of files that are read but contain
/// no rows, such as a tokenizer or the description of a public model: naming such a file declares
/// it public.
std::vector<Declared> declared_facts(const Plan& plan);

/// Sentences about declared facts, for statements; "" if there are none. Long values are shortened.
std::string declared_prose(const std::vector<Declared>& declared);

}  // namespace privgrad::core

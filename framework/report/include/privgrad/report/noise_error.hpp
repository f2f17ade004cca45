// The HTML page of `privgrad noise-error`, which compares mechanisms step by step.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace privgrad::report {

/// The output of `privgrad noise-error --json` as a self-contained page with a table, and a chart
/// over all steps. Contains only public values.
/// \param comparison  has the members name, steps, momentum, windows, target_epsilon, target_delta,
///   adjacency and mechanisms.
std::string noise_error_page(const nlohmann::json& comparison);

}  // namespace privgrad::report

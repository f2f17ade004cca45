// The metrics that a study may compare, and the default one.
#pragma once

#include <vector>

#include "privgrad/studies/study.hpp"

namespace privgrad::core {

/// The metrics that a study may compare; the first is the default.
const std::vector<StudyMetric>& known_metrics();

}  // namespace privgrad::core

// Lists the metrics that a study may compare; the first is the default.
#pragma once

#include <vector>

#include "privgrad/studies/study.hpp"

namespace privgrad::core {

const std::vector<StudyMetric>& known_metrics();

}  // namespace privgrad::core

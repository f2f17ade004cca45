#pragma once

#include <vector>

#include "privgrad/studies/study.hpp"

namespace privgrad::core {

/// What a study may compare; the first is compared where it names none.
const std::vector<StudyMetric>& known_metrics();

}  // namespace privgrad::core

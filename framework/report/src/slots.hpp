// The schedules of a run on its page: their titles, and their values step by step.
#pragma once

#include <string>
#include <vector>

#include "chart.hpp"
#include "privgrad/record/plan_facts.hpp"

namespace privgrad::report {

/// The title of a schedule's slot, and the text of its chart.
struct SlotWords {
  std::string title, says;
};
SlotWords words_of_slot(const std::string& slot);

/// \param name  the list's name, for errors.
/// \throws IoError if steps do not ascend, or not each has a value.
std::vector<Point> listed_points(const core::ValuesOfSteps& listed, const std::string& name,
                                 const std::string& source);

/// The values of a slot in schedules.json, over steps counted from 1 to the last step.
std::vector<Point> slot_points(const core::ScheduleRecord& schedules, const std::string& slot,
                               const std::string& source);

}  // namespace privgrad::report

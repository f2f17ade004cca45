// The schedules of a run on its page: their titles, and their values step by step.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chart.hpp"

namespace privgrad::report {

/// The title of a schedule's slot, and the text of its chart.
struct SlotWords {
  std::string title, says;
};
SlotWords words_of_slot(const std::string& slot);

/// Reads a list of steps with values.
/// \param name  the list's name, for errors.
/// \throws IoError if the list is malformed, or its steps do not ascend.
std::vector<Point> listed_points(const nlohmann::json& entry, const std::string& name,
                                 const std::string& source);

/// Reads the values of a slot in schedules.json; their steps are counted from 1.
std::vector<Point> slot_points(const nlohmann::json& schedules, const std::string& slot,
                               const std::string& source);

}  // namespace privgrad::report

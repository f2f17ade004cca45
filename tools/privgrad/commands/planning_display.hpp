// Makes a plan, and shows progress on standard error if that takes long.
#pragma once

#include "arguments.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::tool {

/// Calls core::make_plan(manifest). If the search for the noise takes more than a second, shows the
/// number of scales tried: on a terminal in a line that is rewritten; elsewhere in a line after 10
/// seconds, and then whenever the elapsed time has doubled.
/// \param manifest  the plan's manifest; its on_trial is used during the call.
/// \param arguments  the arguments of a call that may have --quiet.
core::Plan make_shown_plan(core::Manifest& manifest, const Arguments& arguments);

}  // namespace privgrad::tool

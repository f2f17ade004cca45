// Makes a plan, and shows on standard error that it goes on where it takes long.
#pragma once

#include "arguments.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::tool {

/// core::make_plan(manifest). Where the search for the noise takes more than a second, it says how
/// often a scale was tried: on a terminal in a line that is rewritten, elsewhere after 10 seconds, and
/// then each time that the search has taken twice as long.
/// \param manifest   that of the plan; its on_trial is used meanwhile.
/// \param arguments  of a call that may have --quiet.
core::Plan make_shown_plan(core::Manifest& manifest, const Arguments& arguments);

}  // namespace privgrad::tool

// Makes the HTML page of one run from its record.
#pragma once

#include "document.hpp"
#include "record.hpp"

namespace privgrad::report {

/// \throws IoError for members of the record that have the wrong type.
Page run_page(RunRecord record);

}  // namespace privgrad::report

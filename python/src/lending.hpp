// Python bindings that pass NumPy arrays to the data source `memory`.
#pragma once

#include <nanobind/nanobind.h>

namespace privgrad::python {

/// Adds lend() and take_back(), which turn Python arrays into tables of the data source `memory`.
void add_lending(nanobind::module_& module);

}  // namespace privgrad::python

// Python bindings that lend NumPy arrays to the data source `memory`.
#pragma once

#include <nanobind/nanobind.h>

namespace privgrad::python {

/// Adds lend() and take_back(): Python's arrays as tables of the data source `memory`.
void add_lending(nanobind::module_& module);

}  // namespace privgrad::python

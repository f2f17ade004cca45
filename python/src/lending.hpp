#pragma once

#include <nanobind/nanobind.h>

namespace privgrad::python {

/// Adds lend() and take_back(): arrays of Python's as tables of the data source `memory`.
void add_lending(nanobind::module_& module);

}  // namespace privgrad::python

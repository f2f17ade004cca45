#pragma once

#include <nanobind/nanobind.h>

#include "framework.hpp"

namespace privgrad::python {

/// Adds what server and clients of a federated run are made of that are programs of their own.
void add_federated(nanobind::module_& module, nanobind::class_<Framework>& framework);

}  // namespace privgrad::python

// Python bindings for the server and the clients of federated runs.
#pragma once

#include <nanobind/nanobind.h>

#include "framework.hpp"

namespace privgrad::python {

/// Adds the classes for federated runs whose server and clients are separate programs.
void add_federated(nanobind::module_& module, nanobind::class_<Framework>& framework);

}  // namespace privgrad::python

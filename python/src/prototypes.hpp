// Schedules and accountants written in Python, as components for trying out ideas.
#pragma once

#include "privgrad/catalog.hpp"

namespace privgrad::python {

/// The plugin of the Python prototypes. It has no file and no record of tests, and never runs in
/// release mode.
inline constexpr const char* kPrototypes = "python";

/// Adds schedule/python and accountant/python, which call Python objects by their names
/// (privgrad.prototypes).
void add_prototypes(Catalog& catalog);

}  // namespace privgrad::python

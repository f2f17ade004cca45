// Runs a long call on a separate thread, so that Python can report progress and be interrupted.
#pragma once

#include <functional>
#include <string>

#include <nanobind/nanobind.h>

#include "framework.hpp"

namespace privgrad::python {

/// Makes a long call on a separate thread and without the interpreter's lock. The calling thread
/// passes reports to `callback` and checks for signals: Ctrl-C, or an exception of the callback,
/// asks the call to stop, which leaves a checkpoint.
/// \param callback  None, or called with one text, on the calling thread.
/// \returns (the call's result, or None if it threw; the exception that stopped it, or None).
/// \throws any exception of the call, unless it was asked to stop.
nanobind::tuple long_call(const std::function<std::string(const Watch&)>& call,
                          nanobind::object callback);

}  // namespace privgrad::python

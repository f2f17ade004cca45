// Turns any exception of a component during a run into an error that names the component.
#pragma once

#include <functional>
#include <string>

namespace privgrad::core {

/// Calls a component's code during a run. The plan has accepted the component's parameters, so an
/// exception now breaks the component's contract and becomes a PluginError that names it. This
/// includes a ConfigError, which would blame the manifest. A NumericError stays one, but names the
/// component; PrivacyError, IoError and std::bad_alloc are passed on unchanged.
/// \param who  the component's full name, or all names if several are involved.
void in_run_of(const std::string& who, const std::function<void()>& action);

}  // namespace privgrad::core

// Turns whatever a component throws in the middle of a run into an error that names the component.
#pragma once

#include <functional>
#include <string>

namespace privgrad::core {

/// Calls a component's code during a run. The plan has accepted the component's parameters, so
/// whatever it throws now is a breach of its contract and becomes a PluginError that names it, also
/// a ConfigError, which would blame the manifest. Refusals for privacy and failures of files stay
/// as they are.
/// \param who  the component's full name; all names where several take part.
void in_run_of(const std::string& who, const std::function<void()>& action);

}  // namespace privgrad::core

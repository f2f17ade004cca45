#pragma once

#include <functional>
#include <string>

namespace privgrad::core {

/// Calls what belongs to a component while a run goes on. The plan has accepted its parameters, so
/// that whatever it throws now is a breach of its contract: a PluginError that names it, also where
/// it is a ConfigError, which would blame the manifest. Refusals for privacy and failures of files
/// stay what they are.
/// \param who  the component's full name; of several that take part, all of them.
void in_run_of(const std::string& who, const std::function<void()>& action);

}  // namespace privgrad::core

#include "privgrad/error.hpp"

namespace privgrad {

Error::~Error() = default;
ConfigError::~ConfigError() = default;
PrivacyError::~PrivacyError() = default;
IoError::~IoError() = default;
PluginError::~PluginError() = default;
NumericError::~NumericError() = default;

}  // namespace privgrad

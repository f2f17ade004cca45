// The error types of the framework and its plugins; throw only these.
#pragma once

#include <stdexcept>

#include "privgrad/export.hpp"

namespace privgrad {

/// Base class of every error that the framework or a plugin reports.
///
/// The destructors are defined in libprivgrad_sdk.so (they are the "key functions"), so each class
/// has one typeinfo in the process and `catch (const Error&)` works across libraries. A class that
/// derives from Error in a header must define its destructor in a library as well.
///
/// The message says who reports it, what is wrong, and what is allowed, in one line without a full
/// stop. The command maps the types to its exit codes (in brackets).
class PRIVGRAD_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~Error() override;
};

/// The user's call or manifest is wrong: unknown key, value out of range, missing parameter. [2]
class PRIVGRAD_API ConfigError : public Error {
 public:
  using Error::Error;
  ~ConfigError() override;
};

/// Refused for privacy: over budget, or a combination without a proof. [3]
class PRIVGRAD_API PrivacyError : public Error {
 public:
  using Error::Error;
  ~PrivacyError() override;
};

/// A file or device could not be read or written, or has unexpected content. [4]
class PRIVGRAD_API IoError : public Error {
 public:
  using Error::Error;
  ~IoError() override;
};

/// A plugin could not be trusted, loaded or resolved, or broke its contract. [1]
class PRIVGRAD_API PluginError : public Error {
 public:
  using Error::Error;
  ~PluginError() override;
};

/// A computation produced an unusable value (a NaN, an empty spectrum), or did not converge. [1]
class PRIVGRAD_API NumericError : public Error {
 public:
  using Error::Error;
  ~NumericError() override;
};

}  // namespace privgrad

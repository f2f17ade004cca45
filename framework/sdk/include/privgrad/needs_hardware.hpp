// For backends that need a device, such as a GPU, which this machine may lack.
#pragma once

#include <string>

#include "privgrad/export.hpp"

namespace privgrad {

/// Optional ability of a backend, found with dynamic_cast: it runs on what not every machine has.
/// `privgrad plugins list` shows what is missing here.
///
/// Privacy: sees no data.
/// Threads: may run concurrently.
class PRIVGRAD_API NeedsHardware {
 public:
  virtual ~NeedsHardware();
  NeedsHardware(const NeedsHardware&) = delete;
  NeedsHardware& operator=(const NeedsHardware&) = delete;

  /// \returns in one line why this machine cannot run the component as it was made, without a full
  ///   stop, and "" if it can. Where it is not "", compile() throws a ConfigError with the same
  ///   words.
  virtual std::string missing_hardware() const = 0;

 protected:
  NeedsHardware() = default;
};

}  // namespace privgrad

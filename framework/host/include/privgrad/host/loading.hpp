// Names the plugin that is being loaded, for whoever reports a crash.
#pragma once

namespace privgrad::host {

/// The plugin file whose code this process is being given right now; "" between two, and before and
/// after. For whoever has to say what the process was doing when it died: async-signal-safe.
const char* loading_now() noexcept;

}  // namespace privgrad::host

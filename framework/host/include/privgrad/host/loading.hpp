// Names the plugin that is being loaded, for whoever reports a crash.
#pragma once

#include <cstddef>

namespace privgrad::host {

/// The plugin file whose code this process is being given right now; "" between two, and before and
/// after. For whoever has to say what the process was doing when it died: async-signal-safe.
const char* loading_now() noexcept;

/// Keeps loading_now() in other memory from now on: in what a parent process sees, for one.
/// \param memory  kMostLoading characters, which begin with "" and are never given back.
constexpr std::size_t kMostLoading = 4096;
void keep_loading_in(char* memory) noexcept;

/// Calls this before and after each loading of a plugin's code, on the thread that loads it; for who
/// watches that it comes back. Null: nothing.
void tell_of_loading(void (*told)(bool begins)) noexcept;

}  // namespace privgrad::host

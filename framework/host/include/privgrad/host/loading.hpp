// Names the plugin that is being loaded, for reports of a crash.
#pragma once

#include <cstddef>

namespace privgrad::host {

/// The plugin file that this process is loading now; "" at other times. Async-signal-safe, so that
/// a report of a crash can name the file.
const char* loading_now() noexcept;

/// The size of loading_now()'s memory.
constexpr std::size_t kMostLoading = 4096;
/// Sets where loading_now() is stored from now on, such as memory that a parent process can read.
/// \param memory  kMostLoading characters, initially "", never freed.
void keep_loading_in(char* memory) noexcept;

/// Sets a function that is called before and after each loading of a plugin's code, on the loading
/// thread, so that a monitor can check that loading returns. Null: no function is called.
void tell_of_loading(void (*told)(bool begins)) noexcept;

}  // namespace privgrad::host

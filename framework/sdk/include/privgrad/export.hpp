// The macros that make a symbol visible outside its library.
#pragma once

// Every symbol for plugins must be defined in exactly one place, libprivgrad_sdk.so: PRIVGRAD_API
// marks it. PRIVGRAD_PLUGIN_EXPORT marks the two symbols that a plugin shows to the loader.
#define PRIVGRAD_API [[gnu::visibility("default")]]
#define PRIVGRAD_PLUGIN_EXPORT [[gnu::visibility("default")]]

// The macros that make a symbol visible outside its library.
#pragma once

// Everything a plugin may name must have one home: libprivgrad_sdk.so. PRIVGRAD_API marks such a
// type or function; PRIVGRAD_PLUGIN_EXPORT marks the two symbols a plugin shows to the loader.
#define PRIVGRAD_API [[gnu::visibility("default")]]
#define PRIVGRAD_PLUGIN_EXPORT [[gnu::visibility("default")]]

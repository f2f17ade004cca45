// The version of PrivGrad, and the ABI tag by which the loader recognises compatible plugins.
#pragma once

#include <cstddef>
#include <cstdint>

#define PRIVGRAD_VERSION_MAJOR 0
#define PRIVGRAD_VERSION_MINOR 1
#define PRIVGRAD_VERSION_PATCH 0

#define PRIVGRAD_DETAIL_TEXT(x) #x
#define PRIVGRAD_TEXT(x) PRIVGRAD_DETAIL_TEXT(x)

#if !defined(__clang__) && !defined(__GNUC__)
#error "privgrad plugins need gcc or clang"
#endif

#if defined(_LIBCPP_VERSION)
#define PRIVGRAD_DETAIL_STDLIB "libc++" PRIVGRAD_TEXT(_LIBCPP_VERSION)
#else
#define PRIVGRAD_DETAIL_STDLIB "libstdc++/cxx11=" PRIVGRAD_TEXT(_GLIBCXX_USE_CXX11_ABI)
#endif

// Debug containers change the layout of std::vector and std::map.
#if defined(_GLIBCXX_DEBUG)
#define PRIVGRAD_DETAIL_CHECKS "debug-containers"
#else
#define PRIVGRAD_DETAIL_CHECKS "plain"
#endif

#if defined(__x86_64__)
#define PRIVGRAD_DETAIL_ARCH "x86_64"
#elif defined(__aarch64__)
#define PRIVGRAD_DETAIL_ARCH "aarch64"
#else
#error "add this architecture to the privgrad ABI tag"
#endif

/// Everything on which the framework and a plugin must agree, in readable form. Left out on
/// purpose: the compiler, because gcc and clang follow one ABI for C++ and its library; the release
/// of libstdc++, which is compatible with older releases, and which the dynamic linker checks
/// before any code runs; xtensor, TBB, BLAS, -march and NDEBUG. No sdk header may use such a type
/// or switch, so plugins are free to choose them. Before 1.0, a minor release may break the ABI.
#define PRIVGRAD_ABI_TAG                                                                   \
  "privgrad=" PRIVGRAD_TEXT(PRIVGRAD_VERSION_MAJOR) "." PRIVGRAD_TEXT(                     \
      PRIVGRAD_VERSION_MINOR) ";arch=" PRIVGRAD_DETAIL_ARCH ";std=" PRIVGRAD_DETAIL_STDLIB \
                              ";lib=" PRIVGRAD_DETAIL_CHECKS

namespace privgrad {

/// Stored in the section ".privgrad.abi" of every plugin and read from the file before dlopen, so
/// that no instruction of an incompatible plugin runs. The layout is frozen, except for its end.
struct AbiNote {
  char magic[8] = {'P', 'R', 'V', 'G', 'N', 'O', 'T', '1'};
  std::uint32_t size = sizeof(AbiNote);
  std::uint32_t reserved = 0;
  char abi_tag[176] = {};
  char plugin_name[64] = {};
  char plugin_version[32] = {};
};
static_assert(sizeof(AbiNote) == 288);

template <std::size_t N, std::size_t M>
consteval void copy_text(char (&to)[N], const char (&from)[M]) {
  static_assert(M <= N, "text too long for the plugin note");
  for (std::size_t i = 0; i < M; ++i) to[i] = from[i];
}

template <std::size_t A, std::size_t B, std::size_t C>
consteval AbiNote make_note(const char (&tag)[A], const char (&name)[B], const char (&version)[C]) {
  AbiNote note;
  copy_text(note.abi_tag, tag);
  copy_text(note.plugin_name, name);
  copy_text(note.plugin_version, version);
  return note;
}

}  // namespace privgrad

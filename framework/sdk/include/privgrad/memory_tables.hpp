// How a program that embeds PrivGrad lends its own rows to data sources, under a name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "privgrad/dataset.hpp"
#include "privgrad/export.hpp"

namespace privgrad {

/// Rows held by the program itself, which the data source `memory` finds by name.
struct PRIVGRAD_API MemoryTable {
  Shape features;  ///< Shape of one example's features; every extent > 0.
  /// Row-major, [rows, features...]; bytes mean byte * scale.
  std::variant<std::span<const float>, std::span<const std::uint8_t>> numbers;
  float scale = 1.0f;
  std::span<const float> targets;     ///< [rows]; empty where there are none.
  std::shared_ptr<const void> owner;  ///< Keeps the rows in place and unchanged while it lives.
};

/// Lends rows to the data sources of this process, until take_memory_table(). Manifests name them, and
/// a manifest alone brings none: what is not lent is not there.
/// \throws ConfigError if there is a table of this name: rows are never exchanged under a run.
/// Threads: any.
PRIVGRAD_API void lend_memory_table(const std::string& name, MemoryTable table);

/// Takes a table back; data sources that have found it keep it. \returns whether there was one.
PRIVGRAD_API bool take_memory_table(std::string_view name);

/// \returns the table; nothing if there is none of this name.
PRIVGRAD_API std::optional<MemoryTable> find_memory_table(std::string_view name);

}  // namespace privgrad

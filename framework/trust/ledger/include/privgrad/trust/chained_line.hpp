// Lines of a hash chain, as read from a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace privgrad::core {

struct ChainedLine {
  nlohmann::json json;  ///< The line's members, without its hash.
  std::string hash;
};

/// \param line  without its line end.
/// \param number  the number of the line, counted from 1.
/// \param previous  the hash of the preceding line; "" for the first line.
/// \throws IoError if `line` is not a valid line of a chain; the message names no file or line.
ChainedLine parse_chained_line(std::string_view line, std::uint64_t number,
                               std::string_view previous);

struct ChainedLines {
  std::vector<ChainedLine> lines;
  /// The total length of the complete lines. Any text after them is a truncated line.
  std::size_t whole_bytes = 0;
};

/// Reads and checks a chain.
/// \param name  the file's name, for errors.
/// \throws IoError naming the first invalid line.
ChainedLines read_chain(std::string_view text, const std::string& name);

}  // namespace privgrad::core

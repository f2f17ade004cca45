// Lines of a hash chain, as they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace privgrad::core {

struct ChainedLine {
  nlohmann::json json;  ///< Without its own hash.
  std::string hash;
};

/// \param line  without its line end.
/// \param number  number of the line, from 1 on.
/// \param previous  the hash of the line before it; "" of the first.
/// \throws IoError, without a place, if it is not such a line.
ChainedLine parse_chained_line(std::string_view line, std::uint64_t number,
                               std::string_view previous);

struct ChainedLines {
  std::vector<ChainedLine> lines;
  /// Bytes of the complete lines. The rest of the text was cut off while it was written.
  std::size_t whole_bytes = 0;
};

/// Reads and checks a chain.
/// \param name  the file's name, for errors.
/// \throws IoError naming the first line that does not fit.
ChainedLines read_chain(std::string_view text, const std::string& name);

}  // namespace privgrad::core

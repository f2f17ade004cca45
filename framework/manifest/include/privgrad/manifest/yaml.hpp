// Reads the subset of YAML that manifests use, within limits on size and depth.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/params.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

/// Limits on a YAML text. Manifests are small; anything larger is a mistake or an attack.
inline constexpr std::size_t kMaxYamlBytes = std::size_t{1} << 20;
inline constexpr int kMaxYamlDepth = 64;
inline constexpr std::size_t kMaxYamlNodes = 100'000;

/// Reads one YAML document of the kind used for manifests: objects, lists and scalars.
///
/// Plain scalars follow the core schema of YAML 1.2 (10.3.2): null, true, false, integers, reals
/// ("1e-8", ".5"); `yes`, `no`, `on`, `off` and everything quoted are texts. The following are
/// refused, each with its place: anchors, aliases, merge keys and tags (so no text grows while it
/// is read), a second document, duplicate keys, keys that are not scalars, numbers that do not fit
/// into 64 bits, invalid UTF-8, control characters, and everything beyond the limits above.
///
/// \param problems  out: problems are appended in the order of the text; `where` is the dotted key.
/// \returns the document, usable for further checks even if problems were found; nothing if the
///   text could not be read to its end.
std::optional<Value> parse_yaml(std::string_view text, std::vector<Problem>& problems);

/// Returns the value of a plain (unquoted) scalar.
/// \param problem  out: set if the scalar is a number out of range.
Value plain_scalar(std::string_view text, std::string& problem);

/// Gives a value and everything in it the same place, for values that do not come from a file.
void mark_all(Value& value, Mark mark);

/// A character that is not allowed in a text.
struct BadCharacter {
  Mark mark;         ///< Lines and columns count characters, from 1.
  std::string what;  ///< "is not UTF-8 (byte 0xff)".
};

/// \returns the first byte that is not UTF-8, or the first control character other than tab and
///   line break; nothing if there is neither.
std::optional<BadCharacter> find_bad_character(std::string_view text);

}  // namespace privgrad::core

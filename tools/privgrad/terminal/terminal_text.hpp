// Makes text and JSON safe to show on a terminal, whatever bytes they contain.
#pragma once

#include <string>
#include <string_view>

namespace privgrad::tool {

/// Returns text that has no effect on a terminal except that it is shown: line breaks and tabs
/// stay; '?' replaces control characters (C0, DEL and C1, which begin escape sequences), characters
/// that reorder or hide their neighbours (marks of direction, invisible characters), and bytes that
/// are not UTF-8.
std::string terminal_text(std::string_view text);

/// Returns terminal_text() on one line: each line break or tab becomes a blank.
std::string terminal_line(std::string_view text);

/// Returns the same JSON value, with \uXXXX for each character that terminal_text() replaces.
/// \pre `json` is UTF-8.
std::string terminal_json(std::string_view json);

}  // namespace privgrad::tool

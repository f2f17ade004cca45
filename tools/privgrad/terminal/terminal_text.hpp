// Makes text and JSON safe to show on a terminal, whatever bytes they contain.
#pragma once

#include <string>
#include <string_view>

namespace privgrad::tool {

/// Returns text that a terminal only shows, without any other effect: line breaks and tabs stay;
/// '?' replaces every character that steers a terminal (C0, DEL, C1: escape sequences begin with
/// one of them), every character that reorders or hides its neighbours (marks of direction,
/// invisible characters), and every byte that is not UTF-8.
std::string terminal_text(std::string_view text);

/// Returns terminal_text() on one line: each line break or tab becomes a blank.
std::string terminal_line(std::string_view text);

/// Returns a JSON document with the same value, with those characters of terminal_text() as \uXXXX.
/// \pre `json` is UTF-8.
std::string terminal_json(std::string_view json);

}  // namespace privgrad::tool

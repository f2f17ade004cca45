// Everything a command prints: safe text, JSON, colour, error lines, and formatted numbers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "privgrad/record/short_numbers.hpp"

namespace privgrad::tool {

/// Writes to standard output, and checks that everything was written: a script must either get all
/// of the text or see a failure. Characters that would steer a terminal become '?'
/// (terminal_text()).
/// \throws IoError if anything cannot be written.
void print(std::string_view text);

/// Prints like print(), in colour if colour is wanted.
/// \param colour  the number of the ECMA-48 sequence: "32" is green.
void print_coloured(std::string_view text, std::string_view colour);

/// Prints indented JSON and a line break.
void print_json(const nlohmann::json& document);

/// Writes one line "privgrad: KIND: TEXT" on standard error; KIND is error, warning or note.
/// Characters that would break the line or steer the terminal become '?'.
void complain(std::string_view kind, std::string_view text);

/// From now on, every line of complain() begins with this prefix, such as "process 2 on alpha: " if
/// several processes write.
void speak_as(std::string who);

/// Prints lines that already begin with a position ("FILE:LINE:COLUMN: error: ...") unchanged,
/// together with the table rows below them, which begin with two blanks. Prints any other text as
/// one line with the program's name in front.
void report_failure(std::string_view text);

/// Whether the descriptor is a terminal that understands cursor movement.
bool is_terminal(int descriptor);

/// Whether colour is wanted on this descriptor: a terminal, and NO_COLOR is not set
/// (https://no-color.org).
bool use_colour(int descriptor);

/// Whether the terminal displays UTF-8 according to the user's locale.
bool speaks_utf8();

/// \returns a number with that many digits after the point: "0.5000". \pre |value| < 1e40
std::string fixed_text(double value, int decimals);

/// \returns a time in the format of a clock: "0:07", "12:34", "3:05:00" (hours first).
std::string duration_text(double seconds);

/// \returns a size in decimal units: "512 B", "9.9 MB".
std::string size_text(double bytes);

using core::fixed_bound;
using core::fixed_lower_bound;
using core::short_bound;
using core::short_lower_bound;
using core::short_number;

}  // namespace privgrad::tool

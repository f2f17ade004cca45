// The harness of fuzz targets: the function that each target defines, and helpers for files and
// plugins.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "privgrad/catalog.hpp"

/// The function that each target defines: passes one input to its reader, and checks the reader's
/// promises. May throw privgrad::Error, with which readers refuse an input; any other exception is
/// a finding.
void read_input(std::string_view input);

namespace fuzz {

/// Reports a finding if `holds` is false. \param promise  the broken promise, for the report.
void require(bool holds, const char* promise);

/// A folder for this process only, below TMPDIR.
const std::filesystem::path& scratch_folder();

/// Writes a file of the scratch folder, replacing an earlier one. \param name   may contain
/// subfolders.
std::filesystem::path scratch_file(std::string_view name, std::string_view content);

/// Removes the first byte of the input, by which a target chooses what to do with the rest; 0 if
/// the input is empty.
char take_choice(std::string_view& input);

/// Plugins as users have them: loaded by the host, from the build tree.
const privgrad::Catalog& catalog();

/// Adds to every line of `lines` that ends in "}" the members that a ledger's chain requires (line,
/// previous, hash), so that the code after the check of hashes is reached too.
std::string sealed_ledger(std::string_view lines);

}  // namespace fuzz

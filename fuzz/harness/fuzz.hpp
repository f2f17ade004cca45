// The harness of fuzz targets: the function that each target defines, and helpers for files and
// plugins.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "privgrad/catalog.hpp"

/// Passes (in each target's own definition) one input to its reader, and checks the reader's
/// promises. May throw privgrad::Error, because readers may refuse an input; any other exception is
/// a finding.
void read_input(std::string_view input);

namespace fuzz {

/// Reports a finding if `holds` is false. \param promise  the broken promise, for the report.
void require(bool holds, const char* promise);

/// Returns a folder that only this process uses, below TMPDIR.
const std::filesystem::path& scratch_folder();

/// Writes a file of the scratch folder, replacing an earlier one. \param name   may contain
/// subfolders.
std::filesystem::path scratch_file(std::string_view name, std::string_view content);

/// Removes and returns the first byte of the input, by which a target chooses what to do with the
/// rest; 0 if the input is empty.
char take_choice(std::string_view& input);

/// Returns plugins as users have them: loaded by the host, from the build tree.
const privgrad::Catalog& catalog();

/// Adds to every line of `lines` that ends in "}" the members that a ledger's chain requires (line,
/// previous, hash), so that the code after the check of hashes is also reached.
std::string sealed_ledger(std::string_view lines);

}  // namespace fuzz

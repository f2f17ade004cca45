#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "privgrad/catalog.hpp"

/// What each target defines: gives one input to its reader, and holds the reader to what it
/// promises. May throw privgrad::Error, with which readers refuse an input; whatever else comes out
/// is a finding.
void read_input(std::string_view input);

namespace fuzz {

/// A finding, if `holds` is false. \param promise  what was promised, for whoever reads the report.
void require(bool holds, const char* promise);

/// A folder of this process alone, below TMPDIR.
const std::filesystem::path& scratch_folder();

/// Writes a file of the scratch folder anew. \param name  may lie in subfolders.
std::filesystem::path scratch_file(std::string_view name, std::string_view content);

/// Takes the first byte off the input, by which a target chooses what to do with the rest; 0 if it
/// is empty.
char take_choice(std::string_view& input);

/// Plugins as users get them: loaded by the host, from the build tree.
const privgrad::Catalog& catalog();

/// Gives every line of `lines` that ends in "}" the members that a ledger's chain asks for (line,
/// previous, hash), so that what is behind the hashes is read too.
std::string sealed_ledger(std::string_view lines);

}  // namespace fuzz

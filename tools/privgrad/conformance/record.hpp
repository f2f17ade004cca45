// Records that a plugin passed its examination, where later runs look for such records.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "examination.hpp"

namespace privgrad::tool {

/// Where the record of an examination was written, or why it was not.
struct Recorded {
  std::filesystem::path file;  ///< Empty: none was written.
  std::string why_not;         ///< One line, if none was written.
};

/// Whether all rules held or were skipped, and the component could be made at all.
bool is_examined(const Examined& examined);

/// Records that the plugin passed: beside its file or, if that folder cannot be written, in the
/// user's data folder (host::record_places()). If a rule is broken, removes the records of earlier
/// examinations; if a component was not examined, leaves things as they are.
/// \param is_whole  false: only some rules were checked, which does not count as passing.
/// \throws IoError if there is no place that can be written.
Recorded write_record(const LoadedPlugin& plugin, const std::vector<Examined>& all, bool is_whole);

}  // namespace privgrad::tool

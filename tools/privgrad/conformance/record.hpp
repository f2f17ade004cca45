#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "examination.hpp"

namespace privgrad::tool {

/// What became of the record of an examination.
struct Recorded {
  std::filesystem::path file;  ///< Empty: none was written.
  std::string why_not;         ///< One line, if none was written.
};

/// Whether all rules held or were skipped, and the component could be made at all.
bool is_examined(const Examined& examined);

/// Writes that the plugin passed: beside its file, or where that folder is not ours to write, in
/// the user's data folder (host::record_places()). Where a rule is broken it removes what earlier
/// examinations left; where a component was not examined it leaves things as they are.
/// \param is_whole  false: only some rules were checked, which is nothing to put on record.
/// \throws IoError if there is no place that can be written.
Recorded write_record(const LoadedPlugin& plugin, const std::vector<Examined>& all, bool is_whole);

}  // namespace privgrad::tool

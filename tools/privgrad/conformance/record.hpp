// Records that a plugin passed its examination, in a folder where later runs look for such records.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "examination.hpp"

namespace privgrad::tool {

/// The place of an examination's record, or the reason why there is none.
struct Recorded {
  std::filesystem::path file;  ///< Empty: no record was written.
  std::string why_not;         ///< The reason in one line, if no record was written.
};

/// Whether all rules held or were skipped, and the component could be created.
bool is_examined(const Examined& examined);

/// Records that the plugin passed: beside its file or, if that folder cannot be written, in the
/// user's data folder (host::record_places()). If a rule is broken, the records of earlier
/// examinations are removed; if a component was not examined, nothing changes.
/// \param is_whole  whether all rules were checked; otherwise the plugin has not passed.
/// \throws IoError if no folder for records can be written.
Recorded write_record(const LoadedPlugin& plugin, const std::vector<Examined>& all, bool is_whole);

}  // namespace privgrad::tool

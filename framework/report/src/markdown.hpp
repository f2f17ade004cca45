// The Markdown section of a finished study or an estimate of influence, with its pictures.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace privgrad::report {

struct Picture {
  std::string name;  ///< Such as "scale-train_loss.svg".
  std::string svg;
};

struct MarkdownSection {
  std::string text;
  std::vector<Picture> pictures;
};

/// A file with the results of a study, or with an estimate of influence.
struct Finding {
  std::string name;
  std::filesystem::path file;  ///< results.json, influence.json, or a copy named NAME.json.
  bool is_influence = false;
};

/// The findings in a directory, sorted by name. The directory of a study or an estimate has one
/// finding; any other directory has one for each study, estimate and copy NAME.json in it.
/// \throws ConfigError if there are no findings, or if a study is not finished; IoError.
std::vector<Finding> findings_in(const std::filesystem::path& directory);

/// The section about a finding. Arms are compared with the baseline of their level. If levels are
/// numbers (for example training sizes), the differences are plotted over the levels; otherwise the
/// differences are listed in rows.
/// \param folder  the prefix of links to pictures.
/// \throws IoError if the file is broken.
MarkdownSection markdown_section(const Finding& finding, const std::string& folder);

}  // namespace privgrad::report

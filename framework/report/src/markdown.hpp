// The Markdown section of a finished study or an estimate of influence, with its pictures.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace privgrad::report {

/// A picture of a Markdown page.
struct Picture {
  std::string name;  ///< "scale-train_loss.svg".
  std::string svg;
};

/// A part of a Markdown page.
struct MarkdownSection {
  std::string text;
  std::vector<Picture> pictures;
};

/// The results of a study, or an estimate of influence, as a file.
struct Finding {
  std::string name;
  std::filesystem::path file;  ///< results.json, influence.json, or a copy named NAME.json.
  bool is_influence = false;
};

/// The findings in a directory, by name: the directory itself or, if it is neither a study nor an
/// estimate, the studies and estimates in it, and copies NAME.json of their results.
/// \throws ConfigError if there are no findings, or if a study is not finished; IoError.
std::vector<Finding> findings_in(const std::filesystem::path& directory);

/// The section of a page. Arms are compared with the baseline of their level. If levels are numbers
/// (for example training sizes), the differences are plotted over the levels; otherwise they are
/// listed in rows.
/// \param folder  the prefix of links to pictures.
/// \throws IoError if the file is broken.
MarkdownSection markdown_section(const Finding& finding, const std::string& folder);

}  // namespace privgrad::report

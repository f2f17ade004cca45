// The Markdown section of one finished study or one estimate of influence, with its pictures.
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

/// The section of a finished study, or of an estimate of influence.
/// Where an axis of a study has numbers as its values (training sizes, say), arms are compared with
/// the one that has the same numbers and the baseline's place on the other axes, seed by seed, and
/// drawn over the numbers.
/// \param folder  the prefix of links to pictures.
/// \throws ConfigError if it is neither, or the study is not finished; IoError if its files are
///   broken.
MarkdownSection markdown_section(const std::filesystem::path& directory, const std::string& folder);

}  // namespace privgrad::report

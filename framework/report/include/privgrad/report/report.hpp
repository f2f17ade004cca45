// Makes the HTML page, the figures, the privacy statement and the Markdown page of a run or a study.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace privgrad::report {

/// The page of a run or a study: one HTML document that holds everything it needs and asks the
/// network for nothing.
///
/// Shows the directory's record, also for a run that was cut off; reads nothing else. All texts of
/// the record are taken for hostile. Privacy: as private as the record, which in release mode holds
/// released and public values only.
/// \throws ConfigError if the directory holds neither a run nor a study.
/// \throws IoError "FILE:LINE: what is wrong" if the record cannot be read or is broken.
std::string page(const std::filesystem::path& directory);

/// The privacy statement of a run as text for a terminal.
/// \throws as page(), and ConfigError for a study, or a run without a statement.
std::string statement(const std::filesystem::path& directory);

/// Writes the page as report.html into the directory, whole or not at all.
/// \throws as page().
void write_report(const std::filesystem::path& directory);

/// Writes the charts of the page as SVG files, one a chart, named by its title
/// ("noise-multiplier.svg"); files of these names are replaced, others stay. The pictures run no
/// scripts and have a white background, for papers.
/// \returns the files.
/// \throws as page(); ConfigError if there is nothing to draw; IoError if gnuplot is missing.
std::vector<std::filesystem::path> write_figures(const std::filesystem::path& directory,
                                                 const std::filesystem::path& folder);

/// Writes a Markdown page with tables, and charts as SVG files beside it, in a folder of the page's
/// name without its extension.
/// \param directory  a finished study, an estimate of influence, or a folder of such, or of copies
///   of their results.json and influence.json as NAME.json: a section for each, in order of their
///   names.
/// \throws as page(), and ConfigError for an unfinished study.
void write_markdown(const std::filesystem::path& directory, const std::filesystem::path& file);

}  // namespace privgrad::report

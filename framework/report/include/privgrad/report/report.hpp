// Makes the HTML page, the figures, the privacy statement and the Markdown page of a run or a
// study.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace privgrad::report {

/// The page of a run or a study: one self-contained HTML document that makes no network requests.
///
/// Shows the directory's record, even for an interrupted run; reads nothing else. All texts of the
/// record are treated as hostile. Privacy: as private as the record, which in release mode contains
/// only released and public values.
/// \throws ConfigError if the directory contains neither a run nor a study.
/// \throws IoError "FILE:LINE: what is wrong" if the record cannot be read or is broken.
std::string page(const std::filesystem::path& directory);

/// The privacy statement of a run as text for a terminal.
/// \throws as page(), and ConfigError for a study, or a run without a statement.
std::string statement(const std::filesystem::path& directory);

/// Writes the page atomically as report.html into the directory.
/// \throws as page().
void write_report(const std::filesystem::path& directory);

/// Writes the charts of the page as SVG files, one per chart, named by its title
/// ("noise-multiplier.svg"); files of these names are replaced. The pictures run no scripts and
/// have a white background, for papers.
/// \returns the files.
/// \throws as page(); ConfigError if there is nothing to draw; IoError if gnuplot is missing.
std::vector<std::filesystem::path> write_figures(const std::filesystem::path& directory,
                                                 const std::filesystem::path& folder);

/// Writes a Markdown page with tables, and charts as SVG files in a folder beside it with the
/// page's name without its extension.
/// \param directory  a finished study, an estimate of influence, or a folder that contains several
///   of these, or copies of their results.json and influence.json as NAME.json: a section for each,
///   sorted by name.
/// \throws as page(), and ConfigError for an unfinished study.
void write_markdown(const std::filesystem::path& directory, const std::filesystem::path& file);

}  // namespace privgrad::report

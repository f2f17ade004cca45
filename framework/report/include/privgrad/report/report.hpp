// Makes the HTML page, the figures, the privacy statement and the Markdown page of a run or a
// study.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace privgrad::report {

/// Returns the page of a run or a study: a self-contained HTML document without network requests.
///
/// Shows the files of the directory, even of an interrupted run, and reads nothing else. All texts
/// in these files are treated as hostile. Privacy: as private as these files, which in release mode
/// contain only released and public values.
/// \throws ConfigError if the directory contains neither a run nor a study.
/// \throws IoError "FILE:LINE: what is wrong" if a file cannot be read or is broken.
std::string page(const std::filesystem::path& directory);

/// Returns the privacy statement of a run, with the result of its audit. If the record contradicts
/// its ledgers, the form "text" begins with a warning, and the other forms are refused.
/// \param form  "text" for a terminal; "json": statement.json with an `audit`; "registry": an entry
///   of the public registry of deployments, in YAML (registry_entry() in src).
/// \throws IoError like page(), or if the record contradicts its ledgers and the form is not
///   "text"; ConfigError for an unknown form, a study, a run without a statement and, if the form
///   is "registry", a run without a finite epsilon.
std::string statement(const std::filesystem::path& directory, const std::string& form);

/// Returns the results of a finished study as a table for a paper (paper_table() in src).
/// \param form  "latex", "markdown" or "csv".
/// \throws ConfigError for an unknown form, or a directory without a finished study; IoError.
std::string table(const std::filesystem::path& directory, const std::string& form);

/// Writes the page atomically as report.html into the directory.
/// \throws as page().
void write_report(const std::filesystem::path& directory);

/// The files of a page's charts.
struct Figures {
  std::vector<std::filesystem::path> files;
  bool has_pdf = true;  ///< Whether rsvg-convert, which makes the PDFs, is installed.
};

/// Writes each chart of the page as SVG, PDF and CSV, named by the chart's title
/// ("noise-multiplier.svg"); files with these names are replaced, other files are kept. The
/// pictures have the width of a column, a white background and no scripts.
/// \throws as page(); ConfigError if there is nothing to draw; IoError.
Figures write_figures(const std::filesystem::path& directory, const std::filesystem::path& folder);

/// Writes a Markdown page with tables to `file`. Writes the page's charts as SVG files to the
/// folder with the path of `file` without its extension.
/// \param directory  a finished study, an estimate of influence, or a folder that contains several
///   of these, or copies NAME.json of their results.json and influence.json. The page has a section
///   for each, sorted by name.
/// \throws IoError like page(); ConfigError if a study is not finished, or if there is neither a
///   study nor an estimate.
void write_markdown(const std::filesystem::path& directory, const std::filesystem::path& file);

}  // namespace privgrad::report

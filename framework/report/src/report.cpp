#include "privgrad/report/report.hpp"

#include <algorithm>
#include <map>
#include <system_error>
#include <vector>

#include "audit_words.hpp"
#include "influence_page.hpp"
#include "markdown.hpp"
#include "paper_table.hpp"
#include "paragraphs.hpp"
#include "pdf.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/files.hpp"
#include "record.hpp"
#include "registry.hpp"
#include "run_page.hpp"
#include "study_page.hpp"
#include "svg_chart.hpp"

namespace privgrad::report {

namespace fs = std::filesystem;

namespace {

void check_directory(const fs::path& directory) {
  std::error_code failure;
  if (!fs::is_directory(directory, failure))
    throw IoError(directory.string() + ": is not a readable directory");
}

Page page_of(const fs::path& directory) {
  check_directory(directory);
  if (is_influence(directory)) return influence_page(directory);
  if (is_study(directory)) return study_page(directory);
  if (is_run(directory)) return run_page(read_run(directory));
  throw ConfigError(directory.string() +
                    ": holds neither a run (manifest.yaml and metrics.jsonl) nor a study "
                    "(study.json)");
}

/// Turns a title into a file name: "noise-multiplier" for "Noise multiplier".
std::string file_name(const std::string& title) {
  constexpr std::size_t kLongest = 80;
  std::string name;
  for (const char c : title) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (is_plain || (c >= 'A' && c <= 'Z')) {
      name += static_cast<char>(is_plain ? c : c - 'A' + 'a');
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  name.resize(std::min(name.size(), kLongest));
  while (name.ends_with('-')) name.pop_back();
  return name;
}

}  // namespace

std::string page(const fs::path& directory) { return page_of(directory).html; }

Figures write_figures(const fs::path& directory, const fs::path& folder) {
  std::map<std::string, const Chart*> figures;
  const Page page = page_of(directory);
  for (const Chart& chart : page.charts.drawn()) {
    const std::string name = file_name(chart.title);
    std::string unique = name;
    for (int next = 2; figures.contains(unique); ++next) unique = name + "-" + std::to_string(next);
    figures.emplace(unique, &chart);
  }
  if (figures.empty()) throw ConfigError(directory.string() + ": there is nothing to draw yet");
  core::make_directories(folder);
  Figures written;
  for (const auto& figure : figures) {
    const auto file = [&](const char* extension) { return folder / (figure.first + extension); };
    core::write_atomically(file(".csv"), csv(*figure.second));
    core::write_atomically(file(".svg"), svg_chart(*figure.second, Place::file));
    written.files.insert(written.files.end(), {file(".csv"), file(".svg")});
    written.has_pdf = written.has_pdf && write_pdf(file(".svg"), file(".pdf"));
    if (written.has_pdf) written.files.push_back(file(".pdf"));
  }
  return written;
}

std::string statement(const fs::path& directory, const std::string& form) {
  if (form != "text" && form != "json" && form != "registry")
    throw ConfigError("a statement is text, json or registry, not '" + form + "'");
  check_directory(directory);
  std::error_code failure;
  const fs::path file = directory / "statement.json";
  if (!fs::exists(file, failure)) {
    throw ConfigError(directory.string() + ": holds no statement.json; only runs leave one");
  }
  RunRecord record;
  record.directory = directory;
  record.statement = read_facts<core::Statement>(file);
  read_bindings(record);
  const auto audit = read_audit(record);
  const std::string doubt =
      record.problems.empty()
          ? ""
          : "This record does not verify. " + record.problems.front() +
                ". Do not rely on what this statement says: see privgrad verify.";
  if (form != "text" && !doubt.empty()) throw IoError(directory.string() + ": " + doubt);
  if (form == "registry") return registry_entry(*record.statement, file.string(), audit);
  if (form == "json") {
    nlohmann::json statement = read_object(file);
    if (audit) statement["audit"] = read_object(directory / "audit.json");
    return statement.dump(2) + "\n";
  }
  std::vector<std::string> paragraphs = record.statement->prose;
  if (paragraphs.empty()) throw IoError(file.string() + ": holds no 'prose'");
  if (audit) paragraphs.push_back(audit_paragraph(*audit));
  if (!doubt.empty()) paragraphs.insert(paragraphs.begin(), doubt);
  return wrapped_paragraphs(paragraphs);
}

std::string table(const fs::path& directory, const std::string& form) {
  static const std::map<std::string, TableForm> forms{
      {"latex", TableForm::latex}, {"markdown", TableForm::markdown}, {"csv", TableForm::csv}};
  const auto found = forms.find(form);
  if (found == forms.end())
    throw ConfigError("a table is latex, markdown or csv, not '" + form + "'");
  if (!is_study(directory)) throw ConfigError(directory.string() + ": holds no study");
  return paper_table(directory, found->second);
}

void write_report(const fs::path& directory) {
  core::write_atomically(directory / "report.html", page(directory));
}

void write_markdown(const fs::path& directory, const fs::path& file) {
  check_directory(directory);
  const std::string folder = file.stem().string();
  std::string text;
  std::vector<Picture> pictures;
  for (const Finding& finding : findings_in(directory)) {
    MarkdownSection section = markdown_section(finding, folder);
    text += section.text;
    for (Picture& picture : section.pictures) pictures.push_back(std::move(picture));
  }
  core::make_directories(file.parent_path() / folder);
  for (const Picture& picture : pictures)
    core::write_atomically(file.parent_path() / folder / picture.name, picture.svg);
  core::write_atomically(file, text);
}

}  // namespace privgrad::report

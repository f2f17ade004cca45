#include "privgrad/report/report.hpp"

#include "privgrad/core/files.hpp"
#include "privgrad/core/statement.hpp"
#include "privgrad/error.hpp"
#include "record.hpp"
#include "run_page.hpp"
#include "study_page.hpp"

namespace privgrad::report {

namespace fs = std::filesystem;

std::string page(const fs::path& directory) {
  std::error_code failure;
  if (!fs::is_directory(directory, failure)) {
    throw IoError(directory.string() + ": is no directory that can be read");
  }
  if (is_study(directory)) return study_page(directory);
  if (is_run(directory)) return run_page(read_run(directory));
  throw ConfigError(directory.string() +
                    ": holds neither a run (manifest.yaml and metrics.jsonl) nor a study "
                    "(study.json)");
}

std::string statement(const fs::path& directory) {
  std::error_code failure;
  if (!fs::is_directory(directory, failure)) {
    throw IoError(directory.string() + ": is no directory that can be read");
  }
  const fs::path file = directory / "statement.json";
  if (!fs::exists(file, failure)) {
    throw ConfigError(directory.string() + ": holds no statement.json; only runs leave one");
  }
  const nlohmann::json statement = read_object(file);
  std::vector<std::string> paragraphs = texts(statement, "prose", file.string());
  if (paragraphs.empty()) throw IoError(file.string() + ": holds no 'prose'");
  return core::wrapped_paragraphs(paragraphs);
}

void write_report(const fs::path& directory) {
  core::write_atomically(directory / "report.html", page(directory));
}

}  // namespace privgrad::report

// The files of a run, a study or an estimate of influence, read to make the page and the statement.
// An input contains several files:
//
//   ==== summary.json
//   {"status": "completed"}
//   ==== ledger.jsonl
//   {"type": "open"}
//
// Ledgers are sealed, so that a fuzzer gets past their hashes.
#include "privgrad/report/report.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

#include "harness/fuzz.hpp"
#include "privgrad/error.hpp"
#include "privgrad/record/evidence.hpp"
#include "privgrad/record/signature.hpp"

namespace {
namespace fs = std::filesystem;

constexpr std::array<std::string_view, 18> kFiles{"manifest.yaml",
                                                  "facts.json",
                                                  "signature.json",
                                                  "privgrad.lock",
                                                  "summary.json",
                                                  "statement.json",
                                                  "schedules.json",
                                                  "metrics.jsonl",
                                                  "ledger.jsonl",
                                                  "rounds.jsonl",
                                                  "clients.json",
                                                  "ledgers/client-0.jsonl",
                                                  "study.json",
                                                  "results.json",
                                                  "influence.json",
                                                  "runs/a/seed-1/manifest.yaml",
                                                  "runs/a/seed-1/metrics.jsonl",
                                                  "runs/a/seed-1/summary.json"};

/// Removes the first section of the input. \returns its name and its content.
std::pair<std::string_view, std::string_view> take_section(std::string_view& input) {
  constexpr std::string_view kMark = "==== ";
  const std::size_t name_end = std::min(input.find('\n'), input.size());
  const std::string_view line = input.substr(0, name_end);
  input.remove_prefix(std::min(name_end + 1, input.size()));
  const std::size_t next = input.starts_with(kMark) ? 0 : input.find("\n==== ");
  const std::size_t end = next == input.npos         ? input.size()
                          : input.starts_with(kMark) ? 0
                                                     : next + 1;
  const std::string_view content = input.substr(0, end);
  input.remove_prefix(end);
  return {line.starts_with(kMark) ? line.substr(kMark.size()) : "", content};
}

fs::path record_of(std::string_view input) {
  fs::path directory = fuzz::scratch_folder() / "record";
  fs::remove_all(directory);
  fs::create_directories(directory);
  while (!input.empty()) {
    const auto [name, content] = take_section(input);
    if (std::find(kFiles.begin(), kFiles.end(), name) == kFiles.end()) continue;
    const bool is_ledger = name.starts_with("ledger");
    fuzz::scratch_file("record/" + std::string(name),
                       is_ledger ? fuzz::sealed_ledger(content) : std::string(content));
  }
  return directory;
}

}  // namespace

void read_input(std::string_view input) {
  const fs::path directory = record_of(input);
  const auto evidence = privgrad::core::read_evidence(privgrad::core::RecordDirectory(directory));
  if (fs::exists(directory / "signature.json")) {
    std::ifstream signature(directory / "signature.json", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(signature), {}};
    fuzz::require(
        !privgrad::core::signer_of(privgrad::core::Signed::run_record, evidence.seals(), text),
        "nobody signed an input");
  }
  fuzz::require(!privgrad::report::page(directory).empty(), "a record that is read has a page");
  if (!fs::exists(directory / "statement.json")) return;
  privgrad::report::statement(directory, "text");
  for (const char* form : {"json", "registry"}) {
    try {
      privgrad::report::statement(directory, form);
    } catch (const privgrad::Error&) {  // from a record that does not verify
    }
  }
}

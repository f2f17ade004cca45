// The pages of experiments agree with the results stored beside them.
#include <set>

#include "page.hpp"
#include "privgrad/digest/sha256.hpp"

namespace fs = std::filesystem;

namespace {

const fs::path kPages = kSource / "docs/experiments";
const std::string kLine =
    "<!-- Below, scripts/study-page.sh writes what the studies found. Above, a person does. "
    "-->\n\n";

std::set<fs::path> copies_of(const fs::path& page) {
  std::set<fs::path> copies;
  const fs::path folder = kPages / page.stem();
  if (!fs::exists(folder)) return copies;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") copies.insert(entry.path());
  }
  return copies;
}

}  // namespace

TEST_CASE("the tables of a page of experiments are those of the results beside it") {
  const Cli cli;
  std::size_t compared = 0;
  for (const auto& entry : fs::directory_iterator(kPages)) {
    const std::string text = entry.path().extension() == ".md" ? read_file(entry.path()) : "";
    const std::size_t line = text.find(kLine);
    if (line == text.npos || copies_of(entry.path()).empty()) continue;
    const std::string name = entry.path().filename().string();
    CAPTURE(name);
    const Outcome outcome =
        cli({"report", (kPages / entry.path().stem()).string(), "--markdown", name});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(text.substr(line + kLine.size()) == read_file(cli.out(name)));
    ++compared;
  }
  CHECK(compared > 0);
}

TEST_CASE("every run of a study on a page is in its CSV") {
  for (const auto& entry : fs::directory_iterator(kPages)) {
    for (const fs::path& copy : copies_of(entry.path())) {
      const Json results = Json::parse(read_file(copy));
      if (!results.contains("arms")) continue;  // An estimate of influence.
      CAPTURE(copy.string());
      CHECK(results.at("commit").get<std::string>().size() == 40);
      fs::path csv = copy;
      const std::string lines = read_file(csv.replace_extension(".csv"));
      const std::size_t runs = results.at("arms").size() * results.at("seeds").size();
      CHECK(line_count(lines) == runs + 1);
      const fs::path study =
          kSource / "examples/studies" / copy.parent_path().filename() / copy.filename();
      // The study has not changed since; otherwise the page would describe results that nobody
      // produced.
      CHECK(results.at("study_sha256") ==
            privgrad::core::sha256_hex(read_file(fs::path(study).replace_extension(".yaml"))));
    }
  }
}

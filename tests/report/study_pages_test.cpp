// The pages of experiments agree with the results stored beside them.
#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

#include "page.hpp"
#include "privgrad/digest/sha256.hpp"

namespace fs = std::filesystem;

namespace {

const fs::path kPages = kSource / "docs/experiments/studies";
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

/// Returns the anchors of a page's headings, as the site and repositories make them.
std::set<std::string> anchors_of(const std::string& page) {
  std::set<std::string> anchors;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of('#');
    if (begin == 0 || begin == line.npos || line[begin] != ' ') continue;
    std::string anchor;
    for (const char c : line.substr(begin + 1)) {
      const auto letter = static_cast<unsigned char>(c);
      if (std::isalnum(letter) || c == '-') anchor += static_cast<char>(std::tolower(letter));
      if (c == ' ') anchor += '-';
    }
    anchors.insert(anchor);
  }
  return anchors;
}

}  // namespace

TEST_CASE("tables and figures of a page of experiments are those of the results beside it") {
  const Cli cli;
  std::size_t compared = 0, figures = 0;
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
    for (const auto& figure : fs::directory_iterator(cli.out(entry.path().stem()))) {
      CAPTURE(figure.path().string());
      const fs::path copy = kPages / entry.path().stem() / figure.path().filename();
      REQUIRE(fs::exists(copy));
      CHECK((read_file(copy) == read_file(figure.path())));
      ++figures;
    }
    ++compared;
  }
  CHECK(compared > 0);
  CHECK(figures > 0);
}

TEST_CASE("README has its figure of the trees from the study") {
  const Json results = Json::parse(read_file(kPages / "improvements/trees.json"));
  const auto accuracy = [&](const std::string& name) {
    for (const Json& arm : results.at("arms")) {
      if (arm.at("name") != name) continue;
      std::ostringstream text;
      text.precision(2);
      text << std::fixed << arm.at("metrics").at("test_accuracy").at("mean").get<double>();
      return text.str();
    }
    return std::string("no such arm");
  };
  std::string readme = read_file(kSource / "README.md");
  std::replace(readme.begin(), readme.end(), '\n', ' ');
  CHECK_THAT(readme, ContainsSubstring("At epsilon 1, exact accounting lifts the accuracy of Tran "
                                       "and Cutkosky's trees from " +
                                       accuracy("1+printed") + " to " + accuracy("1+exact")));
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
      // The study has not changed since its runs; otherwise the page would describe results that
      // nobody produced.
      CHECK(results.at("study_sha256") ==
            privgrad::core::sha256_hex(read_file(fs::path(study).replace_extension(".yaml"))));
    }
  }
}

TEST_CASE("each of the papers' 150 rows has a verdict, and a place that exists") {
  std::istringstream lines(read_file(kSource / "docs/experiments/rows.csv"));
  std::string line;
  std::getline(lines, line);
  REQUIRE(line == "row,what,verdict,place");
  std::set<std::string> rows;
  const std::set<std::string> verdicts{"whole", "part", "missing", "an error"};
  while (std::getline(lines, line)) {
    CAPTURE(line);
    const std::size_t place = line.rfind(','), verdict = line.rfind(',', place - 1);
    REQUIRE(verdict != line.npos);
    rows.insert(line.substr(0, line.find(',')));
    CHECK(verdicts.contains(line.substr(verdict + 1, place - verdict - 1)));
    const std::string target = line.substr(place + 1);
    const std::size_t anchor = target.find('#');
    const fs::path page = kSource / target.substr(0, anchor);
    REQUIRE(fs::is_regular_file(page));
    if (anchor != target.npos)
      CHECK(anchors_of(read_file(page)).contains(target.substr(anchor + 1)));
  }
  CHECK(rows.size() == 150);
}

// Manual pages have the text of --help, in roff.
#include <set>
#include <sstream>

#include "cli.hpp"

TEST_CASE("man writes a page for each command, with its options") {
  const Cli cli;
  const Outcome outcome = cli({"man", "pages"});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == "");
  const std::string run = read_file(cli.out("pages/privgrad-run.1"));
  CHECK(run.starts_with(".TH PRIVGRAD\\-RUN 1 "));
  CHECK_THAT(run, ContainsSubstring("\n.SH NAME\nprivgrad\\-run \\- ") &&
                      ContainsSubstring("\n.SH SYNOPSIS\nprivgrad run MANIFEST [OPTION]...\n"));
  // Every option of the help has a paragraph.
  const std::string help = cli({"run", "--help"}).out;
  for (const std::string option : {"--out", "--set", "--threads", "--help"}) {
    INFO(option);
    REQUIRE(help.find(option) != std::string::npos);
    CHECK_THAT(run, ContainsSubstring("\n.B \\-\\-" + option.substr(2)));
  }
  CHECK_THAT(read_file(cli.out("pages/privgrad.1")),
             ContainsSubstring("\n.BR privgrad\\-plugins\\-list (1)\n"));
}

TEST_CASE("no line of a manual page is taken for a request that it is not") {
  const Cli cli;
  REQUIRE(cli({"man", "pages"}).exit_code == 0);
  const std::set<std::string> known{".TH", ".SH", ".TP", ".B", ".BR", ".PP", ".nf", ".fi"};
  std::size_t pages = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cli.out("pages"))) {
    INFO(entry.path().filename().string());
    ++pages;
    std::istringstream lines(read_file(entry.path()));
    for (std::string line; std::getline(lines, line);) {
      CHECK_FALSE(line.starts_with('\''));
      if (line.starts_with('.')) CHECK(known.contains(line.substr(0, line.find(' '))));
    }
  }
  CHECK(pages > 20);
}

TEST_CASE("man refuses a folder that cannot be made, in one line") {
  const Cli cli;
  check_one_error_line(cli({"man", "small.yaml/pages"}), 4);
}

// Standard streams that the parent process has closed.
#include "cli.hpp"

namespace fs = std::filesystem;

namespace {

/// Runs `privgrad WORDS` in a shell that closes streams according to REDIRECTIONS.
Outcome in_shell(const Cli& cli, const std::string& words, const std::string& redirections) {
  Call call = cli.prepare({});
  call.words = {"/bin/sh", "-c",
                std::string("exec ") + kProgram + " " + words + " " + redirections};
  return ::call(call);
}

/// Checks that every line of the file is one JSON object.
void check_lines(const fs::path& file, std::size_t lines) {
  const std::string text = read_file(file);
  INFO(file.filename().string() << ":\n" << text);
  CHECK(line_count(text) == lines);
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) CHECK(Json::accept(line));
}

}  // namespace

TEST_CASE("with a standard stream closed, nothing that is printed lands in a file of the run") {
  const Cli cli;
  struct Case {
    const char* name;
    const char* redirections;
    int exit_code;  // 4: the output could not be written
  };
  for (const auto& [name, redirections, exit_code] :
       {Case{"no-input", "<&-", 0}, Case{"no-error", "2>&-", 0}, Case{"no-output", ">&-", 4},
        Case{"no-output-and-error", ">&- 2>&-", 4}, Case{"nothing", "<&- >&- 2>&-", 4}}) {
    const Outcome outcome =
        in_shell(cli, std::string("run small.yaml --out ") + name, redirections);
    INFO(redirections << "\n" << outcome.out << outcome.err);
    CHECK(outcome.exit_code == exit_code);
    check_lines(cli.out(name) / "ledger.jsonl", 14);  // open, 12 releases, close
    check_lines(cli.out(name) / "metrics.jsonl", 4);
    CHECK(Json::accept(read_file(cli.out(name) / "summary.json")));
  }
}

TEST_CASE("what cannot be read or written because its stream is closed is said") {
  const Cli cli;
  const Outcome outcome = in_shell(cli, "account --accountant zcdp --event - --delta 1e-5", "<&-");
  check_one_error_line(outcome, 4);
  CHECK_THAT(outcome.err, ContainsSubstring("standard input"));
  const Outcome help = in_shell(cli, "--help", ">&-");
  check_one_error_line(help, 4);
  CHECK_THAT(help.err, ContainsSubstring("standard output"));
}

TEST_CASE("programs beside the command take closed streams as well") {
  const Cli cli;
  const std::string plugin = (kPlugins / "schedules/constant.privgrad.so").string();
  check_one_error_line(in_shell(cli, "plugins test " + plugin, ">&-"), 4);
  CHECK(in_shell(cli, "plugins test " + plugin, "2>&-").exit_code == 0);
}

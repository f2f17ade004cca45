#include <sstream>

#include "cli.hpp"

namespace fs = std::filesystem;

namespace {

constexpr const char* kZsh = "/usr/bin/zsh";

/// The sorted completions that a shell offers for the last of these words.
class Completer {
 public:
  Completer() {
    fs::create_directory(cli_.out("folder"));
    for (const char* shell : {"bash", "zsh"}) {
      const Outcome script = cli_({"completion", shell});
      REQUIRE(script.exit_code == 0);
      write_file(cli_.out(shell), script.out);
    }
  }

  /// Returns the call as bash makes it: COMP_WORDS, COMP_CWORD, and the answer in COMPREPLY.
  Words bash(const Words& line) const {
    return sorted(shell("/bin/bash",
                        "source ./bash; COMP_WORDS=(privgrad \"$@\"); COMP_CWORD=$#; "
                        "_privgrad \"$0\"; printf '%s\\n' \"${COMPREPLY[@]}\"",
                        line));
  }

  /// compadd and _files of zsh's completion system are replaced by functions that print, because a
  /// test has no line editor.
  Words zsh(const Words& line) const {
    return sorted(shell(kZsh,
                        "compdef() { }; compadd() { shift; local w; for w in \"$@\"; do "
                        "[[ $w == ${words[CURRENT]}* ]] && print -r -- $w; done }; "
                        "_files() { if [[ $1 == -/ ]]; then print folder; else print -l "
                        "${words[CURRENT]}*(N); fi }; source ./zsh; "
                        "words=(\"$0\" \"$@\"); CURRENT=$#words; _privgrad",
                        line));
  }

 private:
  std::string shell(const std::string& program, const std::string& script,
                    const Words& line) const {
    Call what{.words = {program, "-c", script, kProgram}, .directory = cli_.dir()};
    if (program == kZsh) what.words.insert(what.words.begin() + 1, "-f");
    what.words.insert(what.words.end(), line.begin(), line.end());
    const Outcome outcome = call(what);
    INFO(outcome.err);
    CHECK(outcome.err == "");
    return outcome.out;
  }

  static Words sorted(const std::string& text) {
    Words words;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) words.push_back(line);
    }
    std::sort(words.begin(), words.end());
    return words;
  }

  Cli cli_;
};

struct Case {
  Words line;
  Words offered;
};

const Case kCases[] = {
    {{"pl"}, {"plan", "plugins"}},
    {{"plugins", "de"}, {"describe"}},
    {{"data", ""}, {"describe", "fetch", "list"}},
    {{"data", "fetch", ""}, {"cifar10", "fashion-mnist", "mnist"}},
    {{"data", "fetch", "--timeout", "30", "fa"}, {"fashion-mnist"}},
    {{"completion", ""}, {"bash", "zsh"}},
    {{"plugins", "describe", "optimizer/mom"}, {"optimizer/momentum"}},
    {{"account", "--accountant", "z"}, {"zcdp"}},
    {{"account", "--adjacency", "r"}, {"replace_one"}},
    {{"plugins", "new", "o"}, {"optimizer"}},
    {{"plugins", "new", "suite", "schedule", "o"}, {"optimizer"}},
    {{"run", "--qu"}, {"--quiet"}},
    {{"run", "-q", "sm"}, {"small.yaml"}},
    {{"run", "--set", "a=b", "sm"}, {"small.yaml"}},
    {{"run", "--out", "f"}, {"folder"}},
    {{"run", "--threads", "s"}, {}},
    {{"run", "small.yaml", "sm"}, {}},  // run takes one manifest
    {{"--pre"}, {"--prefix"}},
    {{"no-such-command", ""}, {}},
};

}  // namespace

TEST_CASE("bash completes commands, options, components, data sets and files") {
  const Completer completer;
  for (const Case& one : kCases) {
    INFO(one.line.back() << " after " << one.line.front());
    CHECK(completer.bash(one.line) == one.offered);
  }
  // bash splits --accountant=z into three words.
  CHECK(completer.bash({"account", "--accountant", "=", "z"}) == Words{"zcdp"});
  CHECK(completer.bash({"account", "--accountant", "=", "zcdp", "--adjac"}) ==
        Words{"--adjacency"});
}

TEST_CASE("zsh completes the same") {
  if (!fs::exists(kZsh)) {
    WARN("SKIPPED: there is no zsh");
    return;
  }
  const Completer completer;
  for (const Case& one : kCases) {
    INFO(one.line.back() << " after " << one.line.front());
    CHECK(completer.zsh(one.line) == one.offered);
  }
}

TEST_CASE("every option of a command is offered, and no other") {
  const Cli cli;
  const Completer completer;
  const Words commands[] = {{"run"},       {"plan"},          {"verify"},
                            {"validate"},  {"data", "fetch"}, {"plugins", "test"},
                            {"calibrate"}, {"predict"},       {"evaluate"},
                            {"export"}};
  for (Words line : commands) {
    Words help_line = line;
    help_line.push_back("--help");
    const std::string help = cli(help_line).out;
    line.push_back("--");
    for (const std::string& option : completer.bash(line)) {
      CHECK_THAT(help, ContainsSubstring(option));
    }
    // Each line of the options begins with one of them.
    std::istringstream lines(help.substr(help.find("\noptions:\n") + 10));
    std::size_t options = 0;
    for (std::string text; std::getline(lines, text) && text.starts_with("  ");) {
      if (text.starts_with("  -")) ++options;
    }
    CHECK(completer.bash(line).size() == options);
  }
}

TEST_CASE("a shell that there are no completions for is a wrong call") {
  const Cli cli;
  check_one_error_line(cli({"completion", "fish"}), 2);
}

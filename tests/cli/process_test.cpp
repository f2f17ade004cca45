// Tests of how tests wait for the programs that they start.
#include "cli.hpp"
#include "shared_files.hpp"

using namespace std::chrono_literals;

namespace {

Call shell(const std::string& script, bool terminal = false) {
  return {.words = {"/bin/sh", "-c", script}, .terminal = terminal};
}

/// Returns the message about a program that does not end.
std::string words_of_failure(Process& process) {
  try {
    process.finish(500ms);
  } catch (const std::runtime_error& problem) {
    return problem.what();
  }
  return "";
}

/// Whether a process with this number is still running; a process that nobody waits for stays in
/// the list of processes.
bool is_alive(const std::string& number) {
  const std::string status = read_file("/proc/" + number + "/stat");
  const std::size_t name_ends = status.rfind(')');
  return name_ends != status.npos && status.at(name_ends + 2) != 'Z';
}

}  // namespace

TEST_CASE("a program that does not end is ended, and the test has what it said") {
  const bool terminal = GENERATE(false, true);
  CAPTURE(terminal);
  const auto begun = std::chrono::steady_clock::now();
  Process process(shell("echo to output; echo to error >&2; exec sleep 1000", terminal));
  REQUIRE(process.says("to error"));
  const std::string words = words_of_failure(process);
  CHECK(std::chrono::steady_clock::now() - begun < 60s);
  CHECK_THAT(words, ContainsSubstring("/bin/sh -c echo to output") &&
                        ContainsSubstring("not ended after ") &&
                        ContainsSubstring("standard output:\nto output\n") &&
                        ContainsSubstring("standard error:\nto error"));
}

TEST_CASE("so is what the program has started") {
  const TempDir dir;
  const std::string file = dir.path() / "number";
  Process process(shell("sleep 1000 & echo $! > " + file + "; wait"));
  REQUIRE(Process::wait_for([&] { return read_file(file).ends_with('\n'); }));
  std::string number = read_file(file);
  number.pop_back();
  CHECK(is_alive(number));
  CHECK_THAT(words_of_failure(process), ContainsSubstring("not ended"));
  CHECK(Process::wait_for([&] { return !is_alive(number); }));
}

TEST_CASE("a terminal that somebody holds open is not waited for without end") {
  // The program ends, but a process that it started keeps the terminal open.
  Process process(shell("sleep 1000 & echo said >&2", true));
  CHECK_THAT(words_of_failure(process), ContainsSubstring("standard error:\nsaid"));
}

TEST_CASE("who waits for words of a program that ends without them waits no longer") {
  Process process(shell("echo one >&2"));
  CHECK_FALSE(process.says("two"));
  CHECK(process.says("one"));
  CHECK(process.finish().exit_code == 0);
}

TEST_CASE("a test knows when it will be ended, and waits for less than that") {
  const char* told = std::getenv("PRIVGRAD_TEST_TIMEOUT");
  if (told == nullptr) PRIVGRAD_SKIP("not started by CTest");
  const std::chrono::duration<double> left =
      time_limit::default_end() - std::chrono::steady_clock::now();
  CHECK(left.count() < std::stod(told));
  CHECK(left.count() > std::stod(told) / 2);
}

TEST_CASE("the folders of tests are in memory, where there is room") {
  if (::access("/dev/shm", W_OK) != 0) PRIVGRAD_SKIP("no /dev/shm");
  const TempDir little(On::little_memory), disk(On::disk);
  CHECK(little.path().string().starts_with("/dev/shm/"));
  CHECK(disk.path().parent_path() == kBuild);
}

#include "privgrad/host/lock_file.hpp"

#include <sys/stat.h>

#include <random>

#include "host_support.hpp"
#include "trials.hpp"

using privgrad::IoError;
using privgrad::PluginIdentity;
using privgrad::host::lock_file_text;
using privgrad::host::LockFile;
using privgrad::host::read_lock_file;

namespace {

const std::string kHashA(64, 'a');
const std::string kHashB(64, 'b');

PluginIdentity plugin(const std::string& name, const std::string& file, const std::string& hash) {
  return {name, "1.2.0", hash, PRIVGRAD_ABI_TAG, "/opt/plugins/" + file};
}

const std::string kTwo = lock_file_text(std::vector{plugin("b.two", "two.privgrad.so", kHashB),
                                                    plugin("a.one", "one.privgrad.so", kHashA)});

LockFile read_text(const std::string& text) {
  static const TempDir dir;
  replace_file(dir.path() / "privgrad.lock", text);
  return read_lock_file(dir.path() / "privgrad.lock");
}

/// Returns the message after "FILE", which begins with ":LINE: ".
std::string refusal_of(const std::string& text) {
  const std::string message = message_of([&] { read_text(text); });
  const std::size_t at = message.find("privgrad.lock");
  return at == message.npos ? message : message.substr(at + std::string("privgrad.lock").size());
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a lock file reads back as it was written, sorted by name", "[lock]") {
  const LockFile lock = read_text(kTwo);
  REQUIRE(lock.plugins.size() == 2);
  CHECK(lock.plugins[0].name == "a.one");
  CHECK(lock.plugins[0].version == "1.2.0");
  CHECK(lock.plugins[0].file == "one.privgrad.so");
  CHECK(lock.plugins[0].sha256 == kHashA);
  CHECK(lock.plugins[0].abi == PRIVGRAD_ABI_TAG);
  CHECK(lock.plugins[1].name == "b.two");
  CHECK(lock.pins() == std::multimap<std::string, std::string>{{"one.privgrad.so", kHashA},
                                                               {"two.privgrad.so", kHashB}});
}

TEST_CASE("a lock file names the traits of the components in use", "[lock]") {
  const std::string text = lock_file_text(std::vector{plugin("a.one", "one.privgrad.so", kHashA),
                                                      plugin("b.two", "two.privgrad.so", kHashB)},
                                          {{"b.two", {"quantized", "correlated"}}, {"a.one", {}}});
  CHECK_THAT(text, ContainsSubstring("traits = \"correlated quantized\"\n"));
  const LockFile lock = read_text(text);
  REQUIRE(lock.plugins.size() == 2);
  CHECK(lock.plugins[0].traits.empty());
  CHECK(lock.plugins[1].traits == "correlated quantized");
  CHECK_THAT(refusal_of(replaced(text, "correlated quantized", "corr\x1b[31m")),
             ContainsSubstring("'traits' is 'corr?[31m'"));
}

TEST_CASE("the same plugins make the same lock file, in any order and number", "[lock]") {
  const auto one = plugin("a.one", "one.privgrad.so", kHashA);
  const auto two = plugin("b.two", "two.privgrad.so", kHashB);
  CHECK(lock_file_text(std::vector{one, two, one}) == kTwo);
  CHECK(read_text(lock_file_text({})).plugins.empty());
}

TEST_CASE("other layouts of the same TOML are read too", "[lock]") {
  const LockFile lock = read_text(
      "  lock=1 # version\r\nplugins = 1\r\n\r\n[[plugin]]  # first\r\n"
      "\tabi = \"x\"\t\nsha256=\"" +
      kHashA +
      "\"# hash\n"
      "file = \"f.privgrad.so\"\nversion = \"# 1\"\nname = \"n\"\n");
  REQUIRE(lock.plugins.size() == 1);
  CHECK(lock.plugins[0].version == "# 1");
}

TEST_CASE("what is wrong with a lock file is said with its line", "[lock]") {
  // Lines of kTwo: 1 comment, 2 lock, 3 plugins, 4 blank, 5 [[plugin]], 6 name, 7 version, 8 file,
  // 9 sha256, 10 abi, 11 blank, 12 [[plugin]] ...
  const auto [from, to, refusal] = GENERATE(table<std::string, std::string, std::string>({
      {"lock = 1", "lock = 2", ":2: version 2; this framework reads lock files of version 1 only"},
      {"lock = 1", "lock = one", ":2: 'lock' needs a number"},
      {"lock = 1", "lock = 1\nlock = 1", ":3: 'lock' is given twice"},
      {"lock = 1", "lok = 1", ":2: unknown key 'lok'; expected 'lock = 1'"},
      {"lock = 1\n", "", ":4: expected 'lock = 1' and 'plugins = NUMBER' before"},
      {"plugins = 2", "plugins = 3", "the file is cut short: 'plugins' says 3, it lists 2"},
      {"[[plugin]]", "[plugin]", ":5: expected [[plugin]], a comment, or KEY = \"VALUE\""},
      {"name = \"a.one\"", "name = a.one", ":6: 'name' needs a value in double quotes"},
      {"name = \"a.one\"", "name = \"a.one", ":6: 'name' needs a value in double quotes"},
      {"name = \"a.one\"", "name = \"a.one\" x", ":6: 'name' needs a value in double quotes"},
      {"name = \"a.one\"", "name = \"a:one\"", ":6: 'name' is 'a:one', expected letters"},
      {"name = \"a.one\"", "name = \"\"", ":6: 'name' is ''"},
      {"name = \"a.one\"\n", "", ":11: the [[plugin]] above has no 'name'"},
      {"name = \"a.one\"", "name = \"b.two\"", "plugin 'b.two' is listed twice"},
      {"version = \"1", "verson = \"1", ":7: unknown key 'verson'; there are name, version"},
      {"version = \"1", "name = \"1", ":7: 'name' is given twice"},
      {"one.privgrad.so", "../one.privgrad.so", ":8: 'file' is '../one.privgrad.so', expected"},
      {"one.privgrad.so", "one.so", ":8: 'file' is 'one.so', expected a file name *.privgrad.so"},
      {"aaaa", "AAAA", ":9: 'sha256' is 'AAAA"},
      {"aaaa", "aaa", ":9: 'sha256' is 'aaa"},
      {"abi = \"", "abi = \"\x1b[2J", ":10: 'abi' is '?[2J"},
  }));
  const std::string text = replaced(kTwo, from, to);
  CAPTURE(from, to);
  CHECK_THAT(refusal_of(text), ContainsSubstring(refusal));
  CHECK_THROWS_AS(read_text(text), IoError);
}

TEST_CASE("a lock file cut off anywhere is noticed", "[lock]") {
  for (std::size_t size = 0; size < kTwo.size(); ++size) {
    INFO("size " << size);
    REQUIRE_FALSE(refusal_of(kTwo.substr(0, size)).empty());
  }
}

TEST_CASE("no changed bytes crash the reader, and every refusal is one short line",
          "[lock][long]") {
  std::mt19937_64 random(7);
  const int count = trials(20'000, "lock files with changed bytes");
  for (int round = 0; round < count; ++round) {
    std::string text = kTwo;
    for (int i = 0; i < 3; ++i) text[random() % text.size()] = static_cast<char>(random());
    const std::string refusal = refusal_of(text);
    REQUIRE(refusal.find('\n') == refusal.npos);
    REQUIRE(refusal.size() < 400);
  }
}

TEST_CASE("a lock file that cannot be one is refused without being read", "[lock]") {
  const TempDir dir;
  const fs::path file = dir.path() / "privgrad.lock";
  const auto refusal = [&] { return message_of([&] { read_lock_file(file); }); };
  SECTION("missing") {
    CHECK_THROWS_AS(read_lock_file(file), IoError);
    CHECK_THAT(refusal(), ContainsSubstring("No such file"));
  }
  SECTION("a directory") {
    fs::create_directory(file);
    CHECK_THAT(refusal(), ContainsSubstring("not a regular file"));
  }
  SECTION("a named pipe") {
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
    CHECK_THAT(refusal(), ContainsSubstring("not a regular file"));
  }
  SECTION("huge") {
    write_file(file, kTwo);
    fs::resize_file(file, std::uintmax_t{1} << 33);  // 8 GiB, sparse
    CHECK_THAT(refusal(), ContainsSubstring("a lock file has at most 1048576"));
  }
  SECTION("one huge line") {
    write_file(file, "lock = 1\n" + std::string(500000, 'x') + "\n");
    CHECK(refusal().size() < 400);
  }
}

TEST_CASE("what could not be read back is not written", "[lock]") {
  CHECK_THROWS_AS(lock_file_text(std::vector{plugin("a\"b", "x.privgrad.so", kHashA)}), IoError);
  CHECK_THROWS_AS(lock_file_text(std::vector{plugin("a", "x.so", kHashA)}), IoError);
  CHECK_THROWS_AS(lock_file_text(std::vector{plugin("a", "x.privgrad.so", "")}), IoError);
}

#include "privgrad/host/search_path.hpp"

#include <algorithm>

#include "host_support.hpp"
#include "privgrad/host/sha256.hpp"

using privgrad::Catalog;
using privgrad::ConfigError;
using privgrad::PluginError;
using privgrad::host::find_plugin_files;
using privgrad::host::find_plugins;
using privgrad::host::lock_file_text;
using privgrad::host::LockFile;
using privgrad::host::PluginHost;
using privgrad::host::plugins_in;
using privgrad::host::read_lock_file;
using privgrad::host::search_path;
using privgrad::host::SearchDirectory;

namespace {

std::vector<fs::path> paths(const std::vector<SearchDirectory>& directories) {
  std::vector<fs::path> paths;
  for (const auto& directory : directories) paths.push_back(directory.path.lexically_normal());
  return paths;
}

std::vector<std::string> names(const PluginHost& host) {
  host.load_offered();
  std::vector<std::string> names;
  for (const auto& plugin : host.plugins()) names.push_back(plugin->name);
  return names;
}

LockFile lock_of(const PluginHost& host, const fs::path& file) {
  host.load_offered();
  std::vector<privgrad::PluginIdentity> used;
  for (const auto& plugin : host.plugins()) used.push_back(*plugin);
  write_file(file, lock_file_text(used));
  return read_lock_file(file);
}

/// An environment without anything of the user who runs the tests.
struct CleanEnvironment {
  Environment plugin_path{"PRIVGRAD_PLUGIN_PATH"};
  Environment data_home{"XDG_DATA_HOME"};
  Environment home{"HOME"};
};

}  // namespace

TEST_CASE("the search order: options, environment, the user's data, beside the program",
          "[search]") {
  const CleanEnvironment clean;
  const fs::path beside = kPlugins;  // this test is in build/tests/, so build/lib/ is beside it
  CHECK(paths(search_path({})).front() == beside);
  {
    const Environment home("HOME", "/home/ada");
    CHECK(paths(search_path({})).front() == "/home/ada/.local/share/privgrad/plugins");
    const Environment variable("PRIVGRAD_PLUGIN_PATH", ":/c::/d:");
    const Environment data("XDG_DATA_HOME", "/data");
    const auto found = paths(search_path({"/a", "/b"}));
    REQUIRE(found.size() >= 6);
    CHECK(std::vector(found.begin(), found.begin() + 6) ==
          std::vector<fs::path>{"/a", "/b", "/c", "/d", "/data/privgrad/plugins", beside});
  }
  {
    // The XDG specification: relative paths are ignored.
    const Environment data("XDG_DATA_HOME", "relative");
    CHECK(paths(search_path({})).front() == beside);
  }
}

TEST_CASE("the program finds the plugins beside it by itself", "[search]") {
  const CleanEnvironment clean;
  const auto host = find_plugins({});
  const auto& components = host.catalog().components();
  CHECK(std::any_of(components.begin(), components.end(), [](const auto& one) {
    return one.full_name() == "privgrad.constant:constant";
  }));
  CHECK(host.catalog().refused().empty());
}

TEST_CASE("plugin files are found by name, sorted, four levels deep", "[search]") {
  const TempDir dir;
  const TempDir elsewhere;
  const std::vector<fs::path> plugins{"a/b/c/4.privgrad.so", "a/z.privgrad.so", "b.privgrad.so"};
  const std::vector<fs::path> others{"a/b/c/d/5.privgrad.so", "readme.txt", "x.so",
                                     "x.privgrad.so.bak"};
  for (const auto& list : {plugins, others}) {
    for (const fs::path& file : list) {
      fs::create_directories((dir.path() / file).parent_path());
      write_file(dir.path() / file, "");
    }
  }
  write_file(elsewhere.path() / "e.privgrad.so", "");
  fs::create_directory_symlink(elsewhere.path(), dir.path() / "linked");
  fs::create_directory(dir.path() / "folder.privgrad.so");
  std::vector<fs::path> found;
  for (const fs::path& file : find_plugin_files(dir.path())) {
    found.push_back(file.lexically_relative(dir.path()));
  }
  CHECK(found == plugins);
}

TEST_CASE("a directory that is not a plugin directory is not searched to its end", "[search]") {
  const TempDir dir;
  for (const char* name : {"a", "b", "c"}) write_file(dir.path() / name, "");
  CHECK_NOTHROW(find_plugin_files(dir.path(), 3));
  CHECK_THROWS_AS(find_plugin_files(dir.path(), 2), ConfigError);
  CHECK_THROWS_WITH(find_plugin_files(dir.path(), 2), ContainsSubstring("holds more than 2 files"));
}

TEST_CASE("directories that do not exist: an error, a warning, or nothing", "[search]") {
  const TempDir dir;
  const fs::path missing = dir.path() / "missing";
  const fs::path file = dir.path() / "file";
  write_file(file, "");
  CHECK_THROWS_AS(plugins_in({{missing, SearchDirectory::Origin::option}}), ConfigError);
  CHECK_THROWS_WITH(
      plugins_in({{missing, SearchDirectory::Origin::option}}),
      Catch::Matchers::Equals("--plugin-dir " + missing.string() + ": no such directory"));
  CHECK_THROWS_WITH(plugins_in({{file, SearchDirectory::Origin::option}}),
                    ContainsSubstring("not a directory"));
  const auto warned = plugins_in({{missing, SearchDirectory::Origin::environment}});
  REQUIRE(warned.catalog().refused().size() == 1);
  CHECK(warned.catalog().refused()[0].file == missing);
  CHECK_THAT(warned.catalog().refused()[0].why, ContainsSubstring("PRIVGRAD_PLUGIN_PATH names it"));
  CHECK(plugins_in({{missing, SearchDirectory::Origin::user}}).catalog().refused().empty());
}

TEST_CASE("a refused file does not keep the others out, and is mentioned", "[search]") {
  const TempDir dir;
  write_file(dir.path() / "broken.privgrad.so", "hello");
  copy_plugin(kConstant, dir.path() / "constant.privgrad.so");
  const auto host = plugins_in({{dir.path()}});
  CHECK(names(host) == std::vector<std::string>{"privgrad.constant"});
  REQUIRE(host.catalog().refused().size() == 1);
  CHECK(host.catalog().refused()[0].file == dir.path() / "broken.privgrad.so");
  CHECK(host.catalog().refused()[0].why == "not a 64-bit ELF shared object");
  CHECK_THROWS_WITH(host.catalog().find<privgrad::Schedule>("cosine"),
                    ContainsSubstring("broken.privgrad.so: not a 64-bit ELF shared object"));
}

TEST_CASE("a link to itself does not keep the others out", "[search]") {
  const TempDir dir;
  fs::create_symlink("a.privgrad.so", dir.path() / "a.privgrad.so");
  fs::create_symlink("round", dir.path() / "round");
  copy_plugin(kConstant, dir.path() / "constant.privgrad.so");
  const auto host = plugins_in({{dir.path()}});
  CHECK(names(host) == std::vector<std::string>{"privgrad.constant"});
  REQUIRE(host.catalog().refused().size() == 1);
  CHECK(host.catalog().refused()[0].file == dir.path() / "a.privgrad.so");
  CHECK(host.catalog().refused()[0].why == "too many symbolic links");
}

TEST_CASE("the first plugin of a name wins, and the second is refused with both paths",
          "[search]") {
  const TempDir first;
  const TempDir second;
  const fs::path winner = copy_plugin(kConstant, first.path() / "z.privgrad.so");
  const fs::path loser = copy_plugin(fixture("impostor"), second.path() / "a.privgrad.so");
  const auto host = plugins_in({{first.path()}, {second.path()}});
  host.load_offered();
  REQUIRE(host.plugins().size() == 1);
  CHECK(host.plugins()[0]->file == winner);
  REQUIRE(host.catalog().refused().size() == 1);
  CHECK(host.catalog().refused()[0].file == loser);
  CHECK_THAT(host.catalog().refused()[0].why,
             ContainsSubstring("'privgrad.constant' was found already, " + winner.string()));
}

TEST_CASE("one file by several ways is one plugin", "[search]") {
  const TempDir dir;
  copy_plugin(kConstant, dir.path() / "deep/constant.privgrad.so");
  fs::create_symlink("deep/constant.privgrad.so", dir.path() / "constant.privgrad.so");
  const auto host = plugins_in({{dir.path()}, {dir.path() / "deep"}, {dir.path()}});
  host.load_offered();
  CHECK(host.plugins().size() == 1);
  CHECK(host.catalog().refused().empty());
}

TEST_CASE("a directory that others may write is refused once, not once for each file",
          "[search][security]") {
  const TempDir dir;
  copy_plugin(kConstant, dir.path() / "a.privgrad.so");
  copy_plugin(kConstant, dir.path() / "b.privgrad.so");
  fs::permissions(dir.path(), fs::perms(0777));
  const auto host = plugins_in({{dir.path()}});
  host.load_offered();
  CHECK(host.plugins().empty());
  REQUIRE(host.catalog().refused().size() == 1);
  CHECK_THAT(host.catalog().refused()[0].why, ContainsSubstring("chmod go-w"));
}

TEST_CASE("with a lock, its plugins are loaded and no others", "[search][lock]") {
  const TempDir dir;
  const fs::path plugins = dir.path() / "plugins";
  const fs::path locked = copy_plugin(kConstant, plugins / "constant.privgrad.so");
  const LockFile lock = lock_of(plugins_in({{plugins}}), dir.path() / "privgrad.lock");
  copy_plugin(fixture("misbehaving"), plugins / "misbehaving.privgrad.so");

  SECTION("as they were") {
    const auto host = plugins_in({{plugins}}, {.lock = lock});
    CHECK(names(host) == std::vector<std::string>{"privgrad.constant"});
    // The refusal is reported once, for users who request a component that was left out.
    REQUIRE(host.catalog().refused().size() == 1);
    CHECK(host.catalog().refused()[0].file == "1 other plugin files");
  }
  SECTION("one byte changed") {
    std::ofstream(locked, std::ios::app) << '\0';
    CHECK_THROWS_AS(plugins_in({{plugins}}, {.lock = lock}), PluginError);
    CHECK_THROWS_WITH(plugins_in({{plugins}}, {.lock = lock}),
                      ContainsSubstring("privgrad.lock: plugin privgrad.constant ") &&
                          ContainsSubstring(locked.string() + ": sha256 is ") &&
                          ContainsSubstring("the lock file says " + lock.plugins[0].sha256));
  }
  SECTION("missing") {
    fs::remove(locked);
    CHECK_THROWS_WITH(
        plugins_in({{plugins}}, {.lock = lock}),
        ContainsSubstring(
            "no file constant.privgrad.so is on the search path; name its directory"));
  }
  SECTION("a changed one before the right one: the right one is loaded, the other mentioned") {
    const fs::path changed =
        copy_plugin(fixture("impostor"), dir.path() / "first/constant.privgrad.so");
    const auto host = plugins_in({{dir.path() / "first"}, {plugins}}, {.lock = lock});
    CHECK(host.plugins()[0]->file == locked);
    CHECK(host.catalog().refused()[0].file == changed);
  }
  SECTION("a lock file that was edited") {
    LockFile edited = lock;
    edited.plugins[0].version = "9.9.9";
    CHECK_THROWS_WITH(plugins_in({{plugins}}, {.lock = edited}),
                      ContainsSubstring("the lock file was edited"));
  }
  SECTION("locked for another framework") {
    LockFile foreign = lock;
    foreign.plugins[0].sha256 = std::string(64, '0');
    foreign.plugins[0].abi = "privgrad=0.0";
    CHECK_THROWS_WITH(
        plugins_in({{plugins}}, {.lock = foreign}),
        ContainsSubstring("locked for privgrad=0.0; this framework is " PRIVGRAD_ABI_TAG));
  }
}

TEST_CASE("a plugin is loaded when one of its components is asked for, and no other is",
          "[search]") {
  const TempDir dir;
  copy_plugin(kConstant, dir.path() / "constant.privgrad.so");
  for (const char* name : {"crashes_when_loaded", "dies_when_loaded", "misbehaving"})
    copy_plugin(fixture(name), dir.path() / (std::string(name) + ".privgrad.so"));
  const auto host = plugins_in({{dir.path()}});
  CHECK(host.catalog().refused().empty());
  CHECK(host.plugins().empty());
  CHECK(host.catalog().find<privgrad::Schedule>("privgrad.constant:constant").plugin->name ==
        "privgrad.constant");
  REQUIRE(host.plugins().size() == 1);
  // Names come only from the files.
  CHECK(host.catalog().names_of("schedule") ==
        std::vector<std::string>{"constant", "crashes_when_loaded", "dies_when_loaded", "thrower"});
  CHECK_THROWS_WITH(host.catalog().find<privgrad::Schedule>("throwre"),
                    ContainsSubstring("did you mean 'thrower'?"));
  CHECK(host.plugins().size() == 1);
}

TEST_CASE("the program's plugins have the first claim to a name, then those that claimed it",
          "[search]") {
  const TempDir own, user;
  copy_plugin(kConstant, own.path() / "constant.privgrad.so");
  copy_plugin(fixture("misbehaving"), user.path() / "misbehaving.privgrad.so");
  const auto owner = [&](SearchDirectory::Origin origin) {
    // The user's folders are searched first.
    const auto host =
        plugins_in({{user.path(), SearchDirectory::Origin::user}, {own.path(), origin}});
    CHECK(host.catalog().find<privgrad::Schedule>("test.misbehaving:constant").plugin->name ==
          "test.misbehaving");
    return host.catalog().owner_of("schedule", "constant");
  };
  CHECK(owner(SearchDirectory::Origin::program) == "privgrad.constant");
  CHECK(owner(SearchDirectory::Origin::option).empty());
  write_file(privgrad::host::claims_file(user.path()),
             privgrad::host::claims_text({{{"schedule", "constant"}, "test.misbehaving"}}));
  CHECK(owner(SearchDirectory::Origin::option) == "test.misbehaving");
  CHECK(owner(SearchDirectory::Origin::program) == "privgrad.constant");
  // Claims that others may write are ignored.
  fs::permissions(user.path() / "names", fs::perms(0666));
  CHECK(owner(SearchDirectory::Origin::option).empty());
}

TEST_CASE("a plugin that registers what its file does not list is refused", "[search]") {
  const TempDir dir;
  const fs::path copy = copy_plugin(kConstant, dir.path() / "constant.privgrad.so");
  std::string bytes = read_file(copy);
  const std::size_t at = bytes.find("schedule/constant");
  REQUIRE(at != bytes.npos);
  bytes.replace(at, 17, "schedule/cunstant");
  write_file(copy, bytes);
  const auto host = plugins_in({{dir.path()}});
  CHECK_THROWS_WITH(host.catalog().find<privgrad::Schedule>("cunstant"),
                    ContainsSubstring(copy.string() + ": registers schedule/constant, which "
                                                      "PRIVGRAD_PLUGIN does not list"));
  // The same request gets the same answer, and nothing is retried.
  CHECK_THROWS_WITH(host.catalog().find<privgrad::Schedule>("cunstant"),
                    ContainsSubstring("registers schedule/constant"));
}

TEST_CASE("a plugin that is exchanged after it was found is refused, and not loaded",
          "[search][security]") {
  const TempDir dir;
  const fs::path copy = copy_plugin(kConstant, dir.path() / "constant.privgrad.so");
  const auto host = plugins_in({{dir.path()}});
  fs::remove(copy);
  copy_plugin(fixture("misbehaving"), copy);
  CHECK_THROWS_WITH(host.catalog().find<privgrad::Schedule>("constant"),
                    ContainsSubstring("was exchanged after this process found it"));
  CHECK(host.plugins().empty());
}

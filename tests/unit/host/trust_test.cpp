// Which files may be loaded: in each case, an attacker's code could otherwise be
// loaded.
#include "privgrad/digest/trusted_path.hpp"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>

#include "host_support.hpp"
#include "open_file.hpp"
#include "privgrad/host/sha256.hpp"
#include "shared_files.hpp"

using privgrad::PluginError;
using privgrad::core::resolve_trusted;
using privgrad::host::PluginHost;

namespace {

PluginHost trusting(const fs::path& directory) {
  return PluginHost({.directories = {directory}, .pins = {}});
}

std::string refusal_of(const fs::path& directory, const fs::path& file) {
  return message_of([&] { trusting(directory).load(file); });
}

}  // namespace

TEST_CASE("a plugin outside the trusted directories is refused", "[trust][security]") {
  const TempDir trusted;
  const TempDir elsewhere;
  const fs::path stray = copy_plugin(kConstant, elsewhere.path() / "stray.privgrad.so");
  SECTION("by its own path") {
    CHECK_THAT(refusal_of(trusted.path(), stray),
               ContainsSubstring("not in a trusted plugin directory") &&
                   ContainsSubstring("--plugin-dir"));
  }
  SECTION("by a path that climbs out") {
    const fs::path climbing =
        trusted.path() / ".." / elsewhere.path().filename() / "stray.privgrad.so";
    CHECK_THAT(refusal_of(trusted.path(), climbing), ContainsSubstring("not in a trusted"));
  }
  SECTION("by a link inside one") {
    fs::create_symlink(stray, trusted.path() / "link.privgrad.so");
    CHECK_THAT(refusal_of(trusted.path(), trusted.path() / "link.privgrad.so"),
               ContainsSubstring("leads to " + stray.string() + ", which is not in a trusted"));
  }
  SECTION("by a linked directory inside one") {
    fs::create_directory_symlink(elsewhere.path(), trusted.path() / "more");
    CHECK_THAT(refusal_of(trusted.path(), trusted.path() / "more/stray.privgrad.so"),
               ContainsSubstring("not in a trusted"));
  }
  SECTION("in a directory whose name begins like a trusted one's") {
    const fs::path longer = trusted.path().string() + "-evil";
    const fs::path file = copy_plugin(kConstant, longer / "x.privgrad.so");
    CHECK_THAT(refusal_of(trusted.path(), file), ContainsSubstring("not in a trusted"));
    fs::remove_all(longer);
  }
}

TEST_CASE("a link inside a trusted directory to a file inside it is followed", "[trust]") {
  const TempDir dir;
  const fs::path file = copy_plugin(kConstant, dir.path() / "versions/constant-1.privgrad.so");
  fs::create_symlink("versions/constant-1.privgrad.so", dir.path() / "constant.privgrad.so");
  auto host = trusting(dir.path());
  CHECK(host.load(dir.path() / "constant.privgrad.so").file == file);
}

TEST_CASE("what others may write is refused, with the command that helps", "[trust][security]") {
  const TempDir dir;
  const fs::path folder = dir.path() / "folder";
  const fs::path file = copy_plugin(kConstant, folder / "copy.privgrad.so");
  REQUIRE(refusal_of(dir.path(), file) == "");
  const auto who = GENERATE(fs::perms::group_write, fs::perms::others_write);
  if (who == fs::perms::group_write) {
    if (::geteuid() != 0) return;  // only root can give a file to a group of others
    for (const fs::path& part : {dir.path(), folder, file})
      REQUIRE(::chown(part.c_str(), static_cast<uid_t>(-1), 12345) == 0);
  }
  SECTION("the file") {
    fs::permissions(file, who, fs::perm_options::add);
    CHECK_THAT(refusal_of(dir.path(), file),
               ContainsSubstring("others may write") &&
                   Catch::Matchers::EndsWith("chmod go-w " + file.string()));
  }
  SECTION("a directory above it") {
    fs::permissions(folder, who, fs::perm_options::add);
    CHECK_THAT(refusal_of(dir.path(), file),
               Catch::Matchers::EndsWith("chmod go-w " + folder.string()));
  }
  SECTION("a directory above the trusted one") {
    fs::permissions(dir.path(), who, fs::perm_options::add);
    CHECK_THAT(refusal_of(folder, file), ContainsSubstring("chmod go-w " + dir.path().string()));
  }
  SECTION("everything at once, so that one command is enough") {
    fs::permissions(dir.path(), who, fs::perm_options::add);
    fs::permissions(file, who, fs::perm_options::add);
    CHECK_THAT(refusal_of(folder, file),
               ContainsSubstring("chmod go-w " + dir.path().string() + " " + file.string()));
  }
  SECTION("the directory of a link on the way, from which the link can be turned") {
    const TempDir loose;
    fs::create_directory_symlink(folder, loose.path() / "way");
    if (who == fs::perms::group_write)
      REQUIRE(::chown(loose.path().c_str(), static_cast<uid_t>(-1), 12345) == 0);
    fs::permissions(loose.path(), who, fs::perm_options::add);
    CHECK_THAT(refusal_of(folder, loose.path() / "way/copy.privgrad.so"),
               ContainsSubstring("chmod go-w " + loose.path().string()));
  }
  SECTION("but in a sticky directory nobody can exchange the files of others") {
    fs::permissions(folder, who | fs::perms::sticky_bit, fs::perm_options::add);
    CHECK(refusal_of(dir.path(), file) == "");
  }
  SECTION("and a sticky bit on the file itself keeps nobody from writing it") {
    fs::permissions(file, who | fs::perms::sticky_bit, fs::perm_options::add);
    CHECK_THAT(refusal_of(dir.path(), file), ContainsSubstring("chmod go-w " + file.string()));
  }
}

// Expected values have an independent source: /etc/passwd and /etc/group, read by awk.
TEST_CASE("a group in which nobody else is may write, unless an access list lets others in",
          "[trust][security]") {
  const TempDir dir;
  const fs::path file = copy_plugin(kConstant, dir.path() / "copy.privgrad.so");
  struct stat info {};
  REQUIRE(::stat(file.c_str(), &info) == 0);
  fs::permissions(file, fs::perms::group_write, fs::perm_options::add);
  const std::string gid = std::to_string(info.st_gid), uid = std::to_string(info.st_uid);
  const bool is_private =
      std::system(
          ("awk -F: -v g=" + gid + " -v u=" + uid +
           " 'FILENAME ~ /passwd/ && $4 == g {if ($3 == u) own = $1; else bad = 1}"
           "  FILENAME ~ /group/ && $3 == g {if ($1 == own && ($4 == \"\" || $4 == own)) ok = 1}"
           "  END {exit !(ok && !bad)}' /etc/passwd /etc/group")
              .c_str()) == 0;
  CHECK((refusal_of(dir.path(), file) == "") == is_private);

  if (::geteuid() == 0) {
    // The group has no member, but members could be added later.
    REQUIRE(::chown(file.c_str(), static_cast<uid_t>(-1), 12345) == 0);
    CHECK_THAT(refusal_of(dir.path(), file), ContainsSubstring("chmod go-w"));
    REQUIRE(::chown(file.c_str(), static_cast<uid_t>(-1), info.st_gid) == 0);
  }
  // Version 2; then tag, permissions, id: owner rw, user 12345 rw, group r, mask rw, others r.
  const unsigned char list[] = {2,   0,   0,   0,  //
                                1,   0,   6,   0,   255, 255, 255, 255, 2,   0,   6,   0,  57, 48,
                                0,   0,   4,   0,   4,   0,   255, 255, 255, 255, 16,  0,  6,  0,
                                255, 255, 255, 255, 32,  0,   4,   0,   255, 255, 255, 255};
  if (::setxattr(file.c_str(), "system.posix_acl_access", list, sizeof list, 0) != 0)
    PRIVGRAD_SKIP("this file system has no access lists");
  CHECK_THAT(refusal_of(dir.path(), file), ContainsSubstring("chmod go-w"));
}

TEST_CASE("what belongs to a stranger is refused", "[trust][security]") {
  constexpr uid_t kStranger = 65534;
  const TempDir dir;
  const fs::path folder = dir.path() / "folder";
  const fs::path file = copy_plugin(kConstant, folder / "copy.privgrad.so");
  if (::geteuid() != 0) PRIVGRAD_SKIP("only root can give a file away");
  SECTION("the file") {
    REQUIRE(::chown(file.c_str(), kStranger, kStranger) == 0);
    CHECK_THAT(refusal_of(dir.path(), file), ContainsSubstring("belongs to neither root nor you") &&
                                                 ContainsSubstring(file.string()));
  }
  SECTION("a directory above it") {
    REQUIRE(::chown(folder.c_str(), kStranger, kStranger) == 0);
    CHECK_THAT(refusal_of(dir.path(), file), ContainsSubstring("belongs to neither root nor you") &&
                                                 Catch::Matchers::EndsWith(": " + folder.string()));
  }
  SECTION("a link on the way, although where it leads is fine") {
    const fs::path link = dir.path() / "link.privgrad.so";
    fs::create_symlink(file, link);
    REQUIRE(::lchown(link.c_str(), kStranger, kStranger) == 0);
    CHECK_THAT(refusal_of(dir.path(), link), Catch::Matchers::EndsWith(": " + link.string()));
  }
}

TEST_CASE("paths that lead nowhere are refused, not followed for ever", "[trust]") {
  const TempDir dir;
  fs::create_symlink("b.privgrad.so", dir.path() / "a.privgrad.so");
  fs::create_symlink("a.privgrad.so", dir.path() / "b.privgrad.so");
  CHECK_THAT(refusal_of(dir.path(), dir.path() / "a.privgrad.so"),
             ContainsSubstring("too many symbolic links"));
  CHECK_THAT(refusal_of(dir.path(), dir.path() / "missing.privgrad.so"),
             ContainsSubstring("No such file or directory"));
  fs::create_directory(dir.path() / "x");
  CHECK(resolve_trusted(dir.path() / "." / "x" / "..") == dir.path());
}

TEST_CASE("only regular files with a plugin's name are opened", "[trust][security]") {
  const TempDir dir;
  SECTION("another name") {
    const fs::path file = copy_plugin(kConstant, dir.path() / "constant.so");
    CHECK_THAT(refusal_of(dir.path(), file), ContainsSubstring("expected NAME.privgrad.so"));
  }
  SECTION("a name that would break lines") {
    const fs::path file = copy_plugin(kConstant, dir.path() / "a\nb.privgrad.so");
    const std::string refusal = refusal_of(dir.path(), file);
    CHECK_THAT(refusal, ContainsSubstring("printable ASCII"));
    CHECK(refusal.find('\n') == refusal.npos);
  }
  SECTION("a file of terabytes, of which no more than the header is read") {
    write_file(dir.path() / "s.privgrad.so", "hello");
    fs::resize_file(dir.path() / "s.privgrad.so", std::uintmax_t{1} << 42);
    CHECK_THAT(refusal_of(dir.path(), dir.path() / "s.privgrad.so"),
               ContainsSubstring("not a 64-bit ELF shared object"));
  }
  SECTION("a directory") {
    fs::create_directory(dir.path() / "d.privgrad.so");
    CHECK_THAT(refusal_of(dir.path(), dir.path() / "d.privgrad.so"),
               ContainsSubstring("not a regular file"));
  }
  SECTION("a link that takes the place of a file after it was looked at") {
    const fs::path link = dir.path() / "l.privgrad.so";
    fs::create_symlink(kConstant, link);
    CHECK_THROWS_AS(privgrad::host::OpenFile(link), PluginError);
  }
  SECTION("a named pipe, which must not make us wait") {
    const fs::path pipe = dir.path() / "p.privgrad.so";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    CHECK_THAT(refusal_of(dir.path(), pipe), ContainsSubstring("not a regular file"));
  }
}

TEST_CASE("pins: the right hash loads; a changed or an unknown file does not",
          "[trust][security]") {
  const TempDir dir;
  const fs::path copy = copy_plugin(kConstant, dir.path() / "copy.privgrad.so");
  const std::string hash = privgrad::host::sha256_of_file(copy);
  PluginHost host({.directories = {dir.path()}, .pins = {{{"copy.privgrad.so", hash}}}});
  SECTION("unchanged") { CHECK(host.load(copy).sha256 == hash); }
  SECTION("one byte changed, in place") {
    std::string bytes = read_file(copy);
    bytes[bytes.size() / 2] ^= 1;
    write_file(copy, bytes);
    CHECK_THROWS_WITH(host.load(copy),
                      ContainsSubstring("sha256 is " + privgrad::host::sha256_of_file(copy)) &&
                          ContainsSubstring("the lock file says " + hash));
  }
  SECTION("one byte more") {
    std::ofstream(copy, std::ios::app) << '\0';
    CHECK_THROWS_WITH(host.load(copy), ContainsSubstring("the lock file says " + hash));
  }
  SECTION("not pinned at all") {
    const fs::path other = copy_plugin(kConstant, dir.path() / "other.privgrad.so");
    CHECK_THROWS_WITH(host.load(other), ContainsSubstring("not in the lock file"));
  }
}

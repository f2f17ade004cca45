// If nothing can later identify the rows with which a run began, the run leaves no checkpoint.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <string_view>

#include "privgrad/federated/any_run.hpp"
#include "resumed_run.hpp"

using namespace resumed;

namespace {

/// Whether the disk has room for everything except the opening of a commitment.
bool refuses_openings = false;

/// Openings' folders are named by the first half of a hash, runs' folders `run-NAME`.
bool is_of_opening(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.size() == 32 && name.find_first_not_of("0123456789abcdef") == name.npos;
}

/// A complete run, and the files for resuming that existed during the run.
struct Uncommitted {
  TempDir dir{On::little_memory};
  core::RunResult result;
  bool had_private_state = false;

  explicit Uncommitted(const Overrides& overrides) {
    std::string text = kBase;
    text.resize(text.find("checkpoint:"));
    write_file(dir.path() / "manifest.yaml", text);
    const core::Manifest manifest =
        core::load_manifest(dir.path() / "manifest.yaml", overrides, house());
    refuses_openings = true;
    const auto look = [&](const core::Progress&) { had_private_state |= has_private_state(); };
    try {
      result = core::run(core::make_plan(manifest), {.directory = run(),
                                                     .lock = "",
                                                     .threads = 1,
                                                     .state = dir.path() / "state",
                                                     .on_progress = look});
    } catch (...) {
      refuses_openings = false;
      throw;
    }
    refuses_openings = false;
  }

  fs::path run() const { return dir.path() / "run"; }
  bool has_private_state() const {
    if (fs::exists(run() / "resume.json")) return true;
    if (!fs::exists(dir.path() / "state")) return false;
    return std::any_of(
        fs::directory_iterator(dir.path() / "state"), fs::directory_iterator(),
        [](const auto& entry) { return entry.path().filename().string().starts_with("run-"); });
  }
};

}  // namespace

// Replaces the C library's function for the code of this program.
extern "C" int mkdir(const char* path, mode_t mode) noexcept {
  if (refuses_openings && is_of_opening(path)) {
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

TEST_CASE("no commitment to the training rows means no checkpoints", "[resume][privacy]") {
  const std::string wanted =
      GENERATE(as<std::string>(), "central", "fed_avg", "statistics that are paid for");
  INFO(wanted);
  Overrides overrides;
  for (const std::string& one : kind(wanted))
    if (!one.starts_with("checkpoint")) overrides.push_back(one);

  SECTION("a run that leaves them by default goes on without, and says so") {
    const Uncommitted made(overrides);
    CHECK(made.result.status == core::RunStatus::completed);
    CHECK_FALSE(made.result.data.value.has_value());
    CHECK_THAT(
        made.result.no_checkpoints,
        ContainsSubstring("its training rows are not committed to: its opening cannot be stored"));
    CHECK_FALSE(made.had_private_state);
    CHECK_FALSE(made.has_private_state());
  }
  SECTION("a run that was asked for them is refused") {
    overrides.emplace_back("checkpoint={every_steps: 2}");
    CHECK_THROWS_WITH(Uncommitted(overrides),
                      ContainsSubstring("checkpoint: is not possible: its training rows are not "
                                        "committed to"));
  }
  SECTION("a run with a seed needs no opening to be kept") {
    overrides.emplace_back("seed=5");
    const Uncommitted made(overrides);
    CHECK(made.result.data.value.has_value());
    CHECK(made.result.no_checkpoints == "");
    CHECK(made.had_private_state);
    CHECK_FALSE(made.has_private_state());
  }
}

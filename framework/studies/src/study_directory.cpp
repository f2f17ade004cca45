#include "privgrad/studies/study_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "privgrad/error.hpp"
#include "privgrad/record/facts.hpp"
#include "privgrad/record/summary_facts.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kHolder = "ablate.lock";
constexpr std::size_t kMostSummaryBytes = std::size_t{16} << 20;

std::string last_error() { return std::generic_category().message(errno); }

/// Waits briefly for the lock, because the runs of a study that was just killed need time to end.
bool take_lock(int descriptor) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  return false;
}

void check_is_study(const fs::path& path) {
  if (!fs::exists(path)) return;
  if (!fs::is_directory(path)) {
    throw IoError(path.string() + ": exists and is not a directory; choose another one with --out");
  }
  if (fs::is_empty(path) || fs::exists(path / kHolder)) return;
  throw IoError(path.string() +
                ": exists and holds something else than a study; choose another one with --out");
}

}  // namespace

std::optional<RunRecord> record_of(const Json& json) {
  const auto summary = facts_in<Summary>(json, "summary.json");
  RunRecord record;
  record.status = summary.status;
  if (record.status != "completed" && record.status != "budget_exhausted" &&
      record.status != "stopped_early" && record.status != "diverged") {
    return std::nullopt;
  }
  record.steps = summary.steps;
  record.epsilon = summary.epsilon;
  record.delta = summary.delta;
  record.seconds = summary.seconds.value_or(0.0);
  const Json& commitment = summary.statement.at("data_commitment");
  if (commitment.is_string()) record.data_commitment = commitment.get<std::string>();
  // The score of a diverged run's last finite model must not be averaged.
  Metrics::members(summary.metrics, [&](std::string_view name, const std::optional<double>& value) {
    const bool is_there = value || !name.ends_with("gradient_norm");
    if (is_there)
      record.metrics[std::string(name)] = record.status == "diverged" ? std::nullopt : value;
  });
  return record;
}

StudyDirectory::StudyDirectory(fs::path path) : path_(std::move(path)) {
  check_is_study(path_);
  make_directories(path_);
  const fs::path holder = path_ / kHolder;
  // Without O_CLOEXEC, runs inherit the descriptor and thus the lock.
  descriptor_ = ::open(holder.c_str(), O_RDWR | O_CREAT, 0666);
  if (descriptor_ < 0) throw IoError(holder.string() + ": cannot be opened: " + last_error());
  if (take_lock(descriptor_)) return;
  const std::string why = errno == EWOULDBLOCK ? "another ablate is at work in this directory"
                                               : "cannot be locked: " + last_error();
  ::close(descriptor_);
  throw IoError(path_.string() + ": " + why);
}

StudyDirectory::~StudyDirectory() { ::close(descriptor_); }

fs::path StudyDirectory::run(const std::string& arm, std::uint64_t seed) const {
  return path_ / "runs" / arm / ("seed-" + std::to_string(seed));
}

std::optional<RunRecord> StudyDirectory::finished(const std::string& arm,
                                                  std::uint64_t seed) const {
  const fs::path file = run(arm, seed) / "summary.json";
  std::error_code failure;
  if (!fs::exists(file, failure)) return std::nullopt;
  try {
    return record_of(Json::parse(read_whole(file, kMostSummaryBytes)));
  } catch (const IoError&) {
    return std::nullopt;
  } catch (const Json::exception&) {
    return std::nullopt;  // No run wrote this summary, so the run is repeated.
  }
}

void StudyDirectory::clear(const std::string& arm, std::uint64_t seed) const {
  std::error_code failure;
  fs::remove_all(run(arm, seed), failure);
  if (failure) {
    throw IoError(run(arm, seed).string() + ": cannot be removed: " + failure.message());
  }
}

}  // namespace privgrad::core

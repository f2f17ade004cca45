#include "privgrad/record/checkpoint_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "privgrad checkpoint 1\n";
constexpr std::size_t kNumberBytes = 8, kHashDigits = 64, kIdBytes = 16;
constexpr std::size_t kMostBytes = std::size_t{64} << 30, kMostKept = std::size_t{1} << 30;
constexpr std::array<const char*, 2> kSlots = {"checkpoint-a", "checkpoint-b"};
constexpr const char* kBindings = "bindings.jsonl";
constexpr const char* kSummary = "summary.json";

[[noreturn]] void fail_with_errno(const fs::path& path, const char* what) {
  throw IoError(path.string() + ": cannot be " + what + ": " +
                std::generic_category().message(errno));
}

/// Writes a file that only the user can read, whatever the umask is.
void write_private(const fs::path& file, std::string_view text) {
  const fs::path aside = file.string() + ".new";
  const int out =
      ::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (out < 0) fail_with_errno(aside, "written");
  bool done = true;
  while (done && !text.empty()) {
    const ssize_t count = ::write(out, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    done = count >= 0;
    if (done) text.remove_prefix(static_cast<std::size_t>(count));
  }
  done = done && ::fsync(out) == 0;
  const int why = errno;
  ::close(out);
  errno = why;
  if (!done || ::rename(aside.c_str(), file.c_str()) != 0) {
    const int reason = errno;
    ::unlink(aside.c_str());
    errno = reason;
    fail_with_errno(file, "written");
  }
}

void flush_folder(const fs::path& folder) {
  const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool done = opened >= 0 && (::fsync(opened) == 0 || errno == EINVAL);
  const int why = errno;
  if (opened >= 0) ::close(opened);
  errno = why;
  if (!done) fail_with_errno(folder, "flushed to disk");
}

std::string number_bytes(std::uint64_t number) {
  std::string bytes;
  for (std::size_t i = 0; i < kNumberBytes; ++i)
    bytes += static_cast<char>(static_cast<std::uint8_t>(number >> (8 * i)));
  return bytes;
}

/// \returns nothing if the checkpoint is damaged.
std::optional<CheckpointFolder::Checkpoint> parse(std::string text) {
  if (!text.starts_with(kMagic) || text.size() < kMagic.size() + kNumberBytes + kHashDigits)
    return std::nullopt;
  const std::string hash = text.substr(text.size() - kHashDigits);
  text.resize(text.size() - kHashDigits);
  if (sha256_hex(text) != hash) return std::nullopt;
  std::uint64_t number = 0;
  for (std::size_t i = kNumberBytes; i-- > 0;)
    number = (number << 8) | static_cast<std::uint8_t>(text[kMagic.size() + i]);
  return CheckpointFolder::Checkpoint{number, text.substr(kMagic.size() + kNumberBytes)};
}

fs::path folder_of(const fs::path& state, const std::string& id) { return state / ("run-" + id); }

}  // namespace

std::string CheckpointFolder::new_id() {
  if (sodium_init() < 0)
    throw NumericError("libsodium could not be initialised: no secure randomness");
  std::array<std::uint8_t, kIdBytes> bytes{};
  randombytes_buf(bytes.data(), bytes.size());
  std::array<char, 2 * kIdBytes + 1> text{};
  return sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
}

bool CheckpointFolder::is_id(std::string_view text) {
  return text.size() == 2 * kIdBytes && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

CheckpointFolder CheckpointFolder::make(const fs::path& state, const std::string& id) {
  make_directories(state);
  CheckpointFolder folder(folder_of(state, id));
  if (::mkdir(folder.path_.c_str(), 0700) != 0) fail_with_errno(folder.path_, "made");
  folder.lock();
  folder.read_bindings();
  flush_folder(state);
  return folder;
}

namespace {

void check_there(const fs::path& state, const std::string& id) {
  if (CheckpointFolder::is_there(state, id)) return;
  throw IoError(folder_of(state, id).string() +
                ": does not exist: it has the keys and sums that this run needs to continue; they "
                "are on the machine of the run, in the folder of --state or XDG_STATE_HOME");
}

std::optional<std::string> read_kept(const fs::path& path, const char* name) {
  const RecordDirectory folder(path);
  return folder.has(name) ? std::optional(folder.read(name, kMostKept)) : std::nullopt;
}

bool holds_checkpoints(const fs::path& path) {
  const RecordDirectory folder(path);
  return std::ranges::any_of(kSlots, [&](const char* slot) { return folder.has(slot); });
}

}  // namespace

CheckpointFolder CheckpointFolder::open(const fs::path& state, const std::string& id) {
  check_there(state, id);
  CheckpointFolder folder(folder_of(state, id));
  folder.lock();
  folder.read_bindings();
  return folder;
}

bool CheckpointFolder::is_there(const fs::path& state, const std::string& id) {
  struct stat facts {};
  return !state.empty() && ::lstat(folder_of(state, id).c_str(), &facts) == 0 &&
         S_ISDIR(facts.st_mode);
}

CheckpointFolder::CheckpointFolder(CheckpointFolder&& other) noexcept
    : path_(std::move(other.path_)),
      lock_(std::exchange(other.lock_, -1)),
      bindings_(std::exchange(other.bindings_, -1)),
      last_number_(other.last_number_),
      bound_(std::move(other.bound_)) {}

CheckpointFolder::~CheckpointFolder() {
  if (bindings_ >= 0) ::close(bindings_);
  if (lock_ >= 0) ::close(lock_);
}

void CheckpointFolder::lock() {
  const fs::path file = path_ / "lock";
  lock_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_ < 0) fail_with_errno(file, "opened");
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK)
    throw IoError(path_.string() + ": is in use: another process is making this run");
  fail_with_errno(file, "locked");
}

void CheckpointFolder::read_bindings() {
  const fs::path file = path_ / kBindings;
  bindings_ = ::open(file.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (bindings_ < 0) fail_with_errno(file, "opened");
  const std::string text = read_beginning(file, kMostBytes);
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n', begin)) {
    bound_.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  // A truncated line was never synced, so the output that it records was never published.
  if (begin != text.size() && ::ftruncate(bindings_, static_cast<off_t>(begin)) != 0)
    fail_with_errno(file, "cut at its last whole line");
}

void CheckpointFolder::write(std::string_view content) {
  const std::uint64_t number = last_number_ + 1;
  std::string text(kMagic);
  text += number_bytes(number);
  text += content;
  text += sha256_hex(text);
  write_private(path_ / kSlots[number % kSlots.size()], text);
  flush_folder(path_);
  last_number_ = number;
}

std::optional<CheckpointFolder::Checkpoint> CheckpointFolder::read(bool fall_back) {
  const RecordDirectory folder(path_);
  std::optional<Checkpoint> last;
  bool any_damaged = false;
  for (const char* slot : kSlots) {
    if (!folder.has(slot)) continue;
    std::optional<Checkpoint> one = parse(folder.read(slot, kMostBytes));
    any_damaged |= !one;
    if (one && (!last || one->number > last->number)) last = std::move(one);
  }
  if (any_damaged && (!last || !fall_back)) {
    throw IoError(path_.string() + ": " + (last ? "a checkpoint is" : "all checkpoints are") +
                  " damaged, and this run cannot be resumed from an older one");
  }
  if (last) last_number_ = last->number;
  return last;
}

void CheckpointFolder::bind(std::uint64_t n, const std::string& what, const std::string& hash) {
  const std::string line = nlohmann::json{{"shown", n}, {"what", what}, {"released", hash}}.dump();
  if (n < bound_.size()) {
    if (bound_[n] == line) return;
    throw PrivacyError(what +
                       ": the repeated values are not, bit for bit, those that the run had shown "
                       "there (another processor, library or data?); they are not shown, because "
                       "the same noise on another sum would disclose the difference");
  }
  if (n != bound_.size()) {
    throw PrivacyError(path_.string() + ": " + std::to_string(n - bound_.size()) +
                       " binding(s) of what was shown before the checkpoint are missing");
  }
  const std::string text = line + "\n";
  const ssize_t count = ::write(bindings_, text.data(), text.size());
  if (count != static_cast<ssize_t>(text.size()) || ::fdatasync(bindings_) != 0)
    fail_with_errno(path_ / kBindings, "written");
  bound_.push_back(line);
}

void CheckpointFolder::keep(const char* name, std::string_view text) {
  write_private(path_ / name, text);
  flush_folder(path_);
}

std::optional<std::string> CheckpointFolder::kept(const char* name) const {
  return read_kept(path_, name);
}

std::optional<std::string> CheckpointFolder::kept(const fs::path& state, const std::string& id,
                                                  const char* name) {
  check_there(state, id);
  return read_kept(folder_of(state, id), name);
}

bool CheckpointFolder::has_checkpoints() const { return holds_checkpoints(path_); }

bool CheckpointFolder::has_checkpoints(const fs::path& state, const std::string& id) {
  return is_there(state, id) && holds_checkpoints(folder_of(state, id));
}

std::optional<std::string> CheckpointFolder::settled_summary() const {
  const RecordDirectory folder(path_);
  return folder.has(kSummary) ? std::optional(folder.read(kSummary, kMostBytes)) : std::nullopt;
}

std::string CheckpointFolder::settle_summary(const std::string& text) {
  if (auto settled = settled_summary()) return *std::move(settled);
  keep(kSummary, text);
  return text;
}

void CheckpointFolder::erase() {
  std::vector<std::string> names;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(path_, failure))
    names.push_back(entry.path().filename().string());
  if (failure) throw IoError(path_.string() + ": cannot be read: " + failure.message());
  std::stable_partition(names.begin(), names.end(), [](const std::string& name) {
    return name.starts_with("checkpoint-") || name == "plan-key";
  });
  for (const std::string& name : names) {
    if (::unlink((path_ / name).c_str()) != 0) fail_with_errno(path_ / name, "removed");
  }
  flush_folder(path_);
  if (::rmdir(path_.c_str()) != 0) fail_with_errno(path_, "removed");
}

}  // namespace privgrad::core

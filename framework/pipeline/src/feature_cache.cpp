#include "privgrad/pipeline/feature_cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/sha256.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "kept features are little-endian");

constexpr std::string_view kHead = "privgrad features 1\n", kSuffix = ".features";
constexpr std::string_view kAside = ".new";
constexpr std::size_t kHashDigits = 64, kLongestKey = 4096, kAsideDigits = 16;

std::string words_of(int error) { return std::generic_category().message(error); }

/// A descriptor that closes itself.
class Opened {
 public:
  explicit Opened(int descriptor) : descriptor_(descriptor) {}
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  /// \returns whether what was written is known to have arrived.
  bool close() { return ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

/// \returns -1 if there is none.
int open_private_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0 && errno == ENOENT) return -1;
  Opened opened(descriptor);
  struct stat facts {};
  if (!opened || ::fstat(opened.get(), &facts) != 0)
    throw IoError(folder.string() + ": cannot be opened as a folder: " + words_of(errno));
  if (facts.st_uid != ::geteuid() || (facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw ConfigError(folder.string() +
                      ": belongs to or is open to other users; what is kept there are private "
                      "copies of data: give a folder of your own with mode 0700");
  }
  return ::dup(opened.get());
}

/// "a/b/" as "a/b": the last part is what is made private.
fs::path without_end(const fs::path& folder) {
  return folder.has_filename() ? folder : folder.parent_path();
}

void make_private_folder(const fs::path& folder) {
  if (!folder.parent_path().empty()) make_directories(folder.parent_path());
  // The umask can only take rights away.
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw IoError(folder.string() + ": cannot be made: " + words_of(errno));
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

/// \returns whether there were as many bytes.
bool read_all(int descriptor, std::span<char> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::read(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

std::string_view bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

std::string file_name(const FeatureKey& key) { return sha256_hex(key.text).append(kSuffix); }

std::string head_of(const FeatureKey& key) {
  return std::string(kHead).append(key.text).append("\n");
}

std::string size_words(std::uint64_t bytes) {
  constexpr std::uint64_t kMillion = 1'000'000;
  return bytes < kMillion ? std::to_string(bytes) + " bytes"
                          : std::to_string(bytes / kMillion) + " MB";
}

/// \returns why it is not whole; "": it is.
std::string read_features(int descriptor, const FeatureKey& key, std::vector<float>& features) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) return words_of(errno);
  const std::string head = head_of(key);
  const std::uint64_t count = key.rows * key.row_size;
  // Looked at before memory is taken for it.
  if (!S_ISREG(facts.st_mode) || static_cast<std::uint64_t>(facts.st_size) !=
                                     head.size() + count * sizeof(float) + kHashDigits)
    return "it has another size";
  std::string there(head.size(), '\0'), hash(kHashDigits, '\0');
  features.resize(count);
  const std::span<char> numbers(reinterpret_cast<char*>(features.data()), count * sizeof(float));
  if (!read_all(descriptor, there) || !read_all(descriptor, numbers) || !read_all(descriptor, hash))
    return "it cannot be read";
  if (there != head) return "it is about something else";
  Sha256 computed;
  computed.add(there);
  computed.add(bytes_of(features));
  return computed.hex() == hash ? "" : "its hash is another one";
}

/// Whether a file of the folder is one that a cache has written, or was about to.
bool is_own(std::string_view name) {
  const auto is_hash = [](std::string_view text) {
    return text.size() > kHashDigits && is_sha256_hex(text.substr(0, kHashDigits));
  };
  if (!is_hash(name)) return false;
  name.remove_prefix(kHashDigits);
  return name == kSuffix || (name.starts_with(kSuffix) && name.ends_with(kAside));
}

struct FolderCloser {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

/// \param descriptor  of the folder; closed.
std::vector<std::string> own_files(int descriptor, const fs::path& folder) {
  const std::unique_ptr<DIR, FolderCloser> opened(::fdopendir(descriptor));
  if (opened == nullptr) {
    ::close(descriptor);
    throw IoError(folder.string() + ": cannot be read: " + words_of(errno));
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(opened.get())) {
    if (is_own(entry->d_name)) names.emplace_back(entry->d_name);
  }
  return names;
}

/// What the head of a file says, which may be anything.
void read_head(int descriptor, KeptFeatures& kept) {
  std::string text(kHead.size() + kLongestKey + 1, '\0');
  const ssize_t count = ::read(descriptor, text.data(), text.size());
  text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  const std::size_t end = text.find('\n', kHead.size());
  if (!text.starts_with(kHead) || end == text.npos) return;
  const Json json =
      Json::parse(std::string_view(text).substr(kHead.size(), end - kHead.size()), nullptr, false);
  if (!json.is_object()) return;
  const auto number = [&](const char* name) -> std::uint64_t {
    const auto found = json.find(name);
    return found != json.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
  };
  kept.rows = number("rows");
  kept.row_size = number("row_size");
}

std::optional<KeptFeatures> look_at(int folder, const std::string& name) {
  const Opened file(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat facts {};
  const bool is_there = ::fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
  if (!is_there) return std::nullopt;  // somebody has just deleted it
  KeptFeatures kept{.bytes = static_cast<std::uint64_t>(facts.st_size), .used = facts.st_mtime};
  if (file && S_ISREG(facts.st_mode) && name.ends_with(kSuffix)) read_head(file.get(), kept);
  return kept;
}

}  // namespace

FeatureCache::FeatureCache(const fs::path& folder, std::function<void(const std::string&)> note)
    : folder_(without_end(folder)), note_(std::move(note)) {
  make_private_folder(folder_);
  descriptor_ = open_private_folder(folder_);
  if (descriptor_ < 0) throw IoError(folder_.string() + ": has vanished");
}

FeatureCache::~FeatureCache() { ::close(descriptor_); }

void FeatureCache::note(const std::string& text) const {
  if (note_) note_(text);
}

std::optional<std::vector<float>> FeatureCache::find(const FeatureKey& key) const {
  const std::string name = file_name(key);
  const Opened file(
      ::openat(descriptor_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ENOENT) return std::nullopt;
  std::vector<float> features;
  const std::string why = file ? read_features(file.get(), key, features) : words_of(errno);
  if (!why.empty()) {
    note("kept features of " + std::to_string(key.rows) + " examples are damaged (" + why +
         ") and are computed anew: " + folder_.string());
    return std::nullopt;
  }
  // It was used now; where that cannot be written down, it seems older than it is.
  ::futimens(file.get(), nullptr);
  note("took the " + key.what + " for " + std::to_string(key.rows) + " examples from " +
       folder_.string());
  return features;
}

void FeatureCache::keep(const FeatureKey& key, std::span<const float> features) const {
  const std::string head = head_of(key), name = file_name(key);
  const std::uint64_t bytes = head.size() + features.size_bytes() + kHashDigits;
  const auto fail = [&](const std::string& why) {
    note(key.what + " for " + std::to_string(key.rows) +
         " examples are not kept: " + folder_.string() + ": " + why);
  };
  if (key.text.size() > kLongestKey || key.text.find('\n') != key.text.npos)
    return fail("their key is too long");
  Sha256 hash;
  hash.add(head);
  hash.add(bytes_of(features));
  // A name of its own, so that no two processes write to one file.
  const std::string aside =
      name + "." + RandomKey::from_operating_system().public_hex().substr(0, kAsideDigits) +
      std::string(kAside);
  Opened file(::openat(descriptor_, aside.c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return fail(words_of(errno));
  const bool is_whole = write_all(file.get(), head) && write_all(file.get(), bytes_of(features)) &&
                        write_all(file.get(), hash.hex()) && ::fsync(file.get()) == 0 &&
                        file.close() &&
                        ::renameat(descriptor_, aside.c_str(), descriptor_, name.c_str()) == 0;
  if (!is_whole) {
    const std::string why = words_of(errno);
    ::unlinkat(descriptor_, aside.c_str(), 0);
    return fail(why);
  }
  note("kept the " + key.what + " for " + std::to_string(key.rows) + " examples, " +
       size_words(bytes) + " as private as the examples, in " + folder_.string());
}

std::vector<KeptFeatures> list_features(const fs::path& folder) {
  const Opened opened(open_private_folder(folder));
  if (!opened) return {};
  std::vector<KeptFeatures> all;
  for (const std::string& name : own_files(::dup(opened.get()), folder)) {
    if (const auto kept = look_at(opened.get(), name)) all.push_back(*kept);
  }
  std::sort(all.begin(), all.end(), [](const KeptFeatures& a, const KeptFeatures& b) {
    return std::tie(a.used, a.bytes) > std::tie(b.used, b.bytes);
  });
  return all;
}

std::vector<KeptFeatures> delete_features(const fs::path& folder) {
  const Opened opened(open_private_folder(folder));
  if (!opened) return {};
  std::vector<KeptFeatures> removed;
  for (const std::string& name : own_files(::dup(opened.get()), folder)) {
    const auto kept = look_at(opened.get(), name);
    if (::unlinkat(opened.get(), name.c_str(), 0) != 0 && errno != ENOENT)
      throw IoError((folder / name).string() + ": cannot be removed: " + words_of(errno));
    if (kept) removed.push_back(*kept);
  }
  // Where something else is in it, it stays.
  ::rmdir(folder.c_str());
  return removed;
}

}  // namespace privgrad::core

#include "privgrad/data/feature_cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <utility>

#include "bytes_of.hpp"
#include "privgrad/data/private_folder.hpp"
#include "privgrad/data/row_file.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kHead = "privgrad features 1\n", kSuffix = ".features";
constexpr std::string_view kAside = ".new";
constexpr std::size_t kHashDigits = 64, kLongestKey = 4096, kAsideDigits = 16;

std::string file_name(const FeatureKey& key) { return sha256_hex(key.text).append(kSuffix); }

std::string head_of(const FeatureKey& key) {
  return std::string(kHead).append(key.text).append("\n");
}

/// \returns the reason why the file cannot be used; "" if it can be used.
std::string read_features(int descriptor, const FeatureKey& key, std::vector<float>& features) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) return words_of(errno);
  const std::string head = head_of(key);
  const std::uint64_t count = key.rows * key.row_size;
  // Checks the size before allocating memory.
  if (!S_ISREG(facts.st_mode) || static_cast<std::uint64_t>(facts.st_size) !=
                                     head.size() + count * sizeof(float) + kHashDigits)
    return "it has another size";
  std::string there(head.size(), '\0'), hash(kHashDigits, '\0');
  features.resize(count);
  const std::span<char> numbers(reinterpret_cast<char*>(features.data()), count * sizeof(float));
  if (!read_all(descriptor, there) || !read_all(descriptor, numbers) || !read_all(descriptor, hash))
    return "it cannot be read";
  if (there != head) return "it describes other features";
  Sha256 computed;
  computed.add(there);
  computed.add(bytes_of(features));
  return computed.hex() == hash ? "" : "its hash is another one";
}

/// Whether a file in the folder has the name of a cache file or of a temporary file.
bool is_own(std::string_view name) {
  const auto is_hash = [](std::string_view text) {
    return text.size() > kHashDigits && is_sha256_hex(text.substr(0, kHashDigits));
  };
  if (!is_hash(name)) return false;
  name.remove_prefix(kHashDigits);
  const auto is_of = [name](std::string_view suffix) {
    return name == suffix || (name.starts_with(suffix) && name.ends_with(kAside));
  };
  return is_of(kSuffix) || is_of(kRowFileSuffix);
}

struct FolderCloser {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

/// Lists the names of the cache's files in a folder.
/// \param descriptor  the folder's descriptor, which this function closes.
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

/// Reads `rows` and `row_size` from the head of a file, which may have any content.
void read_head(int descriptor, std::string_view magic, KeptFeatures& kept) {
  std::string text(magic.size() + kLongestKey + 1, '\0');
  const ssize_t count = ::read(descriptor, text.data(), text.size());
  text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  const std::size_t end = text.find('\n', magic.size());
  if (!text.starts_with(magic) || end == text.npos) return;
  const Json json =
      Json::parse(std::string_view(text).substr(magic.size(), end - magic.size()), nullptr, false);
  if (!json.is_object()) return;
  const auto number = [&](const char* name) -> std::uint64_t {
    const auto found = json.find(name);
    return found != json.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
  };
  kept.rows = number("rows");
  kept.row_size = number("row_size");
}

std::optional<KeptFeatures> look_at(int folder, const std::string& name) {
  const Descriptor file(
      ::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat facts {};
  const bool is_there = ::fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
  if (!is_there) return std::nullopt;  // the file has just been deleted
  KeptFeatures kept{.bytes = static_cast<std::uint64_t>(facts.st_size), .used = facts.st_mtime};
  if (file && S_ISREG(facts.st_mode) && name.ends_with(kSuffix)) {
    read_head(file.get(), kHead, kept);
  } else if (file && S_ISREG(facts.st_mode) && name.ends_with(kRowFileSuffix)) {
    read_head(file.get(), kRowFileHead, kept);
  }
  return kept;
}

}  // namespace

FeatureCache::FeatureCache(const fs::path& folder, std::function<void(const std::string&)> note)
    : folder_(std::make_unique<PrivateFolder>(folder)), note_(std::move(note)) {}

FeatureCache::~FeatureCache() = default;

void FeatureCache::note(const std::string& text) const {
  if (note_) note_(text);
}

std::optional<std::vector<float>> FeatureCache::find(const FeatureKey& key) const {
  const std::string name = file_name(key);
  const Descriptor file(
      ::openat(folder_->get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ENOENT) return std::nullopt;
  std::vector<float> features;
  const std::string why = file ? read_features(file.get(), key, features) : words_of(errno);
  if (!why.empty()) {
    note("kept features of " + std::to_string(key.rows) + " examples are damaged (" + why +
         ") and are computed anew: " + folder_->path().string());
    return std::nullopt;
  }
  // Marks the file as used now; if this fails, the file only appears older.
  ::futimens(file.get(), nullptr);
  note("took the " + key.what + " for " + std::to_string(key.rows) + " examples from " +
       folder_->path().string());
  return features;
}

void FeatureCache::keep(const FeatureKey& key, std::span<const float> features) const {
  const std::string head = head_of(key), name = file_name(key);
  const std::uint64_t bytes = head.size() + features.size_bytes() + kHashDigits;
  const auto fail = [&](const std::string& why) {
    note(key.what + " for " + std::to_string(key.rows) +
         " examples are not stored: " + folder_->path().string() + ": " + why);
  };
  if (key.text.size() > kLongestKey || key.text.find('\n') != key.text.npos)
    return fail("their key is too long");
  Sha256 hash;
  hash.add(head);
  hash.add(bytes_of(features));
  // Uses a unique name, so that no two processes write to the same file.
  const std::string aside =
      name + "." + RandomKey::from_operating_system().public_hex().substr(0, kAsideDigits) +
      std::string(kAside);
  Descriptor file(::openat(folder_->get(), aside.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return fail(words_of(errno));
  const bool is_whole =
      write_all(file.get(), head) && write_all(file.get(), bytes_of(features)) &&
      write_all(file.get(), hash.hex()) && ::fsync(file.get()) == 0 && file.close() &&
      ::renameat(folder_->get(), aside.c_str(), folder_->get(), name.c_str()) == 0;
  if (!is_whole) {
    const std::string why = words_of(errno);
    ::unlinkat(folder_->get(), aside.c_str(), 0);
    return fail(why);
  }
  note("kept the " + key.what + " for " + std::to_string(key.rows) + " examples, " +
       size_words(bytes) + ", as private as the examples, in " + folder_->path().string());
}

fs::path user_feature_folder() {
  const auto absolute_path_in = [](const char* variable) {
    const char* value = std::getenv(variable);
    // The XDG specification requires that relative paths be ignored.
    return value != nullptr && fs::path(value).is_absolute() ? fs::path(value) : fs::path();
  };
  if (const fs::path cache = absolute_path_in("XDG_CACHE_HOME"); !cache.empty())
    return cache / "privgrad" / "features";
  const fs::path home = absolute_path_in("HOME");
  return home.empty() ? home : home / ".cache" / "privgrad" / "features";
}

std::vector<KeptFeatures> list_features(const fs::path& folder) {
  const Descriptor opened = PrivateFolder::open(folder);
  if (!opened) return {};
  std::vector<KeptFeatures> all;
  for (const std::string& name : own_files(::dup(opened.get()), folder)) {
    if (const auto kept = look_at(opened.get(), name)) all.push_back(*kept);
  }
  std::ranges::sort(all, [](const KeptFeatures& a, const KeptFeatures& b) {
    return std::tie(a.used, a.bytes) > std::tie(b.used, b.bytes);
  });
  return all;
}

std::vector<KeptFeatures> delete_features(const fs::path& folder) {
  const Descriptor opened = PrivateFolder::open(folder);
  if (!opened) return {};
  std::vector<KeptFeatures> removed;
  for (const std::string& name : own_files(::dup(opened.get()), folder)) {
    const auto kept = look_at(opened.get(), name);
    if (::unlinkat(opened.get(), name.c_str(), 0) != 0 && errno != ENOENT)
      throw IoError((folder / name).string() + ": cannot be removed: " + words_of(errno));
    if (kept) removed.push_back(*kept);
  }
  // Fails, as it must, if the folder contains anything else.
  ::rmdir(folder.c_str());
  return removed;
}

}  // namespace privgrad::core

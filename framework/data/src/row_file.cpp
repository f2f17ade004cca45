#include "privgrad/data/row_file.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "bytes_of.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad {
// Members of all other types are handled by json_of() and info_from_json().
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DataInfo, train_rows, test_rows, unaccounted, first_rows_only,
                                   rows_chosen_by_value, class_names, feature_names, remarks,
                                   has_targets, has_test_split)
}  // namespace privgrad

namespace privgrad::core {

/// BLAKE2b-256 of the added bytes. It is five times as fast as SHA-256, and only needs to detect
/// accidents: anyone who can write to the folder can also read the rows.
class RowHash {
 public:
  RowHash() { crypto_generichash_init(&state_, nullptr, 0, kBytes); }
  void add(std::string_view bytes) {
    crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(bytes.data()),
                              bytes.size());
  }
  std::string hex() {
    std::array<unsigned char, kBytes> hash{};
    crypto_generichash_final(&state_, hash.data(), hash.size());
    std::array<char, 2 * kBytes + 1> text{};
    return sodium_bin2hex(text.data(), text.size(), hash.data(), hash.size());
  }

 private:
  static constexpr std::size_t kBytes = 32;
  crypto_generichash_state state_;
};

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kHeadBytes = 4096, kAlignment = 64;
constexpr std::uint64_t kMostDescription = std::uint64_t{1} << 30;
constexpr std::size_t kBuffer = std::size_t{1} << 20;
constexpr std::size_t kNameDigits = 16;

std::string hash_of(std::string_view text) {
  RowHash hash;
  hash.add(text);
  return hash.hex();
}

/// Returns the number of a part: training features, training targets, test features, test targets.
std::size_t part_number(Split split, bool targets) {
  return (split == Split::train ? 0u : 2u) + (targets ? 1u : 0u);
}

std::uint64_t aligned(std::uint64_t place) {
  return (place + kAlignment - 1) / kAlignment * kAlignment;
}

Json to_json(const std::vector<RowOrigin>& origins) {
  Json list = Json::array();
  for (const RowOrigin& one : origins)
    list.push_back({one.file, one.name, one.part, one.first, one.end});
  return list;
}

std::vector<RowOrigin> origins_from_json(const Json& list) {
  std::vector<RowOrigin> origins;
  for (const Json& one : list) {
    origins.push_back({one.at(0).get<std::string>(), one.at(1).get<std::string>(),
                       one.at(2).get<std::string>(), one.at(3).get<std::size_t>(),
                       one.at(4).get<std::size_t>()});
  }
  return origins;
}

Json json_of(const DataInfo& info) {
  Json json = info;
  json["features"] = info.shape.features;
  json["classes"] = info.shape.classes;
  json["reading"] = value_to_json(info.reading);
  json["train_origins"] = to_json(info.train_origins);
  json["test_origins"] = to_json(info.test_origins);
  return json;
}

DataInfo info_from_json(const Json& json) {
  auto info = json.get<DataInfo>();
  info.shape.features = json.at("features").get<Shape>();
  info.shape.classes = json.at("classes").get<std::size_t>();
  info.reading = value_from_json(json.at("reading"));
  info.train_origins = origins_from_json(json.at("train_origins"));
  info.test_origins = origins_from_json(json.at("test_origins"));
  return info;
}

}  // namespace

// ---- reading

std::shared_ptr<const RowFile> RowFile::find(const PrivateFolder& folder, const RowPlace& place,
                                             std::string& why) {
  why.clear();
  if (place.name.empty()) return nullptr;
  const std::string name = place.name + std::string(kRowFileSuffix);
  Descriptor file(
      ::openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) {
    if (errno != ENOENT) why = words_of(errno);
    return nullptr;
  }
  const std::shared_ptr<RowFile> found(new RowFile);
  why = found->open(std::move(file), place.key);
  if (!why.empty()) return nullptr;
  // Marks the file as used now; if this fails, the file only appears older.
  ::futimens(found->file_.get(), nullptr);
  return found;
}

/// \returns the reason why the file cannot be used; "" if it can be used.
std::string RowFile::open(Descriptor file, const std::string& key) {
  file_ = std::move(file);
  struct stat facts {};
  if (::fstat(file_.get(), &facts) != 0) return words_of(errno);
  bytes_ = static_cast<std::uint64_t>(facts.st_size);
  if (!S_ISREG(facts.st_mode) || bytes_ < kHeadBytes) return "it has another size";
  std::string head(kHeadBytes, '\0');
  if (!read_all_at(file_.get(), 0, head)) return "it cannot be read";
  const std::size_t end = head.find('\n', kRowFileHead.size());
  if (!head.starts_with(kRowFileHead) || end == head.npos) return "it has another head";
  const Json json =
      Json::parse(std::string_view(head).substr(kRowFileHead.size(), end - kRowFileHead.size()),
                  nullptr, false);
  try {
    const auto at = json.at("description").get<std::uint64_t>();
    const auto size = json.at("description_bytes").get<std::uint64_t>();
    if (size > kMostDescription || at > bytes_ || bytes_ - at != size) return "it has another size";
    std::string text(size, '\0');
    if (!read_all_at(file_.get(), at, text)) return "it cannot be read";
    if (hash_of(text) != json.at("description_hash").get<std::string>())
      return "its description has another hash";
    if (std::string why = read_description(text, key, at); !why.empty()) return why;
  } catch (const Json::exception&) {
    return "it has another head";
  }
  void* const mapped = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file_.get(), 0);
  if (mapped == MAP_FAILED) return "it cannot be mapped: " + words_of(errno);
  mapped_ = static_cast<const char*>(mapped);
  return "";
}

std::string RowFile::read_description(std::string_view text, const std::string& key,
                                      std::uint64_t parts_end) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.at("key").get<std::string>() != key) return "the data or the program have changed";
  encoding_.is_bytes = json.at("is_bytes").get<bool>();
  encoding_.scale = std::bit_cast<float>(json.at("scale_bits").get<std::uint32_t>());
  info_ = info_from_json(json.at("info"));
  const std::uint64_t row = element_count(info_.shape.features) *
                            (encoding_.is_bytes ? sizeof(std::uint8_t) : sizeof(float));
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Json& part = json.at("parts").at(i);
    parts_[i] = {.at = part.at("at").get<std::uint64_t>(),
                 .bytes = part.at("bytes").get<std::uint64_t>(),
                 .hash = part.at("hash").get<std::string>()};
    const std::uint64_t rows = i < 2 ? info_.train_rows : info_.test_rows;
    std::uint64_t expected = 0;
    const bool fits = !__builtin_mul_overflow(rows, i % 2 == 0 ? row : sizeof(float), &expected) &&
                      parts_[i].bytes == expected && parts_[i].at % kAlignment == 0 &&
                      parts_[i].at <= parts_end && parts_end - parts_[i].at >= expected;
    if (!fits) return "its parts have other sizes";
  }
  content_ =
      hash_of(json.at("parts").dump() + json.at("scale_bits").dump() + json.at("is_bytes").dump());
  return "";
}

RowFile::~RowFile() {
  if (mapped_ != nullptr) ::munmap(const_cast<char*>(mapped_), bytes_);
}

const RowFile::Part& RowFile::part(Split split, bool targets) const {
  return parts_.at(part_number(split, targets));
}

bool RowFile::is_whole(Split split, const Progress& progress) const {
  std::vector<char> buffer(kBuffer);
  const std::uint64_t all = part(split, false).bytes + part(split, true).bytes;
  std::uint64_t done = 0;
  for (const bool targets : {false, true}) {
    const Part& part = this->part(split, targets);
    RowHash hash;
    for (std::uint64_t at = 0; at < part.bytes; at += kBuffer) {
      const auto some = std::span(buffer).first(std::min<std::uint64_t>(kBuffer, part.bytes - at));
      if (!read_all_at(file_.get(), part.at + at, some)) return false;
      hash.add({some.data(), some.size()});
      done += some.size();
      if (progress) progress(static_cast<double>(done) / static_cast<double>(all));
    }
    if (hash.hex() != part.hash) return false;
  }
  return true;
}

Dataset RowFile::rows(Split split, const ExampleShape& shape) const {
  const Part& features = part(split, false);
  const Part& targets = part(split, true);
  LentRows lent{.features = std::span<const float>(),
                .scale = encoding_.scale,
                .targets = {reinterpret_cast<const float*>(mapped_ + targets.at),
                            targets.bytes / sizeof(float)},
                .owner = shared_from_this()};
  if (encoding_.is_bytes) {
    lent.features =
        std::span(reinterpret_cast<const std::uint8_t*>(mapped_ + features.at), features.bytes);
  } else {
    lent.features = std::span(reinterpret_cast<const float*>(mapped_ + features.at),
                              features.bytes / sizeof(float));
  }
  return Dataset(shape, std::move(lent));
}

// ---- writing

/// One part, which has its own file until all parts are combined.
class RowFileWriter::Part {
 public:
  explicit Part(Descriptor file) : file_(std::move(file)) {}

  /// \returns whether the bytes were written; if not, errno gives the reason.
  bool add(std::string_view bytes) {
    hash_.add(bytes);
    bytes_ += bytes.size();
    return write_all(file_.get(), bytes);
  }
  std::uint64_t bytes() const noexcept { return bytes_; }
  Descriptor& file() noexcept { return file_; }
  /// The hash of the part; may be called only once.
  std::string hash() { return hash_.hex(); }

 private:
  Descriptor file_;
  RowHash hash_;
  std::uint64_t bytes_ = 0;
};

RowFileWriter::RowFileWriter(const PrivateFolder& folder, RowPlace place)
    : folder_(folder), place_(std::move(place)) {
  for (std::unique_ptr<Part>& part : parts_) {
    if (&part == &parts_.front() && !place_.name.empty()) continue;
    part = std::make_unique<Part>(scratch());
  }
  if (!place_.name.empty()) {
    Descriptor file(::openat(folder_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file) {
      aside_ = place_.name + std::string(kRowFileSuffix) + "." +
               RandomKey::from_operating_system().public_hex().substr(0, kNameDigits) + ".new";
      file = Descriptor(::openat(folder_.get(), aside_.c_str(),
                                 O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
      if (!file) {
        const int error = errno;
        aside_.clear();
        fail(error);
      }
    }
    parts_.front() = std::make_unique<Part>(std::move(file));
  }
  // Writes training features directly to their final place; writes the head last.
  if (::lseek(parts_.front()->file().get(), kHeadBytes, SEEK_SET) < 0) fail(errno);
}

RowFileWriter::~RowFileWriter() {
  if (!aside_.empty()) ::unlinkat(folder_.get(), aside_.c_str(), 0);
}

void RowFileWriter::fail(int error) const {
  throw IoError(folder_.path().string() + ": rows cannot be written there: " + words_of(error));
}

/// Makes an unnamed file.
Descriptor RowFileWriter::scratch() const {
  Descriptor file(::openat(folder_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  const std::string name = sha256_hex("scratch") + std::string(kRowFileSuffix) + "." +
                           RandomKey::from_operating_system().public_hex().substr(0, kNameDigits) +
                           ".new";
  file = Descriptor(::openat(folder_.get(), name.c_str(),
                             O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file || ::unlinkat(folder_.get(), name.c_str(), 0) != 0) fail(errno);
  return file;
}

void RowFileWriter::add(const RowBlock& block) {
  const RowEncoding encoding{std::holds_alternative<std::span<const std::uint8_t>>(block.features),
                             block.scale};
  const std::size_t numbers =
      std::visit([](const auto features) { return features.size(); }, block.features);
  const std::size_t rows = block.targets.size();
  if (!encoding_ && rows > 0) {
    encoding_ = encoding;
    row_size_ = numbers / rows;
  }
  const bool is_alike = rows > 0 && row_size_ > 0 && numbers == rows * row_size_ &&
                        encoding.is_bytes == encoding_->is_bytes &&
                        std::bit_cast<std::uint32_t>(encoding.scale) ==
                            std::bit_cast<std::uint32_t>(encoding_->scale);
  if (!is_alike)
    throw PluginError("the data source broke its contract: its rows have different sizes or types");
  Part& features = *parts_.at(part_number(block.split, false));
  Part& targets = *parts_.at(part_number(block.split, true));
  const std::string_view bytes =
      std::visit([](const auto all) { return bytes_of(all); }, block.features);
  if (!features.add(bytes) || !targets.add(bytes_of(block.targets))) fail(errno);
}

std::uint64_t RowFileWriter::rows(Split split) const noexcept {
  return parts_[part_number(split, true)]->bytes() / sizeof(float);
}

std::shared_ptr<const RowFile> RowFileWriter::finish(const DataInfo& info) {
  const int file = parts_.front()->file().get();
  std::uint64_t at = kHeadBytes;
  Json parts = Json::array();
  std::vector<char> buffer(kBuffer);
  for (const std::unique_ptr<Part>& part : parts_) {
    at = aligned(at);
    const std::uint64_t bytes = part->bytes();
    parts.push_back({{"at", at}, {"bytes", bytes}, {"hash", part->hash()}});
    if (part != parts_.front()) {
      if (::lseek(file, static_cast<off_t>(at), SEEK_SET) < 0) fail(errno);
      for (std::uint64_t from = 0; from < bytes; from += kBuffer) {
        const auto some = std::span(buffer).first(std::min<std::uint64_t>(kBuffer, bytes - from));
        if (!read_all_at(part->file().get(), from, some)) fail(EIO);
        if (!write_all(file, {some.data(), some.size()})) fail(errno);
      }
      part->file().close();
    }
    at += bytes;
  }
  at = aligned(at);
  const RowEncoding encoding = encoding_.value_or(RowEncoding{});
  const std::string text = Json{
      {"key", place_.key},
      {"is_bytes", encoding.is_bytes},
      {"scale_bits", std::bit_cast<std::uint32_t>(encoding.scale)},
      {"info", json_of(info)},
      {"parts",
       std::move(parts)}}.dump();
  std::string head = std::string(kRowFileHead) +
                     Json{{"description", at},
                          {"description_bytes", text.size()},
                          {"description_hash", hash_of(text)},
                          {"rows", info.train_rows + info.test_rows},
                          {"row_size", row_size_}}
                         .dump() +
                     "\n";
  head.resize(kHeadBytes, '\0');
  const bool is_written = ::lseek(file, static_cast<off_t>(at), SEEK_SET) >= 0 &&
                          write_all(file, text) && ::lseek(file, 0, SEEK_SET) == 0 &&
                          write_all(file, head);
  if (!is_written) fail(errno);
  if (!place_.name.empty()) put_in_place();
  const std::shared_ptr<RowFile> made(new RowFile);
  const std::string why = made->open(std::move(parts_.front()->file()), place_.key);
  if (!why.empty())
    throw IoError(folder_.path().string() + ": rows were written there, but " + why);
  return made;
}

/// Gives the file its name once it is on the disk, so a name always belongs to a complete file. A
/// process that has mapped the previous file of this name keeps using that file.
void RowFileWriter::put_in_place() {
  const int file = parts_.front()->file().get();
  const std::string name = place_.name + std::string(kRowFileSuffix);
  if (::fsync(file) != 0) fail(errno);
  if (!aside_.empty()) {
    if (::renameat(folder_.get(), aside_.c_str(), folder_.get(), name.c_str()) != 0) fail(errno);
    aside_.clear();
  } else {
    if (::unlinkat(folder_.get(), name.c_str(), 0) != 0 && errno != ENOENT) fail(errno);
    const std::string opened = "/proc/self/fd/" + std::to_string(file);
    if (::linkat(AT_FDCWD, opened.c_str(), folder_.get(), name.c_str(), AT_SYMLINK_FOLLOW) != 0)
      fail(errno);
  }
  if (::fsync(folder_.get()) != 0) fail(errno);
}

}  // namespace privgrad::core

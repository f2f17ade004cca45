#include <archive.h>
#include <archive_entry.h>

#include <memory>
#include <utility>
#include <vector>

#include "../files/shown_text.hpp"
#include "npy_bytes.hpp"
#include "privgrad/error.hpp"

namespace {

using namespace privgrad;

struct ArchiveCloser {
  void operator()(struct archive* archive) const noexcept { ::archive_read_free(archive); }
};

/// Reads a ZIP archive, member by member, in the order of the directory at the archive's end.
class ZipReader {
 public:
  explicit ZipReader(const std::filesystem::path& path)
      : path_(path), archive_(::archive_read_new()) {
    constexpr std::size_t kBlock = std::size_t{1} << 16;
    if (archive_ == nullptr ||
        ::archive_read_support_format_zip_seekable(archive_.get()) != ARCHIVE_OK ||
        ::archive_read_open_filename(archive_.get(), path_.c_str(), kBlock) != ARCHIVE_OK)
      fail_broken();
  }

  /// Moves to the next member.
  /// \returns false at the end.
  bool next() {
    const int result = ::archive_read_next_header(archive_.get(), &entry_);
    if (result == ARCHIVE_EOF) return false;
    if (result != ARCHIVE_OK) fail_broken();
    return true;
  }

  std::string name() const {
    const char* name = ::archive_entry_pathname(entry_);
    return name == nullptr ? "" : name;
  }
  bool is_encrypted() const { return ::archive_entry_is_data_encrypted(entry_) != 0; }
  bool has_size() const {
    return ::archive_entry_size_is_set(entry_) != 0 && ::archive_entry_size(entry_) >= 0;
  }
  std::uint64_t size() const { return static_cast<std::uint64_t>(::archive_entry_size(entry_)); }

  /// \returns the number of bytes of the member that were read, 0 at its end, or a negative number
  ///   on failure; error() then gives the reason.
  la_ssize_t read(std::span<std::uint8_t> to) {
    return ::archive_read_data(archive_.get(), to.data(), to.size());
  }
  std::string error() const {
    const char* text = ::archive_error_string(archive_.get());
    return text == nullptr ? "libarchive does not say why" : shown_text(text);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw IoError(path_.string() + ": " + what);
  }

 private:
  [[noreturn]] void fail_broken() const {
    fail("is not a whole .npz archive (" + (archive_ == nullptr ? "no memory" : error()) + ")");
  }

  std::filesystem::path path_;
  std::unique_ptr<struct archive, ArchiveCloser> archive_;
  struct archive_entry* entry_ = nullptr;
};

/// One member, decompressed as it is read.
class MemberBytes final : public NpyBytes {
 public:
  /// \param zip  the archive, positioned at the member.
  MemberBytes(const std::filesystem::path& path, std::unique_ptr<ZipReader> zip)
      : path_(path), zip_(std::move(zip)), name_(zip_->name()) {
    if (zip_->is_encrypted()) fail("is encrypted");
    if (!zip_->has_size()) fail("has no size in the archive's list");
    size_ = zip_->size();
  }

  std::uint64_t size() const override { return size_; }
  std::string who() const override {
    return path_.string() + ": its array '" + shown_text(name_) + "' ";
  }

  std::string member() const override { return name_; }

  std::size_t read(std::span<std::uint8_t> to) override {
    std::size_t done = 0;
    while (done < to.size()) {
      const std::size_t got = some(to.subspan(done));
      if (got == 0) break;
      done += got;
    }
    done_ += done;
    // Reads past the end, because the checksum is compared only after the last byte.
    std::uint8_t more = 0;
    if (done > 0 && done_ == size_ && some({&more, 1}) > 0)
      fail("is longer than the archive's list says");
    return done;
  }

 private:
  std::size_t some(std::span<std::uint8_t> to) {
    const la_ssize_t got = zip_->read(to);
    if (got < 0) fail("has corrupt data: " + zip_->error());
    return static_cast<std::size_t>(got);
  }

  std::filesystem::path path_;
  std::unique_ptr<ZipReader> zip_;
  std::string name_;
  std::uint64_t size_ = 0, done_ = 0;
};

std::string names_of(const std::vector<std::string>& members) {
  std::string names;
  for (const std::string& member : members)
    names += (names.empty() ? "" : ", ") + shown_text(member.substr(0, member.size() - 4));
  return names.empty() ? "none" : names;
}

}  // namespace

std::unique_ptr<NpyBytes> open_npz(const std::filesystem::path& path,
                                   const std::optional<std::string>& array) {
  std::vector<std::string> all, members;
  ZipReader list(path);
  while (list.next()) {
    const std::string name = list.name();
    if (!name.ends_with(".npy")) continue;
    all.push_back(name);
    if (!array || name == *array || name == *array + ".npy") members.push_back(name);
  }
  if (array && members.empty())
    list.fail("has no array '" + shown_text(*array) + "'; there are " + names_of(all));
  if (members.size() != 1) {
    list.fail(array ? "has two members '" + shown_text(*array) + "'"
                    : "has " + std::to_string(members.size()) + " arrays (" + names_of(members) +
                          "), expected one, or the name of one (features_array, targets_array)");
  }
  auto zip = std::make_unique<ZipReader>(path);
  while (zip->next()) {
    if (zip->name() == members.front()) return std::make_unique<MemberBytes>(path, std::move(zip));
  }
  list.fail("has changed since its list was read");
}

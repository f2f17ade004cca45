#include <zlib.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "npy_bytes.hpp"
#include "privgrad/error.hpp"

namespace {

/// Source of the layout: PKWARE, .ZIP File Format Specification (APPNOTE), sections 4.3.7 to 4.3.16.
constexpr std::size_t kEndBytes = 22, kCentralBytes = 46, kLocalBytes = 30;
constexpr std::uint32_t kEndMark = 0x06054b50, kCentralMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr std::uint32_t kInZip64 = 0xffffffff;

struct Member {
  std::string name;
  std::uint16_t flags = 0, method = 0;
  std::uint32_t checksum = 0, packed = 0, size = 0, place = 0;
};

std::string printable(std::string_view text) {
  std::string out;
  for (const char byte : text.substr(0, 80)) out += byte >= ' ' && byte != '\x7f' ? byte : '?';
  return out;
}

class Archive {
 public:
  Archive(std::filesystem::path path, std::vector<std::uint8_t> bytes)
      : path_(std::move(path)), bytes_(std::move(bytes)) {}

  const std::filesystem::path& path() const noexcept { return path_; }

  [[noreturn]] void fail(const std::string& what) const {
    throw privgrad::IoError(path_.string() + ": " + what);
  }

  /// All members whose names end in .npy.
  std::vector<Member> arrays() const {
    const std::size_t end = find_end();
    const std::uint16_t count = half(end + 10);
    std::size_t at = word(end + 16);
    if (count == 0xffff || word(end + 12) == kInZip64 || at == kInZip64)
      fail("is in the format ZIP64, for more than 4 GiB; save its arrays as .npy files");
    std::vector<Member> members;
    for (std::uint16_t i = 0; i < count; ++i) {
      if (at > end || end - at < kCentralBytes || word(at) != kCentralMark)
        fail("has a broken list of members");
      const std::size_t name_bytes = half(at + 28);
      const std::size_t whole = kCentralBytes + name_bytes + half(at + 30) + half(at + 32);
      if (end - at < whole) fail("has a broken list of members");
      Member member{
          {},           half(at + 8), half(at + 10), word(at + 16), word(at + 20), word(at + 24),
          word(at + 42)};
      member.name.assign(reinterpret_cast<const char*>(bytes_.data()) + at + kCentralBytes,
                         name_bytes);
      if (member.name.ends_with(".npy")) members.push_back(std::move(member));
      at += whole;
    }
    return members;
  }

  /// \returns where the member's data lie.
  std::span<const std::uint8_t> packed(const Member& member) const {
    if (member.packed == kInZip64 || member.size == kInZip64 || member.place == kInZip64)
      fail("has a member of 4 GiB and more; save it as a .npy file");
    const std::size_t at = member.place;
    if (at > bytes_.size() || bytes_.size() - at < kLocalBytes || word(at) != kLocalMark)
      fail("has a broken member '" + printable(member.name) + "'");
    const std::size_t data = at + kLocalBytes + half(at + 26) + half(at + 28);
    if (data > bytes_.size() || bytes_.size() - data < member.packed)
      fail("is truncated inside its member '" + printable(member.name) + "'");
    return std::span(bytes_).subspan(data, member.packed);
  }

 private:
  std::uint16_t half(std::size_t at) const {
    return static_cast<std::uint16_t>(bytes_[at] | bytes_[at + 1] << 8);
  }
  std::uint32_t word(std::size_t at) const {
    return std::uint32_t{half(at)} | std::uint32_t{half(at + 2)} << 16;
  }

  /// The last record, which a comment may follow.
  std::size_t find_end() const {
    constexpr std::size_t kMostComment = 0xffff;
    for (std::size_t back = kEndBytes; back <= std::min(bytes_.size(), kEndBytes + kMostComment);
         ++back) {
      const std::size_t at = bytes_.size() - back;
      if (word(at) == kEndMark && half(at + 20) == back - kEndBytes) return at;
    }
    fail("is truncated: it has no list of members");
  }

  std::filesystem::path path_;
  std::vector<std::uint8_t> bytes_;
};

/// One member, unpacked as it is read.
class MemberBytes final : public NpyBytes {
 public:
  MemberBytes(Archive archive, Member member)
      : archive_(std::move(archive)), member_(std::move(member)) {
    constexpr std::uint16_t kEncrypted = 1, kStored = 0, kDeflated = 8;
    if ((member_.flags & kEncrypted) != 0) fail("is encrypted");
    if (member_.method != kStored && member_.method != kDeflated)
      fail("is packed by method " + std::to_string(member_.method) +
           ", expected stored or deflated");
    rest_ = archive_.packed(member_);
    is_deflated_ = member_.method == kDeflated;
    if (!is_deflated_ && rest_.size() != member_.size) fail("is stored, but has two lengths");
    if (is_deflated_ && inflateInit2(&stream_, -MAX_WBITS) != Z_OK) {
      is_deflated_ = false;
      fail("cannot be decompressed");
    }
  }
  MemberBytes(const MemberBytes&) = delete;
  MemberBytes& operator=(const MemberBytes&) = delete;
  ~MemberBytes() override {
    if (is_deflated_) inflateEnd(&stream_);
  }

  std::uint64_t size() const override { return member_.size; }

  std::string who() const override {
    return archive_.path().string() + ": its array '" + printable(member_.name) + "' ";
  }

  std::size_t read(std::span<std::uint8_t> to) override {
    const std::size_t wanted = std::min<std::size_t>(to.size(), member_.size - done_);
    const std::size_t got = is_deflated_ ? inflate_to(to.first(wanted)) : copy_to(to.first(wanted));
    if (got < wanted) fail("is shorter than the archive says");
    checksum_ = ::crc32_z(checksum_, to.data(), got);
    done_ += got;
    if (got > 0 && done_ == member_.size && checksum_ != member_.checksum)
      fail("has another checksum than the archive says");
    return got;
  }

 private:
  std::size_t copy_to(std::span<std::uint8_t> to) {
    std::copy_n(rest_.begin(), to.size(), to.begin());
    rest_ = rest_.subspan(to.size());
    return to.size();
  }

  std::size_t inflate_to(std::span<std::uint8_t> to) {
    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    std::size_t done = 0;
    while (done < to.size()) {
      const auto in = static_cast<uInt>(std::min(rest_.size(), kMost));
      const auto out = static_cast<uInt>(std::min(to.size() - done, kMost));
      stream_.next_in = const_cast<Bytef*>(rest_.data());  // which zlib only reads
      stream_.avail_in = in;
      stream_.next_out = to.data() + done;
      stream_.avail_out = out;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      rest_ = rest_.subspan(in - stream_.avail_in);
      done += out - stream_.avail_out;
      if (result == Z_STREAM_END) break;
      if (result != Z_OK)
        fail(std::string("has corrupt data: ") +
             (stream_.msg != nullptr ? stream_.msg : zError(result)));
    }
    return done;
  }

  Archive archive_;
  Member member_;
  std::span<const std::uint8_t> rest_;
  bool is_deflated_ = false;
  z_stream stream_{};
  std::uint64_t done_ = 0;
  uLong checksum_ = ::crc32_z(0, nullptr, 0);
};

std::string names_of(const std::vector<Member>& members) {
  std::string names;
  for (const Member& member : members) {
    const std::string name = member.name.substr(0, member.name.size() - 4);
    names += (names.empty() ? "" : ", ") + printable(name);
  }
  return names.empty() ? "none" : names;
}

}  // namespace

std::unique_ptr<NpyBytes> open_npz(const std::filesystem::path& path,
                                   std::vector<std::uint8_t> bytes,
                                   const std::optional<std::string>& array) {
  Archive archive(path, std::move(bytes));
  std::vector<Member> members = archive.arrays();
  if (array) {
    const std::vector<Member> all = members;
    std::erase_if(members, [&](const Member& member) {
      return member.name != *array && member.name != *array + ".npy";
    });
    if (members.empty())
      archive.fail("has no array '" + printable(*array) + "'; there are " + names_of(all));
  }
  if (members.size() != 1) {
    archive.fail(array ? "has two members '" + printable(*array) + "'"
                       : "has " + std::to_string(members.size()) + " arrays (" + names_of(members) +
                             "), expected one, or the name of one (features_array, targets_array)");
  }
  return std::make_unique<MemberBytes>(std::move(archive), std::move(members.front()));
}

#include "input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <system_error>
#include <utility>

#include "append_bytes.hpp"
#include "privgrad/error.hpp"

namespace {

using namespace privgrad;
std::string reason(int error) { return std::generic_category().message(error); }
}  // namespace

InputFile::InputFile(std::filesystem::path path, bool is_told_by_name)
    : path_(std::move(path)), is_told_by_name_(is_told_by_name) {
  // Uses O_NONBLOCK, because opening a pipe without a writer would wait for ever.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail("cannot be opened: " + reason(errno));
  try {
    struct stat status = {};
    if (::fstat(descriptor_, &status) != 0) fail("cannot be read: " + reason(errno));
    if (S_ISDIR(status.st_mode)) fail("is a directory, expected a file");
    if (!S_ISREG(status.st_mode)) fail("is a device or a pipe, expected a file");
    if (status.st_size == 0) fail("is empty");
    bytes_on_disk_ = static_cast<std::uint64_t>(status.st_size);

    buffer_.resize(kChunk);
    buffer_.resize(read_raw(buffer_));
    begin_unpacking();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

void InputFile::begin_unpacking() {
  const auto begins_with = [&](std::initializer_list<std::uint8_t> magic, const char* ending) {
    if (is_told_by_name_) return path_.extension() == ending;
    return buffer_.size() >= magic.size() &&
           std::equal(magic.begin(), magic.end(), buffer_.begin());
  };
  if (begins_with({0x1f, 0x8b}, ".gz")) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) fail("cannot be decompressed");
    packing_ = Packing::gzip;
  } else if (begins_with({0x28, 0xb5, 0x2f, 0xfd}, ".zst")) {
    constexpr int kLargestWindowLog = 27;  // 128 MiB, the limit of the zstd command
    zstd_.reset(ZSTD_createDCtx());
    if (zstd_ == nullptr || ZSTD_isError(ZSTD_DCtx_setParameter(zstd_.get(), ZSTD_d_windowLogMax,
                                                                kLargestWindowLog)) != 0) {
      fail("cannot be decompressed");
    }
    packing_ = Packing::zstd;
  }
}

InputFile::~InputFile() {
  if (packing_ == Packing::gzip) inflateEnd(&stream_);
  ::close(descriptor_);
}

std::uint64_t InputFile::most_bytes() const noexcept {
  constexpr std::uint64_t kMostPerByte = 1032;  // deflate expands 2 bits to at most 258 bytes
  if (packing_ == Packing::none) return bytes_on_disk_;
  if (packing_ == Packing::zstd) return std::numeric_limits<std::uint64_t>::max();
  return bytes_on_disk_ > std::numeric_limits<std::uint64_t>::max() / kMostPerByte
             ? std::numeric_limits<std::uint64_t>::max()
             : bytes_on_disk_ * kMostPerByte;
}

void InputFile::fail(const std::string& what) const { throw IoError(path_.string() + ": " + what); }

std::size_t InputFile::read(std::span<std::uint8_t> to) {
  if (packing_ == Packing::gzip) return read_gzip(to);
  return packing_ == Packing::zstd ? read_zstd(to) : read_plain(to);
}

std::uint64_t InputFile::append(std::vector<std::uint8_t>& to, std::uint64_t count) {
  return append_bytes(to, count, [this](std::span<std::uint8_t> part) { return read(part); });
}

std::uint64_t InputFile::skip(std::uint64_t count) {
  std::array<std::uint8_t, 4096> nowhere;
  std::uint64_t done = 0;
  while (done < count) {
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(count - done, nowhere.size()));
    const std::size_t got = read(std::span(nowhere).first(wanted));
    done += got;
    if (got < wanted) break;
  }
  return done;
}

bool InputFile::at_end() { return skip(1) == 0; }

std::size_t InputFile::read_raw(std::span<std::uint8_t> to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t got = ::read(descriptor_, to.data() + done, to.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot be read: " + reason(errno));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes_read_ += done;
  return done;
}

void InputFile::refill() {
  if (buffer_at_ < buffer_.size()) return;
  buffer_.resize(kChunk);
  buffer_.resize(read_raw(buffer_));
  buffer_at_ = 0;
}

std::size_t InputFile::read_plain(std::span<std::uint8_t> to) {
  const std::size_t ready = std::min(to.size(), buffer_.size() - buffer_at_);
  if (ready > 0) std::memcpy(to.data(), buffer_.data() + buffer_at_, ready);
  buffer_at_ += ready;
  if (ready == to.size()) return ready;
  if (to.size() - ready >= kChunk) return ready + read_raw(to.subspan(ready));
  refill();
  return buffer_.empty() ? ready : ready + read_plain(to.subspan(ready));
}

std::size_t InputFile::read_gzip(std::span<std::uint8_t> to) {
  std::size_t done = 0;
  while (done < to.size()) {
    refill();
    if (member_done_) {
      if (buffer_.empty()) break;
      if (buffer_[buffer_at_] != 0x1f) fail("has other bytes after its gzip data");
      inflateReset(&stream_);
      member_done_ = false;
    }
    if (buffer_.empty()) fail("is truncated: its gzip data has no end");

    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    const std::size_t out = std::min(to.size() - done, kMost);
    stream_.next_in = buffer_.data() + buffer_at_;
    stream_.avail_in = static_cast<uInt>(buffer_.size() - buffer_at_);
    stream_.next_out = to.data() + done;
    stream_.avail_out = static_cast<uInt>(out);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    buffer_at_ = buffer_.size() - stream_.avail_in;
    done += out - stream_.avail_out;
    if (result == Z_STREAM_END) {
      member_done_ = true;
    } else if (result != Z_OK) {
      fail(std::string("has corrupt gzip data: ") +
           (stream_.msg != nullptr ? stream_.msg : zError(result)));
    }
  }
  return done;
}

std::size_t InputFile::read_zstd(std::span<std::uint8_t> to) {
  ZSTD_outBuffer out{to.data(), to.size(), 0};
  while (out.pos < out.size) {
    refill();
    if (buffer_.empty() && member_done_) break;
    ZSTD_inBuffer in{buffer_.data(), buffer_.size(), buffer_at_};
    const std::size_t before = out.pos;
    const std::size_t result = ZSTD_decompressStream(zstd_.get(), &out, &in);
    if (ZSTD_isError(result) != 0)
      fail(std::string("has corrupt zstd data: ") + ZSTD_getErrorName(result));
    buffer_at_ = in.pos;
    member_done_ = result == 0;
    // The library has no more output, and the file has no more bytes.
    if (buffer_.empty() && out.pos == before && !member_done_)
      fail("is truncated: its zstd data has no end");
  }
  return out.pos;
}

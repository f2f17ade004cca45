// Reads a file's bytes in order, decompressing gzip and Zstandard, within limits on memory.
#pragma once

#include <zlib.h>
#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// The most bytes read from one file, so that a few kilobytes that decompress to terabytes cannot
/// fill the machine.
inline constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 33;

/// The bytes of a regular file in order, decompressed if its first bytes identify gzip or
/// Zstandard. Memory never grows ahead of the bytes that have arrived, except for the window of
/// Zstandard, which is at most 128 MiB.
///
/// Every failure is a one-line IoError that begins with the path.
class InputFile {
 public:
  /// \param is_told_by_name  whether only the name (.gz or .zst) decides if the file is compressed.
  ///   First bytes that belong to a private row must not affect how other rows are read.
  /// \throws IoError if the file is missing, unreadable, a directory, a device, or empty.
  explicit InputFile(std::filesystem::path path, bool is_told_by_name = false);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  /// \returns the bytes read; fewer than to.size() only at the end.
  /// \throws IoError if the disk fails, or the compressed data is truncated or corrupt.
  std::size_t read(std::span<std::uint8_t> to);

  /// Appends up to `count` bytes.
  /// \returns the number of appended bytes; less than `count` only at the end.
  std::uint64_t append(std::vector<std::uint8_t>& to, std::uint64_t count);

  /// Reads up to `count` bytes and discards them.
  /// \returns the number of skipped bytes; less than `count` only at the end.
  std::uint64_t skip(std::uint64_t count);

  /// \returns whether no bytes are left; also checks the checksum of compressed data.
  bool at_end();

  bool compressed() const noexcept { return packing_ != Packing::none; }
  /// \returns "gzip" or "zstd"; call only for a compressed file.
  const char* packing_name() const noexcept { return packing_ == Packing::zstd ? "zstd" : "gzip"; }
  std::uint64_t bytes_on_disk() const noexcept { return bytes_on_disk_; }

  /// \returns the number of bytes of the file read so far, including those read ahead.
  std::uint64_t bytes_read() const noexcept { return bytes_read_; }

  /// \returns an upper bound on the file's decompressed size.
  std::uint64_t most_bytes() const noexcept;

  /// \throws IoError("PATH: what").
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::size_t read_raw(std::span<std::uint8_t> to);
  std::size_t read_plain(std::span<std::uint8_t> to);
  std::size_t read_gzip(std::span<std::uint8_t> to);
  std::size_t read_zstd(std::span<std::uint8_t> to);
  void begin_unpacking();
  /// Refills the buffer if it is used up; leaves buffer_ empty at the end of the file.
  void refill();

  enum class Packing { none, gzip, zstd };
  struct FreeZstd {
    void operator()(ZSTD_DCtx* context) const noexcept { ZSTD_freeDCtx(context); }
  };
  static constexpr std::size_t kChunk = std::size_t{1} << 16;

  std::filesystem::path path_;
  bool is_told_by_name_ = false;
  int descriptor_ = -1;
  std::uint64_t bytes_on_disk_ = 0;
  std::uint64_t bytes_read_ = 0;
  std::vector<std::uint8_t> buffer_;  ///< Raw bytes that were read ahead.
  std::size_t buffer_at_ = 0;
  Packing packing_ = Packing::none;
  bool member_done_ = false;  ///< Whether the current member (frame) has ended; there may be more.
  z_stream stream_{};
  std::unique_ptr<ZSTD_DCtx, FreeZstd> zstd_;
};

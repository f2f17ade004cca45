// Opens the bytes of a NumPy array, from a .npy file or from within a .npz archive.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// The bytes of one array in NumPy's format, from any source.
class NpyBytes {
 public:
  virtual ~NpyBytes() = default;

  /// \returns the bytes read; fewer than to.size() only at the end.
  /// \throws IoError if the disk fails, or compressed data is corrupt.
  virtual std::size_t read(std::span<std::uint8_t> to) = 0;

  virtual std::uint64_t size() const = 0;

  /// \returns the beginning of error messages: "FILE: ", "FILE: its array 'x' ".
  virtual std::string who() const = 0;

  /// \returns the name of the array in the archive; "" if it is the whole file.
  virtual std::string member() const { return ""; }

  /// \throws IoError, always: its message is who(), followed by `what`.
  [[noreturn]] void fail(const std::string& what) const;

  /// Appends up to `count` bytes; memory never grows ahead of the bytes that have arrived.
  /// \returns the number of appended bytes; less than `count` only at the end.
  std::uint64_t append(std::vector<std::uint8_t>& to, std::uint64_t count);
};

/// Opens a .npy file, or one array of a .npz file; the file's first bytes decide which.
/// \param array  the array's name in the archive, with or without ".npy"; if absent, the only
///   array.
/// \throws IoError as InputFile; or if the archive is broken or lacks the array.
std::unique_ptr<NpyBytes> open_npy(const std::filesystem::path& path,
                                   const std::optional<std::string>& array);

/// Opens one array of an archive that numpy.savez or numpy.savez_compressed wrote: a ZIP file,
/// which libarchive decompresses as it is read; encrypted archives are refused. A member's length
/// and checksum must match the values in the archive.
std::unique_ptr<NpyBytes> open_npz(const std::filesystem::path& path,
                                   const std::optional<std::string>& array);

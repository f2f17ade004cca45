// Memory-mapped files of rows, for data sets larger than memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "privgrad/data/private_folder.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/streamed_rows.hpp"

namespace privgrad::core {

inline constexpr std::string_view kRowFileHead = "privgrad rows 1\n";
inline constexpr std::string_view kRowFileSuffix = ".rows";

/// How rows are stored: as bytes, each of which means byte * scale, or as float32.
struct RowEncoding {
  bool is_bytes = false;
  float scale = 1.0f;
};

/// Identifies a file of rows in a folder.
struct RowPlace {
  /// The NAME in the file name NAME.rows: 64 hex digits. If "", the file has no name, and
  /// disappears once no process maps it.
  std::string name;
  /// Everything that determines the rows, on one line; compared with a found file's key.
  std::string key;
};

/// A file of rows, mapped into memory: the system reads rows from the disk when they are used, and
/// reclaims the memory when needed.
///
/// NAME.rows, of mode 0600, little-endian:
///
/// "privgrad rows 1\n", a line of JSON with the offset and the BLAKE2b hash of the description,
/// zeros up to byte 4096; four parts, each at a multiple of 64 bytes: training features, training
/// targets, test features and test targets (float32, or bytes; row after row); the description,
/// JSON: the key, the encoding of rows, DataInfo, and the offset, length and BLAKE2b-256 hash of
/// each part.
///
/// The head, the file's size, the hash of the description, and the key are checked when the file is
/// found. A truncated file is thus detected before it is mapped. PrivGrad itself never truncates a
/// mapped file: it never writes to a file that already has its name, but replaces the file. Only
/// is_whole() checks the hash of each part, for which it reads the part once.
///
/// Privacy: as private as the rows. Threads: const functions may run concurrently.
class RowFile : public std::enable_shared_from_this<RowFile> {
 public:
  /// A function that receives the completed share of a long operation, 0 to 1; may be empty.
  using Progress = std::function<void(double)>;

  /// \param why  receives the reason why a file of that name cannot be used; "" if there is no such
  ///   file, or if it can be used.
  /// \returns null if there is no such file, or if it is not complete or has a different key.
  static std::shared_ptr<const RowFile> find(const PrivateFolder& folder, const RowPlace& place,
                                             std::string& why);

  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;
  ~RowFile();

  const DataInfo& info() const noexcept { return info_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// A hash of all rows and of their format in the file.
  const std::string& content() const noexcept { return content_; }

  /// \returns whether the parts of a split have the hashes that the description states.
  bool is_whole(Split split, const Progress& progress) const;

  /// \param shape  the shape of the rows.
  /// \throws IoError as Dataset does.
  Dataset rows(Split split, const ExampleShape& shape) const;

 private:
  friend class RowFileWriter;
  struct Part {
    std::uint64_t at = 0, bytes = 0;
    std::string hash;
  };
  RowFile() = default;
  std::string open(Descriptor file, const std::string& key);
  std::string read_description(std::string_view text, const std::string& key,
                               std::uint64_t parts_end);
  const Part& part(Split split, bool targets) const;

  Descriptor file_;
  const char* mapped_ = nullptr;
  std::uint64_t bytes_ = 0;
  RowEncoding encoding_;
  std::array<Part, 4> parts_;
  DataInfo info_;
  std::string content_;
};

/// Writes a file of rows. The file has no name until it is complete and on the disk, so a killed
/// process leaves nothing (without O_TMPFILE, it leaves a file NAME.rows.DIGITS.new, which is never
/// read).
class RowFileWriter {
 public:
  /// \param folder  outlives this.
  /// \throws IoError if nothing can be written to the folder.
  RowFileWriter(const PrivateFolder& folder, RowPlace place);
  RowFileWriter(const RowFileWriter&) = delete;
  RowFileWriter& operator=(const RowFileWriter&) = delete;
  ~RowFileWriter();

  /// \param block  one row or more, with the row size and encoding of the earlier blocks.
  /// \throws IoError if the block cannot be written; PluginError if it has no rows, or if its row
  ///   size or encoding differs.
  void add(const RowBlock& block);

  std::uint64_t rows(Split split) const noexcept;
  std::size_t row_size() const noexcept { return row_size_; }

  /// \param info  contains the shape of the added rows, and the number of rows of each split.
  /// \returns the mapped file.
  std::shared_ptr<const RowFile> finish(const DataInfo& info);

 private:
  class Part;
  [[noreturn]] void fail(int error) const;
  Descriptor scratch() const;
  void put_in_place();

  const PrivateFolder& folder_;
  RowPlace place_;
  std::string aside_;  ///< The file's name until it is complete; "" if it has none.
  std::array<std::unique_ptr<Part>, 4> parts_;
  std::size_t row_size_ = 0;
  std::optional<RowEncoding> encoding_;
};

}  // namespace privgrad::core

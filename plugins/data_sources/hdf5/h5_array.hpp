// Reads one array of an HDF5 file, a range of rows at a time.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "privgrad/dataset.hpp"

/// An identifier of the HDF5 library, closed by the function for the identifier's kind.
class H5Id {
 public:
  using Close = herr_t (*)(hid_t);
  H5Id(hid_t id, Close close) : id_(id), close_(close) {}
  H5Id(const H5Id&) = delete;
  H5Id& operator=(const H5Id&) = delete;
  ~H5Id() {
    if (id_ >= 0) close_(id_);
  }
  hid_t get() const noexcept { return id_; }
  explicit operator bool() const noexcept { return id_ >= 0; }

 private:
  hid_t id_;
  Close close_;
};

/// A data set of integers or reals, or of booleans in the form of h5py, in an HDF5 file, read a
/// range of rows at a time.
///
/// Nothing outside of the file is opened, whatever its content: no external links or storage, no
/// virtual data sets, and no filters from libraries that would have to be loaded.
///
/// Every failure is a one-line IoError that begins with the file. Threads: the library does not
/// support them, so calls must not overlap.
class H5Array {
 public:
  /// \param name  the name of the data set, "/x/y".
  H5Array(const std::filesystem::path& file, const std::string& name);

  /// Returns the data set's address in the file, which is the same for all its names and links.
  std::string place() const;
  /// Returns [rows, extents...]; at least one extent, all > 0.
  const privgrad::Shape& shape() const noexcept { return shape_; }
  std::size_t rows() const noexcept { return shape_.front(); }
  std::size_t row_size() const noexcept { return row_size_; }
  /// Whether every element is an unsigned byte, as in images.
  bool is_bytes() const noexcept { return is_bytes_; }
  /// Whether elements are reals, which can be NaN or infinite; integers cannot: even 64-bit
  /// integers are in the range of float32.
  bool is_real() const noexcept { return is_real_; }
  /// Returns the number of rows in a chunk, which is decompressed as a whole; 1 without chunks.
  std::size_t rows_of_chunk() const noexcept { return rows_of_chunk_; }

  /// Reads rows from `first` on, in C order, rounded to float32; numbers that are not finite, or
  /// too large for float32, become NaN or an infinity.
  void any_reals(std::size_t first, std::size_t count, std::vector<float>& to) const;
  /// \pre is_bytes()
  void bytes(std::size_t first, std::size_t count, std::vector<std::uint8_t>& to) const;

  [[noreturn]] void fail(const std::string& what) const;

 private:
  H5Id open_file() const;
  H5Id open_data() const;
  void check_type();
  void check_layout();
  void read(std::size_t first, std::size_t count, hid_t type, void* to) const;

  std::filesystem::path path_;
  std::string name_;
  H5Id file_, data_;
  privgrad::Shape shape_;
  std::size_t row_size_ = 1, rows_of_chunk_ = 1;
  bool is_bytes_ = false, is_real_ = false, is_long_ = false;
};

// Reads NumPy arrays of plain numbers, and checks their headers; never reads pickled objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../files/input_file.hpp"
#include "npy_bytes.hpp"
#include "privgrad/dataset.hpp"

/// An array in NumPy's format (.npy, version 1.0 to 3.0; in a .npz archive or by itself),
/// positioned after its header, whose announced size was checked against the file's size.
///
/// Reads only arrays of booleans, integers and reals of up to 8 bytes, in either byte order and in
/// C or Fortran order. It never reads pickled objects, so no code in a file ever runs. Source: NEP
/// 1, and the documentation of numpy.lib.format.
class NpyFile {
 public:
  /// The kind of an element, without its width.
  enum class Kind { boolean = 1, integer, unsigned_integer, real };

  /// \param array  the array of a .npz archive; see open_npy().
  /// \param most_bytes  the most bytes of its elements.
  /// \throws IoError if InputFile refuses the file, or if its content is invalid.
  NpyFile(const std::filesystem::path& path, const std::optional<std::string>& array,
          std::uint64_t most_bytes = kMostFileBytes);

  const privgrad::Shape& shape() const noexcept { return shape_; }
  /// Returns the name of the array in the archive; "" if it is the whole file.
  std::string member() const { return file_->member(); }
  /// Whether every element is a byte, as in images.
  bool is_bytes() const noexcept { return kind_ == Kind::unsigned_integer && element_bytes_ == 1; }

  /// Whether elements are reals, which can be NaN or infinite; integers cannot: even 64-bit
  /// integers are in the range of float32.
  bool is_real() const noexcept { return kind_ == Kind::real; }

  /// From now on, elements that are not finite numbers are returned without an error.
  void take_any_number() noexcept { takes_any_ = true; }

  /// \returns all elements in C order, rounded to float32. Call either reals() or bytes(), once.
  /// \throws IoError if an element is NaN, infinite, or too large for float32, unless
  ///   take_any_number() was called.
  std::vector<float> reals();
  /// Returns the elements of an array that is_bytes(), in C order.
  std::vector<std::uint8_t> bytes();

  /// Whether the array's elements are in C order, so that rows can be read one after the other.
  bool is_in_c_order() const noexcept { return !is_fortran_ || shape_.size() < 2; }
  /// Read the next `count` elements in file order, instead of all of them.
  /// \throws IoError as reals().
  void append_reals(std::vector<float>& to, std::uint64_t count);
  void append_bytes(std::vector<std::uint8_t>& to, std::uint64_t count);

  [[noreturn]] void fail(const std::string& what) const { file_->fail(what); }

 private:
  std::string read_header();
  void check_size(std::uint64_t most_bytes);
  void read_type(std::string_view descr);
  template <class T, class Convert>
  void read_as(std::vector<float>& to, std::uint64_t count, Convert convert);
  template <class T>
  void read_as(std::vector<float>& to, std::uint64_t count);
  /// \throws IoError naming the element.
  void check(float value, std::size_t place) const;
  template <class T>
  std::vector<T> in_c_order(std::vector<T> elements) const;

  std::unique_ptr<NpyBytes> file_;
  privgrad::Shape shape_;
  std::uint64_t data_begins_ = 0;
  Kind kind_ = Kind::boolean;
  std::uint64_t element_bytes_ = 1;
  bool is_swapped_ = false;  ///< Whether the byte order differs from this machine's.
  bool is_fortran_ = false;
  bool takes_any_ = false;
  std::uint64_t elements_ = 1;
  std::uint64_t elements_read_ = 0;
};

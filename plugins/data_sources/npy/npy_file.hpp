#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "../files/input_file.hpp"
#include "privgrad/dataset.hpp"

/// A NumPy array file (.npy, version 1.0 or 2.0), open behind its header, whose promise has been
/// held against the size of the file.
///
/// Reads arrays in C order of the types below, nothing else: no pickled objects, so that no code in
/// a file ever runs. Source: NEP 1, and the documentation of numpy.lib.format.
class NpyFile {
 public:
  enum class Type { u1 = 1, i4, i8, f4, f8 };

  /// \throws IoError  what is wrong with the file, as for InputFile.
  explicit NpyFile(const std::filesystem::path& path);

  const privgrad::Shape& shape() const noexcept { return shape_; }
  Type type() const noexcept { return type_; }

  /// \returns all elements, rounded to float32. Call one of the two, once.
  /// \throws IoError  an element is NaN, infinite, or too large for float32.
  std::vector<float> reals();
  /// Of a u1 array.
  std::vector<std::uint8_t> bytes();

  [[noreturn]] void fail(const std::string& what) const { file_.fail(what); }

 private:
  std::string read_header();
  void check_size();
  template <class T>
  std::vector<float> read_as();

  InputFile file_;
  privgrad::Shape shape_;
  std::uint64_t data_begins_ = 0;
  Type type_ = Type::u1;
  std::uint64_t element_bytes_ = 1;
  std::uint64_t elements_ = 1;
};

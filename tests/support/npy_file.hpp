// Writes NumPy files for tests, from the format's specification.
#pragma once

#include <string>
#include <vector>

/// Returns the bytes of a NumPy file, version 1.0, according to the format's specification.
/// \param type  such as "<f4".
/// \param shape  the content of the tuple: "20, 6, 6".
template <class Number>
std::string array_file(const std::string& type, const std::string& shape,
                       const std::vector<Number>& values) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize(117, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size());
  bytes += '\0';
  return bytes + header +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number));
}

// Common code of tests that execute exported models with onnxruntime.
#pragma once

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "shared_files.hpp"
#include "support.hpp"
#include "test_python.hpp"

#define NEEDS_ONNXRUNTIME()                       \
  if (!python_has("numpy, onnxruntime"))          \
  PRIVGRAD_SKIP(                                  \
      "python3 has no numpy, or no onnxruntime: " \
      "scripts/install-dependencies.sh --test brings them")

/// Returns the numbers of a file from numpy or predict, row by row.
template <class Number>
std::vector<Number> numbers_of(const std::filesystem::path& file) {
  const std::string bytes = read_file(file);
  const std::size_t header = static_cast<unsigned char>(bytes.at(8)) +
                             256u * static_cast<unsigned char>(bytes.at(9)) + 10u;
  std::vector<Number> numbers((bytes.size() - header) / sizeof(Number));
  std::memcpy(numbers.data(), bytes.data() + header, numbers.size() * sizeof(Number));
  return numbers;
}

// NumPy array files. The first byte chooses the file that the rest replaces: 'f', the features, or
// 't', the targets; either may be an archive (.npz) of one array. The other file fits the files of
// corpus/npy: two examples, of shape (2, 2) and (2,).
#include <string>

#include "harness/data_source.hpp"
#include "harness/fuzz.hpp"

namespace {

std::string npy(std::string_view shape, std::string_view bytes) {
  const std::string header =
      "{'descr': '|u1', 'fortran_order': False, 'shape': " + std::string(shape) + ", }\n";
  std::string file = "\x93NUMPY\x01";
  file += '\0';
  file += static_cast<char>(header.size());
  file += '\0';
  return file + header + std::string(bytes);
}

}  // namespace

void read_input(std::string_view input) {
  using namespace std::string_view_literals;
  const bool is_targets = fuzz::take_choice(input) == 't';
  const std::string other =
      is_targets ? npy("(2, 2)", "\x01\x02\x03\x04"sv) : npy("(2,)", "\0\x01"sv);
  const auto features = fuzz::scratch_file("features.npy", is_targets ? other : input);
  const auto targets = fuzz::scratch_file("targets.npy", is_targets ? input : other);
  privgrad::Value files, params;
  files.set("features", features.string());
  files.set("targets", targets.string());
  params.set("train", files);
  fuzz::read_all("npy", params);
}

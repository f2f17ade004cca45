// Model files. An input is a header and, after its first line break, the data. The harness adds the
// eight bytes of the header's length, because a fuzzer would not guess them. Each input is also
// read unchanged.
#include "privgrad/model/model_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "harness/fuzz.hpp"
#include "privgrad/error.hpp"

namespace {

void read(std::string_view bytes) {
  const auto model = privgrad::core::parse_model_file(bytes, "model");
  fuzz::require(model.parameters.size() == privgrad::parameter_count(model.network),
                "a model has as many parameters as its network");
  for (const float value : model.parameters)
    fuzz::require(std::isfinite(value), "all parameters are finite");
  fuzz::require(model.classes.size() == model.input.classes, "every class has a name");
}

}  // namespace

void read_input(std::string_view input) {
  try {
    read(input);
  } catch (const privgrad::IoError&) {
    // The usual case: the first eight bytes are not a length.
  }
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::uint64_t length = end;
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  file += input.substr(0, end);
  if (end < input.size()) file += input.substr(end + 1);
  read(file);
}

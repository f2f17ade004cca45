// Initial weights of a run, from a source that is not trusted.
#include "privgrad/model/safetensors.hpp"

#include "harness/fuzz.hpp"
#include "privgrad/dataset.hpp"

void read_input(std::string_view input) {
  using namespace privgrad;
  std::size_t numbers = 0;
  for (const core::StoredTensor& tensor : core::read_safetensors(input).tensors) {
    fuzz::require(tensor.problem.empty() ? element_count(tensor.shape) == tensor.values.size()
                                         : tensor.values.empty(),
                  "a tensor that can be used has as many numbers as its shape says");
    numbers += tensor.values.size();
  }
  fuzz::require(2 * numbers <= input.size(), "no number comes from nowhere");
}

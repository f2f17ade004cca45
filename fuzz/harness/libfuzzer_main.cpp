#include <cstddef>
#include <cstdint>

#include "fuzz.hpp"
#include "privgrad/error.hpp"

/// The entry point for libFuzzer. An exception that is not an Error ends the process, which
/// libFuzzer reports together with the input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    read_input({reinterpret_cast<const char*>(data), size});
  } catch (const privgrad::Error&) {
    // Inputs may be refused.
  }
  return 0;
}

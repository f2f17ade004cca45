#include <cstddef>
#include <cstdint>

#include "fuzz.hpp"
#include "privgrad/error.hpp"

/// The entry point for libFuzzer. An exception that is no Error ends the process, which libFuzzer
/// reports with the input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    read_input({reinterpret_cast<const char*>(data), size});
  } catch (const privgrad::Error&) {
    // Refused, as it may be.
  }
  return 0;
}

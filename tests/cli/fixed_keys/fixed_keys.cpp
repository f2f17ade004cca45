// Only for LD_PRELOAD in tests: the program takes its keys from a counter instead of the operating
// system. Two runs on neighbouring data sets then have the same noise and coins, so that every
// difference between them comes from the rows.
#include <sodium.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace {

std::mutex mutex;
std::uint64_t calls = 0;

void fill(void* to, std::size_t size) {
  const std::lock_guard lock(mutex);
  std::array<unsigned char, randombytes_SEEDBYTES> seed{};
  std::memcpy(seed.data(), &++calls, sizeof calls);
  randombytes_buf_deterministic(to, size, seed.data());
}

const char* name() { return "fixed keys"; }

std::uint32_t word() {
  std::uint32_t value = 0;
  fill(&value, sizeof value);
  return value;
}

randombytes_implementation fixed{.implementation_name = name,
                                 .random = word,
                                 .stir = nullptr,
                                 .uniform = nullptr,
                                 .buf = fill,
                                 .close = nullptr};

[[gnu::constructor]] void use_fixed_keys() { randombytes_set_implementation(&fixed); }

}  // namespace

#include "yardstick.hpp"

#include <cblas.h>
#include <immintrin.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "clock.hpp"
#include "onednn.hpp"
#include "privgrad/instruction_set.hpp"
#include "processor.hpp"

namespace privgrad::bench {
namespace {

constexpr int kExtent = 1024;
constexpr double kOperations = 2.0 * kExtent * kExtent * kExtent;
constexpr const char* kVariable = "OPENBLAS_CORETYPE";

/// OpenBLAS's names for the kernels of a level; every OpenBLAS knows the first name.
std::vector<std::string> kernels_of(InstructionSet level) {
  switch (level) {
    case InstructionSet::avx512:
      return {"SkylakeX", "Cooperlake", "SapphireRapids"};
    case InstructionSet::avx2:
      return {"Haswell", "Zen"};
    case InstructionSet::plain:
      break;
  }
  return {"Prescott", "Core2"};
}

/// Independent chains of multiply-adds, enough to hide their latency.
constexpr int kChains = 12;
constexpr int kRounds = 400'000;

__attribute__((target("avx512f"))) float multiply_add_512() {
  __m512 sums[kChains] = {};
  __m512 factor = _mm512_set1_ps(0.999f);
  for (int i = 0; i < kRounds; ++i) {
    asm volatile("" : "+v"(factor));
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, factor);
  }
  float result = 0.0f;
  for (const __m512& sum : sums) result += _mm512_cvtss_f32(sum);
  return result;
}

__attribute__((target("avx2,fma"))) float multiply_add_256() {
  __m256 sums[kChains] = {};
  __m256 factor = _mm256_set1_ps(0.999f);
  for (int i = 0; i < kRounds; ++i) {
    asm volatile("" : "+x"(factor));
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, factor);
  }
  float result = 0.0f;
  for (const __m256& sum : sums) result += _mm256_cvtss_f32(sum);
  return result;
}

nlohmann::json peak() {
  const InstructionSet level = instruction_set();
  if (level == InstructionSet::plain) return nullptr;
  const bool is_wide = level == InstructionSet::avx512;
  float result = 0.0f;
  const double seconds =
      best_seconds(15, [&] { result += is_wide ? multiply_add_512() : multiply_add_256(); });
  asm volatile("" : : "m"(result));
  return 2.0 * (is_wide ? 16 : 8) * kChains * kRounds / seconds * 1e-9;
}

}  // namespace

void use_own_kernels(char** argv) {
  openblas_set_num_threads(1);
  const std::vector<std::string> own = kernels_of(instruction_set());
  const std::string found = openblas_get_corename();
  if (std::find(own.begin(), own.end(), found) != own.end()) return;
  const char* asked = std::getenv(kVariable);
  if (asked != nullptr && asked == own.front()) {
    throw std::runtime_error("OpenBLAS has the kernels " + found + ", and none for " +
                             std::string(name_of(instruction_set())) + " (" + own.front() +
                             "): the plain step would be slower than this machine can make it");
  }
  ::setenv(kVariable, own.front().c_str(), 1);
  ::execv("/proc/self/exe", argv);
  throw std::runtime_error("the program could not be started again for other kernels");
}

nlohmann::json yardstick() {
  constexpr std::size_t kSize = std::size_t{kExtent} * kExtent;
  const std::vector<float> a(kSize, 0.5f), b(kSize, 0.25f);
  std::vector<float> c(kSize);
  const double seconds = best_seconds(15, [&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kExtent, kExtent, kExtent, 1.0f,
                a.data(), kExtent, b.data(), kExtent, 0.0f, c.data(), kExtent);
  });
  return {{"cpu", processor()},
          {"cores", std::thread::hardware_concurrency()},
          {"instructions", name_of(instruction_set())},
          {"compiler", __VERSION__},
          {"build", PRIVGRAD_BENCH_BUILD},
          {"openblas", openblas_get_config()},
          {"openblas_kernels", openblas_get_corename()},
          {"openblas_gflops", kOperations / seconds * 1e-9},
          {"onednn_gflops", onednn_product_rate(kExtent, a.data(), b.data(), c.data())},
          {"peak_gflops", peak()}};
}

}  // namespace privgrad::bench

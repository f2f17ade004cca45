#include "privgrad/trust/box_muller.hpp"

#include <cmath>
#include <vector>

#include "privgrad/instruction_set.hpp"
#include "privgrad/trust/normal_kernels.hpp"

namespace privgrad::core {
namespace {

using kernels::Pair;
using kernels::radius_of;
using kernels::turned;

PRIVGRAD_INLINE bool transform(const NormalWords& words, float* out) {
  std::uint32_t refine = 0;
  for (std::size_t i = 0; i < NormalWords::kPairs; ++i) {
    refine |= needs_refinement(words.radius[i]) ? 1u : 0u;
    const Pair<float> pair = turned(words.angle[i], radius_of(words.radius[i]));
    out[i] = pair.cosine;
    out[NormalWords::kPairs + i] = pair.sine;
  }
  return refine != 0;
}

bool transform_plain(const NormalWords& words, std::span<float, kNormalsPerChunk> out) {
  return transform(words, out.data());
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) bool transform_avx2(const NormalWords& words,
                                                        std::span<float, kNormalsPerChunk> out) {
  return transform(words, out.data());
}

__attribute__((target("avx512f,avx512dq,avx512vl"))) bool transform_avx512(
    const NormalWords& words, std::span<float, kNormalsPerChunk> out) {
  return transform(words, out.data());
}
#endif

std::vector<BoxMuller> find_variants() {
  std::vector<BoxMuller> found;
#if defined(__x86_64__)
  if (instruction_set() >= InstructionSet::avx512) found.push_back({"avx512", transform_avx512});
  if (instruction_set() >= InstructionSet::avx2) found.push_back({"avx2", transform_avx2});
#endif
  found.push_back({"plain", transform_plain});
  return found;
}

}  // namespace

std::span<const BoxMuller> box_muller_variants() {
  static const std::vector<BoxMuller> variants = find_variants();
  return variants;
}

std::pair<float, float> refined_pair(std::uint32_t radius, std::uint32_t angle,
                                     std::uint64_t more) {
  // Near 1 the distance from it, by inverting the word and the bits, so that no digit is lost.
  const bool upper = radius >> 31 != 0;
  const auto whole = static_cast<double>(upper ? ~radius : radius);
  const double fraction = (static_cast<double>(upper ? ~more : more) + 0.5) * 0x1p-64;
  const double a = (whole + fraction) * 0x1p-32;
  const double r = std::sqrt(-2.0 * (upper ? std::log1p(-a) : std::log(a)));
  const auto [cosine, sine] = turned(angle, static_cast<float>(r));
  return {cosine, sine};
}

}  // namespace privgrad::core

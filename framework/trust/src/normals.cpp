#include "privgrad/trust/normals.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "native_words.hpp"

namespace privgrad::core {
namespace {

constexpr std::uint64_t kWords = 0;  // domains of the cipher
constexpr std::uint64_t kRefinements = 1;

constexpr std::uint64_t kBlocksPerChunk = sizeof(NormalWords) / CounterCipher::kBlockBytes;

std::string purpose_of(std::uint64_t stream) { return "normals " + std::to_string(stream); }

}  // namespace

NormalStream::NormalStream(const RandomKey& key, std::uint64_t stream)
    : key_(key.derive(purpose_of(stream))),
      cipher_(key_),
      transform_(box_muller_variants().front().transform) {}

/// Apart from the cipher of the words, which reads on fastest where it stopped.
CounterCipher& NormalStream::refinements() {
  if (!refinements_) refinements_.emplace(key_);
  return *refinements_;
}

void NormalStream::make_chunk(std::uint64_t chunk, std::span<float, kNormalsPerChunk> out) {
  NormalWords words;
  cipher_.read(kWords, chunk * kBlocksPerChunk, bytes_of(words));
  to_native(words);
  if (!transform_(words, out)) return;
  for (std::size_t i = 0; i < NormalWords::kPairs; ++i) {
    if (!needs_refinement(words.radius[i])) continue;
    std::uint64_t more = 0;
    refinements().read(kRefinements, chunk * NormalWords::kPairs + i, bytes_of(more));
    to_native(more);
    const auto [cosine, sine] = refined_pair(words.radius[i], words.angle[i], more);
    out[i] = cosine;
    out[NormalWords::kPairs + i] = sine;
  }
}

void NormalStream::fill(std::uint64_t first, std::span<float> out) {
  while (!out.empty()) {
    const std::uint64_t chunk = first / kNormalsPerChunk;
    const std::size_t begin = first % kNormalsPerChunk;
    const std::size_t size = std::min(out.size(), kNormalsPerChunk - begin);
    if (size == kNormalsPerChunk) {
      make_chunk(chunk, out.first<kNormalsPerChunk>());
    } else {
      std::array<float, kNormalsPerChunk> whole;
      make_chunk(chunk, whole);
      std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(begin), size, out.begin());
    }
    first += size;
    out = out.subspan(size);
  }
}

void fill_normals(const RandomKey& key, std::uint64_t stream, std::uint64_t first,
                  std::span<float> out) {
  NormalStream(key, stream).fill(first, out);
}

}  // namespace privgrad::core

#include "privgrad/model/augmented_program.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "privgrad/random.hpp"

namespace privgrad::core {
namespace {

/// The most pixels by which a crop moves the image, in each direction.
constexpr std::size_t kMostShift = 4;

/// The number of copies that the program processes together, which bounds the memory for their rows
/// and lets the program read its weights once for all of them.
constexpr std::size_t kCopiesAtOnce = 16;

/// The differences of one copy from the example.
struct Alteration {
  bool is_mirrored = false;
  std::size_t down = kMostShift, right = kMostShift;  ///< kMostShift: not moved.
};

Alteration draw(const Augmentation& how, RandomStream& random) {
  Alteration drawn;
  if (how.flip) drawn.is_mirrored = random.uniform_below(2) == 1;
  if (how.crop) {
    drawn.down = random.uniform_below(2 * kMostShift + 1);
    drawn.right = random.uniform_below(2 * kMostShift + 1);
  }
  return drawn;
}

/// \param from, to [height, width, channels]; `to` is zero where the moved image leaves gaps.
void alter(std::span<const float> from, std::size_t height, std::size_t width, std::size_t channels,
           const Alteration& how, std::span<float> to) {
  std::ranges::fill(to, 0.0f);
  for (std::size_t i = 0; i < height; ++i) {
    const std::size_t y = i + how.down;  // y and how.down include kMostShift
    if (y < kMostShift || y >= height + kMostShift) continue;
    for (std::size_t j = 0; j < width; ++j) {
      const std::size_t x = j + how.right;
      if (x < kMostShift || x >= width + kMostShift) continue;
      const std::size_t column = how.is_mirrored ? width - 1 - j : j;
      const std::size_t source = (i * width + column) * channels;
      const std::size_t target = ((y - kMostShift) * width + (x - kMostShift)) * channels;
      std::copy_n(from.data() + source, channels, to.data() + target);
    }
  }
}

}  // namespace

AugmentedProgram::AugmentedProgram(std::unique_ptr<Program> program, Shape image,
                                   const Augmentation& how)
    : program_(std::move(program)),
      height_(image.at(0)),
      width_(image.at(1)),
      channels_(image.size() > 2 ? image[2] : 1),
      how_(how) {}

void AugmentedProgram::open_step(const RandomKey& key, std::uint64_t step) {
  step_key_ = key.derive("step " + std::to_string(step));
}

void AugmentedProgram::gradient_rows(const Batch& batch, std::span<float> rows) const {
  if (!step_key_) return program_->gradient_rows(batch, rows);
  const std::size_t size = height_ * width_ * channels_, parameters = parameter_count();
  for (std::size_t i = 0; i < batch.rows(); ++i) {
    mean_of_copies(batch.features.subspan(i * size, size), batch.targets[i],
                   rows.subspan(i * parameters, parameters));
  }
}

void AugmentedProgram::mean_of_copies(std::span<const float> features, float target,
                                      std::span<float> row) const {
  // The copies' key is a keyed hash of the example, so only the example and the key determine them.
  const auto bytes = std::as_bytes(features);
  const RandomKey key = step_key_->derive(
      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const auto random = make_random_source(key)->stream(0);
  const std::size_t size = features.size(), at_once = std::min(how_.copies, kCopiesAtOnce);
  std::vector<float> copies(at_once * size), gradients(at_once * row.size());
  const std::vector<float> targets(at_once, target);
  std::vector<double> sum(row.size(), 0.0);
  for (std::size_t done = 0; done < how_.copies; done += at_once) {
    const std::size_t count = std::min(at_once, how_.copies - done);
    for (std::size_t k = 0; k < count; ++k) {
      alter(features, height_, width_, channels_, draw(how_, *random),
            std::span(copies).subspan(k * size, size));
    }
    const auto rows = std::span(gradients).first(count * row.size());
    program_->gradient_rows(
        {std::span(copies).first(count * size), std::span(targets).first(count)}, rows);
    for (std::size_t i = 0; i < rows.size(); ++i)
      sum[i % row.size()] += static_cast<double>(rows[i]);
  }
  const auto number = static_cast<double>(how_.copies);
  std::ranges::transform(sum, row.begin(),
                         [number](double total) { return static_cast<float>(total / number); });
}

const Program& plain_program(const Program& program) {
  const auto* augmented = dynamic_cast<const AugmentedProgram*>(&program);
  return augmented != nullptr ? augmented->inside() : program;
}

AugmentedStep::AugmentedStep(Program& program, const RandomKey& key, std::uint64_t step)
    : program_(dynamic_cast<AugmentedProgram*>(&program)) {
  if (program_ != nullptr) program_->open_step(key, step);
}

AugmentedStep::~AugmentedStep() {
  if (program_ != nullptr) program_->close_step();
}

}  // namespace privgrad::core

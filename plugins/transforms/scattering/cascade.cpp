#include "cascade.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "padding.hpp"
#include "privgrad/wide_registers.hpp"

namespace scattering {
namespace {

using namespace privgrad;

constexpr std::size_t kWidth = 8;  // floats in a register of AVX2

std::vector<float> to_float(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

/// Interleaves filters: [places, lanes], with zeros beyond the last filter.
std::vector<float> side_by_side(const std::vector<std::vector<double>>& filters, std::size_t lanes,
                                double factor) {
  std::vector<float> result(filters.front().size() * lanes);
  for (std::size_t t = 0; t < filters.size(); ++t) {
    for (std::size_t i = 0; i < filters[t].size(); ++i)
      result[i * lanes + t] = static_cast<float>(factor * filters[t][i]);
  }
  return result;
}

/// Computes kAtOnce registers of out[c] = sum over x of weights[x] * in[x, c].
template <std::size_t kLanes, std::size_t kAtOnce>
[[gnu::always_inline]] inline void weigh_columns(const float* weights, std::size_t length,
                                                 const float* in, std::size_t columns, float* out) {
  typedef float Register __attribute__((vector_size(kLanes * sizeof(float))));
  Register sums[kAtOnce] = {};
  for (std::size_t x = 0; x < length; ++x) {
    for (std::size_t r = 0; r < kAtOnce; ++r) {
      Register values;
      std::memcpy(&values, in + x * columns + r * kLanes, sizeof(values));
      sums[r] += weights[x] * values;
    }
  }
  std::memcpy(out, sums, sizeof(sums));
}

/// out[u, c] = sum over x of weights[u, x] * in[x, c], for each block.
template <std::size_t kLanes>
[[gnu::always_inline]] inline void weigh(const std::vector<float>& weights, std::size_t length,
                                         const float* in, std::size_t blocks, std::size_t columns,
                                         float* out) {
  constexpr std::size_t kAtOnce = 6;  // independent sums do not wait for each other
  const std::size_t outputs = weights.size() / length;
  for (std::size_t block = 0; block < blocks; ++block, in += length * columns) {
    for (std::size_t u = 0; u < outputs; ++u, out += columns) {
      const float* row = weights.data() + u * length;
      std::size_t c = 0;
      for (; c + kAtOnce * kLanes <= columns; c += kAtOnce * kLanes)
        weigh_columns<kLanes, kAtOnce>(row, length, in + c, columns, out + c);
      for (; c < columns; c += kLanes)
        weigh_columns<kLanes, 1>(row, length, in + c, columns, out + c);
    }
  }
}

}  // namespace

/// The memory of one call. Not initialised: everything is written before it is read.
struct Cascade::Workspace {
  static std::unique_ptr<float[]> floats(std::size_t count) {
    return std::make_unique_for_overwrite<float[]>(count);
  }
  struct Pair {
    explicit Pair(std::size_t count) : re(floats(count)), im(floats(count)) {}
    Complex get() const { return {re.get(), im.get()}; }
    std::unique_ptr<float[]> re, im;
  };

  Workspace(std::size_t pixels, std::size_t lanes, std::size_t longest)
      : image(floats(pixels)),
        image_spectrum(pixels),
        moduli_spectrum(pixels * lanes),
        product(pixels * lanes),
        half(pixels * lanes),
        moduli(floats(pixels * lanes)),
        second_moduli(floats(pixels * lanes)),
        averaged_down(floats(pixels * lanes)),
        averages(floats(pixels * lanes)),
        scratch(floats(2 * longest * kWidth)) {}

  std::unique_ptr<float[]> image;
  Pair image_spectrum, moduli_spectrum, product, half;
  std::unique_ptr<float[]> moduli, second_moduli, averaged_down, averages, scratch;
};

Cascade::Cascade(std::size_t scales, std::size_t angles, std::size_t max_order, std::size_t height,
                 std::size_t width)
    : scales_(scales),
      angles_(angles),
      max_order_(max_order),
      height_(height),
      width_(width),
      padded_height_(padded(height, scales)),
      padded_width_(padded(width, scales)),
      lanes_((angles + kWidth - 1) / kWidth * kWidth),
      levels_(make_levels(scales, angles, lanes_, max_order, padded_height_, padded_width_)) {}

std::vector<Cascade::Level> Cascade::make_levels(std::size_t scales, std::size_t angles,
                                                 std::size_t lanes, std::size_t max_order,
                                                 std::size_t height, std::size_t width) {
  const Bank bank{.scales = scales, .angles = angles, .height = height, .width = width};
  std::vector<Level> levels;
  for (std::size_t j = 0; j < scales; ++j) {
    levels.push_back({.height = height >> j,
                      .width = width >> j,
                      .down = Axis(height >> j),
                      .across = Axis(width >> j),
                      .average_down = to_float(averages(scales, height, j)),
                      .average_across = to_float(averages(scales, width, j)),
                      .wavelets = {},
                      .first_scale = j == 0 ? 0 : j + 1});
  }
  for (std::size_t scale = 0; scale < scales; ++scale) {
    std::vector<std::vector<double>> whole;
    for (std::size_t t = 0; t < angles; ++t) whole.push_back(wavelet(bank, scale, t));
    for (std::size_t j = 0; j < scales; ++j) {
      Level& level = levels[j];
      if (scale < level.first_scale || (j > 0 && max_order < 2)) continue;
      std::vector<std::vector<double>> here;
      here.reserve(angles);
      for (const std::vector<double>& one : whole) here.push_back(at_resolution(bank, j, one));
      level.wavelets.push_back(
          side_by_side(here, lanes, 1.0 / static_cast<double>(level.height * level.width)));
    }
  }
  return levels;
}

Cascade::~Cascade() = default;

std::unique_ptr<Cascade::Workspace> Cascade::workspace() const {
  {
    const std::lock_guard lock(mutex_);
    if (!unused_.empty()) {
      std::unique_ptr<Workspace> found = std::move(unused_.back());
      unused_.pop_back();
      return found;
    }
  }
  return std::make_unique<Workspace>(padded_height_ * padded_width_, lanes_,
                                     std::max(padded_height_, padded_width_));
}

std::size_t Cascade::coefficients(std::size_t scales, std::size_t angles, std::size_t max_order) {
  return 1 + scales * angles + (max_order < 2 ? 0 : angles * angles * scales * (scales - 1) / 2);
}

void Cascade::pad(const float* image, std::size_t step, float* out) const {
  const std::size_t above = (padded_height_ - height_) / 2, left = (padded_width_ - width_) / 2;
  for (std::size_t y = 0; y < padded_height_; ++y) {
    const float* row = image + reflected(y, above, height_) * width_ * step;
    for (std::size_t x = 0; x < padded_width_; ++x) *out++ = row[reflected(x, left, width_) * step];
  }
}

/// Computes the Fourier transform of real numbers; input and output are [height, width, columns].
template <std::size_t kLanes>
[[gnu::always_inline]] inline void Cascade::spectrum_of(const Level& level, float* values,
                                                        std::size_t columns, Workspace& space,
                                                        Complex out) const {
  using enum Axis::Direction;
  const std::size_t height = level.height, width = level.width, half = height / 2;
  level.down.transform<kLanes>({values, nullptr}, 1, width * columns, forward, half + 1,
                               space.half.get(), space.scratch.get());
  level.across.transform<kLanes>(space.half.get(), half + 1, columns, forward, width, out,
                                 space.scratch.get());
  // Fills the other half with the conjugates of the opposite frequencies.
  for (std::size_t k = half + 1; k < height; ++k) {
    for (std::size_t l = 0; l < width; ++l) {
      const std::size_t to = (k * width + l) * columns;
      const std::size_t from = ((height - k) * width + (width - l) % width) * columns;
      for (std::size_t c = 0; c < columns; ++c) {
        out.re[to + c] = out.re[from + c];
        out.im[to + c] = -out.im[from + c];
      }
    }
  }
}

/// Computes |x * psi| for all angles of a scale, at every 2^scale-th pixel: [height, width, lanes]
/// of that resolution. Subsampling pixels means adding up the frequencies that alias.
/// \param step  the distance between neighbouring numbers of the spectrum of x.
[[gnu::always_inline]] inline void Cascade::filter(const Level& level, Complex spectrum,
                                                   std::size_t step, std::size_t scale,
                                                   Workspace& space, float* moduli) const {
  using enum Axis::Direction;
  const Level& target = levels_[scale];
  const float* psi = level.wavelets[scale - level.first_scale].data();
  const Complex product = space.product.get(), half = space.half.get();
  typedef float Lanes __attribute__((vector_size(kWidth * sizeof(float))));
  std::size_t to = 0;
  for (std::size_t k = 0; k < target.height; ++k) {
    for (std::size_t l = 0; l < target.width; ++l) {
      for (std::size_t t = 0; t < lanes_; t += kWidth, to += kWidth) {
        Lanes re{}, im{};
        for (std::size_t row = k; row < level.height; row += target.height) {
          for (std::size_t column = l; column < level.width; column += target.width) {
            const std::size_t place = row * level.width + column;
            Lanes weights;
            std::memcpy(&weights, psi + place * lanes_ + t, sizeof(weights));
            re += spectrum.re[place * step] * weights;
            im += spectrum.im[place * step] * weights;
          }
        }
        std::memcpy(product.re + to, &re, sizeof(re));
        std::memcpy(product.im + to, &im, sizeof(im));
      }
    }
  }
  target.across.transform<kWidth>(product, target.height, lanes_, backward, target.width, half,
                                  space.scratch.get());
  target.down.transform<kWidth>(half, 1, target.width * lanes_, backward, target.height, product,
                                space.scratch.get());
  const std::size_t count = target.height * target.width * lanes_;
  for (std::size_t i = 0; i < count; ++i)
    moduli[i] = std::sqrt(product.re[i] * product.re[i] + product.im[i] * product.im[i]);
}

/// Averages [height, width, columns] to [outputs, outputs, columns].
template <std::size_t kLanes>
[[gnu::always_inline]] inline void Cascade::average(const Level& level, const float* values,
                                                    std::size_t columns, Workspace& space) const {
  weigh<kLanes>(level.average_down, level.height, values, 1, level.width * columns,
                space.averaged_down.get());
  weigh<kLanes>(level.average_across, level.width, space.averaged_down.get(), height_ >> scales_,
                columns, space.averages.get());
}

[[gnu::always_inline]] inline void Cascade::run(const float* image, std::size_t step, float* out,
                                                std::size_t out_step, Workspace& space) const {
  const std::size_t places = (height_ >> scales_) * (width_ >> scales_);
  const auto keep = [&](std::size_t columns, std::size_t used, std::size_t first) {
    for (std::size_t place = 0; place < places; ++place)
      std::copy_n(space.averages.get() + place * columns, used, out + place * out_step + first);
  };
  pad(image, step, space.image.get());
  average<1>(levels_[0], space.image.get(), 1, space);
  keep(1, 1, 0);
  const Complex spectrum = space.image_spectrum.get();
  spectrum_of<1>(levels_[0], space.image.get(), 1, space, spectrum);
  std::size_t next = 1 + scales_ * angles_;  // the first coefficient of the second order
  for (std::size_t scale = 0; scale < scales_; ++scale) {
    filter(levels_[0], spectrum, 1, scale, space, space.moduli.get());
    average<kWidth>(levels_[scale], space.moduli.get(), lanes_, space);
    keep(lanes_, angles_, 1 + scale * angles_);
    if (max_order_ < 2 || scale + 1 == scales_) continue;
    const Complex second = space.moduli_spectrum.get();
    spectrum_of<kWidth>(levels_[scale], space.moduli.get(), lanes_, space, second);
    for (std::size_t t = 0; t < angles_; ++t) {
      for (std::size_t finer = scale + 1; finer < scales_; ++finer, next += angles_) {
        filter(levels_[scale], {second.re + t, second.im + t}, lanes_, finer, space,
               space.second_moduli.get());
        average<kWidth>(levels_[finer], space.second_moduli.get(), lanes_, space);
        keep(lanes_, angles_, next);
      }
    }
  }
}

void Cascade::operator()(const float* image, std::size_t step, float* out,
                         std::size_t out_step) const {
  std::unique_ptr<Workspace> space = workspace();
  in_wide_registers([&] { run(image, step, out, out_step, *space); });
  const std::lock_guard lock(mutex_);
  unused_.push_back(std::move(space));
}

}  // namespace scattering

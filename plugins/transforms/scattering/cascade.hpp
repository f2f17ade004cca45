// Computes the scattering coefficients of an image: averaged moduli of its wavelet transforms.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "axis.hpp"
#include "filters.hpp"

namespace scattering {

/// The scattering coefficients of an image: averages of the image, of the moduli of its wavelet
/// transforms, and of the moduli of the wavelet transforms of these moduli.
///
/// With J scales and L angles, x the image, reflected at its borders, psi_{j,t} the wavelets and
/// phi the average (filters.hpp), and * the circular convolution on the padded image:
///     S_0 = x * phi,   S_1(j, t) = |x * psi_{j,t}| * phi,
///     S_2(j, t, j', t') = ||x * psi_{j,t}| * psi_{j',t'}| * phi   for j < j',
/// each at every 2^J-th pixel. Moduli of scale j are kept at every 2^j-th pixel.
///
/// Everything is float32, with sums in one order, so the result is a function of only the image,
/// bit for bit. Threads: const functions may run concurrently.
class Cascade {
 public:
  /// \param max_order  1 or 2.
  /// \pre 2^J is at most the height and the width.
  Cascade(std::size_t scales, std::size_t angles, std::size_t max_order, std::size_t height,
          std::size_t width);
  Cascade(const Cascade&) = delete;
  Cascade& operator=(const Cascade&) = delete;
  ~Cascade();

  /// Returns the number of coefficients per place.
  static std::size_t coefficients(std::size_t scales, std::size_t angles, std::size_t max_order);

  /// \param image  pixel (y, x) is image[(y * width + x) * step].
  /// \param out  coefficient k at place (y, x) of height / 2^J and width / 2^J goes to
  ///   out[(y * (width / 2^J) + x) * out_step + k]: S_0, then S_1 by scale and angle, then S_2 by
  ///   scale and angle of the first wavelet, then by scale and angle of the second.
  void operator()(const float* image, std::size_t step, float* out, std::size_t out_step) const;

 private:
  struct Workspace;
  /// The filters and transforms for moduli at one resolution.
  struct Level {
    std::size_t height, width;
    Axis down, across;
    std::vector<float> average_down, average_across;  ///< [outputs, height], [outputs, width].
    /// The wavelets of the scales at this resolution, times 1 / (height * width): [height, width,
    /// lanes] for each.
    std::vector<std::vector<float>> wavelets;
    std::size_t first_scale;  ///< The scale of wavelets[0].
  };

  static std::vector<Level> make_levels(std::size_t scales, std::size_t angles, std::size_t lanes,
                                        std::size_t max_order, std::size_t height,
                                        std::size_t width);

  void run(const float* image, std::size_t step, float* out, std::size_t out_step,
           Workspace& space) const;
  void pad(const float* image, std::size_t step, float* out) const;
  template <std::size_t kLanes>
  void spectrum_of(const Level& level, float* values, std::size_t columns, Workspace& space,
                   Complex out) const;
  void filter(const Level& level, Complex spectrum, std::size_t step, std::size_t scale,
              Workspace& space, float* moduli) const;
  template <std::size_t kLanes>
  void average(const Level& level, const float* values, std::size_t columns,
               Workspace& space) const;

  std::unique_ptr<Workspace> workspace() const;

  std::size_t scales_, angles_, max_order_, height_, width_, padded_height_, padded_width_;
  std::size_t lanes_;          ///< L, rounded up to whole registers.
  std::vector<Level> levels_;  ///< The levels, by resolution.
  mutable std::mutex mutex_;
  /// Unused workspaces, at most one for each simultaneous call so far. Reallocating their memory
  /// would take about a third of the time that an image takes.
  mutable std::vector<std::unique_ptr<Workspace>> unused_;
};

}  // namespace scattering

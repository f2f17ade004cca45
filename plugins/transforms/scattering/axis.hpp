// A Fourier transform along one axis for short, even lengths, on many columns at once.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <numbers>
#include <vector>

namespace scattering {

/// Real and imaginary parts, each row-major.
struct Complex {
  float* re;
  float* im;
};

/// The discrete Fourier transform along one axis of even length n, without a factor, of many
/// columns at once.
///
/// The lengths are those of small images, a few dozen. For these, the fastest method in wide
/// registers is not a fast transform with its branches, but plain sums in which elements with the
/// same cosine are combined: elements m and n - m share a cosine. The frequencies k, n / 2 - k and
/// their opposites also share cosines, up to signs that depend on the parity of m. All sums are in
/// one fixed order, and a column's sums do not depend on the other columns.
class Axis {
 public:
  explicit Axis(std::size_t length) : length_(length) {
    const std::size_t half = length / 2;
    for (std::size_t k = 0; k <= half / 2; ++k) {
      for (std::size_t m = 1; m < half; ++m) {
        const long double turn = 2.0L * std::numbers::pi_v<long double> *
                                 static_cast<long double>(k * m % length) /
                                 static_cast<long double>(length);
        cosine_.push_back(static_cast<float>(std::cos(turn)));
        sine_.push_back(static_cast<float>(std::sin(turn)));
      }
    }
  }

  enum class Direction { forward = 1, backward };

  /// Transforms an array [blocks, length, columns].
  /// \tparam kWidth  the number of columns computed at once; it divides `columns`.
  /// \param in  the imaginary part may be null, which means zero.
  /// \param frequencies  how many frequencies to compute, from 0 on: `length`, or length / 2 + 1.
  ///   The output is [blocks, frequencies, columns].
  /// \param out  must not be `in`.
  /// \param scratch  2 * length * kWidth floats.
  template <std::size_t kWidth>
  [[gnu::always_inline]] inline void transform(Complex in, std::size_t blocks, std::size_t columns,
                                               Direction direction, std::size_t frequencies,
                                               Complex out, float* scratch) const {
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t from = block * length_ * columns, to = block * frequencies * columns;
      for (std::size_t column = 0; column < columns; column += kWidth) {
        const Complex source{in.re + from + column,
                             in.im == nullptr ? nullptr : in.im + from + column};
        const Complex target{out.re + to + column, out.im + to + column};
        if (in.im == nullptr) {
          column_of<kWidth, true>(source, columns, direction, frequencies, target, scratch);
        } else {
          column_of<kWidth, false>(source, columns, direction, frequencies, target, scratch);
        }
      }
    }
  }

 private:
  template <std::size_t kWidth>
  struct Register {
    typedef float Lanes __attribute__((vector_size(kWidth * sizeof(float))));

    [[gnu::always_inline]] static inline Lanes load(const float* from) {
      Lanes result;
      std::memcpy(&result, from, sizeof(Lanes));
      return result;
    }
    [[gnu::always_inline]] static inline void store(Lanes value, float* to) {
      std::memcpy(to, &value, sizeof(Lanes));
    }
  };

  /// Sums over the elements with even indices, or with odd indices, weighted by cosines and sines.
  template <class Lanes>
  struct Parts {
    Lanes cosine{}, sine{};
  };

  /// Computes sum and difference of each pair of elements that share a cosine, [length / 2 - 1, 4].
  template <std::size_t kWidth, bool kReal>
  [[gnu::always_inline]] inline void fold(Complex in, std::size_t step, float* pairs) const {
    using R = Register<kWidth>;
    for (std::size_t m = 1; m < length_ / 2; ++m, pairs += 4 * kWidth) {
      const auto left = R::load(in.re + m * step);
      const auto right = R::load(in.re + (length_ - m) * step);
      R::store(left + right, pairs);
      R::store(left - right, pairs + kWidth);
      if constexpr (!kReal) {
        const auto left_im = R::load(in.im + m * step);
        const auto right_im = R::load(in.im + (length_ - m) * step);
        R::store(left_im + right_im, pairs + 2 * kWidth);
        R::store(left_im - right_im, pairs + 3 * kWidth);
      }
    }
  }

  template <std::size_t kWidth, bool kReal>
  [[gnu::always_inline]] inline void column_of(Complex in, std::size_t step, Direction direction,
                                               std::size_t frequencies, Complex out,
                                               float* scratch) const {
    using R = Register<kWidth>;
    typedef typename R::Lanes Lanes;
    const std::size_t half = length_ / 2;
    fold<kWidth, kReal>(in, step, scratch);
    const auto first = R::load(in.re), middle = R::load(in.re + half * step);
    Lanes first_im{}, middle_im{};
    if constexpr (!kReal) {
      first_im = R::load(in.im);
      middle_im = R::load(in.im + half * step);
    }
    // By exp(i x) = cos x + i sin x, the backward transform has c + i s at frequency k, and c - i s
    // at the opposite frequency. In the forward transform, the two are exchanged.
    const auto put = [&](std::size_t k, Lanes c, Lanes c_im, Lanes s, Lanes s_im) {
      c += k % 2 != 0 ? first - middle : first + middle;
      c_im += k % 2 != 0 ? first_im - middle_im : first_im + middle_im;
      const std::size_t opposite = k == 0 ? 0 : length_ - k;
      const bool forward = direction == Direction::forward;
      const std::size_t plus = forward ? opposite : k, minus = forward ? k : opposite;
      if (plus < frequencies) {
        R::store(c - s_im, out.re + plus * step);
        R::store(c_im + s, out.im + plus * step);
      }
      if (minus < frequencies) {
        R::store(c + s_im, out.re + minus * step);
        R::store(c_im - s, out.im + minus * step);
      }
    };
    for (std::size_t k = 0; k <= half / 2; ++k) {
      const float* cosine = cosine_.data() + k * (half - 1);
      const float* sine = sine_.data() + k * (half - 1);
      Parts<Lanes> even, odd, even_im, odd_im;
      const auto add = [&](std::size_t m, Parts<Lanes>& real, Parts<Lanes>& imaginary) {
        const float* pair = scratch + (m - 1) * 4 * kWidth;
        real.cosine += cosine[m - 1] * R::load(pair);
        real.sine += sine[m - 1] * R::load(pair + kWidth);
        if constexpr (!kReal) {
          imaginary.cosine += cosine[m - 1] * R::load(pair + 2 * kWidth);
          imaginary.sine += sine[m - 1] * R::load(pair + 3 * kWidth);
        }
      };
      std::size_t m = 1;
      for (; m + 1 < half; m += 2) {
        add(m, odd, odd_im);
        add(m + 1, even, even_im);
      }
      if (m < half) add(m, odd, odd_im);
      put(k, even.cosine + odd.cosine, even_im.cosine + odd_im.cosine, even.sine + odd.sine,
          even_im.sine + odd_im.sine);
      if (2 * k == half) continue;
      put(half - k, even.cosine - odd.cosine, even_im.cosine - odd_im.cosine, odd.sine - even.sine,
          odd_im.sine - even_im.sine);
    }
  }

  std::size_t length_;
  std::vector<float> cosine_, sine_;  ///< [length / 4 + 1, length / 2 - 1].
};

}  // namespace scattering

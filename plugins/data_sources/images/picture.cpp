#include "picture.hpp"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csetjmp>
#include <cstring>
#include <memory>

namespace {

void check_extents(std::uint64_t height, std::uint64_t width) {
  if (height == 0 || width == 0) throw BadPicture("has no pixels");
  if (height <= kMostPixels / width) return;
  throw BadPicture("is oversized: it has " + std::to_string(height) + " x " +
                   std::to_string(width) + " pixels, at most " + std::to_string(kMostPixels) +
                   " are read");
}

// ---- PNG

/// On errors the library, which is in C, exits by longjmp, which skips destructors. So no object
/// with a destructor is created between setjmp() and the end of a step.
class PngReader {
 public:
  explicit PngReader(std::span<const std::uint8_t> bytes) : rest_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw BadPicture("cannot be decoded: there is no memory");
    }
    png_set_read_fn(png_, this, on_read);
    // The limit for decompressing a chunk, for example of text.
    constexpr png_alloc_size_t kMostChunk = png_alloc_size_t{1} << 23;
    png_set_chunk_malloc_max(png_, kMostChunk);
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  Picture read() {
    if (!read_header()) fail();
    check_extents(height_, width_);
    Picture picture{height_, width_, channels_, {}};
    const std::size_t row_bytes = std::size_t{width_} * channels_;
    if (row_bytes_ != row_bytes || (channels_ != 1 && channels_ != 3))
      throw BadPicture("has pixels of an unknown form");
    picture.pixels.resize(row_bytes * height_);
    std::vector<png_bytep> rows(height_);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = picture.pixels.data() + i * row_bytes;
    if (!read_rows(rows.data())) fail();
    return picture;
  }

 private:
  static void on_error(png_structp png, png_const_charp text) {
    auto& self = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self.problem_.data(), text, self.problem_.size() - 1);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep to, png_size_t count) {
    auto& self = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (self.rest_.size() < count) png_error(png, "is truncated");
    std::copy_n(self.rest_.begin(), count, to);
    self.rest_ = self.rest_.subspan(count);
  }

  [[noreturn]] void fail() const {
    const std::string problem = problem_.data();
    throw BadPicture(problem == "is truncated" ? problem
                                               : "is not a whole PNG file (" + problem + ")");
  }

  /// \returns false on failure.
  bool read_header() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_info(png_, info_);
    if (std::uint64_t{png_get_image_width(png_, info_)} * png_get_image_height(png_, info_) <=
        kMostPixels) {
      const png_byte type = png_get_color_type(png_, info_);
      if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
      if (type == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png_, info_) < 8)
        png_set_expand_gray_1_2_4_to_8(png_);
      if (png_get_bit_depth(png_, info_) == 16) png_set_scale_16(png_);
      png_set_strip_alpha(png_);
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    }
    width_ = png_get_image_width(png_, info_);
    height_ = png_get_image_height(png_, info_);
    channels_ = png_get_channels(png_, info_);
    row_bytes_ = png_get_rowbytes(png_, info_);
    return true;
  }

  bool read_rows(png_bytepp rows) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    return true;
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::span<const std::uint8_t> rest_;
  std::array<char, 100> problem_{};
  std::uint32_t width_ = 0, height_ = 0;
  std::size_t channels_ = 0, row_bytes_ = 0;
};

// ---- JPEG

struct FreeJpeg {
  void operator()(void* decoder) const noexcept { tjDestroy(decoder); }
};

Picture decode_jpeg(std::span<const std::uint8_t> bytes) {
  const std::unique_ptr<void, FreeJpeg> decoder(tjInitDecompress());
  if (decoder == nullptr) throw BadPicture("cannot be decoded: there is no memory");
  const auto fail = [&] {
    throw BadPicture(std::string("is not a whole JPEG file (") + tjGetErrorStr2(decoder.get()) +
                     ")");
  };
  int width = 0, height = 0, sampling = 0, colours = 0;
  const auto size = static_cast<unsigned long>(bytes.size());
  if (tjDecompressHeader3(decoder.get(), bytes.data(), size, &width, &height, &sampling,
                          &colours) != 0)
    fail();
  if (colours == TJCS_CMYK || colours == TJCS_YCCK)
    throw BadPicture("has CMYK colours, expected grey or RGB; convert it");
  check_extents(static_cast<std::uint64_t>(height), static_cast<std::uint64_t>(width));
  const bool is_grey = colours == TJCS_GRAY;
  Picture picture{static_cast<std::size_t>(height),
                  static_cast<std::size_t>(width),
                  is_grey ? std::size_t{1} : std::size_t{3},
                  {}};
  picture.pixels.resize(picture.height * picture.width * picture.channels);
  // Some files have thousands of scans, each of which takes as long to decode as the image.
  constexpr int kFlags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  if (tjDecompress2(decoder.get(), bytes.data(), size, picture.pixels.data(), width, 0, height,
                    is_grey ? TJPF_GRAY : TJPF_RGB, kFlags) != 0)
    fail();
  return picture;
}

// ---- channels, sizes

Picture with_channels(Picture picture, std::size_t channels) {
  if (picture.channels == channels) return picture;
  const std::size_t count = picture.height * picture.width;
  std::vector<std::uint8_t> pixels(count * channels);
  for (std::size_t i = 0; i < count; ++i) {
    if (channels == 3) {
      std::fill_n(pixels.begin() + static_cast<std::ptrdiff_t>(3 * i), 3, picture.pixels[i]);
    } else {
      const std::uint8_t* const rgb = picture.pixels.data() + 3 * i;
      // The weights 0.299, 0.587 and 0.114, in 65536ths.
      pixels[i] = static_cast<std::uint8_t>(
          (rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
    }
  }
  picture.pixels = std::move(pixels);
  picture.channels = channels;
  return picture;
}

/// The source pixels whose weighted mean becomes one pixel, and the weights, which add up to 1.
struct Mean {
  std::size_t first = 0;
  std::vector<double> weights;
};

std::vector<Mean> means(std::size_t from, std::size_t to) {
  const double ratio = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(1.0, ratio);
  std::vector<Mean> all(to);
  for (std::size_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * ratio;
    const double low = std::max(0.0, std::floor(centre - reach));
    const double high = std::min(static_cast<double>(from), std::ceil(centre + reach));
    all[i].first = static_cast<std::size_t>(low);
    double sum = 0.0;
    for (std::size_t at = all[i].first; at < static_cast<std::size_t>(high); ++at) {
      const double distance = std::abs(static_cast<double>(at) + 0.5 - centre);
      all[i].weights.push_back(std::max(0.0, 1.0 - distance / reach));
      sum += all[i].weights.back();
    }
    for (double& weight : all[i].weights) weight /= sum;
  }
  return all;
}

}  // namespace

Picture decode_picture(std::span<const std::uint8_t> bytes, std::size_t channels) {
  constexpr std::array<std::uint8_t, 8> kPng{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  constexpr std::array<std::uint8_t, 3> kJpeg{0xff, 0xd8, 0xff};
  const auto begins_with = [&](const auto& magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  if (begins_with(kPng)) return with_channels(PngReader(bytes).read(), channels);
  if (begins_with(kJpeg)) return with_channels(decode_jpeg(bytes), channels);
  throw BadPicture("is neither a PNG nor a JPEG file by its first bytes");
}

Picture resized(const Picture& picture, std::size_t height, std::size_t width) {
  const std::size_t channels = picture.channels;
  const std::vector<Mean> columns = means(picture.width, width);
  std::vector<double> rows(picture.height * width * channels);
  for (std::size_t y = 0; y < picture.height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t c = 0; c < channels; ++c) {
        double sum = 0.0;
        for (std::size_t k = 0; k < columns[x].weights.size(); ++k) {
          sum += columns[x].weights[k] *
                 picture.pixels[(y * picture.width + columns[x].first + k) * channels + c];
        }
        rows[(y * width + x) * channels + c] = sum;
      }
    }
  }
  Picture result{height, width, channels, std::vector<std::uint8_t>(height * width * channels)};
  const std::vector<Mean> lines = means(picture.height, height);
  const std::size_t line = width * channels;
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t i = 0; i < line; ++i) {
      double sum = 0.0;
      for (std::size_t k = 0; k < lines[y].weights.size(); ++k)
        sum += lines[y].weights[k] * rows[(lines[y].first + k) * line + i];
      result.pixels[y * line + i] =
          static_cast<std::uint8_t>(std::clamp(std::floor(sum + 0.5), 0.0, 255.0));
    }
  }
  return result;
}

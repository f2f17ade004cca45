// Folders of images. The files are made from the specification of PNG, and by libjpeg-turbo's
// compressor for JPEG.
#include <turbojpeg.h>
#include <zlib.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <functional>

#include "data_sources_files.hpp"
#include "privgrad/data_source.hpp"

using privgrad::ConfigError;
using privgrad::Dataset;
using privgrad::DataSource;
using privgrad::IoError;
using privgrad::Shape;
using privgrad::Split;
using privgrad::Value;
namespace fs = std::filesystem;

namespace {

using Bytes = std::vector<std::uint8_t>;

std::string big_endian_word(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xffu);
  return bytes;
}

std::string png_chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const auto checksum =
      ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian_word(static_cast<std::uint32_t>(data.size())) + body +
         big_endian_word(static_cast<std::uint32_t>(checksum));
}

std::string deflated(const std::string& text) {
  std::string out(compressBound(static_cast<uLong>(text.size())), '\0');
  uLongf size = static_cast<uLongf>(out.size());
  REQUIRE(::compress(reinterpret_cast<Bytef*>(out.data()), &size,
                     reinterpret_cast<const Bytef*>(text.data()),
                     static_cast<uLong>(text.size())) == Z_OK);
  out.resize(size);
  return out;
}

/// The header of a PNG file.
struct Png {
  std::uint32_t width, height;
  int depth = 8, colour = 0;       ///< 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGBA.
  std::string before_pixels = {};  ///< Other chunks.
  bool is_interlaced = false;
};

/// \param scanlines  each with its leading filter byte.
std::string png_file(const Png& png, const std::string& scanlines) {
  std::string header = big_endian_word(png.width) + big_endian_word(png.height);
  header += static_cast<char>(png.depth);
  header += static_cast<char>(png.colour);
  header += std::string(2, '\0');
  header += static_cast<char>(png.is_interlaced ? 1 : 0);
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + png.before_pixels +
         png_chunk("IDAT", deflated(scanlines)) + png_chunk("IEND", "");
}

/// Scanlines without a filter.
std::string lines(std::size_t height, const Bytes& bytes) {
  std::string text;
  const std::size_t width = bytes.size() / height;
  for (std::size_t y = 0; y < height; ++y) {
    text += '\0';
    text.append(reinterpret_cast<const char*>(bytes.data()) + y * width, width);
  }
  return text;
}

std::string grey_png(std::uint32_t height, std::uint32_t width, const Bytes& pixels) {
  return png_file({width, height}, lines(height, pixels));
}

/// Returns a PNG file in the seven passes of Adam7: PNG specification, 8.2.
std::string interlaced_png(std::uint32_t height, std::uint32_t width, const Bytes& pixels) {
  constexpr std::array<std::array<std::uint32_t, 4>, 7> kPasses{{{0, 0, 8, 8},
                                                                 {4, 0, 8, 8},
                                                                 {0, 4, 4, 8},
                                                                 {2, 0, 4, 4},
                                                                 {0, 2, 2, 4},
                                                                 {1, 0, 2, 2},
                                                                 {0, 1, 1, 2}}};
  std::string text;
  for (const auto& [x0, y0, dx, dy] : kPasses) {
    if (x0 >= width) continue;
    for (std::uint32_t y = y0; y < height; y += dy) {
      text += '\0';
      for (std::uint32_t x = x0; x < width; x += dx)
        text += static_cast<char>(pixels[y * width + x]);
    }
  }
  return png_file({width, height, 8, 0, {}, true}, text);
}

std::string jpeg_file(int height, int width, const Bytes& pixels, TJPF format, TJSAMP sampling,
                      int flags = 0) {
  tjhandle encoder = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long size = 0;
  REQUIRE(tjCompress2(encoder, pixels.data(), width, 0, height, format, &out, &size, sampling, 100,
                      flags) == 0);
  std::string bytes(reinterpret_cast<const char*>(out), size);
  tjFree(out);
  tjDestroy(encoder);
  return bytes;
}

/// Two classes of images of 2 x 3 pixels.
struct Folder {
  TempDir dir;
  fs::path train = dir.path() / "train";
  fs::path cat = train / "cat" / "1.png";

  Folder() {
    for (const char* name : {"cat", "dog"}) fs::create_directories(train / name);
    write_file(cat, grey_png(2, 3, {0, 1, 2, 3, 4, 255}));
    write_file(train / "dog" / "1.png", grey_png(2, 3, {10, 11, 12, 13, 14, 15}));
  }

  privgrad::ComponentPtr<DataSource> open(Value::Object extra = {}) const {
    Value params(Value::Object{{"channels", 1, {}}});
    params.set("train", train.string());
    params.set("classes", Value::List{"cat", "dog"});
    params.set("image_size", Value::List{2, 3});
    for (auto& member : extra) params.set(member.key, member.value);
    return house().create<DataSource>("images", params);
  }

  /// Returns the bytes read from the image `cat`.
  Bytes pixels(const std::string& file, Value::Object extra = {}) const {
    replace_file(cat, file);
    Dataset data = open(std::move(extra))->read(Split::train);
    Bytes bytes;
    for (const float x : data.features().first(data.row_size()))
      bytes.push_back(static_cast<std::uint8_t>(std::lround(x * 255.0f)));
    return bytes;
  }
  Bytes in_colour(const std::string& file) const { return pixels(file, {{"channels", 3, {}}}); }

  std::string refusal(const std::string& file, Value::Object extra = {}) const {
    replace_file(cat, file);
    return io_error(cat, [&] { open(std::move(extra))->read(Split::train); });
  }
};

const Bytes kGrey{0, 1, 2, 3, 4, 255};

}  // namespace

TEST_CASE("images: a folder is a class, and files stand in the order of their names") {
  Folder folder;
  write_file(folder.train / "cat" / "10.png", grey_png(2, 3, {20, 20, 20, 20, 20, 20}));
  write_file(folder.train / "cat" / ".hidden", "not an image");
  auto source = folder.open({{"test", folder.train.string(), {}}});
  const auto info = source->info();
  CHECK(info.shape.features == Shape{2, 3});
  CHECK(info.shape.classes == 2);
  CHECK(info.train_rows == 3);
  CHECK(info.test_rows == 3);
  CHECK(info.class_names == std::vector<std::string>{"cat", "dog"});
  CHECK(
      info.unaccounted ==
      std::vector<std::string>{"that every image can be read and has the stated size (bad_image)"});
  Dataset data = source->read(Split::train);
  CHECK(std::vector<float>(data.targets().begin(), data.targets().end()) ==
        std::vector<float>{0, 0, 1});
  CHECK(data.features()[5] == 255.0f * (1.0f / 255.0f));
  CHECK(data.features()[6] == 20.0f * (1.0f / 255.0f));  // "10.png" comes after "1.png"
  CHECK(folder.open({{"channels", 3, {}}})->info().shape.features == Shape{2, 3, 3});
}

TEST_CASE("images: PNG files of every form are those 8 bits") {
  const Folder folder;
  const auto rgb_of = [](const Bytes& grey) {
    Bytes all;
    for (const std::uint8_t x : grey) all.insert(all.end(), 3, x);
    return all;
  };
  CHECK(folder.pixels(grey_png(2, 3, kGrey)) == kGrey);
  CHECK(folder.in_colour(grey_png(2, 3, kGrey)) == rgb_of(kGrey));
  CHECK(folder.pixels(interlaced_png(2, 3, kGrey)) == kGrey);
  // 1, 2 and 4 bits: the largest number is white. Specification, 12.4 (linear scaling).
  CHECK(folder.pixels(png_file({3, 2, 1}, lines(2, {0b10100000, 0b01000000}))) ==
        Bytes{255, 0, 255, 0, 255, 0});
  CHECK(folder.pixels(png_file({3, 2, 2}, lines(2, {0b00011000, 0b11000000}))) ==
        Bytes{0, 85, 170, 255, 0, 0});
  CHECK(folder.pixels(png_file({3, 2, 4}, lines(2, {0x01, 0xf0, 0x23, 0x40}))) ==
        Bytes{0, 17, 255, 34, 51, 68});
  // 16 bits: v / 257, rounded: 0x0180 is 1.494, 0x0182 is 1.502.
  CHECK(folder.pixels(png_file({3, 2, 16}, lines(2, {0, 0, 0x01, 0x80, 0x01, 0x82, 0xff, 0xff, 0x80,
                                                     0x80, 0x01, 0x01}))) ==
        Bytes{0, 1, 2, 255, 128, 1});
  const std::string palette = png_chunk("PLTE", {1, 2, 3, 100, 110, 120});
  CHECK(folder.in_colour(png_file({3, 2, 8, 3, palette}, lines(2, {0, 1, 0, 1, 1, 0}))) ==
        Bytes{1, 2, 3, 100, 110, 120, 1, 2, 3, 100, 110, 120, 100, 110, 120, 1, 2, 3});
  // Transparency is ignored, even in palettes.
  CHECK(folder.pixels(png_file({3, 2, 8, 4}, lines(2, {0, 9, 1, 9, 2, 9, 3, 9, 4, 9, 255, 9}))) ==
        kGrey);
  CHECK(folder.in_colour(png_file({3, 2, 8, 3, palette + png_chunk("tRNS", std::string(2, '\0'))},
                                  lines(2, {0, 1, 0, 1, 1, 0})))[3] == 100);
}

TEST_CASE("images: colours become grey by their luma, and grey becomes three equal channels") {
  const Folder folder;
  // ITU-R BT.601: 0.299 R + 0.587 G + 0.114 B.
  const Bytes rgb{255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255, 10, 20, 30, 0, 0, 0};
  const std::string file = png_file({3, 2, 8, 2}, lines(2, rgb));
  CHECK(folder.in_colour(file) == rgb);
  CHECK(folder.pixels(file) == Bytes{76, 150, 29, 255, 18, 0});
}

TEST_CASE("images: JPEG files, baseline and progressive") {
  const Folder folder;
  const Bytes plain(6, 77);
  for (const int flags : {0, int{TJFLAG_PROGRESSIVE}}) {
    CHECK(folder.pixels(jpeg_file(2, 3, plain, TJPF_GRAY, TJSAMP_GRAY, flags)) == plain);
  }
  // Colours are rounded in both conversions.
  const Bytes rgb{200, 30, 60, 200, 30, 60, 200, 30, 60, 200, 30, 60, 200, 30, 60, 200, 30, 60};
  const Bytes found = folder.in_colour(jpeg_file(2, 3, rgb, TJPF_RGB, TJSAMP_444));
  REQUIRE(found.size() == rgb.size());
  for (std::size_t i = 0; i < rgb.size(); ++i) CHECK(std::abs(found[i] - rgb[i]) <= 2);
}

TEST_CASE("images: another size is an error that names the file, or becomes this one") {
  const Folder folder;
  const std::string four = grey_png(2, 2, {10, 20, 30, 40});
  CHECK_THAT(folder.refusal(four), ContainsSubstring("has 2 x 2 pixels, expected 2 x 3"));
  const Value::Object resize{{"resize", true, {}}};
  CHECK(folder.pixels(grey_png(5, 7, Bytes(35, 99)), resize) == Bytes(6, 99));
  CHECK(folder.pixels(grey_png(2, 3, kGrey), resize) == kGrey);
  // From twice the resolution, each pixel is 1/8, 3/8, 3/8 and 1/8 of four pixels, and at an edge
  // 3/7, 3/7 and 1/7 of three.
  CHECK(folder.pixels(grey_png(2, 6, {70, 0, 0, 0, 0, 0, 0, 0, 80, 0, 0, 0}), resize) ==
        Bytes{30, 0, 0, 11, 30, 0});
  CHECK(folder.open(resize)->info().unaccounted ==
        std::vector<std::string>{"that every image can be read (bad_image)"});
}

TEST_CASE("images: what is not an image is an error that names the file, or black") {
  const Folder folder;
  const std::string png = grey_png(2, 3, kGrey);
  const std::string jpeg = jpeg_file(16, 16, Bytes(256, 7), TJPF_GRAY, TJSAMP_GRAY);
  CHECK_THAT(folder.refusal("GIF89a"), ContainsSubstring("neither a PNG nor a JPEG file"));
  CHECK_THAT(folder.refusal(png.substr(0, png.size() - 20)), ContainsSubstring("is truncated"));
  CHECK_THAT(folder.refusal(png.substr(0, 9)), ContainsSubstring("is truncated"));
  CHECK_THAT(folder.refusal(jpeg.substr(0, jpeg.size() / 2)),
             ContainsSubstring("is not a whole JPEG file"));
  std::string damaged = png;
  damaged[damaged.size() - 25] = static_cast<char>(damaged[damaged.size() - 25] ^ 1);
  CHECK_THAT(folder.refusal(damaged), ContainsSubstring("is not a whole PNG file"));
  CHECK_THAT(folder.refusal(jpeg_file(2, 3, Bytes(24, 9), TJPF_CMYK, TJSAMP_444)),
             ContainsSubstring("has CMYK colours"));
  CHECK_THAT(folder.refusal(png_file({3, 2, 8, 5}, lines(2, kGrey))),
             ContainsSubstring("is not a whole PNG file"));
  CHECK_THAT(folder.refusal(png_file({0, 2}, "")), ContainsSubstring("is not a whole PNG file"));
  SECTION("and is black, if the manifest says so") {
    const Value::Object blank{{"bad_image", "blank", {}}};
    CHECK(folder.open(blank)->info().unaccounted.empty());
    CHECK(folder.pixels("GIF89a", blank) == Bytes(6, 0));
    CHECK(folder.pixels(damaged, blank) == Bytes(6, 0));
    CHECK(folder.pixels(grey_png(2, 2, {1, 2, 3, 4}), blank) == Bytes(6, 0));
    CHECK(folder.pixels(png, blank) == kGrey);
  }
}

TEST_CASE("images: some bytes that promise more pixels than memory holds are refused unread") {
  const Folder folder;
  CHECK_THAT(folder.refusal(png_file({100000, 100000}, "")),
             ContainsSubstring("is oversized: it has 100000 x 100000 pixels"));
  // A JPEG's extents follow its frame header, FF C0: 11 08 height width.
  std::string jpeg = jpeg_file(2, 3, Bytes(6, 7), TJPF_GRAY, TJSAMP_GRAY);
  const std::size_t frame = jpeg.find("\xff\xc0");
  REQUIRE(frame != jpeg.npos);
  jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  CHECK_THAT(folder.refusal(jpeg), ContainsSubstring("is oversized: it has 65500 x 65500 pixels"));
}

TEST_CASE("images: the folder holds classes, and these hold images") {
  const Folder folder;
  const auto refusal = [&](const fs::path& named) {
    return io_error(named, [&] { folder.open()->info(); });
  };
  SECTION("a folder that is not a class") {
    fs::create_directories(folder.train / "dogs");
    CHECK_THAT(refusal(folder.train / "dogs"), ContainsSubstring("did you mean 'dog'?"));
  }
  SECTION("a class without a folder") {
    fs::remove_all(folder.train / "dog");
    CHECK_THAT(refusal(folder.train), ContainsSubstring("has no folder 'dog'"));
  }
  SECTION("a file beside the classes") {
    write_file(folder.train / "labels.csv", "");
    CHECK_THAT(refusal(folder.train / "labels.csv"), ContainsSubstring("beside the folders"));
  }
  SECTION("a folder in a class") {
    fs::create_directories(folder.train / "cat" / "more");
    CHECK_THAT(refusal(folder.train / "cat" / "more"), ContainsSubstring("is a folder inside"));
  }
  SECTION("a file that is not an image by its name") {
    write_file(folder.train / "cat" / "notes.txt", "");
    CHECK_THAT(refusal(folder.train / "cat" / "notes.txt"), ContainsSubstring("not a .png, .jpg"));
  }
  SECTION("a link, to an image and to a folder") {
    fs::create_symlink(folder.cat, folder.train / "cat" / "2.png");
    CHECK_THAT(refusal(folder.train / "cat" / "2.png"), ContainsSubstring("symbolic link"));
    fs::remove(folder.train / "cat" / "2.png");
    fs::create_directory_symlink(folder.train / "cat", folder.train / "dogs");
    CHECK_THAT(refusal(folder.train / "dogs"), ContainsSubstring("symbolic link"));
  }
  SECTION("names of classes that lead elsewhere") {
    CHECK_THROWS_AS(folder.open({{"classes", Value::List{"cat", "../dog"}, {}}}), ConfigError);
    CHECK_THROWS_AS(folder.open({{"classes", Value::List{"cat", "cat"}, {}}}), ConfigError);
    CHECK_THROWS_AS(folder.open({{"channels", 2, {}}}), ConfigError);
    CHECK_THROWS_AS(folder.open({{"image_size", Value::List{2, 3, 3}, {}}}), ConfigError);
  }
}

TEST_CASE("images: files that are damaged anywhere end in an error of the SDK") {
  const Folder folder;
  const auto attempt = [&](const std::string& bytes) {
    replace_file(folder.cat, bytes);
    folder.open()->read(Split::train);
  };
  fuzz(grey_png(2, 3, kGrey), 1, 300, attempt);
  fuzz(interlaced_png(2, 3, kGrey), 2, 300, attempt);
  fuzz(jpeg_file(2, 3, Bytes(18, 100), TJPF_RGB, TJSAMP_420, TJFLAG_PROGRESSIVE), 3, 300, attempt);
}

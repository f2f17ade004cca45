#include <fcntl.h>
#include <sys/stat.h>
#include <tbb/parallel_for.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "picture.hpp"
#include "privgrad/data_files.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/error.hpp"
#include "privgrad/names.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/streamed_rows.hpp"

namespace {

using namespace privgrad;

namespace fs = std::filesystem;

constexpr float kScale = 1.0f / 255.0f;
constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 28;
constexpr std::uint64_t kMostInMemory = std::uint64_t{1} << 33;
constexpr std::uint64_t kMostExtent = 16384;

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw IoError(path.string() + ": " + what);
}

/// Returns all bytes of a regular file; links, devices and pipes are refused.
std::vector<std::uint8_t> bytes_of(const fs::path& path) {
  struct Closer {
    int descriptor;
    ~Closer() { ::close(descriptor); }
  };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (descriptor < 0)
    throw BadPicture(errno == ELOOP ? "is a symbolic link, which is not followed"
                                    : "cannot be opened: " + reason(errno));
  const Closer closer{descriptor};
  struct stat facts = {};
  if (::fstat(descriptor, &facts) != 0) throw BadPicture("cannot be read: " + reason(errno));
  if (!S_ISREG(facts.st_mode)) throw BadPicture("is a device or a pipe, expected a file");
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  if (size > kMostFileBytes) {
    throw BadPicture("is oversized: it has " + std::to_string(size) + " bytes, at most " +
                     std::to_string(kMostFileBytes) + " are read");
  }
  std::vector<std::uint8_t> bytes(size);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(descriptor, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw BadPicture("cannot be read: " + reason(errno));
    if (got == 0) throw BadPicture("has become shorter");
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

/// The form of every image, as the manifest declares it.
struct Form {
  std::size_t height = 0, width = 0, channels = 1;
  bool resizes = false;
  bool blanks = false;  ///< Whether an unreadable image becomes black; otherwise it ends the run.

  std::size_t bytes() const { return height * width * channels; }
};

void read_image(const fs::path& path, const Form& form, std::span<std::uint8_t> to) {
  try {
    Picture picture = decode_picture(bytes_of(path), form.channels);
    const bool fits = picture.height == form.height && picture.width == form.width;
    if (!fits && !form.resizes) {
      throw BadPicture("has " + std::to_string(picture.height) + " x " +
                       std::to_string(picture.width) + " pixels, expected " +
                       std::to_string(form.height) + " x " + std::to_string(form.width) +
                       "; say resize: true to resize images of other sizes");
    }
    if (!fits) picture = resized(picture, form.height, form.width);
    std::ranges::copy(picture.pixels, to.begin());
  } catch (const BadPicture& problem) {
    if (!form.blanks) fail(path, problem.what());
    std::ranges::fill(to, std::uint8_t{0});
  }
}

/// An image's file, and the class of its folder.
struct Image {
  fs::path path;
  std::size_t label = 0;
};

bool is_image_name(const fs::path& path) {
  std::string end = path.extension().string();
  for (char& c : end) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

/// Lists the entries of a folder sorted by name, without names that begin with a dot.
std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code failure;
  fs::directory_iterator at(folder, failure);
  if (failure) fail(folder, "cannot be read as a folder: " + failure.message());
  for (const fs::directory_iterator end; at != end;) {
    if (!is_hidden(at->path())) entries.push_back(*at);
    at.increment(failure);
    if (failure) fail(folder, "cannot be read: " + failure.message());
  }
  std::ranges::sort(entries, [](const auto& a, const auto& b) {
    return a.path().filename().native() < b.path().filename().native();
  });
  return entries;
}

class Images final : public DataSource, public StreamedRows {
 public:
  explicit Images(const Params& params)
      : params_(params),
        train_folder_(params.path("train")),
        classes_(params.texts("classes")),
        form_(form_of(params)) {
    if (params.has("test")) test_folder_ = params.path("test");
    for (std::size_t i = 0; i < classes_.size(); ++i) {
      const std::string& name = classes_[i];
      if (name.empty() || name.starts_with(".") || name.find('/') != name.npos)
        throw ConfigError("images: classes: '" + name + "' is not a name of a folder that is read");
      if (std::find(classes_.begin(), classes_.begin() + static_cast<std::ptrdiff_t>(i), name) !=
          classes_.begin() + static_cast<std::ptrdiff_t>(i))
        throw ConfigError("images: classes: '" + name + "' is there twice");
    }
  }

  /// Returns facts that follow only from the names of files.
  DataInfo info() override {
    list();
    DataInfo info = foreseen_info().value();
    info.train_rows = train_.size();
    info.test_rows = test_.size();
    info.class_names = classes_;
    info.reading = reading();
    return info;
  }

  std::optional<DataInfo> foreseen_info() override {
    DataInfo info;
    info.shape.features = form_.channels == 1 ? Shape{form_.height, form_.width}
                                              : Shape{form_.height, form_.width, form_.channels};
    info.shape.classes = classes_.size();
    info.has_test_split = test_folder_.has_value();
    const auto origin = [](const std::filesystem::path& folder) {
      return RowOrigin{file_identity(folder), folder.string()};
    };
    info.train_origins = {origin(train_folder_)};
    if (test_folder_) info.test_origins = {origin(*test_folder_)};
    // A completed run reveals that every image fits.
    if (!form_.blanks) {
      info.unaccounted.emplace_back(
          form_.resizes ? "that every image can be read (bad_image)"
                        : "that every image can be read and has the stated size (bad_image)");
    }
    return info;
  }

  Dataset read(Split split) override {
    const DataInfo told = info();
    const std::vector<Image>& images = split == Split::train ? train_ : test_;
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(std::uint64_t{images.size()}, std::uint64_t{form_.bytes()},
                               &bytes) ||
        bytes > kMostInMemory) {
      fail(split == Split::train ? train_folder_ : *test_folder_,
           "is oversized: its images have more than " + std::to_string(kMostInMemory) +
               " bytes in memory; say streaming: true");
    }
    std::vector<std::uint8_t> pixels(bytes);
    read_images(images, pixels);
    return Dataset(told.shape, std::move(pixels), kScale, targets_of(images));
  }

  std::vector<fs::path> files() override {
    list();
    std::vector<fs::path> all;
    for (const std::vector<Image>* images : {&train_, &test_}) {
      for (const Image& image : *images) all.push_back(image.path);
    }
    return all;
  }

  DataInfo stream(const std::function<void(const RowBlock&)>& take) override {
    DataInfo told = info();
    const auto all = static_cast<double>(train_.size() + test_.size());
    constexpr std::size_t kBlock = std::size_t{1} << 22;
    const std::size_t most = std::max<std::size_t>(16, kBlock / form_.bytes());
    double done = 0.0;
    for (const Split split : {Split::train, Split::test}) {
      const std::span<const Image> images = split == Split::train ? train_ : test_;
      for (std::size_t first = 0; first < images.size(); first += most) {
        const auto some = images.subspan(first, std::min(most, images.size() - first));
        std::vector<std::uint8_t> pixels(some.size() * form_.bytes());
        read_images(some, pixels);
        const std::vector<float> targets = targets_of(some);
        done += static_cast<double>(some.size());
        take({.split = split,
              .features = std::span<const std::uint8_t>(pixels),
              .scale = kScale,
              .targets = targets,
              .done = done / all});
      }
    }
    return told;
  }

 private:
  static Form form_of(const Params& params) {
    const std::vector<std::int64_t> size = params.integers("image_size");
    if (size.size() != 2)
      throw ConfigError("images: image_size has " + std::to_string(size.size()) +
                        " numbers, expected two: [height, width]");
    return {.height = static_cast<std::size_t>(size[0]),
            .width = static_cast<std::size_t>(size[1]),
            .channels = channels_of(params.integer("channels")),
            .resizes = params.boolean("resize"),
            .blanks = params.text("bad_image") == "blank"};
  }

  static std::size_t channels_of(std::int64_t channels) {
    if (channels == 2) throw ConfigError("images: channels is 2, allowed are 1 (grey) and 3 (RGB)");
    return static_cast<std::size_t>(channels);
  }

  /// Lists the files once, so that a file that appears later is not part of a run.
  void list() {
    if (is_listed_) return;
    std::vector<Image> train = images_in(train_folder_);
    if (test_folder_) test_ = images_in(*test_folder_);
    train_ = std::move(train);
    is_listed_ = true;
  }

  /// Returns the images sorted by class, then by the names of the files.
  std::vector<Image> images_in(const fs::path& folder) const {
    check_folders(folder);
    std::vector<Image> images;
    for (std::size_t label = 0; label < classes_.size(); ++label) {
      for (const fs::directory_entry& entry : entries_of(folder / classes_[label])) {
        std::error_code unknown;
        if (entry.is_symlink(unknown))
          fail(entry.path(), "is a symbolic link, which is not followed");
        if (entry.is_directory(unknown))
          fail(entry.path(), "is a folder inside that of a class, expected images");
        if (!is_image_name(entry.path()))
          fail(entry.path(), "is not a .png, .jpg or .jpeg file, and others are not expected here");
        images.push_back({entry.path(), label});
      }
    }
    return images;
  }

  /// Checks that the folder contains exactly the folders of the classes.
  void check_folders(const fs::path& folder) const {
    std::vector<std::string> missing = classes_;
    for (const fs::directory_entry& entry : entries_of(folder)) {
      std::error_code unknown;
      const std::string name = entry.path().filename().string();
      if (entry.is_symlink(unknown))
        fail(entry.path(), "is a symbolic link, which is not followed");
      if (!entry.is_directory(unknown))
        fail(entry.path(), "is a file beside the folders of classes, expected in one of them");
      if (std::erase(missing, name) > 0) continue;
      fail(entry.path(), "is a folder that classes does not name" + did_you_mean(name, classes_));
    }
    if (!missing.empty())
      fail(folder, "has no folder '" + missing.front() + "', which classes names");
  }

  void read_images(std::span<const Image> images, std::span<std::uint8_t> pixels) const {
    const std::size_t size = form_.bytes();
    tbb::parallel_for(std::size_t{0}, images.size(), [&](std::size_t i) {
      read_image(images[i].path, form_, pixels.subspan(i * size, size));
    });
  }

  static std::vector<float> targets_of(std::span<const Image> images) {
    std::vector<float> targets;
    targets.reserve(images.size());
    for (const Image& image : images) targets.push_back(static_cast<float>(image.label));
    return targets;
  }

  Value reading() const {
    Value value{Value::Object{}};
    for (const auto& member : std::get<Value::Object>(params_.value().data())) {
      if (member.key != "train" && member.key != "test") value.set(member.key, member.value);
    }
    return value;
  }

  Params params_;
  fs::path train_folder_;
  std::optional<fs::path> test_folder_;
  std::vector<std::string> classes_;
  Form form_;
  bool is_listed_ = false;
  std::vector<Image> train_, test_;
};

void register_components(Registrar& registrar) {
  registrar.add<DataSource, Images>({
      .name = "images",
      .summary = "PNG and JPEG files, in a folder for each class; pixels become 0..1.",
      .reference = "ISO/IEC 15948 (PNG), ITU-T T.81 (JPEG); libpng and libjpeg-turbo read them",
      .params =
          {
              param::path("train", "Folder of the training images, with one folder for each class.")
                  .of_folder()
                  .example("train"),
              param::path("test", "The same for the test images; without it there are none.")
                  .of_folder()
                  .optional(),
              param::list("classes",
                          "The names of the folders, in the order of the classes' numbers.",
                          param::text("name", "The name of a folder."))
                  .at_least_items(2)
                  .example(Value(Value::List{"cat", "dog"})),
              param::list("image_size", "Height and width of every image, in pixels.",
                          param::integer("extent", "A number of pixels.")
                              .at_least(1)
                              .at_most(static_cast<double>(kMostExtent)))
                  .at_least_items(2)
                  .example(Value(Value::List{2, 3})),
              param::integer("channels",
                             "Of every image: 3 (red, green, blue; grey ones become three equal "
                             "channels) or 1 (grey; colours become grey by their luma).")
                  .at_least(1)
                  .at_most(3)
                  .defaults_to(3),
              param::boolean("resize",
                             "Whether images of another size become this one (bilinear), instead "
                             "of counting as bad.")
                  .defaults_to(false),
              param::text("bad_image",
                          "How a file that cannot be read as such an image is treated. error: it "
                          "ends the run, so a run that completes discloses that every image is "
                          "valid (listed as unaccounted). blank: it counts as a black image.")
                  .one_of({"error", "blank"})
                  .defaults_to("error"),
          },
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.images", "0.1.0", "data_source/images", register_components)

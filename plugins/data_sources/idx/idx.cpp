#include <algorithm>
#include <array>
#include <bitset>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../files/input_file.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"

namespace {

using privgrad::ConfigError;
using privgrad::DataInfo;
using privgrad::Dataset;
using privgrad::IoError;
using privgrad::Shape;
using privgrad::Split;
namespace param = privgrad::param;

std::string element_type(unsigned code) {
  switch (code) {
    case 0x08:
      return "unsigned bytes";
    case 0x09:
      return "signed bytes";
    case 0x0b:
      return "16-bit integers";
    case 0x0c:
      return "32-bit integers";
    case 0x0d:
      return "32-bit reals";
    case 0x0e:
      return "64-bit reals";
    default:
      return "elements of unknown type " + std::to_string(code);
  }
}

enum class Content { images, labels };

/// An IDX file, open behind its header: 00 00 TYPE DIMENSIONS, then the extents as big-endian
/// 32-bit integers, then the elements, the last index fastest.
struct IdxFile {
  InputFile file;
  Shape extents;
  std::uint64_t row_bytes = 1;

  std::size_t rows() const { return extents.front(); }

  IdxFile(const std::filesystem::path& path, Content content) : file(path) {
    const bool images = content == Content::images;
    const std::string expected = images ? "expected IDX images (unsigned bytes, 2 or more extents)"
                                        : "expected IDX labels (unsigned bytes, 1 extent)";
    std::array<std::uint8_t, 4> magic{};
    if (file.read(magic) < magic.size() || magic[0] != 0 || magic[1] != 0) {
      file.fail("is no IDX file: it does not begin with 00 00 08; " + expected);
    }
    if (magic[2] != 0x08) file.fail("holds " + element_type(magic[2]) + ", " + expected);
    for (unsigned i = 0; i < magic[3]; ++i) {
      std::array<std::uint8_t, 4> bytes{};
      if (file.read(bytes) < bytes.size()) file.fail("is truncated inside its header");
      extents.push_back(std::size_t{bytes[0]} << 24 | std::size_t{bytes[1]} << 16 |
                        std::size_t{bytes[2]} << 8 | std::size_t{bytes[3]});
    }
    if (images ? extents.size() < 2 : extents.size() != 1) {
      file.fail("has " + std::to_string(extents.size()) + " extent(s) (" +
                (extents.empty() ? "none" : privgrad::to_text(extents)) + "), " + expected);
    }
    if (rows() == 0) file.fail("holds zero examples");
    check_size();
  }

  /// Appends the next row, or passes over it.
  void row(std::vector<std::uint8_t>* to) {
    const std::uint64_t got = to != nullptr ? file.append(*to, row_bytes) : file.skip(row_bytes);
    if (got < row_bytes) {
      file.fail("is truncated: the header promises " + privgrad::to_text(extents) + " bytes");
    }
  }

  void end() {
    if (!file.at_end()) {
      file.fail("has more bytes than the " + privgrad::to_text(extents) +
                " that its header promises");
    }
  }

 private:
  /// Before any memory is taken: can the file hold what the header promises?
  void check_size() {
    for (std::size_t i = 1; i < extents.size(); ++i) {
      if (extents[i] == 0) file.fail("has an extent of 0 (" + privgrad::to_text(extents) + ")");
      if (__builtin_mul_overflow(row_bytes, std::uint64_t{extents[i]}, &row_bytes)) oversized();
    }
    std::uint64_t promised = 0;
    if (__builtin_mul_overflow(row_bytes, std::uint64_t{rows()}, &promised)) oversized();
    if (promised > kMostFileBytes) oversized();
    if (promised > file.most_bytes()) {
      file.fail("is truncated: the header promises " + privgrad::to_text(extents) +
                " bytes, but the file has " + std::to_string(file.bytes_on_disk()) +
                (file.compressed() ? " (compressed)" : ""));
    }
  }

  [[noreturn]] void oversized() {
    file.fail("is oversized: the header promises " + privgrad::to_text(extents) +
              " bytes, at most " + std::to_string(kMostFileBytes) + " are read");
  }
};

struct Files {
  std::filesystem::path images;
  std::filesystem::path labels;
};

Files files_of(const privgrad::Params& params) {
  return {params.path("images"), params.path("labels")};
}

/// One split, as far as info() needs it.
struct Outline {
  Shape features;
  std::size_t file_rows = 0;               ///< Rows in the files.
  std::vector<std::uint8_t> labels;        ///< As in the file, [file_rows].
  std::vector<std::uint32_t> wanted_rows;  ///< Rows to keep, ascending.
};

class Idx final : public privgrad::DataSource {
 public:
  explicit Idx(const privgrad::Params& params)
      : train_(files_of(params.object("train"))),
        limit_(optional_size(params, "limit")),
        test_limit_(optional_size(params, "test_limit")),
        classes_(optional_size(params, "classes")) {
    if (params.has("test")) test_ = files_of(params.object("test"));
    if (!test_ && test_limit_) throw ConfigError("idx: test_limit is given, but test is not");
    if (params.has("keep_labels")) set_keep_labels(params.integers("keep_labels"));
  }

  DataInfo info() override {
    outline();
    DataInfo info;
    info.shape = {train_outline_->features, classes()};
    info.train_rows = train_outline_->wanted_rows.size();
    info.test_rows = test_outline_ ? test_outline_->wanted_rows.size() : 0;
    info.first_rows_only = limit_.has_value();
    info.rows_chosen_by_value = class_of_.has_value();
    if (!classes_) info.unaccounted.push_back("number of classes");
    return info;
  }

  Dataset read(Split split) override {
    outline();
    if (split == Split::test && !test_) {
      return Dataset({train_outline_->features, classes()}, std::vector<float>{}, {});
    }
    return split == Split::train ? read(train_, *train_outline_) : read(*test_, *test_outline_);
  }

 private:
  static std::optional<std::size_t> optional_size(const privgrad::Params& params,
                                                  std::string_view name) {
    if (!params.has(name)) return std::nullopt;
    return static_cast<std::size_t>(params.integer(name));
  }

  void set_keep_labels(const std::vector<std::int64_t>& labels) {
    class_of_.emplace().fill(-1);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      int& entry = (*class_of_)[static_cast<std::size_t>(labels[i])];
      if (entry >= 0) {
        throw ConfigError("idx: keep_labels names " + std::to_string(labels[i]) + " twice");
      }
      entry = static_cast<int>(i);
    }
    if (classes_ && *classes_ != labels.size()) {
      throw ConfigError("idx: classes is " + std::to_string(*classes_) +
                        ", but keep_labels names " + std::to_string(labels.size()) +
                        " labels; leave classes out");
    }
    classes_ = labels.size();
  }

  std::size_t classes() const { return classes_ ? *classes_ : classes_in_labels_; }

  /// Reads the headers and labels, once.
  void outline() {
    if (train_outline_) return;
    Outline train = outline_of(train_, limit_);
    std::optional<Outline> test;
    if (test_) {
      test = outline_of(*test_, test_limit_);
      if (test->features != train.features) {
        throw IoError(test_->images.string() + ": holds images of " +
                      privgrad::to_text(test->features) + ", expected " +
                      privgrad::to_text(train.features) + " as in " + train_.images.string());
      }
    }
    if (!classes_) classes_in_labels_ = count_classes(train);
    check_labels(train_, train);
    if (test) check_labels(*test_, *test);
    test_outline_ = std::move(test);
    train_outline_ = std::move(train);
  }

  Outline outline_of(const Files& files, std::optional<std::size_t> limit) const {
    const IdxFile images(files.images, Content::images);
    IdxFile labels(files.labels, Content::labels);
    if (images.rows() != labels.rows()) {
      throw IoError(files.images.string() + ": has " + std::to_string(images.rows()) +
                    " images, but " + files.labels.string() + " has " +
                    std::to_string(labels.rows()) + " labels");
    }
    Outline outline;
    outline.features.assign(images.extents.begin() + 1, images.extents.end());
    outline.file_rows = images.rows();
    for (std::size_t row = 0; row < labels.rows(); ++row) labels.row(&outline.labels);
    labels.end();
    const std::size_t most = limit.value_or(outline.file_rows);
    for (std::size_t row = 0; row < outline.file_rows && outline.wanted_rows.size() < most; ++row) {
      if (class_of_ && (*class_of_)[outline.labels[row]] < 0) continue;
      outline.wanted_rows.push_back(static_cast<std::uint32_t>(row));
    }
    if (outline.wanted_rows.empty()) {
      throw IoError(files.labels.string() + ": has none of the labels in keep_labels");
    }
    return outline;
  }

  std::size_t count_classes(const Outline& train) const {
    std::bitset<256> seen;
    std::size_t classes = 0;
    for (const std::uint32_t row : train.wanted_rows) {
      seen.set(train.labels[row]);
      classes = std::max<std::size_t>(classes, train.labels[row] + 1u);
    }
    if (seen.count() < 2) {
      throw IoError(train_.labels.string() + ": all labels are " + std::to_string(classes - 1) +
                    ", expected at least two classes; say classes: N if that is meant");
    }
    return classes;
  }

  void check_labels(const Files& files, const Outline& outline) const {
    for (const std::uint32_t row : outline.wanted_rows) {
      if (target(outline.labels[row]) < classes()) continue;
      throw IoError(files.labels.string() + ": label " + std::to_string(row) + " is " +
                    std::to_string(outline.labels[row]) + ", expected a class below " +
                    std::to_string(classes()));
    }
  }

  Dataset read(const Files& files, const Outline& outline) const {
    IdxFile images(files.images, Content::images);
    if (images.rows() != outline.file_rows ||
        !std::equal(outline.features.begin(), outline.features.end(), images.extents.begin() + 1,
                    images.extents.end())) {
      images.file.fail("has changed since its header was read");
    }
    std::vector<std::uint8_t> pixels;
    std::vector<float> targets;
    auto wanted = outline.wanted_rows.begin();
    for (std::size_t row = 0; row < outline.file_rows; ++row) {
      const bool keep = wanted != outline.wanted_rows.end() && *wanted == row;
      images.row(keep ? &pixels : nullptr);
      if (!keep) continue;
      targets.push_back(static_cast<float>(target(outline.labels[row])));
      ++wanted;
    }
    images.end();
    return Dataset({outline.features, classes()}, std::move(pixels), 1.0f / 255.0f,
                   std::move(targets));
  }

  std::size_t target(std::uint8_t label) const {
    return class_of_ ? static_cast<std::size_t>((*class_of_)[label]) : label;
  }

  Files train_;
  std::optional<Files> test_;
  std::optional<std::size_t> limit_;
  std::optional<std::size_t> test_limit_;
  std::optional<std::size_t> classes_;            ///< From the manifest.
  std::optional<std::array<int, 256>> class_of_;  ///< Label to class, -1: dropped.
  std::optional<Outline> train_outline_;
  std::optional<Outline> test_outline_;
  std::size_t classes_in_labels_ = 0;
};

std::vector<privgrad::ParamSpec> file_params() {
  return {param::path("images", "IDX file of unsigned bytes, [examples, extents...].")
              .example("train-images-idx3-ubyte.gz"),
          param::path("labels", "IDX file of unsigned bytes, [examples].")
              .example("train-labels-idx1-ubyte.gz")};
}

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::DataSource, Idx>({
      .name = "idx",
      .summary = "Images and labels in the IDX format of MNIST, plain or gzip; pixels become 0..1.",
      .reference = "LeCun, Cortes and Burges, 'The MNIST database', section on the file formats",
      .params =
          {
              param::object("train", "The training files.", file_params()),
              param::object("test", "The test files; without them there is no test split.",
                            file_params())
                  .optional(),
              param::list("keep_labels",
                          "Keeps the examples with these labels and renumbers them 0, 1, ... in "
                          "this order.",
                          param::integer("label", "A label.").at_least(0).at_most(255))
                  .at_least_items(2)
                  .optional(),
              param::integer("limit",
                             "At most this many training examples: the first ones that "
                             "keep_labels keeps.")
                  .at_least(1)
                  .optional(),
              param::integer("test_limit", "The same for the test examples.")
                  .at_least(1)
                  .optional(),
              param::integer("classes",
                             "Number of classes. Without it (and keep_labels) it is read off the "
                             "training labels, and listed as unaccounted.")
                  .at_least(2)
                  .at_most(256)
                  .optional(),
          },
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.idx", "0.1.0", register_components)

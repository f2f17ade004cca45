#include "idx_source.hpp"

#include <algorithm>
#include <bitset>
#include <limits>
#include <span>
#include <utility>

#include "../files/input_file.hpp"
#include "privgrad/data_files.hpp"
#include "privgrad/error.hpp"

namespace {

using namespace privgrad;

constexpr float kScale = 1.0f / 255.0f;

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

/// An IDX file, opened after its header: 00 00 TYPE DIMENSIONS, then the extents as big-endian
/// 32-bit integers, then the elements, the last index fastest.
struct IdxFile {
  InputFile file;
  Shape extents;
  std::uint64_t row_bytes = 1;

  std::size_t rows() const { return extents.front(); }

  /// \param most_bytes  the most bytes of elements that the header may announce.
  IdxFile(const std::filesystem::path& path, Content content,
          std::uint64_t most_bytes = kMostFileBytes)
      : file(path) {
    const bool images = content == Content::images;
    const std::string expected = images ? "expected IDX images (unsigned bytes, 2 or more extents)"
                                        : "expected IDX labels (unsigned bytes, 1 extent)";
    std::array<std::uint8_t, 4> magic{};
    if (file.read(magic) < magic.size() || magic[0] != 0 || magic[1] != 0) {
      file.fail("is not an IDX file: it does not begin with 00 00 08; " + expected);
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
                (extents.empty() ? "none" : to_text(extents)) + "), " + expected);
    }
    if (rows() == 0) file.fail("holds zero examples");
    check_size(most_bytes);
  }

  /// Appends the next row, or skips it.
  void row(std::vector<std::uint8_t>* to) {
    const std::uint64_t got = to != nullptr ? file.append(*to, row_bytes) : file.skip(row_bytes);
    if (got < row_bytes) {
      file.fail("is truncated: the header promises " + to_text(extents) + " bytes");
    }
  }

  void end() {
    if (!file.at_end()) {
      file.fail("has more bytes than the " + to_text(extents) + " that its header promises");
    }
  }

 private:
  /// Checks, before memory is allocated, that the file can be as large as its header announces.
  void check_size(std::uint64_t most_bytes) {
    for (std::size_t i = 1; i < extents.size(); ++i) {
      if (extents[i] == 0) file.fail("has an extent of 0 (" + to_text(extents) + ")");
      if (__builtin_mul_overflow(row_bytes, std::uint64_t{extents[i]}, &row_bytes))
        oversized(most_bytes);
    }
    std::uint64_t promised = 0;
    if (__builtin_mul_overflow(row_bytes, std::uint64_t{rows()}, &promised)) oversized(most_bytes);
    // A single row must fit in memory, whatever the number of rows is.
    if (promised > most_bytes || row_bytes > kMostFileBytes) oversized(most_bytes);
    if (promised > file.most_bytes()) {
      file.fail("is truncated: the header promises " + to_text(extents) +
                " bytes, but the file has " + std::to_string(file.bytes_on_disk()) +
                (file.compressed() ? " (compressed)" : ""));
    }
  }

  [[noreturn]] void oversized(std::uint64_t most_bytes) {
    file.fail("is oversized: the header promises " + to_text(extents) + " bytes, at most " +
              std::to_string(std::min(most_bytes, kMostFileBytes)) + " are read" +
              (row_bytes > kMostFileBytes ? " of a row" : ""));
  }
};

std::optional<std::size_t> optional_size(const Params& params, std::string_view name) {
  if (!params.has(name)) return std::nullopt;
  return static_cast<std::size_t>(params.integer(name));
}

}  // namespace

std::vector<ParamSpec> IdxSelection::params(std::string classes_doc, std::string fill_doc) {
  return {
      param::list(
          "keep_labels",
          "Keeps the examples with these labels and renumbers them 0, 1, ... in this order.",
          param::integer("label", "A label.").at_least(0).at_most(255))
          .at_least_items(2)
          .optional(),
      param::integer("limit",
                     "At most this many training examples: the first ones that keep_labels keeps.")
          .at_least(1)
          .optional(),
      param::integer("test_limit", "The same for the test examples.").at_least(1).optional(),
      param::integer("test_skip",
                     "Leaves out so many of the test examples first, of those that keep_labels "
                     "keeps.")
          .at_least(1)
          .optional(),
      param::integer("classes", std::move(classes_doc)).at_least(2).at_most(256).optional(),
      param::integer("target_fill", std::move(fill_doc)).at_least(0).at_most(255).optional(),
  };
}

IdxSelection::IdxSelection(std::string_view component, const Params& params)
    : component_(component),
      limit_(optional_size(params, "limit")),
      test_limit_(optional_size(params, "test_limit")),
      test_skip_(optional_size(params, "test_skip")),
      classes_(optional_size(params, "classes")),
      fill_(optional_size(params, "target_fill")) {
  if (params.has("keep_labels")) {
    set_keep_labels(params.integers("keep_labels"));
    if (fill_)
      throw ConfigError(component_ +
                        ": target_fill is given, but keep_labels leaves out all other labels");
  }
  if (fill_ && classes_ && *fill_ >= *classes_) {
    throw ConfigError(component_ + ": target_fill is " + std::to_string(*fill_) +
                      ", expected a class below " + std::to_string(*classes_));
  }
}

void IdxSelection::assume_classes(std::size_t classes, std::vector<std::string> names) {
  if (!classes_) classes_ = classes;
  if (!fill_) fill_ = 0;
  if (*fill_ >= *classes_) {
    throw ConfigError(component_ + ": target_fill is " + std::to_string(*fill_) +
                      ", expected a class below " + std::to_string(*classes_));
  }
  names_ = std::move(names);
}

std::vector<std::string> IdxSelection::class_names() const {
  if (labels_.empty()) return names_.size() == classes_ ? names_ : std::vector<std::string>{};
  std::vector<std::string> names;
  for (const std::int64_t label : labels_) {
    const auto at = static_cast<std::size_t>(label);
    names.push_back(at < names_.size() ? names_[at] : std::to_string(label));
  }
  return names;
}

void IdxSelection::set_keep_labels(const std::vector<std::int64_t>& labels) {
  class_of_.emplace().fill(-1);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    int& entry = (*class_of_)[static_cast<std::size_t>(labels[i])];
    if (entry >= 0) {
      throw ConfigError(component_ + ": keep_labels names " + std::to_string(labels[i]) + " twice");
    }
    entry = static_cast<int>(i);
  }
  if (classes_ && *classes_ != labels.size()) {
    throw ConfigError(component_ + ": classes is " + std::to_string(*classes_) +
                      ", but keep_labels names " + std::to_string(labels.size()) +
                      " labels; leave classes out");
  }
  classes_ = labels.size();
  labels_ = labels;
}

IdxSource::IdxSource(IdxFiles train, std::optional<IdxFiles> test, IdxSelection selection)
    : train_(std::move(train)), test_(std::move(test)), selection_(std::move(selection)) {
  for (const auto& [name, value] : {std::pair{"test_limit", selection_.test_limit()},
                                    std::pair{"test_skip", selection_.test_skip()}}) {
    if (test_ || !value) continue;
    throw ConfigError(selection_.component() + ": " + name + " is given, but test is not");
  }
}

DataInfo IdxSource::foreseen_info() const {
  DataInfo info;
  info.has_test_split = test_.has_value();
  const auto origins = [](const IdxFiles& files, std::size_t first,
                          std::optional<std::size_t> rows) {
    const std::size_t end = rows ? first + *rows : std::numeric_limits<std::size_t>::max();
    return std::vector<RowOrigin>{
        {file_identity(files.images), files.images.string(), {}, first, end},
        {file_identity(files.labels), files.labels.string(), {}, first, end}};
  };
  info.train_origins = origins(train_, 0, selection_.limit());
  if (test_) {
    info.test_origins =
        origins(*test_, selection_.test_skip().value_or(0), selection_.test_limit());
  }
  info.first_rows_only = selection_.limit().has_value();
  info.rows_chosen_by_value = selection_.by_label();
  if (selection_.classes()) {
    constexpr auto kAny = std::numeric_limits<std::uint64_t>::max();
    const IdxFile images(train_.images, Content::images, kAny);
    info.shape = {{images.extents.begin() + 1, images.extents.end()}, *selection_.classes()};
  } else {
    info.unaccounted.emplace_back("number of classes (classes)");
  }
  // A label that is not a class ends the run, so a completed run reveals that every label fits.
  if (!selection_.takes_all_labels())
    info.unaccounted.emplace_back("that every label fits (target_fill)");
  return info;
}

DataInfo IdxSource::info() {
  outline();
  DataInfo info = foreseen_info();
  info.shape = {train_outline_->features, classes()};
  info.train_rows = train_outline_->wanted_rows.size();
  info.test_rows = test_outline_ ? test_outline_->wanted_rows.size() : 0;
  info.class_names = selection_.class_names();
  const auto add_remark = [&](const IdxFiles& files, const Outline& outline) {
    if (std::string text = remark(files, outline); !text.empty())
      info.remarks.push_back(std::move(text));
  };
  add_remark(train_, *train_outline_);
  if (test_) add_remark(*test_, *test_outline_);
  return info;
}

std::string IdxSource::remark(const IdxFiles& files, const Outline& outline) const {
  if (selection_.by_label()) return "";
  const auto count = std::ranges::count_if(
      outline.wanted_rows, [&](auto row) { return outline.labels[row] >= classes(); });
  if (count == 0) return "";
  return files.labels.string() + ": " + std::to_string(count) + " of " +
         std::to_string(outline.wanted_rows.size()) +
         " labels are not a class, and count as target_fill";
}

Dataset IdxSource::read(Split split) {
  outline();
  if (split == Split::test && !test_) {
    return Dataset({train_outline_->features, classes()}, std::vector<float>{}, {});
  }
  return split == Split::train ? read(train_, *train_outline_) : read(*test_, *test_outline_);
}

std::vector<std::filesystem::path> IdxSource::files() const {
  if (!test_) return {train_.images, train_.labels};
  return {train_.images, train_.labels, test_->images, test_->labels};
}

void IdxSource::outline() {
  if (train_outline_) return;
  Outline train = outline_of(train_, 0, selection_.limit());
  std::optional<Outline> test;
  if (test_) {
    test = outline_of(*test_, selection_.test_skip().value_or(0), selection_.test_limit());
    if (test->features != train.features) {
      throw IoError(test_->images.string() + ": holds images of " + to_text(test->features) +
                    ", expected " + to_text(train.features) + " as in " + train_.images.string());
    }
  }
  if (!selection_.classes()) classes_in_labels_ = count_classes(train_, train);
  check_labels(train_, train);
  if (test) check_labels(*test_, *test);
  test_outline_ = std::move(test);
  train_outline_ = std::move(train);
}

IdxSource::Outline IdxSource::outline_of(const IdxFiles& files, std::size_t skip,
                                         std::optional<std::size_t> limit) const {
  const IdxFile images(files.images, Content::images, most_bytes());
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
  std::size_t kept = 0;
  for (std::size_t row = 0; row < outline.file_rows && outline.wanted_rows.size() < most; ++row) {
    if (!selection_.keeps(outline.labels[row])) continue;
    if (kept++ < skip) continue;
    outline.wanted_rows.push_back(static_cast<std::uint32_t>(row));
  }
  if (kept > 0 && kept <= skip) {
    // The message does not give the number, because rows and their labels may be private.
    throw IoError(files.labels.string() + ": test_skip leaves out all rows to test on");
  }
  if (outline.wanted_rows.empty()) {
    throw IoError(files.labels.string() + ": has none of the labels in keep_labels");
  }
  return outline;
}

std::size_t IdxSource::count_classes(const IdxFiles& files, const Outline& train) {
  std::bitset<256> seen;
  std::size_t classes = 0;
  for (const std::uint32_t row : train.wanted_rows) {
    seen.set(train.labels[row]);
    classes = std::max<std::size_t>(classes, train.labels[row] + 1u);
  }
  if (seen.count() < 2) {
    throw IoError(files.labels.string() +
                  ": all labels are of one class, expected at least two classes; say classes: N if "
                  "that is meant");
  }
  return classes;
}

void IdxSource::check_labels(const IdxFiles& files, const Outline& outline) const {
  for (const std::uint32_t row : outline.wanted_rows) {
    if (selection_.target(outline.labels[row], classes())) continue;
    throw IoError(files.labels.string() + ": label " + std::to_string(row) +
                  " is not a class below " + std::to_string(classes()) +
                  "; target_fill says what such a row counts as");
  }
}

std::uint64_t IdxSource::most_bytes() const {
  return is_streamed_ ? std::numeric_limits<std::uint64_t>::max() : kMostFileBytes;
}

void IdxSource::read_rows(const IdxFiles& files, const Outline& outline, std::size_t block_bytes,
                          const Take& take) const {
  IdxFile images(files.images, Content::images, most_bytes());
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
    targets.push_back(static_cast<float>(*selection_.target(outline.labels[row], classes())));
    ++wanted;
    if (pixels.size() >= block_bytes) take(pixels, targets, row + 1);
  }
  images.end();
  take(pixels, targets, outline.file_rows);
}

Dataset IdxSource::read(const IdxFiles& files, const Outline& outline) const {
  std::optional<Dataset> all;
  read_rows(files, outline, std::numeric_limits<std::size_t>::max(),
            [&](std::vector<std::uint8_t>& pixels, std::vector<float>& targets, std::size_t) {
              all.emplace(ExampleShape{outline.features, classes()}, std::move(pixels), kScale,
                          std::move(targets));
            });
  return *std::move(all);
}

DataInfo IdxSource::stream(const std::function<void(const RowBlock&)>& take) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  is_streamed_ = true;
  DataInfo info = this->info();
  const double all = static_cast<double>(train_outline_->file_rows) +
                     (test_ ? static_cast<double>(test_outline_->file_rows) : 0.0);
  double before = 0.0;
  const auto hand_on = [&](Split split, const IdxFiles& files, const Outline& outline) {
    read_rows(
        files, outline, kBlock,
        [&](std::vector<std::uint8_t>& pixels, std::vector<float>& targets, std::size_t file_rows) {
          if (targets.empty()) return;
          take({.split = split,
                .features = std::span<const std::uint8_t>(pixels),
                .scale = kScale,
                .targets = targets,
                .done = std::min(1.0, (before + static_cast<double>(file_rows)) / all)});
          pixels.clear();
          targets.clear();
        });
    before += static_cast<double>(outline.file_rows);
  };
  hand_on(Split::train, train_, *train_outline_);
  if (test_) hand_on(Split::test, *test_, *test_outline_);
  return info;
}

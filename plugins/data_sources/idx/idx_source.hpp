// Reads images and labels from IDX files, the format of MNIST, and selects examples by label.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/data_source.hpp"
#include "privgrad/params.hpp"
#include "privgrad/streamed_rows.hpp"

/// The two IDX files of a split: images, [examples, extents...], and labels, [examples], both of
/// unsigned bytes.
struct IdxFiles {
  std::filesystem::path images;
  std::filesystem::path labels;
};

/// Selects examples from IDX files, and defines their classes.
class IdxSelection {
 public:
  /// Returns the parameters keep_labels, limit, test_limit, test_skip, classes and target_fill.
  /// \param classes_doc, fill_doc  the descriptions of classes and target_fill.
  static std::vector<privgrad::ParamSpec> params(std::string classes_doc, std::string fill_doc);

  /// \param component  the component's name in errors.
  /// \throws ConfigError if the parameters contradict each other.
  IdxSelection(std::string_view component, const privgrad::Params& params);

  /// Assumes this number of classes, a public fact, unless the parameters give another. Labels that
  /// are not a class become the first class, unless target_fill names another class.
  /// \param names  the names of the classes in the order of the files' numbers, also public.
  void assume_classes(std::size_t classes, std::vector<std::string> names);

  bool keeps(std::uint8_t label) const { return !class_of_ || (*class_of_)[label] >= 0; }
  /// \returns the class of a label that is kept. If the label is not below `classes`, returns
  ///   target_fill, or nothing if that is not declared.
  std::optional<std::size_t> target(std::uint8_t label, std::size_t classes) const {
    if (class_of_) return static_cast<std::size_t>((*class_of_)[label]);
    return label < classes ? std::optional<std::size_t>(label) : fill_;
  }
  /// Whether every label is accepted, so that no label ends a run.
  bool takes_all_labels() const { return class_of_ || fill_ || classes_ == 256; }
  bool by_label() const { return class_of_.has_value(); }
  std::optional<std::size_t> limit() const { return limit_; }
  std::optional<std::size_t> test_limit() const { return test_limit_; }
  std::optional<std::size_t> test_skip() const { return test_skip_; }
  std::optional<std::size_t> classes() const { return classes_; }
  /// Returns the class names for DataInfo: the known names, or the labels in keep_labels.
  std::vector<std::string> class_names() const;
  const std::string& component() const { return component_; }

 private:
  void set_keep_labels(const std::vector<std::int64_t>& labels);

  std::string component_;
  std::optional<std::size_t> limit_;
  std::optional<std::size_t> test_limit_;
  std::optional<std::size_t> test_skip_;
  std::optional<std::size_t> classes_;
  std::optional<std::size_t> fill_;               ///< target_fill.
  std::vector<std::string> names_;                ///< The names of all labels, or empty.
  std::vector<std::int64_t> labels_;              ///< keep_labels.
  std::optional<std::array<int, 256>> class_of_;  ///< The class of each label; -1 if dropped.
};

/// Images and labels from IDX files, plain or compressed; pixels are scaled to 0..1.
class IdxSource {
 public:
  /// Opens nothing yet.
  /// \param test  nothing if there is no test split.
  /// \throws ConfigError if the selection has test_limit or test_skip without a test split.
  IdxSource(IdxFiles train, std::optional<IdxFiles> test, IdxSelection selection);

  privgrad::DataInfo info();
  /// Implements DataSource::foreseen_info(), from the header of the training images.
  privgrad::DataInfo foreseen_info() const;
  privgrad::Dataset read(privgrad::Split split);
  /// Implements StreamedRows::stream(). Memory: a block, plus five bytes per row.
  privgrad::DataInfo stream(const std::function<void(const privgrad::RowBlock&)>& take);
  std::vector<std::filesystem::path> files() const;

 private:
  /// The facts about one split that info() needs.
  struct Outline {
    privgrad::Shape features;
    std::size_t file_rows = 0;               ///< Rows in the files.
    std::vector<std::uint8_t> labels;        ///< As in the file, [file_rows].
    std::vector<std::uint32_t> wanted_rows;  ///< Rows to keep, ascending.
  };

  /// Reads the headers and labels, in the first call only.
  void outline();
  /// \param skip  how many of the rows to keep are left out at the start.
  /// \param limit  the most rows; if absent: all.
  Outline outline_of(const IdxFiles& files, std::size_t skip,
                     std::optional<std::size_t> limit) const;
  static std::size_t count_classes(const IdxFiles& files, const Outline& train);
  void check_labels(const IdxFiles& files, const Outline& outline) const;
  /// Returns a remark for the user on the number of labels that were replaced by target_fill; "" if
  /// none was.
  std::string remark(const IdxFiles& files, const Outline& outline) const;
  privgrad::Dataset read(const IdxFiles& files, const Outline& outline) const;
  std::uint64_t most_bytes() const;  ///< The limit for a file of images.
  /// Receives pixels and targets of some rows, and the number of rows of the files read so far.
  using Take = std::function<void(std::vector<std::uint8_t>& pixels, std::vector<float>& targets,
                                  std::size_t file_rows)>;
  /// \param block_bytes  the number of pixel bytes after which `take` is called; it is also called
  ///   at the end.
  void read_rows(const IdxFiles& files, const Outline& outline, std::size_t block_bytes,
                 const Take& take) const;
  std::size_t classes() const { return selection_.classes().value_or(classes_in_labels_); }

  IdxFiles train_;
  std::optional<IdxFiles> test_;
  IdxSelection selection_;
  std::optional<Outline> train_outline_;
  std::optional<Outline> test_outline_;
  std::size_t classes_in_labels_ = 0;
  /// Whether rows are streamed, so that images may have any number of bytes.
  bool is_streamed_ = false;
};

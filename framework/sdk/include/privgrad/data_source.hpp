// The interface of data sources: the public facts about a data set, and its examples.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/dataset.hpp"
#include "privgrad/export.hpp"
#include "privgrad/value.hpp"

namespace privgrad {

enum class Split { train = 1, test };

/// The rows of a file that belong to a split. They follow only from parameters and directories,
/// never from the content of the rows.
struct RowOrigin {
  std::string file;       ///< file_identity(), or the name of rows in a program's memory.
  std::string name;       ///< For messages: the path as it was given.
  std::string part = {};  ///< The array or data set in the file, if it has several.
  std::size_t first = 0;  ///< Row numbers [first, end), in the order of the file.
  std::size_t end = std::numeric_limits<std::size_t>::max();
};

/// The facts about the data that a plan may use. They follow only from headers and counts.
struct DataInfo {
  ExampleShape shape;
  std::size_t train_rows = 0;
  std::size_t test_rows = 0;  ///< 0 unless has_test_split.
  /// Facts in this struct that were computed from private rows, each in a few words that end with
  /// the parameter that would declare it instead: "number of classes (classes)".
  std::vector<std::string> unaccounted;
  /// True if only the first rows were taken (`limit`), so that one row can decide whether another
  /// row belongs to the data.
  bool first_rows_only = false;
  /// True if rows were selected by their content (`keep_labels`).
  bool rows_chosen_by_value = false;
  /// The names of the classes, one for each; empty: the classes only have numbers. Names that were
  /// found in private rows are listed in `unaccounted`.
  std::vector<std::string> class_names = {};
  /// The names of the features, one for each in row-major order; empty: they have no names. Public:
  /// names of columns and what a manifest declares, never taken from rows.
  std::vector<std::string> feature_names = {};
  /// The parameters that turn rows of other files into the same features and classes: all
  /// parameters except those that name files or choose rows. A model file stores them, and
  /// `privgrad predict` uses them. Public, like feature_names; null: none are needed. A text
  /// NAME_sha256 is the hash of the file named by the parameter NAME. That file has no rows: the
  /// statement lists it as declared public.
  Value reading = {};
  /// Remarks about the rows, one sentence each, for people who may see the rows. Computed from
  /// private rows: printed on standard error in research mode, and nowhere else.
  std::vector<std::string> remarks = {};
  /// False: the rows have no targets, and the stored targets mean nothing. Such rows can be
  /// predicted, but not used for training or for a loss that uses targets.
  bool has_targets = true;
  /// Whether the parameters ask for test rows. This fact is public. Whether any row actually became
  /// a test row is a fact about rows.
  bool has_test_split = false;
  /// Where the rows of each split come from. Test rows that are declared public are refused if they
  /// are also training rows. Empty: the source does not say.
  std::vector<RowOrigin> train_origins = {}, test_origins = {};
};

/// Reads examples.
///
/// Privacy: receives private rows, and derives nothing from them except what DataInfo lists.
/// Threads: calls on one instance never overlap.
///
/// Example: two classes at -1 and 1, without test rows:
///
///     class TwoPoints final : public DataSource {
///      public:
///       explicit TwoPoints(const Params& params)
///           : rows_(static_cast<std::size_t>(params.integer("rows"))) {}
///       DataInfo info() override { return {.shape = {{1}, 2}, .train_rows = rows_}; }
///       Dataset read(Split split) override {
///         std::vector<float> features, targets;
///         for (std::size_t row = 0; split == Split::train && row < rows_; ++row) {
///           features.push_back(row % 2 == 0 ? -1.0f : 1.0f);
///           targets.push_back(static_cast<float>(row % 2));
///         }
///         return Dataset(info().shape, std::move(features), std::move(targets));
///       }
///
///      private:
///       std::size_t rows_;
///     };
class PRIVGRAD_API DataSource {
 public:
  static constexpr std::string_view kKind = "data_source";
  static constexpr int kInterfaceVersion = 3;
  static constexpr std::string_view kSees = "private rows";

  virtual ~DataSource();
  DataSource(const DataSource&) = delete;
  DataSource& operator=(const DataSource&) = delete;

  /// Opens the files and reads what the plan needs.
  /// \throws IoError that names the file and what is wrong with it: absent, truncated, mislabelled,
  ///   too large.
  virtual DataInfo info() = 0;

  /// \returns all examples of the split, in the source's order, with the shape and number that
  ///   info() returned.
  /// \throws IoError as info() does, and for NaN, infinities, or different numbers of images and
  ///   labels.
  virtual Dataset read(Split split) = 0;

  // ---- Optional functions; the defaults suit most sources.

  /// The part of info() that is known before any row is read: the unaccounted facts, the origins of
  /// the rows, and their shape, which decides what the model and its program promise. The core
  /// refuses a run by these facts before it reads rows, so the refusal has the same text and exit
  /// code whatever the rows contain, even if a row cannot be read. The conformance suite tests
  /// this.
  ///
  /// Privacy: depends only on parameters, names of files and columns, and headers.
  /// \returns the members unaccounted, first_rows_only, rows_chosen_by_value, has_targets,
  ///   has_test_split, train_origins and test_origins of info(), and shape, without features if
  ///   they depend on rows. The other members have no meaning. If absent: the source must read rows
  ///   first.
  /// \throws IoError if a file is absent, or its header is broken.
  virtual std::optional<DataInfo> foreseen_info() { return std::nullopt; }

  /// The files of all splits, for a source that reads files.
  /// \throws IoError if they cannot be found.
  virtual std::vector<std::filesystem::path> files() { return {}; }

  /// Suggests what a manifest could declare about rows that the user may see. No plan and no run
  /// calls this function.
  /// \returns an object of parameters to add to the source's own: declarations that fit all rows of
  ///   the training files (types, ranges, values, classes). They are facts about these rows. Absent
  ///   if there is nothing to declare.
  /// \throws IoError as info(), except for rows that do not fit the declarations.
  virtual std::optional<Value> suggest() { return std::nullopt; }
  /// \returns remarks about the source, or about the last answer of suggest(), one line each, for a
  ///   person to check: for example a column that does not fit. These are facts about rows, too.
  virtual std::vector<std::string> notes() { return {}; }

  /// The names of all columns, whether features or not, for a source that can keep the texts of
  /// some columns together with its rows, for example an id that tells predictions apart. No plan
  /// and no run calls this function or the next two. The conformance suite tests them.
  ///
  /// Privacy: the kept texts are as private as the rows, and appear only beside the predictions of
  /// these rows.
  /// \throws IoError as info().
  virtual std::vector<std::string> columns() { return {}; }
  /// Keeps the texts of these columns from now on. This does not change which columns are features.
  /// Called at most once, before info() and read().
  /// \param names  some of columns(), without duplicates.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): who keeps them takes them over
  virtual void keep(std::vector<std::string> /*names*/) {}
  /// Called after read(split), once for each split.
  /// \returns for each name given to keep(), one text per row, in the order of read(split): the
  ///   bytes of the table, which are not always UTF-8.
  virtual std::vector<std::vector<std::string>> kept(Split /*split*/) { return {}; }

 protected:
  DataSource() = default;
};

}  // namespace privgrad

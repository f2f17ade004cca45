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

/// Which rows of which file a split has, told by parameters and directories alone and never by what
/// the rows hold.
struct RowOrigin {
  std::string file;       ///< file_identity(), or the name of rows that a program lends.
  std::string name;       ///< For messages: the path as it was given.
  std::string part = {};  ///< Which array or data set of the file, where it has several.
  std::size_t first = 0;  ///< Row numbers [first, end), in the order of the file.
  std::size_t end = std::numeric_limits<std::size_t>::max();
};

/// The facts about the data that a plan may use, from headers and counts alone.
struct DataInfo {
  ExampleShape shape;
  std::size_t train_rows = 0;
  std::size_t test_rows = 0;  ///< 0 unless has_test_split.
  /// Facts in here that were read off private rows, each in a few words that end with the parameter
  /// which declares it instead: "number of classes (classes)".
  std::vector<std::string> unaccounted;
  /// True if only rows in front of others were taken (`limit`): then one row decides about
  /// another's place.
  bool first_rows_only = false;
  /// True if rows were taken or left by what they hold (`keep_labels`).
  bool rows_chosen_by_value = false;
  /// The names of the classes, one for each; empty: they have no names but their numbers. Names
  /// that were read off private rows are listed in `unaccounted`.
  std::vector<std::string> class_names = {};
  /// The names of the features, one for each in row-major order; empty: they have no names. Public:
  /// names of columns and what a manifest declares, nothing read off rows.
  std::vector<std::string> feature_names = {};
  /// Parameters of this source with which rows of other files become the same features and classes:
  /// all but those that name files or choose rows. A model file keeps them, and `privgrad predict`
  /// completes a section with them. Public, as above; null: none are needed.
  Value reading = {};
  /// Remarks about the rows for somebody who may look at them, a sentence each. Read off private
  /// rows: in research mode they are shown on standard error, and nowhere else ever.
  std::vector<std::string> remarks = {};
  /// False: the rows have no targets, what stands there means nothing. They can be predicted, and
  /// neither trained on nor compared with.
  bool has_targets = true;
  /// Whether the parameters ask for test rows: public, while that some row fell to the test side is
  /// a fact about rows.
  bool has_test_split = false;
  /// Where the rows of each split are from. Test rows that are declared public are refused where
  /// they are training rows. Empty: the source does not tell.
  std::vector<RowOrigin> train_origins = {}, test_origins = {};
};

/// Reads the examples.
///
/// Privacy: sees private rows. It draws no conclusions from them but those named in DataInfo.
/// Threads: calls on one instance never overlap.
///
/// Example, two classes at -1 and 1, without test rows:
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
  /// \throws IoError naming the file and what is wrong with it: absent, truncated, mislabelled,
  ///   oversized.
  virtual DataInfo info() = 0;

  /// \returns all examples of the split, in the source's order, of the shape and number that info()
  ///   said.
  /// \throws IoError as above, and for NaN, infinities, or images and labels that disagree in
  ///   number.
  virtual Dataset read(Split split) = 0;

  // ---- What only some sources can; by default none of it.

  /// What info() will list as unaccounted, where the rows are from, and of which shape they are,
  /// from which it follows what a model and its program promise, said before a row is looked at.
  /// What is refused for these is then refused with the same words and exit code whatever any row
  /// holds, also one that cannot be read. The conformance suite tests it.
  ///
  /// Privacy: follows from parameters, names of files and columns, and headers alone.
  /// \returns of what info() will say: unaccounted, first_rows_only, rows_chosen_by_value,
  ///   has_test_split, train_origins and test_origins; and shape, or no features in it where rows
  ///   are needed to tell it. All else means nothing. Nothing: it does not know before it looks.
  /// \throws IoError  a file is absent, or its header is broken.
  virtual std::optional<DataInfo> foreseen_info() { return std::nullopt; }

  /// The files of all splits, of a source that reads files.
  /// \throws IoError if they cannot be found.
  virtual std::vector<std::filesystem::path> files() { return {}; }

  /// For rows that one may look at: what a manifest could declare about them. No plan and no run
  /// calls it.
  /// \returns an object of parameters to add to those that the source has: declarations that fit
  ///   all rows of the training files (types, ranges, values, classes). They are facts about these
  ///   rows. Nothing: there is nothing to declare.
  /// \throws IoError as info(), except for rows that do not fit the declarations.
  virtual std::optional<Value> suggest() { return std::nullopt; }
  /// \returns what somebody should look at in the last answer of suggest(), a line each: a column that
  ///   was left out or whose values do not all fit. Facts about the rows, as the answer.
  virtual std::vector<std::string> notes() { return {}; }

  /// The names of all columns, features or not, of a source that can keep the texts of columns beside
  /// its rows, so that predictions can be told apart by an id. No plan and no run calls these three.
  /// The conformance suite tests them.
  ///
  /// Privacy: what it keeps is as private as the rows, and stands beside the predictions of these rows
  /// alone.
  /// \throws IoError as info().
  virtual std::vector<std::string> columns() { return {}; }
  /// From now on the texts of these columns are kept. Which columns are features does not change.
  /// Called at most once, before info() and read().
  /// \param names  some of columns(), each once.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): who keeps them takes them over
  virtual void keep(std::vector<std::string> /*names*/) {}
  /// Called after read(split), once for each split.
  /// \returns for each of the names that keep() was given the texts of the rows, in the order of
  ///   read(split): bytes as they are in the table, not always UTF-8.
  virtual std::vector<std::vector<std::string>> kept(Split /*split*/) { return {}; }

 protected:
  DataSource() = default;
};

}  // namespace privgrad

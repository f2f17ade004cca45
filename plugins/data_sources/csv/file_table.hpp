// The common part of data sources whose rows are in text files: csv and text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../table/declared_table.hpp"
#include "csv_rows.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/streamed_rows.hpp"

/// A table in one or more text files. Uses the parameters train and test, and DeclaredTable's.
class FileTable : public privgrad::DataSource, public privgrad::StreamedRows, protected TableParts {
 public:
  using Paths = std::vector<std::filesystem::path>;

  /// \param component  the component's name in errors.
  FileTable(const std::string& component, const privgrad::Params& params, const CsvForm& form,
            TableForm table);

  Paths files() override;
  privgrad::DataInfo info() override { return table_.info(); }
  std::optional<privgrad::DataInfo> foreseen_info() override { return table_.foreseen_info(); }
  privgrad::Dataset read(privgrad::Split split) override { return table_.read(split); }
  privgrad::DataInfo stream(const std::function<void(const privgrad::RowBlock&)>& take) override {
    return table_.stream(take);
  }
  std::vector<std::string> columns() override { return table_.columns(); }
  void keep(std::vector<std::string> names) override { table_.keep(std::move(names)); }
  std::vector<std::vector<std::string>> kept(privgrad::Split split) override {
    return table_.kept(split);
  }

 protected:
  /// Returns the parts of a table in these files, read in this form.
  std::vector<TablePart> parts_of(const Paths& files, const CsvForm& form) const;
  virtual std::unique_ptr<TextRows> open_rows(const std::filesystem::path& file,
                                              const CsvForm& form, std::uint64_t most_bytes) const;

  /// Return the files, looked up only once, so that a file that appears later is not part of a run.
  const Paths& train_files();
  const Paths& test_files();
  const CsvForm& form() const noexcept { return form_; }
  const DeclaredTable& table() const noexcept { return table_; }

 private:
  std::vector<TablePart> parts(privgrad::Split split) override;
  std::string name(privgrad::Split split) const override;
  void check_fills(const std::string& component) const;

  CsvForm form_;
  std::filesystem::path train_file_;
  std::optional<std::filesystem::path> test_file_;
  Paths train_files_, test_files_;
  DeclaredTable table_;
};

/// Returns the parameters that describe the form of rows in files.
std::vector<privgrad::ParamSpec> csv_form_params();
CsvForm csv_form_of(const std::string& component, const privgrad::Params& params);
/// Returns the part of a table's form that follows from the form of its files, without `missing`
/// and `rules`.
TableForm table_form_of(const CsvForm& form);

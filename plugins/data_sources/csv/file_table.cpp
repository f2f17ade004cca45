#include "file_table.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

#include "../files/input_file.hpp"
#include "../table/columns.hpp"
#include "privgrad/data_files.hpp"
#include "privgrad/error.hpp"

namespace {

using namespace privgrad;

using Paths = FileTable::Paths;

std::optional<char> character(const Params& params, const char* name) {
  if (!params.has(name) || params.text(name) == "none") return std::nullopt;
  return params.text(name).front();
}

/// Returns the files that match a pattern, sorted by name, or the single file with this name.
Paths files_of(const std::filesystem::path& pattern) {
  const std::string name = pattern.filename().string();
  std::error_code failure;
  if (name.find_first_of("*?") == name.npos || std::filesystem::exists(pattern, failure))
    return {pattern};
  Paths found;
  for (const auto& entry : std::filesystem::directory_iterator(pattern.parent_path(), failure)) {
    std::error_code unknown;
    if (entry.is_regular_file(unknown) &&
        ::fnmatch(name.c_str(), entry.path().filename().c_str(), FNM_PERIOD) == 0)
      found.push_back(entry.path());
  }
  if (found.empty()) throw IoError(pattern.string() + ": no file name matches");
  std::ranges::sort(found);
  return found;
}

}  // namespace

FileTable::FileTable(const std::string& component, const Params& params, const CsvForm& form,
                     TableForm table)
    : form_(form), train_file_(params.path("train")), table_(params, std::move(table), *this) {
  if (params.has("test")) test_file_ = params.path("test");
  check_fills(component);
  if (form_.header || !form_.has_targets) return;
  std::size_t column = 0;
  const std::string& name = table_.target().name();
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), column);
  if (error != std::errc{} || end != name.data() + name.size()) {
    throw ConfigError(component + ": target is " + in_quotes(name) +
                      ", but without a header it is the number of a column, counted from 0");
  }
}

Paths FileTable::files() {
  Paths all = train_files();
  for (const auto& file : test_files()) all.push_back(file);
  return all;
}

std::vector<TablePart> FileTable::parts_of(const Paths& files, const CsvForm& form) const {
  std::vector<TablePart> parts;
  for (const std::filesystem::path& file : files) {
    std::error_code failure;
    const std::uintmax_t size = std::filesystem::file_size(file, failure);
    parts.push_back({.open =
                         [this, file, form](bool streams) {
                           // A streamed file may be of any size.
                           return open_rows(file, form,
                                            streams ? std::numeric_limits<std::uint64_t>::max()
                                                    : kMostFileBytes);
                         },
                     .size = failure ? 0 : size,
                     .origin = {file_identity(file), file.string()}});
  }
  return parts;
}

std::unique_ptr<TextRows> FileTable::open_rows(const std::filesystem::path& file,
                                               const CsvForm& form,
                                               std::uint64_t most_bytes) const {
  return std::make_unique<CsvRows>(file, form, most_bytes);
}

const Paths& FileTable::train_files() {
  if (train_files_.empty()) train_files_ = files_of(train_file_);
  return train_files_;
}

const Paths& FileTable::test_files() {
  if (test_file_ && test_files_.empty()) test_files_ = files_of(*test_file_);
  return test_files_;
}

std::vector<TablePart> FileTable::parts(Split split) {
  return parts_of(split == Split::train ? train_files() : test_files(), form_);
}

std::string FileTable::name(Split split) const {
  return (split == Split::train ? train_file_ : *test_file_).string();
}

/// Checks that the header sets the number of fields, and that a row of empty fields is an example.
void FileTable::check_fills(const std::string& component) const {
  if (!form_.fills_malformed) return;
  const std::string fill = component + ": malformed is fill, ";
  if (!can_fill_malformed(form_)) {
    throw ConfigError(
        fill + (form_.header
                    ? "but comment is given: a row could become a comment; say comment: none"
                    : "but without a header the first row says how many fields a row has; give "
                      "the file one"));
  }
  if (table_.form().rules.empty())
    throw ConfigError(fill + "but columns does not say what becomes of the fields of such a row");
  for (const ColumnRule& rule : table_.form().rules) {
    if (!rule.is_feature() || rule.is_total()) continue;
    throw ConfigError(fill + "but columns does not say what an empty field of " +
                      in_quotes(rule.name) + " becomes; say " + rule.remedy());
  }
  if (form_.has_targets && !table_.target().is_total()) {
    throw ConfigError(fill + "but not what an empty target becomes; say " +
                      (table_.target().class_names().empty() ? "target_fill" : "other_label"));
  }
}

TableForm table_form_of(const CsvForm& form) {
  return {.are_named = form.header,
          .has_targets = form.has_targets,
          .decimal_comma = form.decimal_comma,
          .row_is_line = form.dialect.row_is_line,
          .is_well_formed = form.fills_malformed,
          .missing = {},
          .rules = {}};
}

CsvForm csv_form_of(const std::string& component, const Params& params) {
  CsvForm form;
  const bool is_line = params.has("row") && params.text("row") == "line";
  form.dialect = {params.text("delimiter").front(), character(params, "quote"),
                  character(params, "comment"), params.boolean("trim"), is_line};
  form.header = params.boolean("header");
  form.has_targets = !params.boolean("unlabelled");
  form.decimal_comma = params.text("decimal") == ",";
  form.fills_malformed = params.text("malformed") == "fill";
  if (form.decimal_comma && form.dialect.delimiter == ',')
    throw ConfigError(component +
                      ": decimal is ',', and so is delimiter; numbers would be cut in two");
  if (form.fills_malformed && !params.has("row"))
    throw ConfigError(
        component +
        ": malformed is fill, but row does not say where a row ends; say row: line if no value "
        "in the file has a line end, or row: record if some in quotes may");
  return form;
}

std::vector<ParamSpec> csv_form_params() {
  return {
      param::boolean("unlabelled",
                     "The rows have no target: for privgrad predict, which takes all else from the "
                     "model.")
          .defaults_to(false),
      param::boolean("header", "Whether the first line names the columns.").defaults_to(true),
      param::text("delimiter", "What separates fields.")
          .one_of({kDelimiters.begin(), kDelimiters.end()})
          .defaults_to(","),
      param::text("quote", "The quotation mark around fields, doubled inside them.")
          .one_of({"\"", "'", "none"})
          .defaults_to("\""),
      param::text("comment", "Lines that begin with it are passed over.")
          .one_of({"#", "%", "none"})
          .defaults_to("none"),
      param::text("decimal", "The decimal mark of numbers.").one_of({".", ","}).defaults_to("."),
      param::boolean("trim", "Whether blanks around a field are not part of it.")
          .defaults_to(false),
      param::text(
          "row",
          "What a row is; declared, because the file does not say it. line: each line, whatever "
          "quotes it has; a value with a line end would split one person's row in two. record: a "
          "field in quotes may have line ends; the program that wrote the file must have closed "
          "each quote and doubled those inside of fields, as RFC 4180 says, or one person's row "
          "could swallow the rows of others. Without it record, and malformed cannot be fill.")
          .one_of({"line", "record"})
          .optional(),
      param::text("malformed",
                  "How a malformed row is treated: one with another number of fields than the "
                  "header, a misplaced quote, or more than 16 MiB. error: it ends the run, so a "
                  "run that completes discloses that every row is well formed (listed as "
                  "unaccounted). fill: it counts as a row of empty fields, which columns and "
                  "other_label or target_fill must fill.")
          .one_of({"error", "fill"})
          .defaults_to("error"),
  };
}

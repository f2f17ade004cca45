#include <stdlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "command.hpp"
#include "data_source_call.hpp"
#include "data_summary.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/api/suggestion.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/manifest/utf8.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/trust/files.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrivate =
    "These are facts about the examples, histograms included: for private examples they are "
    "private.";

/// A data source and its parameters, as in a manifest.
struct WantedSource {
  std::string kind;
  Value params{Value::Object{}};
  /// The folder that must contain all files of the source; empty: the files may be anywhere.
  fs::path folder = {};
};

Value object(const std::string& key, Value value) {
  Value out{Value::Object{}};
  out.set(key, std::move(value));
  return out;
}

bool is_there(const fs::path& path) {
  std::error_code absent;
  return fs::exists(path, absent);
}

std::string first_bytes(const fs::path& file) {
  constexpr std::size_t kLongestMagic = 6;
  return core::read_beginning(file, kLongestMagic);
}

bool is_table_name(const std::string& name) {
  const auto endings = {".csv", ".csv.gz", ".csv.zst", ".tsv", ".tsv.gz", ".tsv.zst", ".txt"};
  return std::ranges::any_of(endings, [&](const char* ending) { return name.ends_with(ending); });
}

/// Whether an operand looks like the name of a file rather than of a data set.
bool means_file(const std::string& what) {
  return what.find('/') != what.npos || is_table_name(what) || what.ends_with(".npy") ||
         what.ends_with(".npz") || what.ends_with(".gz") || what.find("-ubyte") != what.npos;
}

/// Whether the file is a .npz archive of NumPy.
bool is_archive(const fs::path& file) {
  return first_bytes(file).starts_with("PK\3\4") || file.extension() == ".npz";
}

/// Returns the kind of source, recognised by the file's first bytes or, for gzip files and for
/// tables, which have no characteristic first bytes, by the file's name.
std::string kind_of(const fs::path& file) {
  const std::string bytes = first_bytes(file);
  const std::string name = file.filename().string();
  if (bytes.starts_with("\x93NUMPY") || name.ends_with(".npy") || is_archive(file)) return "npy";
  if (bytes.starts_with(std::string("\0\0", 2)) || name.find("-ubyte") != name.npos) return "idx";
  if (is_table_name(name)) return "csv";
  throw ConfigError(file.string() +
                    ": neither its name nor its first bytes say what it holds; say it with --set "
                    "kind=idx, csv or npy");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.rfind(from);
  return at == text.npos ? "" : text.replace(at, from.size(), to);
}

/// Finds the other file of an IDX pair: images and labels are in two files, whose names differ in
/// one word (`own`, `other`) and in the number of dimensions. \returns "" if it does not exist.
fs::path partner(const fs::path& file, const std::string& own, const std::string& other) {
  const std::string renamed = replaced(file.filename().string(), own, other);
  if (renamed.empty()) return {};
  for (int from = 1; from <= 5; ++from) {
    for (int to = 1; to <= 5; ++to) {
      const std::string name =
          replaced(renamed, "idx" + std::to_string(from), "idx" + std::to_string(to));
      if (name.empty()) continue;
      const std::string plain = name.ends_with(".gz") ? name.substr(0, name.size() - 3) : name;
      for (const std::string& candidate : {plain, plain + ".gz"}) {
        fs::path path = file.parent_path() / candidate;
        if (is_there(path)) return path;
      }
    }
  }
  return {};
}

Value idx_pair(const fs::path& file) {
  const bool is_labels = file.filename().string().find("labels") != std::string::npos;
  const fs::path other =
      is_labels ? partner(file, "labels", "images") : partner(file, "images", "labels");
  if (other.empty()) {
    throw IoError(file.string() + ": " + (is_labels ? "its images" : "its labels") +
                  " are not beside it under the usual name; name both with --set 'train={images: "
                  "FILE, labels: FILE}'");
  }
  Value pair{Value::Object{}};
  pair.set("images", Value((is_labels ? other : file).string()));
  pair.set("labels", Value((is_labels ? file : other).string()));
  return pair;
}

WantedSource file_source(const fs::path& file, const Value& given) {
  WantedSource wanted;
  const Value* kind = given.find("kind");
  wanted.kind = kind != nullptr ? std::get<std::string>(kind->data()) : kind_of(file);
  if (given.find("train") != nullptr) return wanted;
  if (wanted.kind == "idx") {
    wanted.params.set("train", idx_pair(file));
  } else if (wanted.kind == "csv" || wanted.kind == "text") {
    wanted.params.set("train", Value(file.string()));
  } else if (wanted.kind == "npy") {
    const std::string name = file.string();
    throw ConfigError(
        is_archive(file)
            ? name + ": holds arrays by name; say which with --set 'train={features: " + name +
                  ", features_array: x, targets: " + name + ", targets_array: y}'"
            : name +
                  ": the targets are in another file; name both with --set "
                  "'train={features: " +
                  name + ", targets: FILE}'");
  }
  return wanted;
}

/// Makes `folder` the only folder that the data source `dataset` searches, so that only this source
/// knows the rule for file names.
WantedSource folder_source(const fs::path& folder) {
  const fs::path whole = fs::canonical(folder);
  const auto is_idx = [](const fs::directory_entry& entry) {
    return entry.path().filename().string().find("-ubyte") != std::string::npos;
  };
  const fs::directory_iterator entries(whole);
  if (std::none_of(begin(entries), end(entries), is_idx)) {
    throw IoError(folder.string() + ": holds no IDX files named as MNIST's");
  }
  for (const char* place : {"PRIVGRAD_DATA_DIR", "PRIVGRAD_CACHE_DIR"}) {
    ::setenv(place, whole.parent_path().c_str(), 1);
  }
  return {"dataset", object("name", Value(whole.filename().string())), whole};
}

WantedSource wanted_source(const std::string& what, const Value& given) {
  const fs::path path = what;
  std::error_code absent;
  if (fs::is_directory(path, absent)) return folder_source(path);
  if (is_there(path)) return file_source(path, given);
  if (means_file(what)) throw IoError(what + ": there is no such file");
  return {"dataset", object("name", Value(what)), {}};
}

/// Returns the parameters of the data source that --set KEY=VALUE gives.
Value given_params(const std::vector<std::string>& settings) {
  Value params{Value::Object{}};
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == 0 || equals == setting.npos) {
      throw UsageError("--set is '" + setting + "', expected KEY=VALUE");
    }
    std::vector<Problem> problems;
    const auto value = core::parse_yaml(setting.substr(equals + 1), problems);
    if (!value || !problems.empty()) {
      throw UsageError("--set " + setting.substr(0, equals) + ": the value is not YAML");
    }
    params.set(setting.substr(0, equals), *value);
  }
  const Value* kind = params.find("kind");
  if (kind != nullptr && !std::holds_alternative<std::string>(kind->data())) {
    throw UsageError("--set kind: expected a name");
  }
  return params;
}

/// The description of a source, collected in one pass over its rows.
struct Description {
  std::string kind;
  DataInfo info;
  DataSummary train, test;
  std::uint64_t test_rows_in_train = 0;
  std::vector<fs::path> files;
  std::vector<std::string> notes;
};

Description describe(const Catalog& catalog, const WantedSource& wanted) {
  OpenedSource opened = open_source(catalog, wanted.kind, wanted.params);
  for (const fs::path& file : opened.files()) {
    if (wanted.folder.empty() || file.parent_path() == wanted.folder) continue;
    throw IoError(wanted.folder.string() + ": holds no IDX files named as MNIST's");
  }
  Description d{opened.kind, opened.source->info(), {}, {}, 0, {}, {}};
  const Dataset train = opened.source->read(Split::train);
  d.train = summarise(train);
  if (d.info.test_rows > 0) {
    const Dataset test = opened.source->read(Split::test);
    d.test = summarise(test);
    d.test_rows_in_train = rows_in_common(test, train);
  }
  d.files = opened.files();
  d.notes = opened.source->notes();
  return d;
}

/// Describes a source. If a table without declared columns cannot be read, usually because it has
/// more than numbers, describes it by the columns that a draft would declare.
Description describe_or_draft(const Catalog& catalog, const WantedSource& wanted) {
  try {
    return describe(catalog, wanted);
  } catch (const IoError& problem) {
    if (wanted.kind != "csv" || wanted.params.find("columns") != nullptr) throw;
    const OpenedSource opened = open_source(catalog, wanted.kind, wanted.params);
    const Value drafted = api::with_suggestions(wanted.params, wanted.kind, *opened.source).section;
    WantedSource whole{wanted.kind, Value{Value::Object{}}, wanted.folder};
    for (const Value::Member& member : std::get<Value::Object>(drafted.data()))
      if (member.key != "read_off_rows") whole.params.set(member.key, member.value);
    Description description = describe(catalog, whole);
    complain("note", std::string(problem.what()) +
                         "; it is described by the columns that --suggest drafts");
    return description;
  }
}

std::vector<std::string> spread_cells(const std::string& name, const DataSummary& summary,
                                      const Spread& spread) {
  return {name, std::to_string(summary.rows), short_number(spread.least, 6),
          short_number(spread.most, 6), short_number(spread.mean(), 6)};
}

std::string class_table(const Description& d) {
  const bool has_test = d.test.rows > 0;
  Table table({Align::right, Align::right, Align::right});
  table.add(has_test ? std::vector<std::string>{"class", "train", "test"}
                     : std::vector<std::string>{"class", "train"});
  for (std::size_t c = 0; c < d.info.shape.classes; ++c) {
    std::vector<std::string> cells{
        d.info.class_names.empty() ? std::to_string(c) : core::shown_line(d.info.class_names[c]),
        std::to_string(d.train.class_counts[c])};
    if (has_test) cells.push_back(std::to_string(d.test.class_counts[c]));
    table.add(std::move(cells));
  }
  return table.text();
}

std::string page(const std::string& what, const Description& d) {
  const bool reals = d.info.shape.classes == 0;
  std::string text =
      what + ": data source " + d.kind + ", examples of " + to_text(d.info.shape.features) + ", " +
      (reals ? "targets are reals" : std::to_string(d.info.shape.classes) + " classes") +
      "\n\nfeatures\n";
  const std::vector<Align> columns{Align::left, Align::right, Align::right, Align::right,
                                   Align::right};
  Table features(columns);
  features.add({"", "examples", "least", "most", "mean"});
  features.add(spread_cells("train", d.train, d.train.features));
  if (d.test.rows > 0) features.add(spread_cells("test", d.test, d.test.features));
  text += features.text() + "\n";
  if (reals) {
    Table targets(columns);
    targets.add({"", "examples", "least", "most", "mean"});
    targets.add(spread_cells("train", d.train, d.train.targets));
    if (d.test.rows > 0) targets.add(spread_cells("test", d.test, d.test.targets));
    text += "targets\n" + targets.text() + "\n";
  } else {
    text += class_table(d) + "\n";
  }
  if (d.test_rows_in_train > 0) {
    text += std::to_string(d.test_rows_in_train) + " of the " + std::to_string(d.test.rows) +
            " test rows are equal to training rows; if these are private, the test rows are not "
            "public (data.test_is_public)\n\n";
  }
  Table files({Align::left, Align::right});
  for (const fs::path& file : d.files) {
    std::error_code unknown;
    files.add({file.string(), size_text(static_cast<double>(fs::file_size(file, unknown)))});
  }
  if (!files.empty()) text += files.text() + "\n";
  for (const std::string& note : d.notes) text += core::shown_line(note) + "\n\n";
  return text + kPrivate + "\n";
}

nlohmann::json spread_json(const Spread& spread) {
  return {{"min", spread.least}, {"max", spread.most}, {"mean", spread.mean()}};
}

nlohmann::json split_json(const DataSummary& summary) {
  nlohmann::json json{{"examples", summary.rows}, {"features", spread_json(summary.features)}};
  if (summary.class_counts.empty()) {
    json["targets"] = spread_json(summary.targets);
  } else {
    json["class_counts"] = summary.class_counts;
  }
  return json;
}

nlohmann::json to_json(const std::string& what, const Description& d) {
  nlohmann::json json{{"what", what},
                      {"data_source", d.kind},
                      {"shape", d.info.shape.features},
                      {"classes", d.info.shape.classes},
                      {"train", split_json(d.train)},
                      {"test", nullptr},
                      {"class_names", d.info.class_names},
                      {"feature_names", d.info.feature_names},
                      {"read_off_the_examples", d.info.unaccounted},
                      {"files", nlohmann::json::array()},
                      {"notes", d.notes},
                      {"note", kPrivate}};
  if (d.test.rows > 0) {
    json["test"] = split_json(d.test);
    json["test_rows_in_train"] = d.test_rows_in_train;
  }
  for (const fs::path& file : d.files) json["files"].push_back(file.string());
  return json;
}

constexpr const char* kLooked =
    "# Drafted from all rows: types, ranges, values and classes are facts about them, which a "
    "model\n# trained with this section discloses. For private rows, declare only what you know "
    "without them.\n# Release mode refuses read_off_rows: delete it once nothing here comes from "
    "private rows.\n";

/// Prints the section `data`, with the declarations that the source suggests.
int suggest(const Catalog& catalog, const WantedSource& wanted, bool as_json) {
  const OpenedSource opened = open_source(catalog, wanted.kind, wanted.params);
  Value given = object("kind", Value(wanted.kind));
  for (const Value::Member& member : std::get<Value::Object>(wanted.params.data()))
    given.set(member.key, member.value);
  const api::Draft draft = api::with_suggestions(std::move(given), wanted.kind, *opened.source);
  if (as_json) {
    print_json(
        {{"data", core::value_to_json(draft.section)}, {"notes", draft.notes}, {"note", kPrivate}});
    return 0;
  }
  std::string notes;
  for (const std::string& note : draft.notes) notes += "# " + core::shown_line(note) + "\n";
  print(kLooked + notes + core::to_yaml(object("data", draft.section)));
  return 0;
}

int do_data_describe(const Arguments& arguments) {
  const std::string& what = arguments.operand(0);
  const Value given = given_params(arguments.texts("set"));
  const host::PluginHost host = load_plugins(arguments);
  WantedSource wanted = wanted_source(what, given);
  for (const auto& member : std::get<Value::Object>(given.data())) {
    if (member.key != "kind") wanted.params.set(member.key, member.value);
  }
  if (arguments.has("suggest")) return suggest(host.catalog(), wanted, arguments.has("json"));
  const Description description = describe_or_draft(host.catalog(), wanted);
  print_answer(arguments, to_json(what, description), page(what, description));
  return 0;
}

}  // namespace

Command data_describe_command() {
  return {
      .usage = {.name = "data describe",
                .summary = "Describes data: shape, counts, the range of the features, the examples "
                           "of each class.",
                .operands = {"PATH|NAME"},
                .options = {{.name = "set",
                             .value = "KEY=VALUE",
                             .doc = "A parameter of the data source, e.g. target=label for a "
                                    "table; the value is YAML.",
                             .repeatable = true},
                            {"suggest", "",
                             "Instead print a section data that declares the columns of a "
                             "table, made by looking at all its rows."},
                            {"json", "", "As JSON."},
                            plugin_dir_option()},
                .details =
                    "PATH is an IDX, CSV or NPY file, or a folder of IDX files named as MNIST's "
                    "are. NAME is a data\nset that is here; see privgrad data list. Features are "
                    "described as a run sees them (bytes of\nimages become 0..1). The output "
                    "consists of exact facts about the examples: for private\nexamples they are "
                    "private, and no budget was charged for them.",
                .examples = {"privgrad data describe mnist",
                             "privgrad data describe patients.csv --set target=outcome",
                             "privgrad data describe patients.csv --set target=outcome --suggest",
                             "privgrad data describe x.npy --set 'train={features: x.npy, targets: "
                             "y.npy}' --json"}},
      .run = do_data_describe};
}

}  // namespace privgrad::tool

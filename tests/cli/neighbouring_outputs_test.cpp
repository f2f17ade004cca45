// The output of a release run on neighbouring data sets, with the same noise and coins. Its exit
// code, its text, the names and the content of its files must not distinguish the two data sets,
// except through noised sums.
//
// Rows in memory (the data source `memory`) are not tested here: another program must pass them, as
// Python does, and the command has none.
#include <hdf5.h>

#include <cstdint>
#include <functional>
#include <map>
#include <regex>

#include "cli.hpp"
#include "npy_file.hpp"

namespace neighbouring_outputs_test {
namespace {

namespace fs = std::filesystem;
using Rows = std::vector<std::string>;

/// The output of a run: each text by the name of its place.
using Shown = std::map<std::string, std::string>;

/// Salted hashes, and hashes of values that depend on noised sums, have 64 digits; times differ,
/// and each test has a different folder.
std::string without_hashes_and_times(const std::string& text) {
  static const std::regex hash("[0-9a-f]{64}"), time("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]+Z"),
      folder("privgrad-test-[A-Za-z0-9]{6}");
  return std::regex_replace(
      std::regex_replace(std::regex_replace(text, hash, "(hash)"), time, "(time)"), folder,
      "(folder)");
}

/// Adds every leaf of a document by its path, so that two documents can be compared field by field.
void add_leaves(const Json& json, const std::string& path, Shown& shown) {
  if (json.is_structured() && !json.empty()) {
    for (const auto& [key, value] : json.items()) add_leaves(value, path + "/" + key, shown);
  } else {
    shown[path] = without_hashes_and_times(json.dump());
  }
}

void add_file(const fs::path& file, const std::string& name, Shown& shown) {
  const std::string text = read_file(file);
  if (file.extension() == ".json") {
    add_leaves(Json::parse(text), name + ":", shown);
  } else if (file.extension() == ".jsonl") {
    std::istringstream lines(text);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number)
      add_leaves(Json::parse(line), name + ":" + std::to_string(number), shown);
  } else if (file.extension() == ".safetensors") {
    shown[name + " size"] = std::to_string(text.size());
    shown[name] = text;
  } else {
    shown[name] = without_hashes_and_times(text);
  }
}

/// A manifest on rows in some file format.
struct Case {
  /// The section, without its size.
  std::string data;
  /// Writes the rows into an empty folder.
  std::function<void(const fs::path& dir, const Rows& rows)> write;
  std::string sampler = "{kind: poisson, batch_size: 8}";
  std::string adjacency = "add_or_remove_one";
  std::string more = {};
  std::string accountant = "rdp";
};

constexpr std::size_t kRows = 24;

Shown shown_of(const Case& what, const Rows& rows) {
  Cli cli;
  what.write(cli.dir(), rows);
  write_file(cli.out("m.yaml"), R"(privgrad: 1
name: neighbours
mode: release
model: {kind: linear}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 2, clip_norm: 1, learning_rate: 0.5}
steps: 4
checkpoint: off
)" + ("data: {size: " + std::to_string(kRows) + ", " + what.data + "}\n") +
                                    "sampler: " + what.sampler + "\n" +
                                    "privacy: {target_delta: 1e-5, accountant: " + what.accountant +
                                    ", adjacency: " + what.adjacency + "}\n" + what.more);
  Call run = cli.prepare({"run", "m.yaml", "--out", "out"});
  run.environment["LD_PRELOAD"] = PRIVGRAD_TEST_FIXED_KEYS;
  const Outcome outcome = call(run);
  Shown shown{{"exit code", std::to_string(outcome.exit_code)},
              {"standard output", without_hashes_and_times(outcome.out)},
              {"standard error", without_hashes_and_times(outcome.err)}};
  if (!fs::exists(cli.out("out"))) return shown;
  for (const auto& entry : fs::recursive_directory_iterator(cli.out("out"))) {
    if (entry.is_regular_file())
      add_file(entry.path(), fs::relative(entry.path(), cli.out("out")).string(), shown);
  }
  return shown;
}

/// Whether a place may differ because noised sums decide it: the numbers of models.
bool is_decided_by_noised_sums(const std::string& where) {
  static const std::regex model("(clients/[0-9]+/)?model\\.safetensors");
  return std::regex_match(where, model);
}

void check_same(const Shown& one, const Shown& other) {
  for (const auto& [where, text] : one) {
    INFO(where);
    const auto found = other.find(where);
    REQUIRE(found != other.end());
    if (is_decided_by_noised_sums(where) || found->second == text) continue;
    // For a page, only the text around the first difference.
    const auto at =
        std::mismatch(text.begin(), text.end(), found->second.begin(), found->second.end());
    const auto begin = static_cast<std::size_t>(at.first - text.begin());
    const std::size_t from = begin - std::min<std::size_t>(begin, 40);
    CHECK(found->second.substr(from, 120) == text.substr(from, 120));
  }
  for (const auto& [where, text] : other) {
    INFO(where);
    CHECK(one.count(where) == 1);
  }
}

/// Runs on the rows, and on each of their neighbours.
void check_neighbours(const Case& what, const Rows& rows,
                      const std::map<std::string, Rows>& neighbours) {
  CAPTURE(what.data, what.sampler, what.adjacency, what.more);
  const Shown own = shown_of(what, rows);
  INFO(own.at("standard error"));
  REQUIRE(own.at("exit code") == "0");
  bool moves_the_model = false;
  for (const auto& [name, others] : neighbours) {
    CAPTURE(name);
    const Shown shown = shown_of(what, others);
    INFO(shown.at("standard error"));
    check_same(own, shown);
    const auto model = shown.find("model.safetensors");
    moves_the_model =
        moves_the_model || (model != shown.end() && model->second != own.at("model.safetensors"));
  }
  CHECK(moves_the_model);  // otherwise the row would not have been used in the run
}

// ---- tables of text

Rows table_rows() {
  Rows rows;
  for (std::size_t i = 0; i < kRows; ++i) {
    rows.push_back(std::to_string(i % 2) + "," + std::to_string(i) + ",f," +
                   (i % 3 == 0 ? "yes" : "no"));
  }
  return rows;
}

Rows with(Rows rows, std::size_t at, const std::string& row) {
  rows.at(at) = row;
  return rows;
}

Rows without(Rows rows, std::size_t at) {
  rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(at));
  return rows;
}

const std::string kColumns =
    "target: out, labels: ['no', 'yes'], other_label: 'no', row: line, malformed: fill, columns: ["
    "{name: site, type: number, fill: 0}, {name: age, type: number, min: 0, max: 99, unit: true, "
    "fill: 40}, {name: sex, type: category, values: [f, m], other: true, indicator: true}]";
const std::string kHeader = "site,age,sex,out\n";

void write_lines(const fs::path& file, const Rows& rows) {
  std::string text = kHeader;
  for (const std::string& row : rows) text += row + "\n";
  write_file(file, text);
}

void write_table(const fs::path& dir, const Rows& rows) { write_lines(dir / "t.csv", rows); }

/// Writes the last row into its own file, if it exists.
void write_two_tables(const fs::path& dir, const Rows& rows) {
  const auto most = std::min(rows.size(), kRows - 1);
  write_lines(dir / "part-1.csv",
              Rows(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(most)));
  write_lines(dir / "part-2.csv",
              Rows(rows.begin() + static_cast<std::ptrdiff_t>(most), rows.end()));
}

void write_packed(const fs::path& dir, const Rows& rows) {
  write_table(dir, rows);
  REQUIRE(call({.words = {"/usr/bin/env", "gzip", "t.csv"}, .directory = dir}).exit_code == 0);
}

/// Returns neighbours with one row for each kind of content that might confuse a reader.
std::map<std::string, Rows> table_neighbours(const Rows& rows) {
  std::map<std::string, Rows> all;
  const std::map<std::string, std::string> spoilt{
      {"an empty line", ""},
      {"missing values", "NA,,?,"},
      {"no numbers", "x,y,z,w"},
      {"NaN and infinities", "nan,inf,-inf,nan"},
      {"another site", "7,-1e300,m,perhaps"},
      {"a field too few", "1,2,f"},
      {"fields too many", "1,2,f,no,no,no"},
      {"a quote that is never closed", "\"1,2,f,no"},
      {"text behind a quote", "\"1\"x,2,f,no"},
      {"a quote inside a field", "1\"2,2,f,no"},
      {"a quote in quotes", "\"1\"\"\",2,\"f\",no"},
      {"a carriage return", "1,2\r3,f,no"},
      {"a byte order mark",
       "\xef\xbb\xbf"
       "1,2,f,no"},
      {"bytes of UTF-16", std::string("\xff\xfe\0\0", 4)},
      {"what looks like the header", "site,age,sex,out"},
      {"what looks like a comment", "# 1,2,f,no"},
  };
  for (const auto& [name, row] : spoilt) {
    all[name + ", first"] = with(rows, 0, row);
    all[name + ", last"] = with(rows, rows.size() - 1, row);
  }
  all["the first row removed"] = without(rows, 0);
  all["the last row removed"] = without(rows, rows.size() - 1);
  return all;
}

/// Returns the few neighbours that other tests use.
std::map<std::string, Rows> few_neighbours(const Rows& rows) {
  return {{"no row", with(rows, 1, "\"1,2")},
          {"another row", with(rows, rows.size() - 1, "7,99,m,yes")},
          {"the last row removed", without(rows, rows.size() - 1)}};
}

Case table(const std::string& more = {}) {
  return {.data = "kind: csv, train: t.csv, " + kColumns + more, .write = write_table};
}

// ---- arrays, with a feature and a label per row; each text contains these two numbers

std::pair<float, float> numbers_of(const std::string& row) {
  const std::size_t comma = row.find(',');
  return {std::stof(row.substr(0, comma)), std::stof(row.substr(comma + 1))};
}

Rows array_rows() {
  Rows rows;
  for (std::size_t i = 0; i < kRows; ++i)
    rows.push_back(std::to_string(i) + "," + std::to_string(i % 2));
  return rows;
}

void write_arrays(const fs::path& dir, const Rows& rows) {
  std::vector<float> features, targets;
  for (const std::string& row : rows) {
    features.push_back(numbers_of(row).first);
    targets.push_back(numbers_of(row).second);
  }
  const std::string count = std::to_string(rows.size());
  write_file(dir / "x.npy", array_file("<f4", count + ", 1", features));
  write_file(dir / "y.npy", array_file("<f4", count + ",", targets));
}

/// Writes both arrays into one file.
void write_hdf5(const fs::path& dir, const Rows& rows) {
  std::vector<float> features, targets;
  for (const std::string& row : rows) {
    features.push_back(numbers_of(row).first);
    targets.push_back(numbers_of(row).second);
  }
  const hid_t file = H5Fcreate((dir / "rows.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const auto put = [&](const char* name, std::vector<hsize_t> extents,
                       const std::vector<float>& numbers) {
    const hid_t space = H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr);
    const hid_t data =
        H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    REQUIRE(H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()) >= 0);
    H5Dclose(data);
    H5Sclose(space);
  };
  put("features", {rows.size(), 1}, features);
  put("targets", {rows.size()}, targets);
  REQUIRE(H5Fclose(file) >= 0);
}

/// Images of one pixel.
void write_idx(const fs::path& dir, const Rows& rows) {
  std::string pixels, labels;
  for (const std::string& row : rows) {
    pixels += static_cast<char>(numbers_of(row).first);
    labels += static_cast<char>(numbers_of(row).second);
  }
  const std::string count{0, 0, 0, static_cast<char>(rows.size())};
  write_file(dir / "images", std::string("\0\0\x08\x03", 4) + count +
                                 std::string("\0\0\0\x01\0\0\0\x01", 8) + pixels);
  write_file(dir / "labels", std::string("\0\0\x08\x01", 4) + count + labels);
}

/// Writes a picture of one pixel for the text "white", and any other text unchanged.
void write_pictures(const fs::path& dir, const Rows& rows) {
  const std::string white(
      "\x89PNG\r\n\x1a\n"
      "\0\0\0\x0dIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0\x3a\x7e\x9b\x55"
      "\0\0\0\x0aIDAT\x78\x9c\x63\xf8\x0f\0\1\1\1\0\xb1\x38\xf6\x14"
      "\0\0\0\0IEND\xae\x42\x60\x82",
      67);
  for (const char* name : {"a", "b"}) fs::create_directories(dir / "pictures" / name);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    write_file(dir / "pictures" / (i % 2 == 0 ? "a" : "b") / (std::to_string(i) + ".png"),
               rows[i] == "white" ? white : rows[i]);
  }
}

}  // namespace

TEST_CASE("neighbours: whatever one row of a table holds, a release run shows the same") {
  check_neighbours(table(), table_rows(), table_neighbours(table_rows()));
}

TEST_CASE("neighbours: the same of tables that are streamed") {
  check_neighbours(table(", streaming: true"), table_rows(), table_neighbours(table_rows()));
}

TEST_CASE(
    "neighbours: the same of tables in several files, of which one may be left without rows") {
  for (const char* more : {"", ", streaming: true"}) {
    Case files = table(more);
    files.data = "kind: csv, train: 'part-*.csv', " + kColumns + more;
    files.write = write_two_tables;
    check_neighbours(files, table_rows(), few_neighbours(table_rows()));
  }
}

TEST_CASE("neighbours: the same of one row that is longer than all others, also compressed") {
  const Rows rows = table_rows();
  const std::map<std::string, Rows> longer{
      {"a long field", with(rows, 3, "1,2," + std::string(std::size_t{1} << 24, 'f') + ",no")},
      {"a long line", with(rows, 3, std::string(std::size_t{40} << 20, 'x'))},
      {"a long line, last", with(rows, kRows - 1, std::string(std::size_t{17} << 20, '\"'))}};
  for (const char* more : {"", ", streaming: true"}) {
    check_neighbours(table(more), rows, longer);
    Case packed = table(more);
    packed.data = "kind: csv, train: t.csv.gz, " + kColumns + more;
    packed.write = write_packed;
    check_neighbours(packed, rows, longer);
  }
}

TEST_CASE("neighbours: the same where a split sends rows to either side") {
  // With a share of 0.01 no row is a test row, but a changed row may become the first test
  // row.
  for (const char* split : {", split: {test: 0.3}", ", split: {test: 0.01}",
                            ", split: {test: 0.3, by: site}, streaming: true"}) {
    Rows rows = table_rows();
    std::map<std::string, Rows> neighbours = few_neighbours(rows);
    for (int age = 30; age < 90; age += 6)
      neighbours["age " + std::to_string(age)] =
          with(rows, 5, "1," + std::to_string(age) + ",m,no");
    check_neighbours(table(split), rows, neighbours);
  }
}

TEST_CASE("neighbours: the same of arrays and images") {
  const Rows rows = array_rows();
  const std::map<std::string, Rows> arrays{{"NaN", with(rows, 2, "nan,nan")},
                                           {"infinite", with(rows, 2, "inf,-inf")},
                                           {"no class", with(rows, kRows - 1, "1,0.5")},
                                           {"another class", with(rows, 0, "1e30,7")},
                                           {"the last row removed", without(rows, kRows - 1)}};
  const std::map<std::string, Rows> bytes{{"no class", with(rows, 2, "1,9")},
                                          {"another row", with(rows, 2, "200,1")},
                                          {"the first row removed", without(rows, 0)}};
  for (const std::string& more : Rows{"", ", streaming: true"}) {
    check_neighbours({.data = "kind: npy, train: {features: x.npy, targets: y.npy}, classes: 2, "
                              "feature_fill: 0, target_fill: 0" +
                              more,
                      .write = write_arrays},
                     rows, arrays);
    check_neighbours({.data = "kind: hdf5, train: {file: rows.h5}, classes: 2, feature_fill: 0, "
                              "target_fill: 0" +
                              more,
                      .write = write_hdf5},
                     rows, arrays);
    check_neighbours({.data = "kind: idx, train: {images: images, labels: labels}, classes: 2, "
                              "target_fill: 0" +
                              more,
                      .write = write_idx},
                     rows, bytes);
    const Rows white(kRows, "white");
    check_neighbours({.data = "kind: images, train: pictures, classes: [a, b], channels: 1, "
                              "image_size: [1, 1], bad_image: blank" +
                              more,
                      .write = write_pictures},
                     white,
                     {{"no picture", with(white, 2, "x")},
                      {"an empty file", with(white, kRows - 1, "")},
                      {"a picture that is cut off", with(white, 0, "\x89PNG\r\n")},
                      {"the last one removed", without(white, kRows - 1)}});
  }
}

TEST_CASE("neighbours: the same without any row, where the number of rows is declared") {
  const Rows rows;
  for (const char* more : {"", ", streaming: true"}) {
    check_neighbours(table(more), rows, {{"one row", {table_rows()[1]}}});
  }
}

TEST_CASE("neighbours: the same with each sampler, under each adjacency that it has a proof for") {
  const Rows rows = table_rows();
  std::map<std::string, Rows> changed = few_neighbours(rows);
  changed.erase("the last row removed");
  const auto check = [&](const std::string& sampler, const std::string& adjacency,
                         const std::string& accountant) {
    Case one = table();
    one.sampler = "{kind: " + sampler + "}";
    one.adjacency = adjacency;
    one.accountant = accountant;
    check_neighbours(one, rows, changed);
  };
  check("poisson, batch_size: 8", "replace_one", "pld");
  check("poisson, batch_size: 8", "zero_out", "rdp");
  check("fixed_size, batch_size: 8", "replace_one", "rdp");
  for (const std::string& sampler :
       Rows{"shuffle", "sequential", "fixed_size, amplification: false"})
    check(sampler + ", batch_size: 8", "zero_out", "rdp");
  for (const char* adjacency : {"replace_one", "zero_out"}) check("full_batch", adjacency, "zcdp");
  Case full = table();
  full.sampler = "{kind: full_batch}";
  check_neighbours(full, rows, few_neighbours(rows));
}

TEST_CASE("neighbours: the same of clients' rows, for one row and for all of one client's") {
  const Rows rows = table_rows();
  Rows alone;  // the rows of site 1; without the last row, which belongs to another site
  for (std::size_t i = 0; i < rows.size(); i += 2) alone.push_back(rows[i]);
  const std::string shards =
      "federated: {clients: 2, rounds: 2, local_iterations: 2, shards: given, sizes: [12, 12], "
      "partition: {kind: by_column, column: 0, values: [0, 1]}";
  Case by_row = table();
  by_row.more = shards + "}\n";
  check_neighbours(by_row, rows, table_neighbours(rows));
  Case by_client = table();
  by_client.more = shards + ", aggregation: dp_fed_avg, client_clip_norm: 1}\n";
  check_neighbours(
      by_client, rows,
      {{"one row of one client", with(rows, 1, "1,\"")}, {"one client without rows", alone}});
  // The number of rows of a client is as private as the client itself: no number ends the run,
  // whatever draws the batches, even if there are fewer rows than in a batch.
  const Rows few(alone.begin(), alone.end() - 7);  // none of site 1, five of site 0
  for (const char* sampler : {"full_batch", "shuffle, batch_size: 8", "sequential, batch_size: 8",
                              "fixed_size, batch_size: 8", "cyclic_poisson, batch_size: 2",
                              "allocation, steps_per_epoch: 2"}) {
    by_client.sampler = std::string("{kind: ") + sampler + "}";
    for (const char* adjacency : {"add_or_remove_one", "replace_one"}) {
      by_client.adjacency = adjacency;
      check_neighbours(by_client, rows,
                       {{"one client without rows", alone},
                        {"a client with a row less", without(rows, 1)},
                        {"clients with fewer rows than a batch has", few}});
    }
  }
}

}  // namespace neighbouring_outputs_test

#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include "findings.hpp"
#include "house_plugins.hpp"

using privgrad::Component;
using privgrad::Value;
using privgrad::testing::Verdict;

namespace {

/// Returns the number in the format of IDX headers.
std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((value >> shift) & 0xff);
  return bytes;
}

/// A NumPy array of bytes: version 1.0 of the format, its header padded to a multiple of 64.
std::string npy(const std::string& shape, const std::string& bytes) {
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(64 * ((10 + header.size()) / 64 + 1) - 11, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
         bytes;
}

/// Small files for the built-in data sources: six examples of 2 x 3 features, three classes. The
/// suite makes its own broken files.
class HouseFiles {
 public:
  HouseFiles() {
    std::string features;
    std::string targets;
    std::string table = "a,b,label\n";
    for (int row = 0; row < 6; ++row) {
      for (int i = 0; i < 6; ++i) features += static_cast<char>(40 * row + i);
      targets += static_cast<char>(row % 3);
      table += std::to_string(row) + ",0.5," + std::to_string(row % 3) + "\n";
    }
    const std::string six = big_endian(6);
    write("images",
          std::string("\0\0\x08\x03", 4) + six + big_endian(2) + big_endian(3) + features);
    write("labels", std::string("\0\0\x08\x01", 4) + six + targets);
    write("features.npy", npy("(6, 2, 3)", features));
    write("targets.npy", npy("(6,)", targets));
    write("table.csv", table);
    // `dataset` finds a data set by the name of its folder.
    std::filesystem::create_directory(dir_.path() / "mnist");
    for (const char* split : {"train", "t10k"}) {
      for (const auto& [content, ending] :
           Names{{"images", "-idx3-ubyte"}, {"labels", "-idx1-ubyte"}}) {
        std::filesystem::copy_file(
            dir_.path() / content,
            dir_.path() / "mnist" / (split + std::string("-") + content + ending));
      }
    }
    ::setenv("PRIVGRAD_DATA_DIR", dir_.path().c_str(), 1);
  }

  /// Returns the component's parameters that no declaration can provide; null if there are none.
  Value params(const std::string& component) const {
    if (component == "idx") return both({{"images", "images"}, {"labels", "labels"}});
    if (component == "npy") return both({{"features", "features.npy"}, {"targets", "targets.npy"}});
    if (component == "cuda") return Value::Object{{"host_twin", true, {}}};
    if (component == "csv") return object({{"train", "table.csv"}, {"test", "table.csv"}});
    if (component == "pretrained")
      return Value::Object{
          {"path", (kSource / "plugins/models/pretrained/sample/bert").string(), {}}};
    if (component == "text") {
      Value texts = object({{"train", "table.csv"}, {"test", "table.csv"}});
      texts.set("column", "a");
      return texts;
    }
    // Files that each format's own program has written.
    const std::filesystem::path sample = kSource / "plugins" / "data_sources" / "sample";
    if (component == "hdf5") {
      Value rows(Value::Object{{"file", (sample / "rows.h5").string(), {}}});
      return Value(Value::Object{{"train", rows, {}}, {"test", rows, {}}});
    }
    if (component == "images") {
      const std::string folder = (sample / "images-by-class").string();
      return Value(Value::Object{{"train", folder, {}},
                                 {"test", folder, {}},
                                 {"classes", Value::List{"0", "1", "2"}, {}},
                                 {"image_size", Value::List{2, 3}, {}}});
    }
    return {};
  }

 private:
  using Names = std::vector<std::pair<const char*, const char*>>;

  void write(const std::string& name, const std::string& content) const {
    write_file(dir_.path() / name, content);
  }
  Value object(const Names& files) const {
    Value value{Value::Object{}};
    for (const auto& [key, file] : files) value.set(key, (dir_.path() / file).string());
    return value;
  }
  Value both(const Names& files) const {
    Value value{Value::Object{}};
    value.set("train", object(files));
    value.set("test", object(files));
    return value;
  }

  TempDir dir_;
};

namespace fs = std::filesystem;

/// Whether the file exists and is not older than a program that contains the suite. If so, neither
/// a rule nor the core has changed since.
bool is_newer(const fs::path& file, const fs::path& program) {
  std::error_code absent;
  const auto written = fs::last_write_time(file, absent);
  if (absent) return false;
  const auto made = fs::last_write_time(program, absent);
  return !absent && made <= written;
}

/// Returns the file in which this test records the plugin file with which the component passed.
fs::path word_of(const Component& component) {
  return kBuild / "tests" /
         ("conforms-" + component.factory.kind + "-" + component.factory.info.name);
}

/// Whether this suite has already examined this exact file: either when it was built (the host
/// compares the hash and the version of the suite), or in a later run of this test.
bool has_passed(const Component& component) {
  const fs::path record = component.plugin->file + ".tested.json";
  if (component.plugin->record == record &&
      is_newer(record, kBuild / "lib/privgrad/privgrad-conformance"))
    return true;
  return is_newer(word_of(component), fs::read_symlink("/proc/self/exe")) &&
         read_file(word_of(component)) == component.plugin->sha256;
}

/// Runs the suite on every component of one kind that it has not examined yet.
void check_kind(const std::string& kind) {
  const HouseFiles files;
  int components = 0;
  for (const Component& component : house().components()) {
    if (component.factory.kind != kind) continue;
    ++components;
    if (has_passed(component)) continue;
    INFO(component.full_name());
    const Findings findings = privgrad::testing::check_component(
        component, test_setup(files.params(component.factory.info.name)));
    const std::string failures = findings_text(findings, Verdict::failed);
    CHECK(failures == "");
    // The component had all parameters that it needs, so it was not skipped, and every rule of its
    // interface was checked.
    const auto* created = find_rule(findings, "is_created");
    REQUIRE(created != nullptr);
    CHECK(created->verdict == Verdict::passed);
    if (failures.empty() && created->verdict == Verdict::passed)
      write_file(word_of(component), component.plugin->sha256);
  }
  CHECK(components > 0);
}

}  // namespace

TEST_CASE("built-in plugins are put on record as tested when they are built") {
  for (const Component& component : house().components()) {
    INFO(component.full_name());
    CHECK(component.plugin->record == component.plugin->file + ".tested.json");
    CHECK(component.plugin->record_problem == "");
  }
}

TEST_CASE("built-in accountants conform", "[slow]") { check_kind("accountant"); }
TEST_CASE("built-in aggregators conform") { check_kind("aggregator"); }
TEST_CASE("built-in backends conform", "[slow]") { check_kind("backend"); }
TEST_CASE("built-in clippings conform") { check_kind("clipping"); }
TEST_CASE("built-in data sources conform") { check_kind("data_source"); }
TEST_CASE("built-in models conform") { check_kind("model"); }
TEST_CASE("built-in optimizers conform") { check_kind("optimizer"); }
TEST_CASE("built-in samplers conform") { check_kind("sampler"); }
TEST_CASE("built-in schedules conform") { check_kind("schedule"); }
TEST_CASE("built-in transforms conform") { check_kind("transform"); }

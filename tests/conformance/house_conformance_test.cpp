#include <cstdint>

#include "findings.hpp"
#include "house_plugins.hpp"

using privgrad::Component;
using privgrad::Value;
using privgrad::testing::Verdict;

namespace {

/// As IDX headers are.
std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((value >> shift) & 0xff);
  return bytes;
}

/// Small files for the data sources of the house; the suite breaks files of its own.
class HouseFiles {
 public:
  HouseFiles() {
    std::string images =
        std::string("\0\0\x08\x03", 4) + big_endian(6) + big_endian(2) + big_endian(3);
    std::string labels = std::string("\0\0\x08\x01", 4) + big_endian(6);
    for (int row = 0; row < 6; ++row) {
      for (int pixel = 0; pixel < 6; ++pixel) images += static_cast<char>(40 * row + pixel);
      labels += static_cast<char>(row % 3);
    }
    write_file(dir_.path() / "images", images);
    write_file(dir_.path() / "labels", labels);
  }

  /// The parameters of this component that no declaration can give; null if there are none.
  Value params(const std::string& component) const {
    if (component != "idx") return {};
    Value split{Value::Object{}};
    split.set("images", (dir_.path() / "images").string());
    split.set("labels", (dir_.path() / "labels").string());
    Value params{Value::Object{}};
    params.set("train", split);
    params.set("test", split);
    return params;
  }

 private:
  TempDir dir_;
};

/// Runs the suite on every component of one kind.
void check_kind(const std::string& kind) {
  const HouseFiles files;
  int components = 0;
  for (const Component& component : house().components()) {
    if (component.factory.kind != kind) continue;
    ++components;
    INFO(component.full_name());
    const Findings findings = privgrad::testing::check_component(
        component, test_setup(files.params(component.factory.info.name)));
    CHECK(findings_text(findings, Verdict::failed) == "");
    // Not even skipped for want of parameters: every rule of its interface had its turn.
    const auto* created = find_rule(findings, "is_created");
    REQUIRE(created != nullptr);
    CHECK(created->verdict == Verdict::passed);
  }
  CHECK(components > 0);
}

}  // namespace

TEST_CASE("accountants of the house conform") { check_kind("accountant"); }
TEST_CASE("aggregators of the house conform") { check_kind("aggregator"); }
TEST_CASE("data sources of the house conform") { check_kind("data_source"); }
TEST_CASE("optimizers of the house conform") { check_kind("optimizer"); }
TEST_CASE("samplers of the house conform") { check_kind("sampler"); }
TEST_CASE("schedules of the house conform") { check_kind("schedule"); }
TEST_CASE("transforms of the house conform") { check_kind("transform"); }

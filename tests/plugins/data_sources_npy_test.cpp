#include <cstring>
#include <limits>

#include "data_sources_files.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/streamed_rows.hpp"

namespace data_sources_npy_test {

using privgrad::ConfigError;
using privgrad::Dataset;
using privgrad::DataSource;
using privgrad::Shape;
using privgrad::Split;
using privgrad::Value;

namespace {

template <class T>
std::string raw(const std::vector<T>& elements) {
  std::string bytes(elements.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

/// Returns a file with this text as its header, padded like NumPy's.
std::string npy_with(std::string header, const std::string& data, char version = 1) {
  const std::size_t fixed = version == 1 ? 10 : 12;
  header.append(63 - (fixed + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += version;
  bytes += '\0';
  for (std::size_t i = 0; i < fixed - 8; ++i) bytes += static_cast<char>(header.size() >> 8 * i);
  return bytes + header + data;
}

std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                char version = 1) {
  return npy_with("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }",
                  data, version);
}

struct Files {
  TempDir dir;
  std::filesystem::path features = dir.path() / "train-features.npy";
  std::filesystem::path targets = dir.path() / "train-targets.npy";
  std::filesystem::path test_features = dir.path() / "test-features.npy";
  std::filesystem::path test_targets = dir.path() / "test-targets.npy";

  Files() {
    write_file(features, npy("<f4", "(3, 2)", raw<float>({1, 2, 3, 4, 5, 6})));
    write_file(targets, npy("<i8", "(3,)", raw<std::int64_t>({0, 2, 1})));
    write_file(test_features, npy("<f8", "(1, 2)", raw<double>({7, 8})));
    write_file(test_targets, npy("|u1", "(1,)", raw<std::uint8_t>({2})));
  }

  privgrad::ComponentPtr<DataSource> open(Value::Object extra = {}) const {
    const auto pair = [](const auto& feature_file, const auto& target_file) {
      return Value(Value::Object{{"features", feature_file.string(), {}},
                                 {"targets", target_file.string(), {}}});
    };
    Value params(std::move(extra));
    params.set("train", pair(features, targets));
    params.set("test", pair(test_features, test_targets));
    return house().create<DataSource>("npy", params);
  }

  std::string refusal(const std::filesystem::path& file, const std::string& bytes,
                      Value::Object extra = {}) const {
    replace_file(file, bytes);
    return io_error(file, [&] {
      const auto source = open(extra);
      source->read(Split::train);
      source->read(Split::test);
    });
  }
};

std::vector<float> values(Dataset data) { return {data.features().begin(), data.features().end()}; }

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

}  // namespace

TEST_CASE("npy: features, targets and splits", "[data_source]") {
  const Files files;
  const auto source = files.open();
  const auto info = source->info();
  CHECK(info.shape.features == Shape{2});
  CHECK(info.shape.classes == 3);
  CHECK(info.unaccounted ==
        std::vector<std::string>{"number of classes (classes)",
                                 "that every target fits (target_fill)",
                                 "that every feature is finite (feature_fill)"});
  CHECK(info.train_rows == 3);
  CHECK(info.test_rows == 1);
  const auto train = source->read(Split::train);
  CHECK(values(train) == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(train.targets()[1] == 2.0f);
  CHECK(values(source->read(Split::test)) == std::vector<float>{7, 8});
}

TEST_CASE("npy: rows may have no targets, in all splits", "[data_source]") {
  const Files files;
  const auto only = [](const std::filesystem::path& file) {
    return Value(Value::Object{{"features", file.string(), {}}});
  };
  const auto open = [&](Value params) { return house().create<DataSource>("npy", params); };
  Value params(
      Value::Object{{"train", only(files.features), {}}, {"test", only(files.test_features), {}}});
  for (const bool with_classes : {false, true}) {
    if (with_classes) params.set("classes", std::int64_t{4});
    const auto source = open(params);
    const privgrad::DataInfo info = source->info();
    CHECK_FALSE(info.has_targets);
    CHECK(info.shape.classes == (with_classes ? 4 : 0));
    CHECK(info.train_rows == 3);
    CHECK(info.train_origins.size() == 1);
    CHECK(info.unaccounted ==
          std::vector<std::string>{"that every feature is finite (feature_fill)"});
    CHECK(source->files() == std::vector{files.features, files.test_features});
    CHECK(source->read(Split::train).targets()[2] == 0.0f);
    CHECK(values(source->read(Split::test)) == std::vector<float>{7, 8});
  }
  params.set("train", Value(Value::Object{{"features", files.features.string(), {}},
                                          {"targets", files.targets.string(), {}}}));
  CHECK_THROWS_WITH(open(params), ContainsSubstring("both have targets"));
}

TEST_CASE("npy: every type of element, and both versions", "[data_source]") {
  const Files files;
  const auto check = [&files](const std::string& bytes) {
    replace_file(files.features, bytes);
    CHECK(values(files.open()->read(Split::train)) == std::vector<float>{9, 2, 3, 4, 5, 6});
  };
  const char version = GENERATE(char{1}, char{2}, char{3});
  check(npy("|u1", "(3, 2)", raw<std::uint8_t>({9, 2, 3, 4, 5, 6}), version));
  check(npy("|i1", "(3, 2)", raw<std::int8_t>({9, 2, 3, 4, 5, 6}), version));
  check(npy("<i2", "(3, 2)", raw<std::int16_t>({9, 2, 3, 4, 5, 6}), version));
  check(npy("<u2", "(3, 2)", raw<std::uint16_t>({9, 2, 3, 4, 5, 6}), version));
  check(npy("<u4", "(3, 2)", raw<std::uint32_t>({9, 2, 3, 4, 5, 6}), version));
  check(npy("<u8", "(3, 2)", raw<std::uint64_t>({9, 2, 3, 4, 5, 6}), version));
  // Python 2 wrote its long integers like this: numpy.load accepts them
  // (numpy.lib.format._filter_header).
  check(npy("<u8", "(3L, 2L)", raw<std::uint64_t>({9, 2, 3, 4, 5, 6}), version));
  check(npy("=i2", "(3, 2)", raw<std::int16_t>({9, 2, 3, 4, 5, 6}), version));
  check(npy("<i4", "(3, 2)", raw<std::int32_t>({9, 2, 3, 4, 5, 6}), version));
  check(npy("<i8", "(3, 2)", raw<std::int64_t>({9, 2, 3, 4, 5, 6}), version));
  check(npy("<f4", "(3, 2)", raw<float>({9, 2, 3, 4, 5, 6}), version));
  check(npy("<f8", "(3, 2)", raw<double>({9, 2, 3, 4, 5, 6}), version));
}

TEST_CASE("npy: halves, booleans, the other byte order, and signs", "[data_source]") {
  const Files files;
  const auto read = [&files](const std::string& bytes) {
    replace_file(files.features, bytes);
    return values(files.open()->read(Split::train));
  };
  using Floats = std::vector<float>;
  // IEEE 754-2008, table 3.5: 1, -2, the largest, the smallest normal, the smallest above 0, -0.
  const std::vector<std::uint16_t> halves = {0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x8000};
  CHECK(read(npy("<f2", "(3, 2)", raw(halves))) == Floats{1, -2, 65504, 0x1p-14f, 0x1p-24f, -0.0f});
  CHECK(read(npy("|b1", "(3, 2)", raw<std::uint8_t>({0, 1, 1, 0, 255, 0}))) ==
        Floats{0, 1, 1, 0, 1, 0});
  CHECK(read(npy(">i2", "(3, 2)", from_hex("0001ffff7fff80000000ff00"))) ==
        Floats{1, -1, 32767, -32768, 0, -256});
  CHECK(read(npy(">f4", "(3, 2)", from_hex("3f800000c00000000000000040490fdb7f7fffff00000001"))) ==
        Floats{1, -2, 0, 3.14159274f, 0x1.fffffep127f, 0x1p-149f});
  CHECK(read(npy("<u8", "(3, 2)", raw<std::uint64_t>({0, 1, 2, 3, 4, ~std::uint64_t{0}}))) ==
        Floats{0, 1, 2, 3, 4, 0x1p64f});
  CHECK_THAT(files.refusal(files.features,
                           npy("<f2", "(3, 2)", raw<std::uint16_t>({0, 0, 0x7c00, 0, 0, 0}))),
             ContainsSubstring("element 2 is not a finite number"));
}

TEST_CASE("npy: whole numbers of 64 bits are rounded as the texts of a table are",
          "[data_source]") {
  const Files files;
  constexpr std::int64_t kTwice = (std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1;
  replace_file(files.features, npy("<i8", "(3, 2)", raw<std::int64_t>({kTwice, 2, 3, 4, 5, 6})));
  CHECK(values(files.open()->read(Split::train))[0] ==
        static_cast<float>(static_cast<double>(kTwice)));
}

TEST_CASE("npy: targets may be a column", "[data_source]") {
  const Files files;
  const auto plain = files.open()->read(Split::train);
  replace_file(files.targets, npy("<i4", "(3, 1)", raw<std::int32_t>({0, 2, 1})));
  const auto column = files.open()->read(Split::train);
  CHECK(std::ranges::equal(column.targets(), std::vector<float>{0, 2, 1}));
  CHECK(values(column) == values(plain));
}

TEST_CASE("npy: Fortran order is another way to write the same", "[data_source]") {
  const Files files;
  const auto fortran = [](const std::string& descr, const std::string& shape,
                          const std::string& data) {
    return npy_with("{'descr': '" + descr + "', 'fortran_order': True, 'shape': " + shape + ", }",
                    data);
  };
  replace_file(files.features, fortran("<i4", "(3, 2)", raw<std::int32_t>({1, 3, 5, 2, 4, 6})));
  CHECK(values(files.open()->read(Split::train)) == std::vector<float>{1, 2, 3, 4, 5, 6});
  // [3, 1, 2, 2], element (i, 0, k, l) is 100 i + 10 k + l.
  replace_file(files.features,
               fortran("|u1", "(3, 1, 2, 2)",
                       raw<std::uint8_t>({0, 100, 200, 10, 110, 210, 1, 101, 201, 11, 111, 211})));
  replace_file(files.test_features, npy("|u1", "(1, 1, 2, 2)", raw<std::uint8_t>({1, 2, 3, 4})));
  CHECK(values(files.open()->read(Split::train)) ==
        std::vector<float>{0, 1, 10, 11, 100, 101, 110, 111, 200, 201, 210, 211});
}

TEST_CASE("npy: reads what NumPy wrote", "[data_source]") {
  const Files files;
  // numpy.save of numpy.array([[1.5, -2], [3, 4e10], [0, 7]], dtype='<f8'), NumPy 2.4.
  write_file(
      files.features,
      from_hex("934e554d5059010076007b276465736372273a20273c6638272c2027666f727472616e5f6f726465"
               "72273a2046616c73652c20277368617065273a2028332c2032292c207d2020202020202020202020"
               "20202020202020202020202020202020202020202020202020202020202020202020202020202020"
               "202020202020200a000000000000f83f00000000000000c00000000000000840000000205fa02242"
               "00000000000000000000000000001c40"));
  CHECK(values(files.open()->read(Split::train)) == std::vector<float>{1.5f, -2, 3, 4e10f, 0, 7});
}

TEST_CASE("npy: more than two extents keep their shape", "[data_source]") {
  const Files files;
  write_file(files.features, npy("|u1", "(3, 1, 2)", raw<std::uint8_t>({1, 2, 3, 4, 5, 255})));
  write_file(files.test_features, npy("|u1", "(1, 1, 2)", raw<std::uint8_t>({1, 2})));
  const auto source = files.open();
  CHECK(source->info().shape.features == Shape{1, 2});
  CHECK(values(source->read(Split::train))[5] == 255.0f);  // bytes are not scaled
}

TEST_CASE("npy: regression and stated classes", "[data_source]") {
  const Files files;
  CHECK(files.open({{"classes", 5, {}}})->info().shape.classes == 5);
  const Value::Object filled{{"classes", 5, {}}, {"target_fill", 0, {}}, {"feature_fill", 0, {}}};
  CHECK(files.open(filled)->info().unaccounted.empty());
  CHECK(files.open({{"classes", 5, {}}, {"feature_fill", 0, {}}})->info().unaccounted ==
        std::vector<std::string>{"that every target fits (target_fill)"});
  // The message names the row but not its content.
  CHECK_THAT(io_error(files.targets,
                      [&] {
                        files.open({{"classes", 2, {}}})->info();
                      }),
             ContainsSubstring("target 1 is not a class index: a whole number in 0..1; target_fill "
                               "says what such a row counts as"));
  write_file(files.targets, npy("<f8", "(3,)", raw<double>({0.5, -1, 2})));
  const auto source = files.open({{"task", "regression", {}}});
  CHECK(source->info().shape.classes == 0);
  CHECK(source->read(Split::train).targets()[0] == 0.5f);
  CHECK_THAT(io_error(files.targets, [&] { files.open()->info(); }),
             ContainsSubstring("target 0 is not a class index"));
}

TEST_CASE("npy: a target that does not fit counts as what was declared, and moves no other row",
          "[data_source][privacy]") {
  const Files files;
  const auto targets_of = [](const privgrad::ComponentPtr<DataSource>& source) {
    const Dataset data = source->read(Split::train);
    return std::vector<float>(data.targets().begin(), data.targets().end());
  };
  const Value::Object two{{"classes", 2, {}}, {"target_fill", 1, {}}, {"feature_fill", 0, {}}};
  for (const double bad : {2.0, 0.5, -1.0, 1e300, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    INFO(bad);
    write_file(files.targets, npy("<f8", "(3,)", raw<double>({0, bad, 0})));
    const auto source = files.open(two);
    CHECK(targets_of(source) == std::vector<float>{0, 1, 0});
    REQUIRE(source->info().remarks.size() == 2);  // also for the test rows, whose target is 2
    CHECK_THAT(
        source->info().remarks.front(),
        ContainsSubstring("1 of 3 targets are missing or invalid, and count as target_fill"));
    CHECK(source->info().unaccounted.empty());
    CHECK_THAT(io_error(files.targets,
                        [&] {
                          files.open({{"classes", 2, {}}})->info();
                        }),
               ContainsSubstring("target 1 is not a class index"));
  }
  const Value::Object real{{"task", "regression", {}}, {"target_fill", -3, {}}};
  // Infinity is not a real number.
  CHECK(targets_of(files.open(real)) == std::vector<float>{0, -3, 0});
  CHECK_THROWS_WITH(files.open({{"classes", 2, {}}, {"target_fill", 2, {}}}),
                    ContainsSubstring("npy: target_fill is 2, expected a class index"));
}

TEST_CASE("npy: a feature that is not finite counts as what was declared, and moves no other cell",
          "[data_source][privacy]") {
  const Files files;
  const Value::Object declared{
      {"classes", 3, {}}, {"target_fill", 0, {}}, {"feature_fill", -7, {}}};
  const auto streamed = [&](const privgrad::ComponentPtr<DataSource>& source) {
    std::vector<float> all;
    dynamic_cast<privgrad::StreamedRows&>(*source).stream([&](const privgrad::RowBlock& block) {
      if (block.split != Split::train) return;
      const auto some = std::get<std::span<const float>>(block.features);
      all.insert(all.end(), some.begin(), some.end());
    });
    return all;
  };
  for (const double bad : {1e39, -1e300, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    INFO(bad);
    replace_file(files.features, npy("<f8", "(3, 2)", raw<double>({1, 2, 3, bad, 5, 6})));
    CHECK(values(files.open(declared)->read(Split::train)) ==
          std::vector<float>{1, 2, 3, -7, 5, 6});
    CHECK(streamed(files.open(declared)) == std::vector<float>{1, 2, 3, -7, 5, 6});
    CHECK_THAT(io_error(files.features, [&] { files.open()->read(Split::train); }),
               ContainsSubstring("feature_fill says what such a feature counts as"));
    CHECK_THAT(io_error(files.features, [&] { streamed(files.open()); }),
               ContainsSubstring("feature_fill says what such a feature counts as"));
  }
  const std::string fact = "that every feature is finite (feature_fill)";
  const auto facts = [&] {
    return files.open({{"classes", 3, {}}, {"target_fill", 0, {}}})->info().unaccounted;
  };
  CHECK(facts() == std::vector<std::string>{fact});
  CHECK(files.open(declared)->info().unaccounted.empty());
  // Whole numbers are finite; test rows may be as private as the others.
  replace_file(files.features, npy("<u8", "(3, 2)", raw<std::uint64_t>({1, 2, 3, ~0ull, 5, 6})));
  CHECK(facts() == std::vector<std::string>{fact});
  replace_file(files.test_features, npy("<i4", "(1, 2)", raw<std::int32_t>({7, 8})));
  CHECK(facts().empty());
  CHECK_THROWS_WITH(
      files.open({{"feature_fill", 1e39, {}}}),
      ContainsSubstring("npy: feature_fill is 1e+39, expected a finite number within float32"));
}

TEST_CASE("npy: what is wrong with a file is said in one line", "[data_source]") {
  const Files files;
  const std::string good = read_file(files.features);
  const std::string data = raw<float>({1, 2, 3, 4, 5, 6});
  const auto says = [&files](const std::string& bytes, const std::string& reason) {
    CHECK_THAT(files.refusal(files.features, bytes), ContainsSubstring(reason));
  };
  const auto header = [&](const std::string& text, const std::string& reason) {
    says(npy_with(text, data), reason);
  };

  SECTION("not the format") {
    says("", "is empty");
    says("PK\x03\x04 a .npz file", "is not a whole .npz archive");
    says("\x93NUMP", "is not a NumPy file");
    says(npy("<f4", "(3, 2)", data, 4), "has format version 4.0, expected 1.0, 2.0 or 3.0");
    says(gzip(good), "is compressed with gzip");
  }
  SECTION("types") {
    says(npy("|O", "(3, 2)", data), "Python objects, which could run code");
    for (const std::string type : {"<c8", "<U3", "<f1", "<i3", "|f4", "?b1", "f4", "<m8", ""}) {
      says(npy(type, "(3, 2)", data), "has elements of type '" + type + "', expected booleans");
    }
    header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3, 2), }",
           "has elements of type [('a', '<f4')]");
  }
  SECTION("order") {
    header("{'descr': '<f4', 'fortran_order': 1, 'shape': (3, 2), }", "says fortran_order 1");
  }
  SECTION("malformed headers") {
    for (const std::string text :
         {"", "{", "{}", "'descr'", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False}",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), 'shape': (3, 2)}",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), 'more': 1}",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (3 2)}",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (-3, 2)}",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2.0)}",
          "{'descr': '<f4', 'fortran_order': False, 'shape': ((3, 2))}",
          "{'descr': '<f4', 'fortran_order': False, 'shape': 6}",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (3LL, 2)}",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)} x",
          "{'descr': '<f4, 'fortran_order': False, 'shape': (3, 2)}",
          "{descr: '<f4', 'fortran_order': False, 'shape': (3, 2)}",
          "{'descr': '<f4' 'fortran_order': False, 'shape': (3, 2)}"}) {
      header(text, "has a malformed header at '");
    }
    header("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2.0)}", "header at '.0)'");
  }
  SECTION("sizes") {
    for (std::size_t size = 1; size < good.size(); ++size) {
      const std::string message = files.refusal(files.features, good.substr(0, size));
      if (size >= 8) CHECK_THAT(message, ContainsSubstring("truncated"));
    }
    says(good + "x", "has trailing bytes");
    says(npy("<f4", "(4294967296, 4294967296)", data), "is oversized");
    says(npy("<f4", "(99999999999999999999, 2)", data), "is oversized");
    says(npy("<f4", "(1000000000, 2)", data), "is truncated");
    says(npy("<f4", "(0, 2)", ""), "holds zero elements");
    says(npy("<f4", "(3, 0)", ""), "holds zero elements");
    std::string long_header = "\x93NUMPY";
    long_header += '\2';
    says(long_header + std::string(1, '\0') + "\xff\xff\xff\xff{", "is oversized: its header has");
  }
  SECTION("shapes") {
    says(npy("<f4", "(6,)", data), "has the shape (6), expected features of shape");
    says(npy("<f4", "()", raw<float>({1})), "has the shape (), expected features");
    says(npy("<f4", "(2, 3)", data), "has 2 examples, but");
    replace_file(files.features, good);
    CHECK_THAT(
        files.refusal(files.targets, npy("<i4", "(3, 2)", raw<std::int32_t>({0, 1, 2, 0, 1, 2}))),
        ContainsSubstring("has the shape (3 x 2), expected targets of shape (rows)"));
    CHECK_THAT(files.refusal(files.targets, npy("<i4", "(2,)", raw<std::int32_t>({0, 1}))),
               ContainsSubstring("has 2 targets"));
    replace_file(files.targets, npy("<i4", "(3,)", raw<std::int32_t>({0, 1, 2})));
    CHECK_THAT(files.refusal(files.test_features, npy("<f4", "(1, 3)", raw<float>({1, 2, 3}))),
               ContainsSubstring("holds examples of 3, expected 2"));
  }
  SECTION("elements") {
    const float inf = std::numeric_limits<float>::infinity();
    says(npy("<f4", "(3, 2)", raw<float>({1, 2, 3, 4, 5, inf})),
         "element 5 is not a finite number");
    says(npy("<f4", "(3, 2)", raw<float>({1, 2, 3, inf - inf, 5, 6})), "element 3 is not");
    says(npy("<f8", "(3, 2)", raw<double>({1, 2, 1e39, 4, 5, 6})),
         "element 2 is not a finite number within float32");
  }
  SECTION("targets") {
    CHECK_THAT(files.refusal(files.targets, npy("<i8", "(3,)", raw<std::int64_t>({1, -1, 0}))),
               ContainsSubstring("target 1 is not a class index"));
    CHECK_THAT(files.refusal(files.targets, npy("<i4", "(3,)", raw<std::int32_t>({1, 1, 1}))),
               ContainsSubstring("all targets are of one class"));
  }
}

TEST_CASE("npy: files that are not there, not files, or that change", "[data_source]") {
  const Files files;
  const auto source = files.open();
  source->info();
  replace_file(files.features, npy("<f4", "(3, 1)", raw<float>({1, 2, 3})));
  CHECK_THAT(io_error(files.features, [&] { source->read(Split::train); }),
             ContainsSubstring("has changed"));
  std::filesystem::remove(files.features);
  CHECK_THAT(io_error(files.features, [&] { files.open()->info(); }),
             ContainsSubstring("No such file"));
  std::filesystem::create_directory(files.features);
  CHECK_THAT(io_error(files.features, [&] { files.open()->info(); }),
             ContainsSubstring("is a directory"));
}

TEST_CASE("npy: mutated files are read or refused, nothing else", "[data_source]") {
  const Files files;
  const auto attempt = [&files](const std::filesystem::path& file) {
    return [&files, &file](const std::string& bytes) {
      replace_file(file, bytes);
      const auto source = files.open();
      source->read(Split::train);
      source->read(Split::test);
    };
  };
  const std::string features = read_file(files.features);
  fuzz(features, 21, 3000, attempt(files.features));
  write_file(files.features, features);
  fuzz(read_file(files.targets), 22, 3000, attempt(files.targets));
}

namespace {

// numpy.savez_compressed of x = array([[1.5, -2], [3, 4], [0, 7]], dtype='f2') and y =
// array([True, False, True]), NumPy 2.4.
std::string numpy_archive() {
  return from_hex(
      "504b03042d0000000800000021008c0a44e1ffffffffffffffff05001400782e6e7079010010008c"
      "0000000000000052000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a4"
      "aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91ac63a0a469a3a0ab5"
      "0a64032e063b86030c4e0c2e0c0c0cee00504b03042d00000008000000210016938cbbffffffffff"
      "ffffff05001400792e6e707901001000830000000000000047000000000000009bec17ea1b10c9c8"
      "50c650ad9e925a9c5ca46ea5a05e9364a8aea3a09e965f54529498179f5f94920a12774bcc294e05"
      "8a17672416a402f91ac63a9a3a0ab50a14002e46064600504b01022d032d0000000800000021008c"
      "0a44e1520000008c000000050000000000000000000000800100000000782e6e7079504b01022d03"
      "2d00000008000000210016938cbb4700000083000000050000000000000000000000800189000000"
      "792e6e7079504b0506000000000200020066000000070100000000");
}

/// Returns a ZIP archive of stored members.
std::string archive(const std::vector<std::pair<std::string, std::string>>& members) {
  const auto little = [](std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i & 0xff);
    return text;
  };
  std::string body, list;
  for (const auto& [name, data] : members) {
    const auto checksum =
        crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size()));
    const std::string same = little(0, 4) + little(0, 4) + little(checksum, 4) +
                             little(data.size(), 4) + little(data.size(), 4) +
                             little(name.size(), 2) + little(0, 2);
    list += "PK\x01\x02" + little(20, 2) + little(20, 2) + same + little(0, 2) + little(0, 2) +
            little(0, 2) + little(0, 4) + little(body.size(), 4) + name;
    body += "PK\x03\x04" + little(20, 2) + same + name + data;
  }
  return body + list + "PK\x05\x06" + little(0, 4) + little(members.size(), 2) +
         little(members.size(), 2) + little(list.size(), 4) + little(body.size(), 4) + little(0, 2);
}

struct ArchiveFile {
  TempDir dir;
  std::filesystem::path path = dir.path() / "data.npz";

  privgrad::ComponentPtr<DataSource> open(const std::string& features,
                                          const std::string& targets) const {
    Value train(Value::Object{{"features", path.string(), {}}, {"targets", path.string(), {}}});
    if (!features.empty()) train.set("features_array", features);
    if (!targets.empty()) train.set("targets_array", targets);
    return house().create<DataSource>("npy", Value(Value::Object{{"train", train, {}}}));
  }
  std::string refusal(const std::string& bytes, const std::string& features = "x") const {
    replace_file(path, bytes);
    return io_error(path, [&] { open(features, "y")->read(Split::train); });
  }
};

}  // namespace

TEST_CASE("npz: reads what NumPy wrote", "[data_source]") {
  const ArchiveFile file;
  replace_file(file.path, numpy_archive());
  const auto source = file.open("x", "y.npy");
  CHECK(source->info().train_rows == 3);
  const Dataset train = source->read(Split::train);
  CHECK(values(train) == std::vector<float>{1.5f, -2, 3, 4, 0, 7});
  CHECK(train.targets()[0] == 1.0f);
  CHECK(train.targets()[1] == 0.0f);
}

TEST_CASE("npz: what is wrong with an archive is said in one line", "[data_source]") {
  const ArchiveFile file;
  const std::string x = npy("<f4", "(2, 1)", raw<float>({1, 2}));
  const std::string y = npy("|b1", "(2,)", raw<std::uint8_t>({0, 1}));
  const std::string good = archive({{"x.npy", x}, {"note.txt", "text"}, {"y.npy", y}});
  replace_file(file.path, good);
  CHECK(values(file.open("x", "y")->read(Split::train)) == std::vector<float>{1, 2});

  const auto says = [&](const std::string& bytes, const std::string& what,
                        const std::string& features = "x") {
    CHECK_THAT(file.refusal(bytes, features), ContainsSubstring(what));
  };
  says(good, "has no array 'z'; there are x, y", "z");
  says(good, "has 2 arrays (x, y), expected one", "");
  says(archive({{"x.npy", x}, {"x.npy", x}, {"y.npy", y}}), "has two members 'x'");
  says(good.substr(0, good.size() - 30), "is not a whole .npz archive");
  std::string bytes = good;
  bytes[good.find("PK\x01\x02") + 1] = 'x';
  says(bytes, "is not a whole .npz archive");
  bytes = good;
  bytes[good.find("PK\x05\x06") + 17] = '\x7f';  // the beginning of the list
  says(bytes, "is not a whole .npz archive");
  bytes = good;
  bytes[good.find(raw<float>({1, 2}))] = 1;
  says(bytes, "its array 'x.npy' has corrupt data");
  bytes = good;
  bytes[good.find("PK\x03\x04") + 8] = 12;  // it claims to be bzip2 but is not
  says(bytes, "its array 'x.npy' has corrupt data");
  bytes = good;
  bytes[good.find("PK\x03\x04") + 6] = 1;
  says(bytes, "its array 'x.npy' is encrypted");
  bytes = good;
  bytes[good.find("PK\x01\x02") + 24] = 127;
  says(bytes, "is not a whole .npz archive");  // it has two different lengths
  bytes = good;
  for (int i = 42; i < 46; ++i) bytes[good.find("PK\x01\x02") + static_cast<std::size_t>(i)] = -1;
  says(bytes, "is not a whole .npz archive");  // a member is after the end
  bytes = numpy_archive();
  bytes[60] = static_cast<char>(bytes[60] + 1);  // inside the deflated x
  CHECK_THROWS_AS((replace_file(file.path, bytes), file.open("x", "y")->read(Split::train)),
                  privgrad::IoError);
  // A file that is not an archive has no named arrays.
  says(x, "is not an .npz archive");
}

TEST_CASE("npz: mutated archives are read or refused, nothing else", "[data_source]") {
  const ArchiveFile file;
  const auto attempt = [&file](const std::string& bytes) {
    replace_file(file.path, bytes);
    file.open("x", "y")->read(Split::train);
  };
  fuzz(numpy_archive(), 21, 2000, attempt);
}

}  // namespace data_sources_npy_test

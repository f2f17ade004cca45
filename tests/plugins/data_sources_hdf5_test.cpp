// HDF5 files, written here by the HDF5 library itself.
#include <hdf5.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "data_sources_files.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/streamed_rows.hpp"

using privgrad::ConfigError;
using privgrad::Dataset;
using privgrad::DataSource;
using privgrad::IoError;
using privgrad::Shape;
using privgrad::Split;
using privgrad::StreamedRows;
using privgrad::Value;
namespace fs = std::filesystem;

namespace {

using Extents = std::vector<hsize_t>;

/// An HDF5 file into which data sets are written.
class H5File {
 public:
  explicit H5File(const fs::path& path)
      : id_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {
    REQUIRE(id_ >= 0);
  }
  H5File(const H5File&) = delete;
  H5File& operator=(const H5File&) = delete;
  ~H5File() { H5Fclose(id_); }
  hid_t id() const { return id_; }

  /// \param chunk  empty: contiguous; otherwise chunked and compressed with gzip.
  template <class Number>
  void put(const char* name, hid_t memory, hid_t stored, const Extents& extents,
           const std::vector<Number>& numbers, const Extents& chunk = {}) {
    const hid_t space = H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr);
    const hid_t created = H5Pcreate(H5P_DATASET_CREATE);
    if (!chunk.empty()) {
      H5Pset_chunk(created, static_cast<int>(chunk.size()), chunk.data());
      H5Pset_deflate(created, 4);
    }
    const hid_t data = H5Dcreate2(id_, name, stored, space, H5P_DEFAULT, created, H5P_DEFAULT);
    REQUIRE(H5Dwrite(data, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()) >= 0);
    H5Dclose(data);
    H5Pclose(created);
    H5Sclose(space);
  }

 private:
  hid_t id_;
};

struct RowsFile {
  TempDir dir;
  fs::path file = dir.path() / "rows.h5";

  /// Writes four rows of two numbers, unless other rows are written.
  template <class Put>
  void write(const Put& put) const {
    fs::remove(file);
    H5File made(file);
    put(made);
  }
  RowsFile() {
    write([](H5File& made) {
      made.put<float>("features", H5T_NATIVE_FLOAT, H5T_IEEE_F32LE, {4, 2},
                      {1, 2, 3, 4, 5, 6, 7, 8.5f});
      made.put<int>("targets", H5T_NATIVE_INT, H5T_STD_I64LE, {4}, {0, 1, 2, 1});
    });
  }

  privgrad::ComponentPtr<DataSource> open(Value::Object extra = {},
                                          std::optional<int> target_fill = {},
                                          std::optional<int> feature_fill = {}) const {
    Value place(std::move(extra));
    place.set("file", file.string());
    Value params;
    params.set("train", place);
    params.set("classes", 3);
    if (target_fill) params.set("target_fill", *target_fill);
    if (feature_fill) params.set("feature_fill", *feature_fill);
    return house().create<DataSource>("hdf5", params);
  }

  std::string refusal() const {
    return io_error(file, [&] { open()->read(Split::train); });
  }
};

std::vector<float> numbers(Dataset data) {
  const auto features = data.features();
  return {features.begin(), features.end()};
}

void put_targets(H5File& made, hsize_t rows = 4) {
  made.put<int>("targets", H5T_NATIVE_INT, H5T_STD_I8LE, {rows},
                std::vector<int>(static_cast<std::size_t>(rows), 1));
}

}  // namespace

TEST_CASE("hdf5: rows and targets are those of the file") {
  const RowsFile rows;
  const auto source = rows.open();
  CHECK(source->info().shape.features == Shape{2});
  CHECK(source->info().shape.classes == 3);
  CHECK(source->info().train_rows == 4);
  CHECK(source->info().unaccounted ==
        std::vector<std::string>{"that every target fits (target_fill)",
                                 "that every feature is finite (feature_fill)"});
  const Dataset data = source->read(Split::train);
  CHECK(numbers(data) == std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8.5f});
  CHECK(std::vector<float>(data.targets().begin(), data.targets().end()) ==
        std::vector<float>{0, 1, 2, 1});
}

TEST_CASE("hdf5: a feature that is not finite counts as what was declared, and moves no other cell",
          "[privacy]") {
  const RowsFile rows;
  const auto streamed = [&](const privgrad::ComponentPtr<DataSource>& source) {
    std::vector<float> all;
    dynamic_cast<privgrad::StreamedRows&>(*source).stream([&](const privgrad::RowBlock& block) {
      const auto some = std::get<std::span<const float>>(block.features);
      all.insert(all.end(), some.begin(), some.end());
    });
    return all;
  };
  const double inf = std::numeric_limits<double>::infinity();
  for (const double bad : {1e39, -1e300, inf, inf - inf}) {
    INFO(bad);
    rows.write([&](H5File& made) {
      made.put<double>("features", H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE, {4, 1}, {1, 2, bad, 4});
      put_targets(made);
    });
    CHECK(numbers(rows.open({}, 0, -7)->read(Split::train)) == std::vector<float>{1, 2, -7, 4});
    CHECK(streamed(rows.open({}, 0, -7)) == std::vector<float>{1, 2, -7, 4});
    CHECK_THAT(rows.refusal(), ContainsSubstring("in row 2 element 0") &&
                                   ContainsSubstring("feature_fill says what such a feature"));
    CHECK_THAT(io_error(rows.file, [&] { streamed(rows.open()); }),
               ContainsSubstring("feature_fill says what such a feature"));
  }
  CHECK(rows.open({}, 0)->info().unaccounted ==
        std::vector<std::string>{"that every feature is finite (feature_fill)"});
  CHECK(rows.open({}, 0, -7)->info().unaccounted.empty());
  rows.write([](H5File& made) {
    made.put<double>("features", H5T_NATIVE_DOUBLE, H5T_STD_U64LE, {4, 1}, {1, 2, 3, 4});
    put_targets(made);
  });
  CHECK(rows.open({}, 0)->info().unaccounted.empty());  // whole numbers are finite
}

TEST_CASE("hdf5: numbers of every type and order of bytes") {
  const RowsFile rows;
  const auto read_as = [&](hid_t stored) {
    rows.write([&](H5File& made) {
      made.put<double>("features", H5T_NATIVE_DOUBLE, stored, {4, 1}, {0, 1, 100, 3});
      put_targets(made);
    });
    return numbers(rows.open()->read(Split::train));
  };
  for (const hid_t stored :
       {H5T_STD_I8LE, H5T_STD_U8LE, H5T_STD_I16BE, H5T_STD_U16LE, H5T_STD_I32BE, H5T_STD_U32LE,
        H5T_STD_I64BE, H5T_STD_U64LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE, H5T_IEEE_F64BE}) {
    CHECK(read_as(stored) == std::vector<float>{0, 1, 100, 3});
  }
}

TEST_CASE("hdf5: booleans as h5py writes them are 0 and 1, and other enumerations are refused") {
  const RowsFile rows;
  const auto write = [&](const char* yes, signed char value) {
    const hid_t kind = H5Tenum_create(H5T_NATIVE_INT8);
    const signed char no = 0;
    H5Tenum_insert(kind, "FALSE", &no);
    H5Tenum_insert(kind, yes, &value);
    rows.write([&](H5File& made) {
      made.put<signed char>("features", kind, kind, {4, 1}, {value, 0, 0, value});
      made.put<signed char>("targets", kind, kind, {4}, {0, value, value, 0});
    });
    H5Tclose(kind);
  };
  write("TRUE", 1);
  Dataset data = rows.open()->read(Split::train);
  CHECK(std::vector<float>(data.features().begin(), data.features().end()) ==
        std::vector<float>{1, 0, 0, 1});
  CHECK(std::vector<float>(data.targets().begin(), data.targets().end()) ==
        std::vector<float>{0, 1, 1, 0});
  for (const auto& [yes, value] : {std::pair{"MAYBE", 1}, {"TRUE", 2}}) {
    write(yes, static_cast<signed char>(value));
    CHECK_THROWS_WITH(rows.open()->info(),
                      ContainsSubstring("another type than booleans, integers or reals"));
  }
}

TEST_CASE("hdf5: whole numbers of 64 bits are rounded as the texts of a table are") {
  const RowsFile rows;
  constexpr std::int64_t kTwice = (std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1;
  rows.write([&](H5File& made) {
    made.put<std::int64_t>("features", H5T_NATIVE_INT64, H5T_STD_I64LE, {2, 1}, {kTwice, 1});
    made.put<int>("targets", H5T_NATIVE_INT, H5T_STD_I64LE, {2}, {0, 1});
  });
  CHECK(rows.open()->read(Split::train).features()[0] ==
        static_cast<float>(static_cast<double>(kTwice)));
}

TEST_CASE("hdf5: data sets in groups, in packed pieces, of images, of two splits in one file") {
  const RowsFile rows;
  std::vector<std::uint8_t> pixels(7 * 2 * 3);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(5 * i);
  rows.write([&](H5File& made) {
    H5Gclose(H5Gcreate2(made.id(), "deep", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    made.put("deep/x", H5T_NATIVE_UINT8, H5T_STD_U8LE, {7, 2, 3}, pixels, {2, 2, 2});
    put_targets(made, 7);
  });
  const auto source = rows.open({{"features", "/deep/x", {}}});
  CHECK(source->info().shape.features == Shape{2, 3});
  const std::vector<float> found = numbers(source->read(Split::train));
  CHECK(std::equal(found.begin(), found.end(), pixels.begin(), pixels.end()));
}

TEST_CASE("hdf5: rows that are streamed are those that are read, in whole pieces") {
  const RowsFile rows;
  std::vector<double> values(3000 * 200);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) / 8.0;
  rows.write([&](H5File& made) {
    made.put("features", H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE, {3000, 200}, values, {70, 64});
    put_targets(made, 3000);
  });
  const auto source = rows.open();
  std::vector<float> streamed;
  std::size_t blocks = 0;
  dynamic_cast<StreamedRows&>(*source).stream([&](const privgrad::RowBlock& block) {
    const auto features = std::get<std::span<const float>>(block.features);
    streamed.insert(streamed.end(), features.begin(), features.end());
    if (streamed.size() < values.size()) CHECK(block.targets.size() % 70 == 0);
    ++blocks;
  });
  CHECK(blocks > 1);
  CHECK(streamed == numbers(source->read(Split::train)));
}

TEST_CASE("hdf5: what cannot be read is named, with the file and the data set") {
  const RowsFile rows;
  const auto refusal = [&](const std::function<void(H5File&)>& put) {
    rows.write(put);
    return rows.refusal();
  };
  CHECK_THAT(refusal([](H5File& made) { put_targets(made); }),
             ContainsSubstring("its data set '/features' cannot be opened"));
  CHECK_THAT(
      refusal([](H5File& made) {
        made.put<float>("features", H5T_NATIVE_FLOAT, H5T_IEEE_F32LE, {3, 1}, {1, 2, 3});
        put_targets(made);
      }),
      ContainsSubstring("has 3 examples, but ") && ContainsSubstring("/targets has 4 targets"));
  CHECK_THAT(refusal([](H5File& made) {
               made.put<float>("features", H5T_NATIVE_FLOAT, H5T_IEEE_F32LE, {4}, {1, 2, 3, 4});
               put_targets(made);
             }),
             ContainsSubstring("expected features of shape"));
  CHECK_THAT(
      refusal([](H5File& made) {
        made.put<double>("features", H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE, {4, 1}, {1, 2, 1e300, 4});
        put_targets(made);
      }),
      ContainsSubstring("in row 2 element 0, which is not a finite number within float32"));
  CHECK_THAT(refusal([](H5File& made) {
               made.put<float>("features", H5T_NATIVE_FLOAT, H5T_IEEE_F32LE, {4, 1}, {1, 2, 3, 4});
               made.put<int>("targets", H5T_NATIVE_INT, H5T_STD_I8LE, {4}, {0, 1, 3, 0});
             }),
             ContainsSubstring("target 2 is not a class index"));
}

TEST_CASE("hdf5: a target that does not fit counts as what was declared", "[privacy]") {
  const RowsFile rows;
  for (const double bad : {3.0, 0.5, -1.0, 1e300, static_cast<double>(NAN)}) {
    INFO(bad);
    rows.write([&](H5File& made) {
      made.put<float>("features", H5T_NATIVE_FLOAT, H5T_IEEE_F32LE, {4, 1}, {1, 2, 3, 4});
      made.put<double>("targets", H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE, {4}, {0, bad, 2, 0});
    });
    const auto source = rows.open({}, 1, 0);
    const Dataset data = source->read(Split::train);
    CHECK(std::vector<float>(data.targets().begin(), data.targets().end()) ==
          std::vector<float>{0, 1, 2, 0});
    CHECK(source->info().unaccounted.empty());
    REQUIRE(source->info().remarks.size() == 1);
    CHECK_THAT(source->info().remarks.front(), ContainsSubstring("1 of 4 targets are missing or "
                                                                 "invalid"));
    CHECK_THAT(rows.refusal(), ContainsSubstring("target 1 is not a class index"));
  }
}

TEST_CASE("hdf5: nothing outside of the file is opened") {
  const RowsFile rows;
  const fs::path other = rows.dir.path() / "other.h5";
  {
    H5File made(other);
    made.put<float>("features", H5T_NATIVE_FLOAT, H5T_IEEE_F32LE, {4, 1}, {1, 2, 3, 4});
  }
  SECTION("by an external link") {
    rows.write([&](H5File& made) {
      REQUIRE(H5Lcreate_external(other.c_str(), "/features", made.id(), "features", H5P_DEFAULT,
                                 H5P_DEFAULT) >= 0);
      put_targets(made);
    });
    CHECK_THAT(rows.refusal(), ContainsSubstring("lies in another file"));
  }
  SECTION("by external storage") {
    rows.write([&](H5File& made) {
      const Extents extents{4, 1};
      const hid_t space = H5Screate_simple(2, extents.data(), nullptr);
      const hid_t created = H5Pcreate(H5P_DATASET_CREATE);
      H5Pset_external(created, "/etc/hostname", 0, 16);
      const hid_t data = H5Dcreate2(made.id(), "features", H5T_IEEE_F32LE, space, H5P_DEFAULT,
                                    created, H5P_DEFAULT);
      REQUIRE(data >= 0);
      H5Dclose(data);
      H5Pclose(created);
      H5Sclose(space);
      put_targets(made);
    });
    CHECK_THAT(rows.refusal(), ContainsSubstring("lies in other files, which are not opened"));
  }
  SECTION("by a virtual data set") {
    rows.write([&](H5File& made) {
      const Extents extents{4, 1};
      const hid_t space = H5Screate_simple(2, extents.data(), nullptr);
      const hid_t created = H5Pcreate(H5P_DATASET_CREATE);
      REQUIRE(H5Pset_virtual(created, space, other.c_str(), "/features", space) >= 0);
      H5Dclose(H5Dcreate2(made.id(), "features", H5T_IEEE_F32LE, space, H5P_DEFAULT, created,
                          H5P_DEFAULT));
      H5Pclose(created);
      H5Sclose(space);
      put_targets(made);
    });
    CHECK_THAT(rows.refusal(), ContainsSubstring("lies in other files, which are not opened"));
  }
}

TEST_CASE("hdf5: files that are damaged anywhere end in an error of the SDK") {
  const RowsFile rows;
  const std::string valid = read_file(rows.file);
  fuzz(valid, 1, 500, [&](const std::string& bytes) {
    replace_file(rows.file, bytes);
    rows.open()->read(Split::train);
  });
}

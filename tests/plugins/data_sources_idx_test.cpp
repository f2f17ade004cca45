#include <sys/stat.h>

#include <array>
#include <cstring>

#include "data_sources_files.hpp"
#include "privgrad/data_source.hpp"

namespace data_sources_idx_test {

using privgrad::ConfigError;
using privgrad::DataSource;
using privgrad::IoError;
using privgrad::Shape;
using privgrad::Split;
using privgrad::Value;

namespace {

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xffu);
  return bytes;
}

std::string idx(const std::vector<std::uint32_t>& extents, const std::string& data,
                char type = 0x08) {
  std::string bytes = {0, 0, type, static_cast<char>(extents.size())};
  for (const std::uint32_t extent : extents) bytes += big_endian(extent);
  return bytes + data;
}

/// Images and labels of two tiny splits, each file replaceable.
struct Files {
  TempDir dir;
  std::filesystem::path images = dir.path() / "train-images";
  std::filesystem::path labels = dir.path() / "train-labels";
  std::filesystem::path test_images = dir.path() / "test-images";
  std::filesystem::path test_labels = dir.path() / "test-labels";

  Files() {
    // Pixel p of image i is 10 i + p; labels 3, 5, 3, 7.
    write_file(images,
               idx({4, 2, 2}, {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33}));
    write_file(labels, idx({4}, {3, 5, 3, 7}));
    write_file(test_images, idx({2, 2, 2}, {40, 41, 42, 43, 50, 51, 52, static_cast<char>(255)}));
    write_file(test_labels, idx({2}, {5, 3}));
  }

  privgrad::ComponentPtr<DataSource> open(Value::Object extra = {}, bool test = true) const {
    const auto pair = [](const auto& image_file, const auto& label_file) {
      return Value(
          Value::Object{{"images", image_file.string(), {}}, {"labels", label_file.string(), {}}});
    };
    Value params(std::move(extra));
    params.set("train", pair(images, labels));
    if (test) params.set("test", pair(test_images, test_labels));
    return house().create<DataSource>("idx", params);
  }

  /// Returns the refusal of `file` with the content `bytes`.
  std::string refusal(const std::filesystem::path& file, const std::string& bytes) const {
    replace_file(file, bytes);
    return refusal(file);
  }
  std::string refusal(const std::filesystem::path& file) const {
    return io_error(file, [this] {
      const auto source = open();
      source->info();
      source->read(Split::train);
      source->read(Split::test);
    });
  }
};

std::vector<float> targets(const privgrad::Dataset& data) {
  return {data.targets().begin(), data.targets().end()};
}

}  // namespace

TEST_CASE("idx: reads images, labels and both splits, plain and gzip by content", "[data_source]") {
  Files files;
  if (GENERATE(false, true)) {
    for (const auto& file : {files.images, files.labels, files.test_images}) {
      write_file(file, gzip(read_file(file)));
    }
  }
  const auto source = files.open();
  const auto info = source->info();
  CHECK(info.shape.features == Shape{2, 2});
  CHECK(info.shape.classes == 8);  // the largest training label is 7
  CHECK(info.unaccounted == std::vector<std::string>{"number of classes (classes)",
                                                     "that every label fits (target_fill)"});
  CHECK(info.train_rows == 4);
  CHECK(info.test_rows == 2);
  auto train = source->read(Split::train);
  CHECK(targets(train) == std::vector<float>{3, 5, 3, 7});
  CHECK(train.features()[13] == 31.0f * (1.0f / 255.0f));
  auto test = source->read(Split::test);
  CHECK(targets(test) == std::vector<float>{5, 3});
  CHECK(test.features()[7] == 1.0f);
}

TEST_CASE("idx: keep_labels keeps and renumbers in its order, and limits count what is kept",
          "[data_source]") {
  const Files files;
  const Value::List labels{5, 3};
  const auto all = files.open({{"keep_labels", labels, {}}});
  CHECK(all->info().shape.classes == 2);
  CHECK(all->info().unaccounted.empty());
  CHECK(targets(all->read(Split::train)) == std::vector<float>{1, 0, 1});
  CHECK(targets(all->read(Split::test)) == std::vector<float>{0, 1});

  const Value::List last{7, 3};
  const auto limited = files.open({{"keep_labels", last, {}}, {"limit", 2, {}}});
  auto data = limited->read(Split::train);
  CHECK(targets(data) == std::vector<float>{1, 1});
  CHECK(data.features()[4] == 20.0f * (1.0f / 255.0f));  // image 2, not image 1
  CHECK(files.open({{"test_limit", 1, {}}})->info().test_rows == 1);
  CHECK(targets(files.open({{"test_skip", 1, {}}})->read(Split::test)) == std::vector<float>{3});
  CHECK(
      targets(files.open({{"keep_labels", last, {}}, {"test_limit", 1, {}}})->read(Split::test)) ==
      std::vector<float>{1});
  CHECK_THAT(io_error(files.test_labels,
                      [&] {
                        files.open({{"keep_labels", last, {}}, {"test_skip", 1, {}}})->info();
                      }),
             ContainsSubstring("test_skip leaves out all rows to test on"));
  CHECK(files.open({{"limit", 100, {}}})->info().train_rows == 4);
}

TEST_CASE("idx: a stated number of classes is public and is enforced", "[data_source]") {
  const Files files;
  const auto source = files.open({{"classes", 10, {}}});
  CHECK(source->info().shape.classes == 10);
  CHECK(source->info().unaccounted ==
        std::vector<std::string>{"that every label fits (target_fill)"});
  const auto small = files.open({{"classes", 7, {}}});
  // The message names the row but not its content.
  CHECK_THAT(io_error(files.labels, [&] { small->info(); }),
             ContainsSubstring("label 3 is not a class below 7; target_fill says what such a row "
                               "counts as"));
}

TEST_CASE("idx: a label that is not a class counts as what was declared, and moves no other row",
          "[data_source][privacy]") {
  const Files files;
  const auto whole = files.open({{"classes", 256, {}}});
  CHECK(whole->info().unaccounted.empty());  // every byte is a class
  std::vector<float> expected = targets(whole->read(Split::train));
  REQUIRE(expected.at(3) == 7.0f);
  for (float& label : expected) label = label < 7.0f ? label : 2.0f;
  const auto source = files.open({{"classes", 7, {}}, {"target_fill", 2, {}}});
  CHECK(targets(source->read(Split::train)) == expected);
  CHECK(source->info().unaccounted.empty());
  REQUIRE_FALSE(source->info().remarks.empty());
  CHECK_THAT(source->info().remarks.front(),
             ContainsSubstring("labels are not a class, and count as target_fill"));
  CHECK_THROWS_WITH(files.open({{"classes", 7, {}}, {"target_fill", 7, {}}}),
                    ContainsSubstring("idx: target_fill is 7, expected a class below 7"));
  const Value::List kept{7, 3};
  CHECK_THROWS_WITH(files.open({{"keep_labels", kept, {}}, {"target_fill", 1, {}}}),
                    ContainsSubstring("keep_labels leaves out all other labels"));
}

TEST_CASE("idx: without test files there is no test split", "[data_source]") {
  const Files files;
  const auto source = files.open({}, false);
  CHECK(source->info().test_rows == 0);
  CHECK(source->read(Split::test).rows() == 0);
  CHECK_THROWS_AS(files.open({{"test_limit", 1, {}}}, false), ConfigError);
  CHECK_THROWS_AS(files.open({{"test_skip", 1, {}}}, false), ConfigError);
}

TEST_CASE("idx: parameters that contradict each other are refused", "[data_source]") {
  const Files files;
  const Value::List twice{3, 3};
  const Value::List two{3, 5};
  const Value::List one{3};
  const Value::List large{3, 256};
  CHECK_THROWS_WITH(files.open({{"keep_labels", twice, {}}}), ContainsSubstring("3 twice"));
  CHECK_THROWS_WITH(files.open({{"keep_labels", two, {}}, {"classes", 3, {}}}),
                    ContainsSubstring("keep_labels names 2"));
  CHECK_THROWS_AS(files.open({{"keep_labels", one, {}}}), ConfigError);
  CHECK_THROWS_AS(files.open({{"keep_labels", large, {}}}), ConfigError);
}

TEST_CASE("idx: files that are not there or not files", "[data_source]") {
  Files files;
  std::filesystem::remove(files.images);
  CHECK_THAT(files.refusal(files.images), ContainsSubstring("No such file"));
  std::filesystem::create_directory(files.images);
  CHECK_THAT(files.refusal(files.images), ContainsSubstring("directory"));
  std::filesystem::remove(files.images);
  REQUIRE(::mkfifo(files.images.c_str(), 0600) == 0);
  CHECK_THAT(files.refusal(files.images), ContainsSubstring("pipe"));
  std::filesystem::remove(files.images);
  std::filesystem::create_symlink("/dev/zero", files.images);
  CHECK_THAT(files.refusal(files.images), ContainsSubstring("device"));
  std::filesystem::remove(files.images);
  CHECK_THAT(files.refusal(files.images, ""), ContainsSubstring("is empty"));
  if (::geteuid() != 0) {  // root may read everything
    std::filesystem::permissions(files.images, std::filesystem::perms::none);
    CHECK_THAT(files.refusal(files.images), ContainsSubstring("Permission denied"));
  }
}

TEST_CASE("idx: files that hold something else than promised", "[data_source]") {
  const Files files;
  const std::string images = read_file(files.images);
  const std::string labels = read_file(files.labels);

  SECTION("not an IDX file") {
    CHECK_THAT(files.refusal(files.images, "\x89PNG\r\n\x1a\n"),
               ContainsSubstring("not an IDX file"));
    CHECK_THAT(files.refusal(files.images, std::string(3, '\0')),
               ContainsSubstring("not an IDX file"));
  }
  SECTION("another type of element") {
    CHECK_THAT(files.refusal(files.images, idx({4, 2}, std::string(32, 'x'), 0x0d)),
               ContainsSubstring("32-bit reals, expected IDX images (unsigned bytes"));
    CHECK_THAT(files.refusal(files.images, idx({4, 2}, std::string(8, 'x'), 0x55)),
               ContainsSubstring("unknown type 85"));
  }
  SECTION("labels as images") {
    CHECK_THAT(files.refusal(files.images, labels),
               ContainsSubstring("has 1 extent(s) (4), expected IDX images"));
  }
  SECTION("images as labels") {
    CHECK_THAT(files.refusal(files.labels, images),
               ContainsSubstring("has 3 extent(s) (4 x 2 x 2), expected IDX labels"));
  }
  SECTION("no extents") {
    CHECK_THAT(files.refusal(files.labels, idx({}, "x")), ContainsSubstring("0 extent(s)"));
  }
  SECTION("disagreeing numbers") {
    CHECK_THAT(files.refusal(files.labels, idx({3}, {3, 5, 3})),
               ContainsSubstring("has 4 images, but"));
  }
  SECTION("cut anywhere") {
    for (std::size_t size = 1; size < images.size(); ++size) {
      const std::string message = files.refusal(files.images, images.substr(0, size));
      if (size >= 4) CHECK_THAT(message, ContainsSubstring("truncated"));
    }
  }
  SECTION("trailing bytes") {
    CHECK_THAT(files.refusal(files.images, images + "x"), ContainsSubstring("more bytes than"));
    CHECK_THAT(files.refusal(files.labels, labels + "x"), ContainsSubstring("more bytes than"));
  }
  SECTION("zero examples") {
    CHECK_THAT(files.refusal(files.images, idx({0, 2, 2}, "")), ContainsSubstring("zero examples"));
    write_file(files.images, images);
    CHECK_THAT(files.refusal(files.labels, idx({0}, "")), ContainsSubstring("zero examples"));
  }
  SECTION("images of no pixels") {
    CHECK_THAT(files.refusal(files.images, idx({4, 2, 0}, "")), ContainsSubstring("extent of 0"));
  }
  SECTION("one class only") {
    CHECK_THAT(files.refusal(files.labels, idx({4}, {1, 1, 1, 1})),
               ContainsSubstring("all labels are of one class, expected at least two classes"));
  }
  SECTION("a test set of other images") {
    CHECK_THAT(files.refusal(files.test_images, idx({2, 4}, std::string(8, 'x'))),
               ContainsSubstring("images of 4, expected 2 x 2"));
  }
  SECTION("a test label beyond the training classes") {
    CHECK_THAT(files.refusal(files.test_labels, idx({2}, {9, 3})),
               ContainsSubstring("label 0 is not a class below 8"));
  }
  SECTION("nothing that keep_labels keeps") {
    const Value::List kept{8, 9};
    CHECK_THAT(io_error(files.labels,
                        [&] {
                          files.open({{"keep_labels", kept, {}}})->info();
                        }),
               ContainsSubstring("none of the labels in keep_labels"));
  }
}

TEST_CASE("idx: a header that promises more than there is takes no memory", "[data_source]") {
  const Files files;
  const std::uint32_t most = 0xffffffffu;
  CHECK_THAT(files.refusal(files.images, idx({most, most}, "xxxx")),
             ContainsSubstring("oversized"));  // 1.8e19 bytes: just below 2^64
  CHECK_THAT(files.refusal(files.images, idx({4, most, most, most}, "xxxx")),
             ContainsSubstring("oversized"));  // overflows 64 bits
  CHECK_THAT(files.refusal(files.images, idx({4, 1u << 30}, "xxxx")),
             ContainsSubstring("truncated"));  // 4 GiB, within the cap
  CHECK_THAT(files.refusal(files.images, gzip(idx({4, 1u << 30}, "xxxx"))),
             ContainsSubstring("truncated"));
  std::filesystem::remove(files.images);
  write_file(files.images, idx({4, 2, 2}, std::string(16, 'x')));
  CHECK_THAT(files.refusal(files.labels, idx({most}, "xxxx")), ContainsSubstring("truncated"));
}

TEST_CASE("idx: gzip data that is damaged, cut or followed by something", "[data_source]") {
  const Files files;
  const std::string packed = gzip(read_file(files.images));
  const auto with_byte = [&packed](std::size_t at) {
    std::string bytes = packed;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    return bytes;
  };
  CHECK_THAT(files.refusal(files.images, with_byte(packed.size() - 6)),  // CRC-32
             ContainsSubstring("corrupt gzip data: incorrect data check"));
  CHECK_THAT(files.refusal(files.images, with_byte(packed.size() - 2)),  // length
             ContainsSubstring("corrupt gzip data: incorrect length check"));
  CHECK_THAT(files.refusal(files.images, with_byte(2)), ContainsSubstring("corrupt gzip data"));
  for (std::size_t size = 2; size < packed.size(); ++size) {
    CHECK_THAT(files.refusal(files.images, packed.substr(0, size)), ContainsSubstring("truncated"));
  }
  CHECK_THAT(files.refusal(files.images, packed + "junk"), ContainsSubstring("other bytes after"));
  CHECK_THAT(files.refusal(files.images, packed + gzip("x")), ContainsSubstring("more bytes than"));
  CHECK_THAT(files.refusal(files.images, gzip("")), ContainsSubstring("not an IDX file"));
}

TEST_CASE("idx: a gzip bomb behind a small header is not unpacked", "[data_source]") {
  const Files files;
  // 64 MiB of zeros in 64 KB, after a header that promises 16 bytes. The middle is corrupt: a
  // reader that unpacks that far reports this instead of the excess.
  std::string bomb = gzip(idx({4, 2, 2}, std::string(std::size_t{1} << 26, '\0')));
  CHECK(bomb.size() < 100'000);
  std::fill_n(bomb.begin() + static_cast<std::ptrdiff_t>(bomb.size() / 2), 64, '\xff');
  write_file(files.images, bomb);
  CHECK_THAT(files.refusal(files.images), ContainsSubstring("more bytes than the 4 x 2 x 2"));
}

TEST_CASE("idx: several gzip members are one file", "[data_source]") {
  const Files files;
  const std::string images = read_file(files.images);
  write_file(files.images, gzip(images.substr(0, 9)) + gzip(images.substr(9)));
  CHECK(files.open()->read(Split::train).rows() == 4);
}

TEST_CASE("idx: a file that changes between info and read is noticed", "[data_source]") {
  const Files files;
  const auto source = files.open();
  source->info();
  write_file(files.images, idx({4, 4}, std::string(16, 'x')));
  CHECK_THAT(io_error(files.images, [&] { source->read(Split::train); }),
             ContainsSubstring("has changed"));
}

TEST_CASE("idx: mutated files are read or refused, nothing else", "[data_source]") {
  const Files files;
  const auto attempt = [&files](const std::filesystem::path& file) {
    return [&files, &file](const std::string& bytes) {
      replace_file(file, bytes);
      const auto source = files.open();
      source->read(Split::train);
      source->read(Split::test);
    };
  };
  const std::string images = read_file(files.images);
  const std::string labels = read_file(files.labels);
  fuzz(images, 1, 2000, attempt(files.images));
  fuzz(gzip(images), 2, 2000, attempt(files.images));
  write_file(files.images, images);
  fuzz(labels, 3, 1000, attempt(files.labels));
  fuzz(gzip(labels), 4, 1000, attempt(files.labels));
}

}  // namespace data_sources_idx_test

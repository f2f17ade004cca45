#include <cstdlib>
#include <optional>

#include "data_sources_files.hpp"
#include "privgrad/data_source.hpp"

using privgrad::ConfigError;
using privgrad::DataSource;
using privgrad::IoError;
using privgrad::Shape;
using privgrad::Split;
using privgrad::Value;
namespace fs = std::filesystem;

namespace {

/// Sets an environment variable during its lifetime.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// Returns an IDX file of `rows` examples of 2 x 2, or of labels 0, 1, 2, 0, ...
std::string images(char rows) {
  return std::string("\0\0\x08\x03\0\0\0", 7) + rows + std::string("\0\0\0\x02\0\0\0\x02", 8) +
         std::string(static_cast<std::size_t>(4 * rows), 'x');
}
std::string labels(char rows) {
  std::string bytes = std::string("\0\0\x08\x01\0\0\0", 7) + rows;
  for (char i = 0; i < rows; ++i) bytes += static_cast<char>(i % 3);
  return bytes;
}

/// A PRIVGRAD_DATA_DIR and a cache, both empty.
struct Places {
  TempDir dir;
  fs::path data = dir.path() / "data";
  fs::path cache = dir.path() / "cache";
  Environment data_dir{"PRIVGRAD_DATA_DIR", data};
  Environment cache_dir{"PRIVGRAD_CACHE_DIR", cache};

  Places() {
    fs::create_directory(data);
    fs::create_directory(cache);
  }

  /// Writes both splits, of `rows` and 3 examples.
  static void fill(const fs::path& folder, char rows, const std::string& prefix = "",
                   bool zipped = false) {
    fs::create_directories(folder);
    const auto write = [&](const std::string& name, const std::string& bytes) {
      write_file(folder / (prefix + name + (zipped ? ".gz" : "")), zipped ? gzip(bytes) : bytes);
    };
    write("train-images-idx3-ubyte", images(rows));
    write("train-labels-idx1-ubyte", labels(rows));
    write("t10k-images-idx3-ubyte", images(3));
    write("t10k-labels-idx1-ubyte", labels(3));
  }

  static privgrad::ComponentPtr<DataSource> open(const std::string& name, Value::Object more = {}) {
    Value params(std::move(more));
    params.set("name", Value(name));
    return house().create<DataSource>("dataset", params);
  }
  static std::string refusal(const std::string& name) {
    try {
      open(name)->info();
    } catch (const IoError& error) {
      const std::string message = error.what();
      CHECK(message.find('\n') == std::string::npos);
      return message;
    }
    FAIL("no IoError for " << name);
    return "";
  }
};

}  // namespace

TEST_CASE("dataset: PRIVGRAD_DATA_DIR/NAME comes first, then its own files, then the cache",
          "[data_source]") {
  const Places places;
  Places::fill(places.cache / "mnist", 4);
  write_file(places.cache / "mnist/SHA256SUMS", "sums");
  CHECK(Places::open("mnist")->info().train_rows == 4);
  Places::fill(places.data, 5, "mnist-");
  CHECK(Places::open("mnist")->info().train_rows == 5);
  Places::fill(places.data / "mnist", 6);
  CHECK(Places::open("mnist")->info().train_rows == 6);
}

TEST_CASE("dataset: examples, both splits, and the files that they come from", "[data_source]") {
  const Places places;
  const bool zipped = GENERATE(false, true);
  Places::fill(places.data / "mnist", 6, "", zipped);
  const auto source = Places::open("mnist");
  const auto info = source->info();
  CHECK(info.shape.features == Shape{2, 2});
  CHECK(info.shape.classes == 10);  // known for mnist, whatever the labels are
  CHECK(info.unaccounted.empty());
  CHECK(info.test_rows == 3);
  auto train = source->read(Split::train);
  CHECK(train.rows() == 6);
  CHECK(train.features()[0] == 120.0f * (1.0f / 255.0f));  // 'x'
  const auto files = source->files();
  REQUIRE(files.size() == 4);
  CHECK(files[0] == places.data / (zipped ? "mnist/train-images-idx3-ubyte.gz"
                                          : "mnist/train-images-idx3-ubyte"));
}

TEST_CASE("dataset: files without a name on them are not taken for any data set", "[data_source]") {
  // The files of mnist and fashion-mnist have the same names.
  const Places places;
  Places::fill(places.data, 5);
  CHECK_THAT(Places::refusal("mnist"), ContainsSubstring("data set 'mnist' is not here"));
  CHECK_THAT(Places::refusal("fashion-mnist"), ContainsSubstring("is not here"));

  // The folder itself may have the name.
  Places::fill(places.dir.path() / "mnist", 5);
  const Environment there("PRIVGRAD_DATA_DIR", (places.dir.path() / "mnist").string() + "/");
  CHECK(Places::open("mnist")->info().train_rows == 5);
  CHECK_THAT(Places::refusal("fashion-mnist"), ContainsSubstring("is not here"));
}

TEST_CASE("dataset: a folder of one's own needs no test split, and its classes are counted",
          "[data_source]") {
  const Places places;
  Places::fill(places.data / "mine", 6);
  fs::remove(places.data / "mine/t10k-images-idx3-ubyte");
  CHECK_THAT(Places::refusal("mine"),
             ContainsSubstring("has t10k-labels-idx1-ubyte, but no t10k-images-idx3-ubyte"));
  fs::remove(places.data / "mine/t10k-labels-idx1-ubyte");
  const auto info = Places::open("mine")->info();
  CHECK(info.test_rows == 0);
  CHECK(info.shape.classes == 3);
  CHECK(info.unaccounted == std::vector<std::string>{"number of classes (classes)",
                                                     "that every label fits (target_fill)"});
  CHECK(Places::open("mine", {{"classes", 7, {}}})->info().shape.classes == 7);
  CHECK_THROWS_AS(Places::open("mine", {{"test_limit", 1, {}}})->info(), ConfigError);
}

TEST_CASE("dataset: keep_labels and limits work as they do for idx", "[data_source]") {
  const Places places;
  Places::fill(places.data / "mnist", 6);
  const Value::List kept{2, 0};
  const auto source = Places::open("mnist", {{"keep_labels", kept, {}}, {"limit", 3, {}}});
  const auto info = source->info();
  CHECK(info.shape.classes == 2);
  CHECK(info.train_rows == 3);
  CHECK(info.rows_chosen_by_value);
  CHECK(info.first_rows_only);
  const auto train = source->read(Split::train);
  CHECK(std::vector<float>(train.targets().begin(), train.targets().end()) ==
        std::vector<float>{1, 0, 1});  // labels 0, 2, 0
}

TEST_CASE("dataset: absent, it says where it looked and what to do", "[data_source]") {
  const Places places;
  const std::string absent = Places::refusal("mnist");
  CHECK_THAT(absent, ContainsSubstring((places.data / "mnist").string()));
  CHECK_THAT(absent, ContainsSubstring((places.cache / "mnist").string()));
  CHECK_THAT(absent, ContainsSubstring("privgrad data fetch mnist"));
  CHECK_THAT(Places::refusal("fashon-mnist"), ContainsSubstring("did you mean 'fashion-mnist'?"));
  CHECK_THAT(Places::refusal("my-own"), ContainsSubstring("privgrad data list"));
}

TEST_CASE("dataset: what was not fetched to its end is not used", "[data_source]") {
  const Places places;
  Places::fill(places.cache / "mnist", 4);
  CHECK_THAT(Places::refusal("mnist"), ContainsSubstring("was not fetched to its end"));
}

TEST_CASE("dataset: a name is not a path", "[data_source]") {
  const Places places;
  for (const char* name : {"", "..", "../mnist", "a/b", "/etc", ".hidden", "a b", "a\n"}) {
    CHECK_THROWS_AS(Places::open(name), ConfigError);
  }
}

TEST_CASE("dataset: the cache is where the environment says", "[data_source]") {
  const Places places;
  Places::fill(places.dir.path() / "xdg/privgrad/datasets/mnist", 4);
  write_file(places.dir.path() / "xdg/privgrad/datasets/mnist/SHA256SUMS", "sums");
  const Environment none("PRIVGRAD_CACHE_DIR", "");
  const Environment xdg("XDG_CACHE_HOME", (places.dir.path() / "xdg").string());
  CHECK(Places::open("mnist")->info().train_rows == 4);
}

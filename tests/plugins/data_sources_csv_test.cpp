#include "data_sources_files.hpp"
#include "privgrad/data_source.hpp"

namespace data_sources_csv_test {

using privgrad::ConfigError;
using privgrad::Dataset;
using privgrad::DataSource;
using privgrad::Shape;
using privgrad::Split;
using privgrad::Value;

namespace {

const std::string kTable = "age,label,income\n30,1,2.5\n41,0,-1e3\n";

struct Files {
  TempDir dir;
  std::filesystem::path train = dir.path() / "train.csv";
  std::filesystem::path test = dir.path() / "test.csv";

  explicit Files(const std::string& text = kTable) { write_file(train, text); }

  privgrad::ComponentPtr<DataSource> open(Value::Object extra = {}) const {
    Value params(std::move(extra));
    params.set("train", train.string());
    if (std::filesystem::exists(test)) params.set("test", test.string());
    if (params.find("target") == nullptr) params.set("target", "label");
    return house().create<DataSource>("csv", params);
  }
  Dataset read(Value::Object extra = {}) const {
    return open(std::move(extra))->read(Split::train);
  }

  /// Returns the refusal of a training file with this text.
  std::string refusal(const std::string& text, Value::Object extra = {}) const {
    replace_file(train, text);
    return io_error(train, [&] { read(extra); });
  }
};

std::vector<float> features(Dataset data) {
  return {data.features().begin(), data.features().end()};
}
std::vector<float> targets(const Dataset& data) {
  return {data.targets().begin(), data.targets().end()};
}

}  // namespace

TEST_CASE("csv: features are all columns but the target, in order", "[data_source]") {
  const Files files;
  write_file(files.test, "age,label,income\n1,1,1\n");
  const auto source = files.open();
  const auto info = source->info();
  CHECK(info.shape.features == Shape{2});
  CHECK(info.shape.classes == 2);
  CHECK(info.unaccounted == std::vector<std::string>{"number of classes (classes)",
                                                     "that every target fits (target_fill)",
                                                     "that every row is well formed (malformed)",
                                                     "that every value is a number (columns)"});
  CHECK(info.train_rows == 2);
  CHECK(info.test_rows == 1);
  for (int again = 0; again < 2; ++again) {  // the second read has no cached rows to return
    const auto train = source->read(Split::train);
    CHECK(features(train) == std::vector<float>{30.0f, 2.5f, 41.0f, -1000.0f});
    CHECK(targets(train) == std::vector<float>{1, 0});
    CHECK(features(source->read(Split::test)) == std::vector<float>{1, 1});
  }
}

TEST_CASE("csv: the forms that a line may have", "[data_source]") {
  const std::vector<float> expected{30.0f, 2.5f, 41.0f, -1000.0f};
  const auto equal = [&expected](const std::string& text, Value::Object extra = {}) {
    const Files files(text);
    CHECK(features(files.read(std::move(extra))) == expected);
  };
  equal("\xef\xbb\xbf" + kTable);                                               // byte order mark
  equal("age,label,income\r\n30,1,2.5\r\n41,0,-1e3\r\n");                       // CRLF
  equal("age,label,income\n30,1,2.5\n41,0,-1e3");                               // no last line end
  equal("\"age\",\"label\",\"in,co\"\"me\n\"\n\"30\",1,\"2.5\"\n41,0,-1e3\n");  // quotes
  equal("30,1,2.5\n41,0,-1e3\n", {{"header", false, {}}, {"target", "1", {}}});
  equal("age;label;income\n30;1;2.5\n41;0;-1e3\n", {{"delimiter", ";", {}}});
  equal("age\tlabel\tincome\n30\t1\t2.5\n41\t0\t-1e3\n", {{"delimiter", "\t", {}}});
}

TEST_CASE("csv: regression has real targets and no classes", "[data_source]") {
  const Files files;
  const auto source = files.open({{"task", "regression", {}}, {"target", "income", {}}});
  CHECK(source->info().shape.classes == 0);
  CHECK(source->info().unaccounted ==
        std::vector<std::string>{"that every target fits (target_fill)",
                                 "that every row is well formed (malformed)",
                                 "that every value is a number (columns)"});
  CHECK(targets(source->read(Split::train)) == std::vector<float>{2.5f, -1000.0f});
  CHECK_THROWS_WITH(files.open({{"task", "regression", {}}, {"classes", 2, {}}}),
                    ContainsSubstring("task is regression"));
}

TEST_CASE("csv: a stated number of classes is public and is enforced", "[data_source]") {
  const Files files;
  CHECK(files.open({{"classes", 7, {}}})->info().shape.classes == 7);
  CHECK(files.open({{"classes", 7, {}}})->info().unaccounted ==
        std::vector<std::string>{"that every target fits (target_fill)",
                                 "that every row is well formed (malformed)",
                                 "that every value is a number (columns)"});
  CHECK_THAT(files.refusal("a,label\n1,0\n1,2\n", {{"classes", 2, {}}}),
             ContainsSubstring("train.csv:3:3: the target is not a class index: a whole number in "
                               "0..1"));
}

TEST_CASE("csv: the place and the reason of everything wrong", "[data_source]") {
  const Files files;
  const auto says = [&files](const std::string& text, const std::string& reason,
                             Value::Object extra = {}) {
    CHECK_THAT(files.refusal(text, std::move(extra)), ContainsSubstring(reason));
  };
  const Value::Object bare{{"header", false, {}}, {"target", "0", {}}};
  says("age,label\n1,0\nx,1\n", "train.csv:3:1: the value of column 'age' is not a finite number");
  says("1,0\n0,1.5x\n", "train.csv:2:3: the value of column 1 is not a finite number", bare);
  for (const std::string bad : {"nan", "inf", "-inf", "NaN", "1e999", "1e39", " 1", "1 ", "+-1",
                                "++1", "+", "0x10", "1_000", "--1", "1e", ".", ""}) {
    says("age,label\n1,0\n" + bad + ",1\n",
         "train.csv:3:1: the value of column 'age' is not a finite number");
  }
  says("age,label\n1,0\n2\n", "train.csv:3:1: the row has 1 field(s), expected 2");
  says("age,label\n1,0\n2,1,3\n",
       "train.csv:3:1: the row has 3 field(s), expected 2, separated by ','; data.delimiter says "
       "what separates them, and data.malformed what becomes of such a row");
  says("age,label\n1,0\n\n2,1\n", "train.csv:3:1: the line is blank");
  says("age,label\n1,0\n2,0.5\n", "train.csv:3:3: the target is not a class");
  says("age,label\n1,0\n2,-1\n", "train.csv:3:3: the target is not a class");
  says("age,label\n1,0\n2,1e6\n", "train.csv:3:3: the target is not a class");
  says("age,label\n1,0\n2,1\r3,0\n", "train.csv:3:4: a carriage return without a line feed");
  says("age,label\n1,0\n2\"3\",1\n", "train.csv:3:2: a quote inside a field");
  says("age,label\n1,0\n\"2\"3,1\n", "train.csv:3:4: text after a closing quote");
  says("age,label\n1,0\n\"2,1\n3,4\n", "train.csv:3:1: the quote that opens here is never closed");
  // The field with the bad cell comes after a field that spans lines.
  says("\"a\nge\",label\n\n", "train.csv:3:1: the line is blank");
  says("age,label\n1,0\n" + std::string((1 << 24) + (2 << 20), '1') + ",1\n",
       "train.csv:3:1: the row is longer than 16777216 bytes");
  says(std::string(1 << 20, ','), "has more than 1048576 fields");
  says("age\n1\n", "train.csv:1:1: has 1 column");
  says("age,label\n", "there are no targets to count classes in; say classes: N");
  says("\xef\xbb\xbf", "holds no rows");
  says("", "is empty");
  says("1,2\n3,4\n", "train.csv:1:1: the first line holds numbers only; say header: false");
  says("label,label\n1,2\n", "train.csv:1:7: the name 'label' is here for the second time");
  says("age,label\n1,0\n2,0\n", "all targets are of one class, expected at least two classes");
  says("\xff\xfe" + std::string("a\0,\0", 4), "is UTF-16");
  says(
      "gr\xf6\xdf"
      "e,label\n1,0\n",
      "train.csv:1:1: the name of column 1 is not UTF-8 (byte 0xf6); convert the file: iconv -f "
      "latin1 -t utf-8");
  says("a,b\xc3,label\n1,2,0\n", "train.csv:1:3: the name of column 2 is not UTF-8 (byte 0xc3)");
  says("a,b,a,label\n1,2,3,0\n", "train.csv:1:5: the name 'a' is here for the second time");
}

TEST_CASE("csv: a target that is not there names the nearest that is", "[data_source]") {
  const Files files;
  CHECK_THROWS_AS(files.open({{"target", "lable", {}}})->info(), ConfigError);
  CHECK_THROWS_WITH(
      files.open({{"target", "lable", {}}})->info(),
      ContainsSubstring("'lable', which the table lacks; did you mean 'label'? For rows without a "
                        "target, to be predicted, say unlabelled: true"));
  CHECK_THROWS_WITH(files.open({{"header", false, {}}}), ContainsSubstring("counted from 0"));
  CHECK_THROWS_WITH(files.open({{"header", false, {}}, {"target", "-1", {}}}),
                    ContainsSubstring("counted from 0"));
  CHECK_THROWS_WITH(files.open({{"header", false, {}}, {"target", "3", {}}})->info(),
                    ContainsSubstring("has the columns 0..2"));
  CHECK_THROWS_AS(files.open({{"delimiter", "1", {}}}), ConfigError);
}

TEST_CASE("csv: dates with a time of day are remarked on, since ONNX takes none", "[data_source]") {
  const auto remarks = [](const std::string& format, const std::string& date) {
    const Files files("at,label\n" + date + ",1\n" + date + ",0\n");
    Value column{Value::Object{}};
    column.set("name", "at");
    column.set("type", "date");
    column.set("format", format);
    column.set("parts", Value(Value::List{"day"}));
    return files.open({{"columns", Value(Value::List{column}), {}}})->info().remarks;
  };
  const auto told = remarks("%d.%m.%Y %H:%M", "1.2.2024 10:30");
  REQUIRE(told.size() == 1);
  CHECK_THAT(told[0], ContainsSubstring("the dates of 'at' have a time of day"));
  CHECK(remarks("%d.%m.%Y", "1.2.2024").empty());
}

TEST_CASE("csv: a draft holds no text that is not UTF-8, and names its column", "[data_source]") {
  for (const char* const head : {"city,label\n", "label,city\n"}) {
    const Files files(head + std::string("K\xf6ln,Ulm\nUlm,K\xf6ln\nUlm,Ulm\nK\xf6ln,K\xf6ln\n"));
    const auto source = files.open();
    CHECK_THROWS_WITH(source->suggest().value(),
                      ContainsSubstring("a value of the column '") &&
                          ContainsSubstring("is not UTF-8 (byte 0xf6); convert the file"));
  }
}

TEST_CASE("csv: a test file must have the training file's columns and classes", "[data_source]") {
  const Files files;
  const auto says = [&files](const std::string& text, const std::string& reason) {
    replace_file(files.test, text);
    CHECK_THAT(io_error(files.test, [&] { files.open()->info(); }), ContainsSubstring(reason));
  };
  says("income,label,age\n1,1,1\n", "has other columns than");
  says("age,label\n1,1\n", "has other columns than");
  says("age,label,income\n1,2,1\n", "test.csv:2:3: the target is not a class");
}

TEST_CASE("csv: files that are not there, not files, or that change", "[data_source]") {
  const Files files;
  const auto source = files.open();
  source->info();
  source->read(Split::train);
  replace_file(files.train, "age,label,income\n30,1,2.5\n");
  CHECK_THAT(io_error(files.train, [&] { source->read(Split::train); }),
             ContainsSubstring("has changed"));
  std::filesystem::remove(files.train);
  CHECK_THAT(io_error(files.train, [&] { files.read(); }), ContainsSubstring("No such file"));
  std::filesystem::create_directory(files.train);
  CHECK_THAT(io_error(files.train, [&] { files.read(); }), ContainsSubstring("is a directory"));
}

TEST_CASE("csv: rows longer than any buffer come through whole", "[data_source]") {
  // 30000 columns, about 170 KB per row: several buffers, each of whose boundaries lies inside a
  // number.
  std::string text;
  const std::size_t width = 30000;
  for (int row = 0; row < 2; ++row) {
    text += std::to_string(row);
    for (std::size_t j = 0; j < width; ++j) text += "," + std::to_string(j);
    text += "\n";
  }
  const Files files(text);
  const auto got = features(files.read({{"header", false, {}}, {"target", "0", {}}}));
  REQUIRE(got.size() == 2 * width);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] != static_cast<float>(i % width)) FAIL("feature " << i << " is " << got[i]);
  }
}

TEST_CASE("csv: mutated files are read or refused, nothing else", "[data_source]") {
  const Files files;
  const auto attempt = [&files](const std::string& text) {
    replace_file(files.train, text);
    files.read();
  };
  fuzz(kTable, 11, 3000, attempt);
  fuzz("\"age\",\"label\"\r\n\"1\",\"0\"\r\n2,1\r\n\"3\",0\r\n", 12, 3000, attempt);
}

}  // namespace data_sources_csv_test

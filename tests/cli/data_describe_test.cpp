#include "cli.hpp"

namespace fs = std::filesystem;

namespace {

/// Writes IDX files of 3 training and 2 test images of 1 x 2, labels 1 0 1 and 0 1.
void write_idx(const fs::path& folder) {
  fs::create_directories(folder);
  const auto header = [](char extents, char rows) {
    return std::string("\0\0\x08", 3) + extents + std::string("\0\0\0", 3) + rows;
  };
  const std::string size("\0\0\0\x01\0\0\0\x02", 8);
  write_file(folder / "train-images-idx3-ubyte",
             header(3, 3) + size + std::string("\0\xff\0\0\0\x33", 6));
  write_file(folder / "train-labels-idx1-ubyte", header(1, 3) + std::string("\1\0\1", 3));
  write_file(folder / "t10k-images-idx3-ubyte", header(3, 2) + size + "\x33\x33\x33\x33");
  write_file(folder / "t10k-labels-idx1-ubyte", header(1, 2) + std::string("\0\1", 2));
}

}  // namespace

TEST_CASE("data describe counts the examples of a folder") {
  const Cli cli;
  write_idx(cli.out("mine"));
  const Outcome outcome = cli({"data", "describe", "mine", "--json"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json json = Json::parse(outcome.out);
  CHECK(json.at("data_source") == "dataset");
  CHECK(json.at("shape") == Json{1, 2});
  CHECK(json.at("classes") == 2);
  const Json& train = json.at("train");
  CHECK(train.at("examples") == 3);
  CHECK(train.at("class_counts") == Json{1, 2});
  CHECK(train.at("features").at("min") == 0.0);
  CHECK(train.at("features").at("max") == 1.0);
  // Bytes 255 and 51 become 1 and 0.2; the other four are zero.
  CHECK_THAT(train.at("features").at("mean").get<double>(), WithinAbs(1.2 / 6, 1e-7));
  CHECK(json.at("test").at("examples") == 2);
  CHECK(json.at("read_off_the_examples") ==
        Json({"number of classes (classes)", "that every label fits (target_fill)"}));
  CHECK(json.at("files").size() == 4);
  CHECK_THAT(json.at("note").get<std::string>(), ContainsSubstring("private"));
}

TEST_CASE("data describe says that what it prints is private of private examples") {
  const Cli cli;
  write_idx(cli.out("mine"));
  const Outcome outcome = cli({"data", "describe", "mine"});
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("examples of 1 x 2, 2 classes"));
  CHECK_THAT(outcome.out, ContainsSubstring("\n    1      2     1\n"));  // class, train, test
  CHECK_THAT(outcome.out, ContainsSubstring("for private examples they are private."));
}

TEST_CASE("data describe takes one file of an IDX pair and finds the other") {
  const Cli cli;
  write_idx(cli.out("mine"));
  for (const char* file : {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    const Outcome outcome = cli({"data", "describe", "mine/" + std::string(file), "--json"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(Json::parse(outcome.out).at("train").at("class_counts") == Json{1, 1});
  }
  fs::remove(cli.out("mine/t10k-labels-idx1-ubyte"));
  check_one_error_line(cli({"data", "describe", "mine/t10k-images-idx3-ubyte"}), 4);
}

TEST_CASE("data describe reads tables, with what the data source needs to know") {
  const Cli cli;
  write_file(cli.out("t.csv"), "a,b,y\n1,2,0.5\n3,-4,1.5\n");
  const Outcome outcome =
      cli({"data", "describe", "t.csv", "--set", "target=y", "--set", "task=regression", "--json"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json train = Json::parse(outcome.out).at("train");
  CHECK(train.at("features").at("min") == -4.0);
  CHECK(train.at("features").at("max") == 3.0);
  CHECK(train.at("targets").at("mean") == 1.0);
  CHECK_FALSE(train.contains("class_counts"));
  const Outcome without = cli({"data", "describe", "t.csv"});
  check_one_error_line(without, 2);
  CHECK_THAT(without.err, ContainsSubstring("target"));
}

TEST_CASE("data describe refuses what it cannot read in one line") {
  const Cli cli;
  write_idx(cli.out("cut"));
  fs::resize_file(cli.out("cut/train-images-idx3-ubyte"), 18);
  write_file(cli.out("noise.bin"), "noise");
  write_file(cli.out("empty.csv"), "");
  fs::create_directory(cli.out("folder"));
  const std::pair<Words, int> calls[] = {{{"cut"}, 4},
                                         {{"folder"}, 4},
                                         {{"noise.bin"}, 2},
                                         {{"empty.csv", "--set", "target=y"}, 4},
                                         {{"no/such.csv"}, 4},
                                         {{"nothing"}, 4},
                                         {{"noise.bin", "--set", "kind=npy"}, 2},
                                         {{"noise.bin", "--set", "kind=idxx"}, 2},
                                         {{"noise.bin", "--set", "kind=[1]"}, 2},
                                         {{"noise.bin", "--set", "kind"}, 2}};
  for (const auto& [more, code] : calls) {
    Words words{"data", "describe"};
    words.insert(words.end(), more.begin(), more.end());
    check_one_error_line(cli(words), code);
  }
}

TEST_CASE("data describe asks for the names of a .npz archive's arrays, and reads them") {
  const Cli cli;
  fs::copy(kSource / "examples/data/visits.npz", cli.out("visits.npz"));
  fs::copy(kSource / "examples/data/visits.npz", cli.out("visits"));
  for (const char* file : {"visits.npz", "visits"}) {
    const Outcome without = cli({"data", "describe", file});
    check_one_error_line(without, 2);
    CHECK_THAT(without.err,
               ContainsSubstring("holds arrays by name") && ContainsSubstring("features_array: x"));
    const std::string train = "train={features: " + std::string(file) + ", features_array: x}";
    const Outcome done = cli({"data", "describe", file, "--set", train, "--json"});
    INFO(done.err);
    REQUIRE(done.exit_code == 0);
    CHECK(Json::parse(done.out).at("data_source") == "npy");
  }
}

TEST_CASE("data describe says of a file that is not there that it is not, whatever is set") {
  const Cli cli;
  for (const char* file : {"absent.csv", "absent.tsv.gz", "absent.npy", "absent.npz",
                           "absent-idx1-ubyte", "absent-idx3-ubyte.gz", "no/absent"}) {
    const Outcome outcome = cli({"data", "describe", file, "--set", "target=outcome"});
    check_one_error_line(outcome, 4);
    CHECK_THAT(outcome.err, ContainsSubstring(file + std::string(": there is no such file")));
  }
}

TEST_CASE("data list says what there is, and what is here") {
  const Cli cli;
  write_idx(cli.out("data/mnist"));
  Call list = cli.prepare({"data", "list", "--json"});
  list.environment["PRIVGRAD_DATA_DIR"] = cli.out("data");
  const Outcome outcome = call(list);
  REQUIRE(outcome.exit_code == 0);
  const Json sets = Json::parse(outcome.out).at("datasets");
  REQUIRE(sets.size() == 3);
  CHECK(sets[0].at("name") == "mnist");
  CHECK(sets[0].at("train_examples") == 60000);
  CHECK(sets[0].at("here").at("train_examples") == 3);
  CHECK(sets[0].at("here").at("folder") == cli.out("data/mnist").string());
  CHECK(sets[2].at("name") == "cifar10");
  CHECK(sets[2].at("here").is_null());
  CHECK_THAT(sets[2].at("missing").get<std::string>(), ContainsSubstring("privgrad data fetch"));

  const Outcome text = cli({"data", "list"});
  CHECK(text.exit_code == 0);
  CHECK_THAT(text.out, ContainsSubstring("cifar10        50000 + 10000  32 x 32 x 3"));
}

TEST_CASE("of every data set that can be fetched the number of classes is known") {
  // The program has the list, and the data source has the classes: the two agree.
  const Cli cli;
  const Json sets = Json::parse(cli({"data", "list", "--json"}).out).at("datasets");
  for (const Json& one : sets) {
    write_idx(cli.out("data/" + one.at("name").get<std::string>()));
    Call describe = cli.prepare({"data", "describe", one.at("name"), "--json"});
    describe.environment["PRIVGRAD_DATA_DIR"] = cli.out("data");
    const Json json = Json::parse(call(describe).out);
    CHECK(json.at("classes") == one.at("classes"));
    CHECK(json.at("read_off_the_examples").empty());
  }
}

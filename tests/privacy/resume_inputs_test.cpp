// A copy of a run's state that is resumed with other inputs is refused before anything is made.

#include "resumed_run.hpp"

using namespace resumed;
using Json = nlohmann::json;

namespace {

std::string table(int rows, int shift) {
  std::string text = "a,b,y\n";
  for (int i = shift; i < rows + shift; ++i)
    text +=
        std::to_string(i % 7) + "," + std::to_string(i % 5) + "," + std::to_string(i % 2) + "\n";
  return text;
}

/// Returns a model of two features and two classes, in the format of a run.
std::string some_weights(double learning_rate) {
  const Place other;
  write_file(other.manifest().parent_path() / "rows.csv", table(40, 0));
  REQUIRE(other
              .begin({"data={kind: csv, train: rows.csv, target: y}", "seed=1",
                      "schedules.learning_rate=" + std::to_string(learning_rate)})
              .code == 0);
  REQUIRE(other.resume().code == 0);
  return other.model();
}

}  // namespace

TEST_CASE("a copied state goes on with the inputs that it began with, or not at all",
          "[resume][privacy]") {
  const Place begun;
  const fs::path folder = begun.manifest().parent_path();
  write_file(folder / "rows.csv", table(40, 0));
  write_file(folder / "test.csv", table(20, 3));
  write_file(folder / "weights.safetensors", some_weights(0.5));
  const End end = begun.begin({"data={kind: csv, train: rows.csv, test: test.csv, target: y}",
                               "model.weights={file: weights.safetensors}"});
  INFO(begun.last_words());
  REQUIRE(end.code == 0);
  const auto before = files_below(begun.run());
  const auto edit = [&](const std::string& file, const std::string& text) {
    const std::string was = read_file(folder / file);
    REQUIRE(text != was);
    write_file(folder / file, text);
    return was;
  };
  std::string file, was, says;
  SECTION("a label of the test rows") {
    std::string text = table(20, 3);
    text[text.size() - 2] ^= 1;
    was = edit(file = "test.csv", text);
    says = "the test rows, which are measured, are others";
  }
  SECTION("a feature of the test rows") {
    std::string text = table(20, 3);
    text.replace(text.find("\n3,") + 1, 1, "4");
    was = edit(file = "test.csv", text);
    says = "the test rows, which are measured, are others";
  }
  SECTION("a label of the training rows") {
    std::string text = table(40, 0);
    text[text.size() - 2] ^= 1;
    was = edit(file = "rows.csv", text);
    says = "the training data has changed";
  }
  SECTION("the weights that training began with") {
    was = edit(file = "weights.safetensors", some_weights(0.25));
    says = "is not what the run began with";
  }
  CHECK(begun.resume().code == 3);
  CHECK_THAT(begun.last_words(), ContainsSubstring(says));
  CHECK(files_below(begun.run()) == before);
  // The refusal has not deleted anything.
  write_file(folder / file, was);
  CHECK(begun.resume().code == 0);
}

TEST_CASE("a run that its user ends releases nothing new: copies of its state would each do so",
          "[resume][privacy]") {
  const Place begun;
  REQUIRE(begun.begin({"report={train_accuracy: {share: 0.2}}"}).code == 0);
  const Place whole(begun, 0);
  REQUIRE(whole.resume().code == 0);
  REQUIRE(begun.resume({.operation = 60}).killed);
  REQUIRE(begun.resume({.finish = true}).code == 0);
  const auto releases_of_reports = [](const Place& place) {
    std::size_t found = 0;
    const std::string text = place.charges();
    for (std::size_t at = 0; (at = text.find("accuracy on the training rows", at)) != text.npos;
         ++at)
      ++found;
    return found;
  };
  CHECK(releases_of_reports(whole) == 1);
  CHECK(releases_of_reports(begun) == 0);
  CHECK(begun.summary().at("reported").at("train_accuracy").value("value", Json()).is_null());
  CHECK(begun.summary().at("steps") < whole.summary().at("steps"));
  CHECK(begun.summary().at("epsilon") < whole.summary().at("epsilon"));
  CHECK(problems_of(begun).empty());
}

TEST_CASE("what was kept of the schedules decides about their last digits, and nothing else",
          "[resume][privacy]") {
  const Place begun;
  REQUIRE(begun.begin({"seed=1", "schedules.learning_rate=0.3"}).code == 0);
  const Place edited(begun, 0);
  const fs::path kept = edited.private_folder() / "schedules";
  const auto bytes_of = [](double value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  };
  std::string text = read_file(kept);
  const std::size_t at = text.find(bytes_of(0.3));
  REQUIRE(at != text.npos);
  write_file(kept, text.replace(at, sizeof(double), bytes_of(0.6)));
  REQUIRE(begun.resume().code == 0);
  REQUIRE(edited.resume().code == 0);
  CHECK(edited.model() == begun.model());
  CHECK(read_file(edited.run() / "schedules.json") == read_file(begun.run() / "schedules.json"));
}

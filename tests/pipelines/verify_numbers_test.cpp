// Which numbers of a record may differ from the derived numbers, and by how much.
#include <algorithm>
#include <array>

#include "privgrad/statement/statement.hpp"
#include "verify.hpp"

namespace verify {

namespace {

/// Finds the places of all numbers in a record.
void find_numbers(const Json& json, const Json::json_pointer& at,
                  std::vector<Json::json_pointer>& places) {
  if (json.is_number()) return places.push_back(at);
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) find_numbers(value, at / key, places);
  }
  if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i) find_numbers(json[i], at / i, places);
  }
}

/// Whether a number is an accountant's answer or depends only on such answers, which differ
/// slightly between processors.
bool is_answer(const std::string& place) {
  return place == "/epsilon" || place.starts_with("/also/") || place == "/lower" ||
         place == "/sampling/with_allocation/epsilon" ||
         (place.starts_with("/membership_test/") && place != "/membership_test/wrongly_accused");
}

}  // namespace

TEST_CASE(
    "every number of a record that is bound anew is held against the plan, answers of "
    "accountants within 2e-5 and all others within 1e-9",
    "[verify][privacy]") {
  Experiment experiment(kCentral, {"privacy.accountant=pld", "privacy.also=[rdp]"});
  experiment.run();
  const fs::path run = experiment.run_dir();
  const std::vector<Json> lines = json_lines(run / "ledger.jsonl");
  // Facts that no plan contains: how the run was made, and measurements on rows.
  const auto is_elsewhere = [](const std::string& place) {
    return std::ranges::any_of(std::array{"/threads", "/processes", "/seconds", "/checks/",
                                          "/metrics/", "/test_evaluation/", "/statement/"},
                               [&](const char* beginning) { return place.starts_with(beginning); });
  };
  std::size_t answers = 0, others = 0;
  for (const std::string file : {"statement.json", "summary.json", "schedules.json"}) {
    const std::string before = read_file(run / file);
    const Json record = Json::parse(before);
    const auto problems_with = [&](const Json& forged) {
      const std::string text = forged.dump(2) + "\n";
      write_file(run / file, text);
      std::vector<Json> bound = lines;
      bound.back()["files"][file] = core::sha256_hex(text);
      write_chain(run / "ledger.jsonl", bound);
      return all_of(check(run).problems);
    };
    std::vector<Json::json_pointer> places;
    find_numbers(record, Json::json_pointer(), places);
    for (const auto& place : places) {
      const std::string name = place.to_string();
      if (is_elsewhere(name)) continue;
      INFO(file << name);
      Json forged = record;
      Json& number = forged[place];
      const bool is_count = number.is_number_integer();
      const auto by = [&](double part) {
        number = is_count ? Json(record[place].get<std::int64_t>() + 1)
                          : Json(record[place].get<double>() * (1.0 + part));
        return problems_with(forged);
      };
      if (!is_count && number == 0.0) continue;
      const bool answer = !is_count && is_answer(name);
      ++(answer ? answers : others);
      CHECK_THAT(by(answer ? -3e-5 : -1e-8), ContainsSubstring(file + ": has another '"));
      // Text that repeats a number that may differ must agree with that number.
      if (answer) CHECK_THAT(by(-1e-5), !ContainsSubstring(": has another '" + name.substr(1)));
    }
    write_file(run / file, before);
  }
  CHECK(answers >= 6);
  CHECK(others >= 30);
  write_chain(run / "ledger.jsonl", lines);
  CHECK(check(run).verified());
}

TEST_CASE("a smaller epsilon of another processor is verified as the larger one",
          "[verify][privacy]") {
  Experiment experiment(kCentral);
  const double epsilon = experiment.run().epsilon.value;
  const fs::path run = experiment.run_dir();
  std::vector<Json> lines = json_lines(run / "ledger.jsonl");
  const Json before = Json::parse(read_file(run / "statement.json"));
  const auto verify_with = [&](double factor) {
    Json statement = before;
    statement["epsilon"] = epsilon * factor;
    const auto bind = [&](const std::string& file, const Json& json) {
      const std::string text = json.dump(2) + "\n";
      write_file(run / file, text);
      lines.back()["files"][file] = core::sha256_hex(text);
    };
    bind("statement.json",
         core::to_json(core::with_words(core::facts_in<core::Statement>(statement, ""))));
    write_chain(run / "ledger.jsonl", lines);
    return check(run);
  };
  const auto of_statement = [](const core::Verification& verified) {
    return all_of(verified.problems).find("statement.json: has another") != std::string::npos;
  };
  for (const double factor : {1.0 - 1.5e-5, 1.0 + 1.5e-5}) {
    const core::Verification verified = verify_with(factor);
    INFO(factor << "\n" << all_of(verified.problems));
    CHECK_FALSE(of_statement(verified));
    CHECK(verified.epsilon == epsilon * std::max(1.0, factor));
  }
  const core::Verification verified = verify_with(1.0 - 3e-5);
  CHECK(of_statement(verified));
  CHECK(verified.epsilon == epsilon);
}

TEST_CASE("the words of a record are those of its numbers, to the digit", "[verify][privacy]") {
  Experiment experiment(kCentral, {"seed=null"});
  experiment.run();
  const fs::path run = experiment.run_dir();
  std::vector<Json> lines = json_lines(run / "ledger.jsonl");
  const Json before = Json::parse(read_file(run / "statement.json"));
  for (const auto* key : {"/lead", "/prose"}) {
    const Json::json_pointer texts(key);
    for (std::size_t i = 0; i < before[texts].size(); ++i) {
      const auto text = before[texts][i].get<std::string>();
      const std::size_t digit = text.find_last_of("0123456789");
      if (digit == text.npos) continue;
      INFO(key << " " << i);
      Json forged = before;
      std::string changed = text;
      changed[digit] = changed[digit] == '1' ? '2' : '1';
      forged[texts][i] = changed;
      const std::string written = forged.dump(2) + "\n";
      write_file(run / "statement.json", written);
      lines.back()["files"]["statement.json"] = core::sha256_hex(written);
      write_chain(run / "ledger.jsonl", lines);
      CHECK_THAT(all_of(check(run).problems),
                 ContainsSubstring("statement.json: has another '" + std::string(key).substr(1)));
    }
  }
}

TEST_CASE("what another processor may find otherwise is told by its name", "[verify]") {
  const auto differs = [](const char* said, const char* derived) {
    return core::first_difference(Json::parse(said), Json::parse(derived));
  };
  CHECK(differs(R"({"epsilon": 1.00001})", R"({"epsilon": 1.0})") == "");
  CHECK(differs(R"({"epsilon": 1.00003})", R"({"epsilon": 1.0})") == "epsilon");
  CHECK(differs(R"({"also": [{"epsilon": 1.00001}]})", R"({"also": [{"epsilon": 1.0}]})") == "");
  CHECK(differs(R"({"lower": 1.00001, "bound": "upper"})", R"({"lower": 1.0, "bound": "upper"})") ==
        "");
  CHECK(differs(R"({"lower": 1.00001})", R"({"lower": 1.0})") == "lower");
  for (const char* key : {"delta", "target_epsilon", "target_delta", "noise_multiplier",
                          "learning_rate", "clip_norm", "batch_size", "steps", "found_at_least"}) {
    const Json said{{key, 1.00000001}}, derived{{key, 1.0}};
    CHECK(core::first_difference(said, derived) == key);
    CHECK(core::first_difference(Json{{"in", said}}, Json{{"in", derived}}) == "in");
  }
  // Hashes must agree in every digit, within a sentence or alone; so must the numbers in all texts
  // except accountants' notes.
  CHECK(differs(R"({"prose": ["the file with the hash 5e1af3 is"]})",
                R"({"prose": ["the file with the hash 5e2af3 is"]})") == "prose");
  CHECK(differs(R"({"hash": "1e5"})", R"({"hash": "100000"})") == "hash");
  CHECK(differs(R"({"text": "epsilon = 1.00001"})", R"({"text": "epsilon = 1.00002"})") == "text");
  CHECK(differs(R"({"note": "of 3a17 in 2 cells"})", R"({"note": "of 3a18 in 2 cells"})") ==
        "note");
  CHECK(differs(R"({"note": "of 3a17 in 2 cells"})", R"({"note": "of 3a17 in 9 cells"})") == "");
  CHECK(differs(R"({"epsilon": null})", R"({"epsilon": 1.0})") == "epsilon");
  CHECK(differs(R"({})", R"({"epsilon": 1.0})") == "epsilon");
}

}  // namespace verify

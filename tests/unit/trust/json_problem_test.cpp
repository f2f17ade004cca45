#include "privgrad/trust/json_problem.hpp"

#include <string>

#include "support.hpp"

using privgrad::core::json_problem;

TEST_CASE("a key that an object has twice is found in any object, however it is written",
          "[json]") {
  for (const std::string text :
       {R"({"a":1,"b":2,"a":1})", R"([{"a":{}},{"b":{"a":[],"c":0,"a":[]}}])",
        R"({"a":1,"\u0061":2})", R"({"a":1,"a":2,)"}) {
    CHECK(json_problem(9, text) == "has the key \"a\" twice");
  }
  for (const std::string text : {R"({"a":{"a":1},"b":{"a":1}})", R"([{"a":1},{"a":1}])",
                                 R"({"a":"a","A":1})", "{\"a\":", "", "1"}) {
    CHECK(json_problem(9, text).empty());
  }
  // The printed part of a key is short and does not steer a terminal.
  CHECK(json_problem(9, R"({"\u001b[2J":1,"\u001b[2J":1})") == R"(has the key "\u001b[2J" twice)");
  const std::string key(10000, 'x');
  CHECK(json_problem(9, "{\"" + key + "\":1,\"" + key + "\":2}").size() < 120);
}

TEST_CASE("brackets that open too deep are found before anything is made of them", "[json]") {
  CHECK(json_problem(2, R"([{"a":"[[["}])").empty());
  CHECK(json_problem(2, R"([[],[],{}])").empty());
  CHECK(json_problem(2, R"([{"a":[]}])") == "is nested deeper than 2");
  CHECK(json_problem(64, std::string(10'000'000, '[')) == "is nested deeper than 64");
}

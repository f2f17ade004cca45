#include <nlohmann/json.hpp>

#include "privgrad/verify/verify.hpp"
#include "support.hpp"

using namespace privgrad;
using core::first_difference;
using core::nearly_equal;
using Json = nlohmann::json;

TEST_CASE("values are equal up to one in 1e9, and integers exactly", "[comparison]") {
  CHECK(nearly_equal(1.0, 1.0 + 0.9e-9));
  CHECK_FALSE(nearly_equal(1.0, 1.0 + 1.1e-9));
  CHECK(nearly_equal(-2e30, -2e30 * (1.0 + 0.9e-9)));
  CHECK_FALSE(nearly_equal(1.0, -1.0));
  CHECK_FALSE(nearly_equal(0.0, 1e-300));
  CHECK(nearly_equal(2, 2.0));  // a real may be written without its point
  CHECK_FALSE(nearly_equal(10'000'000'000, 10'000'000'001));
}

TEST_CASE("values of different types or shapes are different", "[comparison]") {
  CHECK_FALSE(nearly_equal(1.0, "1"));
  CHECK_FALSE(nearly_equal(nullptr, 0.0));
  CHECK_FALSE(nearly_equal(true, 1));
  CHECK_FALSE(nearly_equal("a", "b"));
  CHECK(nearly_equal({1.0, {2.0, "x"}}, {1.0, {2.0 + 1e-9, "x"}}));
  CHECK_FALSE(nearly_equal({1.0, 2.0}, {1.0, 2.0, 3.0}));
  CHECK_FALSE(nearly_equal({{"a", 1}}, {{"b", 1}}));
  CHECK_FALSE(nearly_equal({{"a", 1}}, {{"a", 1}, {"b", 1}}));
  CHECK_FALSE(nearly_equal({{"a", {{"deep", 1.0}}}}, {{"a", {{"deep", 1.1}}}}));
}

TEST_CASE("the numbers in an accountant's note may differ, and its words may not", "[comparison]") {
  const auto note = [](const char* text) { return Json{{"note", text}}; };
  CHECK(nearly_equal(note("order 12.5, error 1e-7"), note("order 13.0, error 3e-12")));
  CHECK_FALSE(nearly_equal(note("order 12.5"), note("order 12.5, a proof")));
  CHECK_FALSE(nearly_equal(note("sha256 a1b2"), note("sha256 a1b3")));
  CHECK_FALSE(nearly_equal({{"text", "1"}}, {{"text", "2"}}));
}

TEST_CASE("only answers of accountants may differ as processors do", "[comparison][privacy]") {
  const auto differs = [](const char* key, double factor) {
    const Json derived{{key, 2.0}, {"bound", "exact"}};
    Json said = derived;
    said[key] = 2.0 * factor;
    return !first_difference(said, derived).empty();
  };
  for (const char* key : {"epsilon", "lower", "spent_epsilon"}) {
    CHECK_FALSE(differs(key, 1.0 + 1.9e-5));
    CHECK(differs(key, 1.0 + 2.1e-5));
  }
  for (const char* key : {"delta", "noise_multiplier", "value"}) CHECK(differs(key, 1.0 + 1e-8));
  // The point of a membership test follows from an accountant's answer.
  const Json derived{{"found_at_most", 0.5}, {"delta", 1e-5}, {"wrongly_accused", 0.05}};
  Json said = derived;
  said["delta"] = 1e-5 * (1.0 + 1e-5);
  said["found_at_most"] = 0.5 * (1.0 + 1e-5);
  CHECK(first_difference(said, derived).empty());
  said["wrongly_accused"] = 0.05 * (1.0 + 1e-5);
  CHECK(first_difference(said, derived) == "wrongly_accused");
  // A `lower` counts as an answer only next to its bound.
  CHECK(first_difference({{"lower", 2.00001}}, {{"lower", 2.0}}) == "lower");
}

TEST_CASE("the first member that differs or is missing is named, and others may be there",
          "[comparison]") {
  const Json derived{{"a", 1}, {"b", {1, 2}}, {"c", "x"}};
  Json said = derived;
  said["more"] = true;
  CHECK(first_difference(said, derived).empty());
  said["c"] = "y";
  CHECK(first_difference(said, derived) == "c");
  said["b"] = {1, 3};
  CHECK(first_difference(said, derived) == "b");
  said.erase("a");
  CHECK(first_difference(said, derived) == "a");
}

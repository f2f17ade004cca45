#include "privgrad/data/breach.hpp"

#include <functional>
#include <new>
#include <stdexcept>
#include <string>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;

namespace {

/// Returns the type and the text of the error that a run shows for a component's exception.
template <class ErrorType>
std::string shown_for(const std::function<void()>& component) {
  try {
    core::in_run_of("acme/filter", component);
  } catch (const ErrorType& error) {
    return error.what();
  }
  return "nothing is thrown";
}

}  // namespace

TEST_CASE("what a component throws during a run is its breach, with its name", "[breach]") {
  CHECK(shown_for<PluginError>([] { throw std::runtime_error("broken"); }) ==
        "acme/filter: broken");
  CHECK(shown_for<PluginError>([] { throw ConfigError("rate is 0"); }) == "acme/filter: rate is 0");
  CHECK(shown_for<NumericError>([] { throw NumericError("nan"); }) == "acme/filter: nan");
  CHECK(shown_for<PluginError>([] { throw std::runtime_error("in acme/filter: twice"); }) ==
        "in acme/filter: twice");
  CHECK_THAT(shown_for<PluginError>([] { throw std::runtime_error(""); }),
             ContainsSubstring("threw std::runtime_error without a message"));
  CHECK(shown_for<PluginError>([] { throw 7; }) ==
        "acme/filter: threw int, which is not a std::exception");
}

TEST_CASE("refusals for privacy and errors of files keep their kind and words",
          "[breach][privacy]") {
  CHECK(shown_for<PrivacyError>([] { throw PrivacyError("not paid"); }) == "not paid");
  CHECK(shown_for<IoError>([] { throw IoError("a.csv: gone"); }) == "a.csv: gone");
  CHECK(shown_for<std::bad_alloc>([] { throw std::bad_alloc(); }) != "nothing is thrown");
  CHECK_NOTHROW(core::in_run_of("acme/filter", [] {}));
}

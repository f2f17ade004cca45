#include "trials.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <utility>

// Catch2 v2 (Debian 12) and v3 have different names for the base class of a listener.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Listener = Catch::EventListenerBase;
#else
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>
using Listener = Catch::TestEventListenerBase;
#endif

namespace {

/// Tests compare the files of runs, which must not depend on when the runs began. Child programs
/// inherit this variable; tests of the date itself set another one.
const bool date_is_set = ::setenv("SOURCE_DATE_EPOCH", "1700000000", 0) == 0;

/// Returns the trials of the current test case so far.
std::string& planned() {
  static std::string text;
  return text;
}

// testInfo is an object in v2, and a pointer in v3.
[[maybe_unused]] const std::string& name_of(const Catch::TestCaseInfo& test) { return test.name; }
[[maybe_unused]] const std::string& name_of(const Catch::TestCaseInfo* test) { return test->name; }

/// Adds the line of a test case that made trials, in one write, because other tests write too.
class TrialLog : public Listener {
 public:
  using Listener::Listener;

  void testCaseEnded(const Catch::TestCaseStats& test) override {
    Listener::testCaseEnded(test);
    const std::string what = std::exchange(planned(), {});
    const char* file = std::getenv("PRIVGRAD_TEST_LOG");
    if (what.empty() || file == nullptr) return;
    const auto& checks = test.totals.assertions;
    const std::string result =
        checks.allOk() ? "none failed"
                       : std::to_string(checks.failed) + " FAILED (a failed one may end the test)";
    std::ofstream(file, std::ios::app) << name_of(test.testInfo) + ": " + what + "; " +
                                              std::to_string(checks.total()) + " checks, " +
                                              result + "\n";
  }
};

CATCH_REGISTER_LISTENER(TrialLog)

}  // namespace

int trials(int all, const std::string& what) {
  const bool whole = std::getenv("PRIVGRAD_TEST_LONG") != nullptr;
  const int count = whole ? all : std::max(1, all / 10);
  planned() += (planned().empty() ? "" : ", ") + std::to_string(count) +
               (whole ? "" : " of " + std::to_string(all)) + " " + what;
  return count;
}

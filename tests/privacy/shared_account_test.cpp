#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "privgrad/trust/data_account.hpp"
#include "sum_filter.hpp"
#include "support.hpp"
#include "trials.hpp"

using namespace privgrad;
using core::DataAccount;

namespace {

/// Reserves 1 at a time as long as the account pays, and writes a byte for each reservation, until
/// it is killed.
[[noreturn]] void reserve_for_ever(const std::filesystem::path& file, int told) {
  try {
    for (;;) {
      SumFilter filter;
      DataAccount(file).reserve(filter, Event::gaussian(1.0), {{"name", "run"}});
      if (::write(told, "1", 1) != 1) break;
    }
  } catch (const PrivacyError&) {
  }
  ::_exit(0);
}

}  // namespace

TEST_CASE("processes that share an account, killed at any instant, never overdraw it",
          "[account][privacy][long]") {
  // In each race three processes reserve from a budget of 8; one of them is killed after a random
  // time of up to 6 ms. Every reported reservation is in the account, and the account never exceeds
  // its budget; the reservations of the killed process stay.
  std::mt19937 random(1);
  const int count = trials(2000, "races for an account");
  for (int race = 0; race < count; ++race) {
    const TempDir dir(On::little_memory);
    const auto file = dir.path() / "account.jsonl";
    DataAccount::open(file, {.name = "data",
                             .adjacency = Adjacency::zero_out,
                             .unit = PrivacyUnit::example,
                             .target_epsilon = 8.0,
                             .target_delta = 1e-6,
                             .accountant = "kind: sum"});
    int told[2];
    REQUIRE(::pipe(told) == 0);
    std::vector<pid_t> children;
    for (int i = 0; i < 3; ++i) {
      const pid_t child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        reserve_for_ever(file, told[1]);
      }
      children.push_back(child);
    }
    ::close(told[1]);
    ::usleep(static_cast<useconds_t>(random() % 6000));
    ::kill(children.front(), SIGKILL);
    for (const pid_t child : children) REQUIRE(::waitpid(child, nullptr, 0) == child);
    int reserved = 0;
    for (char byte = 0; ::read(told[0], &byte, 1) == 1;) ++reserved;
    ::close(told[0]);

    const DataAccount account(file);
    SumFilter filter;
    const double spent = account.spent(filter).value;
    CHECK(spent >= reserved);
    CHECK(spent <= reserved + 1);  // one may lack its report because of the kill
    CHECK(spent == 8.0);           // the other processes continued until nothing was left
  }
}

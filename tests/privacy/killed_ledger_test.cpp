#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <new>
#include <random>

#include "fake_accountant.hpp"
#include "fake_aggregator.hpp"
#include "fake_clipping.hpp"
#include "fake_program.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/ledger_reader.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "support.hpp"
#include "trials.hpp"

using namespace privgrad;

namespace {

/// A number that survives the process that writes it.
class SharedCounter {
 public:
  SharedCounter()
      : memory_(::mmap(nullptr, sizeof(std::atomic<std::uint64_t>), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        value_(new (memory_) std::atomic<std::uint64_t>(0)) {}
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  ~SharedCounter() { ::munmap(memory_, sizeof(std::atomic<std::uint64_t>)); }
  std::atomic<std::uint64_t>& value() { return *value_; }

 private:
  void* memory_;
  std::atomic<std::uint64_t>* value_;
};

/// Charges a block, releases its steps, and counts each release immediately, until it is killed.
[[noreturn]] void release_for_ever(const std::filesystem::path& file, std::size_t block,
                                   std::atomic<std::uint64_t>& released) {
  CountingAccountant accountant;
  core::Ledger ledger(file, {.target_epsilon = {}, .target_delta = 1e-5}, accountant,
                      "test:counting", {});
  const auto aggregator = independent_noise(1.0);
  SerialExecutor executor;
  core::Mechanism mechanism(aggregator, core::RandomKey::from_operating_system(), executor);
  const EchoProgram program(2);
  const Dataset data(ExampleShape{{2}, 0}, {1.0f, 2.0f}, {0.0f});
  const std::vector<std::uint32_t> batch{0};
  for (std::uint64_t step = 0;;) {
    std::vector<core::Charge> charges;
    for (std::size_t i = 0; i < block; ++i) {
      charges.push_back({step + i, Event::gaussian(1.0), Event::gaussian(1.0)});
    }
    for (core::Receipt& receipt : ledger.charge(charges)) {
      mechanism.release(clipped_sum(program, data, batch, 1.0, executor), std::move(receipt), 1.0);
      released = ++step;
    }
  }
}

/// Starts processes, each killed after a random time between 0 and 6 ms: before the file exists,
/// during a write, during a flush, between flush and release, or after a release.
void kill_some(int count, On where, std::uint32_t seed) {
  std::mt19937 random(seed);
  int with_releases = 0;
  for (int trial = 0; trial < count; ++trial) {
    const TempDir dir(where);
    const auto file = dir.path() / "ledger.jsonl";
    SharedCounter released;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a stopped test leaves no releasing process
      try {
        release_for_ever(file, 1 + static_cast<std::size_t>(trial) % 8, released.value());
      } catch (...) {
        ::_exit(1);
      }
    }
    const std::uint64_t wanted = trial % 4 == 0 ? 0 : 1 + random() % 12;
    for (int waited = 0; released.value() < wanted && waited < 20000; ++waited) ::usleep(100);
    ::usleep(static_cast<useconds_t>(random() % 2000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    with_releases += released.value() > 0;
    if (!std::filesystem::exists(file)) {
      REQUIRE(released.value() == 0);
      continue;
    }
    const auto contents = core::read_ledger(file);
    REQUIRE(contents.releases.size() >= released.value());
    REQUIRE_FALSE(contents.status);
    if (!contents.releases.empty()) {
      REQUIRE(contents.releases.back().epsilon >= static_cast<double>(contents.releases.size()));
    }
  }
  CHECK(with_releases > count / 2);  // otherwise the times are wrong, and the test proves nothing
}

}  // namespace

TEST_CASE("killed at any instant, the ledger never shows less than was released",
          "[ledger][privacy][long]") {
  kill_some(trials(4000, "kills of a process that releases"), On::little_memory, 1);
}

TEST_CASE("nor on a disk, where a flush takes the most of the time", "[ledger][privacy][long]") {
  kill_some(trials(400, "kills of a process that writes to a disk"), On::disk, 2);
}

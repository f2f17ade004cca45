#include "privgrad/trust/ledger.hpp"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <functional>
#include <vector>

#include "fake_accountant.hpp"
#include "privgrad/trust/checked_answer.hpp"
#include "privgrad/trust/ledger_reader.hpp"
#include "support.hpp"

using namespace privgrad;
using core::Budget;
using core::Charge;
using core::Ledger;
using core::read_ledger;

namespace {

// Atomic, because other tests of this program write ledgers on several threads.
std::atomic<int> flushes = 0;
std::atomic<bool> flushing_fails = false;

std::vector<Charge> gaussians(std::uint64_t first, std::size_t count, double multiplier) {
  std::vector<Charge> charges;
  for (std::size_t i = 0; i < count; ++i) {
    charges.push_back({first + i, Event::gaussian(multiplier), Event::gaussian(multiplier)});
  }
  return charges;
}

struct Book {
  explicit Book(Budget budget = {.target_epsilon = 10.0, .target_delta = 1e-5},
                BoundKind bound = BoundKind::upper)
      : accountant(bound),
        ledger(file, budget, accountant, "test:counting", {{"name", "a test"}}) {}
  TempDir dir;
  std::filesystem::path file = dir.path() / "ledger.jsonl";
  CountingAccountant accountant;
  Ledger ledger;
};

}  // namespace

/// The test's own fdatasync, which replaces the C library's: counts calls, and fails on demand.
extern "C" int fdatasync(int descriptor) {
  ++flushes;
  if (flushing_fails) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fdatasync, descriptor));
}

TEST_CASE("each release is a line with running totals, and the file reads back", "[ledger]") {
  Book book;
  CHECK(book.ledger.charge(gaussians(0, 1, 1.0)).size() == 1);
  CHECK(book.ledger.charge(gaussians(1, 2, 1.0)).size() == 2);
  CHECK(book.ledger.charge(gaussians(3, 1, 0.5)).size() == 1);
  CHECK(book.ledger.releases() == 4);
  book.ledger.close("completed", 4);
  CHECK_THAT(read_file(book.file), ContainsSubstring("\"releases_charged\":4"));
  const auto contents = read_ledger(book.file);
  CHECK(contents.facts.at("name") == "a test");
  CHECK(contents.facts.at("accountant") == "test:counting");
  REQUIRE(contents.releases.size() == 4);
  CHECK(contents.releases[1].step == 1);
  CHECK(contents.releases[0].epsilon == 1.0);
  CHECK(contents.releases[1].epsilon == 3.0);  // charged together with the next
  CHECK(contents.releases[2].epsilon == 3.0);
  CHECK(contents.releases[3].epsilon == 7.0);  // 1 + 1 + 1 + 1/0.25
  CHECK(contents.releases[3].event.at("noise_multiplier") == 0.5);
  CHECK(contents.status == "completed");
  CHECK_FALSE(contents.torn_tail);
}

TEST_CASE("the lines are on the disk when charge() returns, with one flush a call",
          "[ledger][privacy]") {
  Book book;
  flushes = 0;
  book.ledger.charge(gaussians(0, 5, 1.0));
  CHECK(flushes == 1);
  CHECK(read_ledger(book.file).releases.size() == 5);
}

TEST_CASE("what cannot be brought to the disk is not paid for", "[ledger][privacy]") {
  Book book;
  flushing_fails = true;
  CHECK_THROWS_AS(book.ledger.charge(gaussians(0, 1, 1.0)), IoError);
  flushing_fails = false;
  // The accountant has composed the charge, but the caller has no receipt: from now on nothing can
  // be trusted.
  CHECK_THROWS_AS(book.ledger.charge(gaussians(0, 1, 1.0)), IoError);
}

TEST_CASE("the budget is a filter: what would exceed it is not paid for", "[ledger][privacy]") {
  Book book({.target_epsilon = 3.0, .target_delta = 1e-5});
  CHECK(book.ledger.charge(gaussians(0, 3, 1.0)).size() == 3);  // 3 is within 3
  CHECK(book.ledger.charge(gaussians(3, 2, 1.5)).empty());
  CHECK(book.ledger.exhausted());
  CHECK(book.ledger.spent().value == 3.0);
  CHECK(read_ledger(book.file).releases.size() == 3);
  // A smaller charge afterwards is also refused, because the plan determines the order of charges.
  CHECK(book.ledger.charge(gaussians(3, 1, 1e6)).empty());
}

TEST_CASE("charges are paid all together or not at all", "[ledger][privacy]") {
  Book book({.target_epsilon = 3.0, .target_delta = 1e-5});
  CHECK(book.ledger.charge(gaussians(0, 5, 1.0)).empty());
  CHECK(book.ledger.spent().value == 0.0);
  CHECK(read_ledger(book.file).releases.empty());
}

TEST_CASE("without a target everything is allowed and still charged", "[ledger]") {
  Book book({.target_epsilon = {}, .target_delta = 1e-5});
  CHECK(book.ledger.charge(gaussians(0, 100, 0.01)).size() == 100);
  CHECK(book.ledger.spent().value == 1e6);
}

TEST_CASE("steps that cost nothing are charged without asking the accountant again", "[ledger]") {
  Book book({.target_epsilon = 3.0, .target_delta = 1e-5});
  book.ledger.charge(gaussians(0, 1, 1.0));
  const int asked = book.accountant.asked();
  std::vector<Charge> rest = gaussians(1, 2, 1.0);
  for (Charge& charge : rest) charge.cost = Event::nothing();
  CHECK(book.ledger.charge(rest).size() == 2);
  CHECK(book.accountant.asked() == asked);
  CHECK(book.ledger.spent().value == 1.0);
  CHECK(read_ledger(book.file).releases.back().epsilon == 1.0);
  // Together with charges that have a cost, it is composed.
  rest.push_back(gaussians(3, 1, 1.0).front());
  CHECK(book.ledger.charge(rest).size() == 3);
  CHECK(book.ledger.spent().value == 2.0);
  CHECK(book.accountant.asked() == asked + 1);
}

TEST_CASE("an estimate cannot guard a budget", "[ledger][privacy]") {
  CHECK_THROWS_AS(Book({.target_epsilon = 3.0, .target_delta = 1e-5}, BoundKind::estimate),
                  PrivacyError);
  CHECK_THROWS_AS(Book({.target_epsilon = {}, .target_delta = 1e-5}, BoundKind::estimate),
                  PrivacyError);
}

TEST_CASE("an answer that cannot be one is not believed", "[ledger][privacy]") {
  const auto answer = [](double value, std::optional<double> lower) {
    return PrivacyAnswer{.value = value, .bound = BoundKind::upper, .lower = lower, .note = ""};
  };
  CHECK_THROWS_AS(core::checked(answer(std::nan(""), {}), "x"), PluginError);
  CHECK_THROWS_AS(core::checked(answer(-1e-9, {}), "x"), PluginError);
  CHECK_THROWS_AS(core::checked(answer(1.0, 1.1), "x"), PluginError);
  CHECK_THROWS_AS(core::checked(answer(1.0, std::nan("")), "x"), PluginError);
  CHECK(core::checked(answer(HUGE_VAL, 1.0), "x").value == HUGE_VAL);
  // The ledger uses that check: an accountant with negative cost buys nothing.
  Book book;
  book.accountant.compose(Event::gaussian(1.0), 1);
  book.accountant.refund(5.0);
  CHECK_THROWS_AS(book.ledger.charge(gaussians(0, 1, 1.0)), PluginError);
}

TEST_CASE("an event that the accountant refuses is not paid for", "[ledger][privacy]") {
  Book book;
  const Event sampled = Event::poisson_sampled(0.1, Event::gaussian(1.0));
  const std::vector<Charge> charges{{0, Event::gaussian(1.0), sampled}};
  CHECK_THROWS_AS(book.ledger.charge(charges), PrivacyError);
  CHECK(read_ledger(book.file).releases.empty());
}

TEST_CASE("a ledger never continues or overwrites another", "[ledger]") {
  Book book;
  CountingAccountant accountant;
  CHECK_THROWS_AS(
      Ledger(book.file, {.target_epsilon = 1.0, .target_delta = 1e-5}, accountant, "x", {}),
      IoError);
}

TEST_CASE("a ledger that was tampered with says where", "[ledger][privacy]") {
  Book book;
  book.ledger.charge(gaussians(0, 3, 1.0));
  book.ledger.close("completed", 3);
  const std::string text = read_file(book.file);
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  const auto rejoined = [&](const std::vector<std::string>& some) {
    std::string out;
    for (const std::string& line : some) out += line + "\n";
    write_file(book.file, out);
  };

  SECTION("a number changed") {
    auto changed = text;
    changed.replace(changed.find("\"epsilon\":3.0"), 13, "\"epsilon\":1.0");
    write_file(book.file, changed);
    CHECK_THROWS_WITH(read_ledger(book.file),
                      ContainsSubstring(":2: ") && ContainsSubstring("was changed"));
  }
  SECTION("a line dropped") {
    lines.erase(lines.begin() + 2);
    rejoined(lines);
    CHECK_THROWS_WITH(read_ledger(book.file), ContainsSubstring("dropped"));
  }
  SECTION("two lines exchanged") {
    std::swap(lines[1], lines[2]);
    rejoined(lines);
    CHECK_THROWS_AS(read_ledger(book.file), IoError);
  }
  SECTION("a line behind its end, though all hashes fit") {
    nlohmann::json more = nlohmann::json::parse(lines[1]);
    more.erase("hash");
    core::HashChain chain(lines.size(), nlohmann::json::parse(lines.back()).at("hash"));
    write_file(book.file, text + chain.next(std::move(more)));
    CHECK_THROWS_WITH(read_ledger(book.file),
                      ContainsSubstring(":6: ") && ContainsSubstring("out of place"));
  }
  SECTION("a line with another number, though all hashes fit") {
    nlohmann::json more = nlohmann::json::parse(lines[1]);
    more.erase("hash");
    core::HashChain chain(lines.size() + 1, nlohmann::json::parse(lines.back()).at("hash"));
    write_file(book.file, text + chain.next(std::move(more)));
    CHECK_THROWS_WITH(read_ledger(book.file),
                      ContainsSubstring(":6: ") && ContainsSubstring("its number is not 6"));
  }
  SECTION("garbage, also deeply nested, is an error and not a crash") {
    for (const std::string& garbage :
         {std::string("{}\n"), std::string("\n"), std::string(100000, '[') + "\n",
          std::string("\0\xff\xfe\n", 4)}) {
      write_file(book.file, garbage);
      CHECK_THROWS_AS(read_ledger(book.file), IoError);
    }
  }
  SECTION("any single byte changed is noticed, or only cuts the tail") {
    for (std::size_t at = 0; at < text.size(); at += 7) {
      auto changed = text;
      changed[at] = static_cast<char>(changed[at] ^ 1);
      write_file(book.file, changed);
      bool noticed = false;
      try {
        noticed = read_ledger(book.file).torn_tail;
      } catch (const IoError&) {
        noticed = true;
      }
      REQUIRE(noticed);
    }
  }
}

TEST_CASE("a line nested deeper than any event is refused, though its hash fits", "[ledger]") {
  // The author of a ledger can make all hashes fit; 300 000 levels would overflow the stack.
  nlohmann::json deep = nlohmann::json::array();
  for (int level = 0; level < 300; ++level) deep = nlohmann::json::array({std::move(deep)});
  TempDir dir;
  CountingAccountant accountant;
  const Ledger ledger(dir.path() / "ledger.jsonl", {.target_epsilon = 1.0, .target_delta = 1e-5},
                      accountant, "test:counting", {{"deep", deep}});
  CHECK_THROWS_WITH(read_ledger(dir.path() / "ledger.jsonl"),
                    ContainsSubstring(":1: ") && ContainsSubstring("nested deeper"));
}

TEST_CASE("cut off anywhere, a ledger is readable up to the last whole line", "[ledger][privacy]") {
  Book book;
  book.ledger.charge(gaussians(0, 2, 1.0));
  const std::string text = read_file(book.file);
  for (std::size_t length = 0; length <= text.size(); ++length) {
    write_file(book.file, text.substr(0, length));
    const auto contents = read_ledger(book.file);
    const auto whole_lines = static_cast<std::size_t>(
        std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length), '\n'));
    REQUIRE(contents.releases.size() == (whole_lines == 0 ? 0 : whole_lines - 1));
    REQUIRE(contents.torn_tail == (length > 0 && text[length - 1] != '\n'));
  }
}

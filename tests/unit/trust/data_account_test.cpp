#include "privgrad/trust/data_account.hpp"

#include <fstream>
#include <thread>

#include "fake_accountant.hpp"
#include "privgrad/trust/files.hpp"
#include "sum_filter.hpp"
#include "support.hpp"

using namespace privgrad;
using core::DataAccount;

namespace {

/// By SumFilter, this event costs 1.
const Event kOne = Event::gaussian(1.0);

class AccountFile {
 public:
  explicit AccountFile(double target_epsilon) {
    DataAccount::open(path(), {.name = "patients",
                               .adjacency = Adjacency::replace_one,
                               .unit = PrivacyUnit::client,
                               .target_epsilon = target_epsilon,
                               .target_delta = 1e-6,
                               .accountant = "kind: sum"});
  }
  std::filesystem::path path() const { return dir_.path() / "account.jsonl"; }
  std::string text() const { return read_file(path()); }
  std::string reserve(const Event& cost) const {
    SumFilter filter;
    return DataAccount(path()).reserve(filter, cost, {{"name", "run"}});
  }
  void settle(const std::string& id, const Event& cost) const {
    SumFilter filter;
    DataAccount(path()).settle(filter, id, cost, "completed");
  }
  double spent() const {
    SumFilter filter;
    return DataAccount(path()).spent(filter).value;
  }

 private:
  TempDir dir_;
};

}  // namespace

TEST_CASE("an account keeps the terms that it was opened with", "[account]") {
  const AccountFile file(3.0);
  const DataAccount account(file.path());
  CHECK(account.terms().name == "patients");
  CHECK(account.terms().adjacency == Adjacency::replace_one);
  CHECK(account.terms().unit == PrivacyUnit::client);
  CHECK(account.terms().target_epsilon == 3.0);
  CHECK(account.terms().target_delta == 1e-6);
  CHECK(account.terms().accountant == "kind: sum");
  CHECK(account.entries().empty());
  CHECK_THROWS_AS(DataAccount::open(file.path(), account.terms()), IoError);
}

TEST_CASE("accounts with the same terms are told apart by their first lines",
          "[account][privacy]") {
  const AccountFile one(3.0), other(3.0);
  CHECK(DataAccount(one.path()).first_hash() != DataAccount(other.path()).first_hash());
  CHECK(DataAccount(one.path()).first_hash() == DataAccount(one.path()).first_hash());
}

TEST_CASE("an account pays while its budget lasts, and not a bit more", "[account][privacy]") {
  const AccountFile file(3.0);
  file.reserve(kOne);
  file.reserve(Event::self_composed(2, kOne));
  CHECK(file.spent() == 3.0);
  CHECK_THROWS_WITH(file.reserve(Event::gaussian(1e6)), ContainsSubstring("does not pay"));
  CHECK(file.spent() == 3.0);
}

TEST_CASE("a refused reservation leaves no line", "[account]") {
  const AccountFile file(1.0);
  const std::string before = file.text();
  CHECK_THROWS_AS(file.reserve(Event::gaussian(0.5)), PrivacyError);
  CHECK_THROWS_WITH(file.reserve(Event::laplace(1.0)), ContainsSubstring("sums Gaussians only"));
  CHECK(file.text() == before);
}

TEST_CASE("what a run did not spend comes back; a reservation that nobody settles does not",
          "[account][privacy]") {
  const AccountFile file(3.0);
  const std::string first = file.reserve(Event::self_composed(2, kOne));
  file.reserve(kOne);
  CHECK_THROWS_AS(file.reserve(kOne), PrivacyError);
  file.settle(first, kOne);
  CHECK(file.spent() == 2.0);
  file.reserve(kOne);
  CHECK_THROWS_AS(file.reserve(kOne), PrivacyError);
}

TEST_CASE("a reservation is settled once, for at most what it was", "[account][privacy]") {
  const AccountFile file(3.0);
  const std::string id = file.reserve(kOne);
  CHECK_THROWS_WITH(file.settle(id, Event::gaussian(0.9)), ContainsSubstring("for less than"));
  CHECK_THROWS_WITH(file.settle("0123", kOne), ContainsSubstring("no reservation 0123"));
  CHECK(file.spent() == 1.0);
  file.settle(id, Event::nothing());
  CHECK(file.spent() == 0.0);
  CHECK_THROWS_WITH(file.settle(id, Event::nothing()), ContainsSubstring("settled before"));
}

TEST_CASE("costs are compared at a delta that pays for none of them", "[account][privacy]") {
  /// At the deltas of accounts every event is free, which a Renyi filter states for a small cost.
  class Lenient final : public Accountant {
   public:
    void start(Adjacency adjacency) override { sum_.start(adjacency); }
    std::optional<std::string> refuses(const Event& event) const override {
      return sum_.refuses(event);
    }
    void compose(const Event& event, std::uint64_t count) override { sum_.compose(event, count); }
    PrivacyAnswer epsilon(double delta) const override {
      PrivacyAnswer answer = sum_.epsilon(delta);
      if (delta > 1e-12) answer.value = 0.0;
      return answer;
    }
    PrivacyAnswer delta(double epsilon) const override { return sum_.delta(epsilon); }
    bool is_filter() const override { return true; }

   private:
    SumFilter sum_;
  };
  const AccountFile file(3.0);
  Lenient filter;
  const std::string id = DataAccount(file.path()).reserve(filter, kOne, {{"name", "run"}});
  DataAccount account(file.path());
  CHECK_THROWS_WITH(account.settle(filter, id, Event::gaussian(0.9), "completed"),
                    ContainsSubstring("for less than"));
  account.settle(filter, id, Event::gaussian(1.1), "completed");
  CHECK(core::cost_by_filter(filter, Adjacency::replace_one, Event::gaussian(0.5)) == 4.0);
}

TEST_CASE("a reservation is given back as long as no ledger was opened on it",
          "[account][privacy]") {
  const AccountFile file(3.0);
  SumFilter filter;
  const std::string first = file.reserve(kOne), second = file.reserve(kOne);
  DataAccount late(file.path());
  CHECK(DataAccount(file.path()).give_back(filter, first));
  CHECK(file.spent() == 1.0);
  CHECK(DataAccount(file.path()).entries().front().status == "given back");
  // The run that was about to begin can no longer open a ledger on the reservation.
  CHECK_THROWS_WITH(late.begin(first, ""), ContainsSubstring("settled before"));
  CHECK_THROWS_WITH(late.give_back(filter, first), ContainsSubstring("settled before"));
  CHECK_THROWS_WITH(late.give_back(filter, "0123"), ContainsSubstring("no reservation 0123"));
  // A process that read the account before another process opened its ledger notices this.
  DataAccount early(file.path());
  late.begin(second, "");
  CHECK_FALSE(early.give_back(filter, second));
  CHECK(file.spent() == 1.0);
}

TEST_CASE("nothing comes back of a reservation whose run was resumed, whoever settles it",
          "[account][privacy]") {
  const AccountFile file(3.0);
  const std::string id = file.reserve(Event::self_composed(2, kOne));
  DataAccount original(file.path());
  original.begin(id, "these inputs");
  // The original reads the account before a copy of its state is resumed, and settles it
  // afterwards.
  DataAccount(file.path()).resume(id, "these inputs");
  SumFilter filter;
  original.settle(filter, id, kOne, "interrupted");
  CHECK(file.spent() == 2.0);
  const core::AccountEntry entry = DataAccount(file.path()).entries().front();
  CHECK(entry.resumed);
  CHECK(entry.status == "interrupted");
  // The second process finds the reservation settled, for the most that it can have released.
  DataAccount(file.path()).settle(filter, id, kOne, "completed");
  CHECK(file.spent() == 2.0);
  CHECK(DataAccount(file.path()).entries().front().status == "interrupted");
}

TEST_CASE("a reservation pays for one ledger, and once settled for nothing more",
          "[account][privacy]") {
  const AccountFile file(3.0);
  const std::string id = file.reserve(kOne);
  DataAccount copy(file.path());
  DataAccount(file.path()).begin(id, "");
  CHECK(DataAccount(file.path()).entries().front().status == "begun");
  CHECK_THROWS_WITH(copy.begin(id, ""), ContainsSubstring("another run began before"));
  DataAccount late(file.path());
  file.settle(id, Event::nothing());
  const std::string before = file.text();
  CHECK_THROWS_WITH(late.resume(id, ""), ContainsSubstring("settled before"));
  CHECK_THROWS_WITH(late.begin(id, ""), ContainsSubstring("settled before"));
  CHECK_THROWS_WITH(late.resume("0123", ""), ContainsSubstring("no reservation 0123"));
  CHECK(file.text() == before);
}

TEST_CASE("a reservation pays for no run with other inputs than the one that began with it",
          "[account][privacy]") {
  const AccountFile file(3.0);
  const std::string id = file.reserve(kOne);
  CHECK_THROWS_WITH(DataAccount(file.path()).resume(id, "these inputs"),
                    ContainsSubstring("began with other inputs"));
  DataAccount(file.path()).begin(id, "these inputs");
  const std::string before = file.text();
  CHECK_THROWS_AS(DataAccount(file.path()).resume(id, "other inputs"), PrivacyError);
  CHECK(file.text() == before);
  DataAccount(file.path()).resume(id, "these inputs");
  CHECK(DataAccount(file.path()).entries().front().resumed);
}

TEST_CASE("an accountant that is no privacy filter guards no account", "[account][privacy]") {
  const AccountFile file(3.0);
  CountingAccountant accountant;
  DataAccount account(file.path());
  CHECK_THROWS_WITH(account.reserve(accountant, kOne, {}),
                    ContainsSubstring("not a privacy filter"));
}

TEST_CASE("an account that was changed, or has lost a line in the middle, is refused",
          "[account]") {
  const AccountFile file(9.0);
  const std::string id = file.reserve(kOne);
  file.reserve(kOne);
  file.settle(id, kOne);
  const std::string text = file.text();
  std::vector<std::size_t> ends{0};
  for (std::size_t at = 0; (at = text.find('\n', at)) != text.npos; ++at) ends.push_back(at + 1);
  REQUIRE(ends.size() == 5);
  for (std::size_t line = 0; line + 2 < ends.size(); ++line) {
    write_file(file.path(), text.substr(0, ends[line]) + text.substr(ends[line + 1]));
    CHECK_THROWS_AS(DataAccount(file.path()), IoError);
  }
  for (const char* from : {"patients", "\"target_epsilon\":9.0", "\"noise_multiplier\":1.0"}) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    REQUIRE(at != changed.npos);
    changed[at + std::string_view(from).size() - 2] ^= 1;
    write_file(file.path(), changed);
    CHECK_THROWS_AS(DataAccount(file.path()), IoError);
  }
}

TEST_CASE("a line that was cut off counts for nothing and is overwritten", "[account]") {
  const AccountFile file(2.0);
  file.reserve(kOne);
  const std::string whole = file.text();
  file.reserve(kOne);
  const std::string more = file.text();
  for (const std::size_t kept : {whole.size() + 1, more.size() - 1}) {
    write_file(file.path(), more.substr(0, kept));
    CHECK(file.spent() == 1.0);
    file.reserve(kOne);
    CHECK(file.spent() == 2.0);
    CHECK_THROWS_AS(file.reserve(kOne), PrivacyError);
  }
}

TEST_CASE("threads that reserve at once never overdraw an account", "[account][privacy]") {
  for (int race = 0; race < 20; ++race) {
    const AccountFile file(3.0);
    std::atomic<int> paid = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; ++i) {
      threads.emplace_back([&] {
        try {
          file.reserve(kOne);
          ++paid;
        } catch (const PrivacyError&) {
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(paid == 3);
    CHECK(file.spent() == 3.0);
  }
}

TEST_CASE("a file that is being appended to says so", "[account]") {
  const TempDir dir;
  const auto file = dir.path() / "ledger.jsonl";
  {
    const core::AppendOnlyFile writer(file);
    CHECK(core::is_being_written(file));
  }
  CHECK_FALSE(core::is_being_written(file));
}

#include "privgrad/trust/data_account.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <system_error>
#include <thread>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/trust/chained_line.hpp"
#include "privgrad/trust/checked_answer.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/hash_chain.hpp"
#include "privgrad/trust/random_key.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLargestAccount = std::uint64_t{1} << 30;
/// The holder of the lock reads, asks the filter and writes a line; a longer wait means a fault.
constexpr auto kLongestWait = std::chrono::seconds(120);
/// After this time a wait is reported.
constexpr auto kLongWait = std::chrono::seconds(1);

std::function<void(const std::filesystem::path&)>& teller() {
  static std::function<void(const std::filesystem::path&)> tell;
  return tell;
}

std::string last_error() { return std::generic_category().message(errno); }

std::string new_id() {
  std::array<unsigned char, 16> bytes{};
  randombytes_buf(bytes.data(), bytes.size());
  std::array<char, 2 * bytes.size() + 1> hex{};
  return sodium_bin2hex(hex.data(), hex.size(), bytes.data(), bytes.size());
}

PrivacyUnit unit_from_text(const std::string& text) {
  for (const PrivacyUnit unit : {PrivacyUnit::example, PrivacyUnit::client}) {
    if (text == to_text(unit)) return unit;
  }
  throw IoError("the unit is '" + text + "'");
}

Event event_of(const Json& line) { return event_from_json(line.at("event").dump(), "its event"); }

void check_terms(const AccountTerms& terms) {
  if (!(terms.target_epsilon > 0.0 && std::isfinite(terms.target_epsilon))) {
    throw ConfigError("the account's target epsilon is " + format_number(terms.target_epsilon) +
                      ", expected a finite number above 0");
  }
  if (!(terms.target_delta > 0.0 && terms.target_delta < 1.0)) {
    throw ConfigError("the account's target delta is " + format_number(terms.target_delta) +
                      ", allowed is (0, 1)");
  }
}

/// \throws PrivacyError unless the accountant is valid for events that are chosen adaptively.
void check_filter(const Accountant& filter) {
  if (!filter.is_filter()) {
    throw PrivacyError(
        "the account's accountant is not a privacy filter, so it cannot guard runs that are chosen "
        "from earlier ones");
  }
}

}  // namespace

double cost_by_filter(Accountant& filter, Adjacency adjacency, const Event& event) {
  constexpr double kDelta = 1e-15;
  filter.start(adjacency);
  filter.compose(event, 1);
  return checked_guard(filter.epsilon(kDelta), "the account's accountant").value;
}

/// The opened file under a lock: for reading, it excludes writers; for writing, readers as well.
class DataAccount::Lock {
 public:
  enum class For { reading, writing };

  Lock(const std::filesystem::path& file, For what) : file_(file), what_(what) {
    // O_NONBLOCK: opening a pipe does not wait. Only plain files are read.
    descriptor_ =
        ::open(file.c_str(), (what == For::reading ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0)
      fail(what == For::reading ? "cannot be read" : "cannot be opened for writing");
    try {
      struct stat status {};
      if (::fstat(descriptor_, &status) != 0) fail("cannot be inspected");
      if (!S_ISREG(status.st_mode)) throw IoError(file.string() + ": is not a plain file");
      if (static_cast<std::uint64_t>(status.st_size) > kLargestAccount) {
        throw IoError(file.string() + ": is longer than " + std::to_string(kLargestAccount) +
                      " bytes; open a new account for what is left");
      }
      wait();
    } catch (...) {
      ::close(descriptor_);
      throw;
    }
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { ::close(descriptor_); }  // also unlocks the file

  std::string content() const {
    std::string text;
    std::array<char, 1 << 16> part{};
    for (;;) {
      const ssize_t got =
          ::pread(descriptor_, part.data(), part.size(), static_cast<off_t>(text.size()));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("cannot be read");
      if (got == 0) return text;
      text.append(part.data(), static_cast<std::size_t>(got));
    }
  }

  /// Writes a line after the complete lines, replacing one that a crash truncated, and returns once
  /// it is on the disk.
  void write(std::uint64_t at, std::string_view line) const {
    std::size_t written = 0;
    bool is_whole = ::ftruncate(descriptor_, static_cast<off_t>(at)) == 0;
    while (is_whole && written < line.size()) {
      const ssize_t put = ::pwrite(descriptor_, line.data() + written, line.size() - written,
                                   static_cast<off_t>(at + written));
      if (put < 0 && errno == EINTR) continue;
      is_whole = put >= 0;
      if (is_whole) written += static_cast<std::size_t>(put);
    }
    if (is_whole && ::fdatasync(descriptor_) == 0) return;
    const int why = errno;
    // If this fails, readers still ignore the truncated line.
    [[maybe_unused]] const int ignored = ::ftruncate(descriptor_, static_cast<off_t>(at));
    errno = why;
    fail("cannot be written");
  }

 private:
  void wait() const {
    const auto begun = std::chrono::steady_clock::now();
    bool is_told = false;
    while (::flock(descriptor_, (what_ == For::reading ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) fail("cannot be locked");
      const auto waited = std::chrono::steady_clock::now() - begun;
      if (!is_told && waited > kLongWait && teller()) teller()(file_);
      is_told = waited > kLongWait;
      if (waited > kLongestWait)
        throw IoError(file_.string() +
                      ": is locked by another process; a stopped process keeps its lock until it "
                      "continues or ends");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  [[noreturn]] void fail(const char* what) const {
    throw IoError(file_.string() + ": the account " + what + ": " + last_error());
  }

  const std::filesystem::path& file_;
  For what_;
  int descriptor_ = -1;
};

std::string utc_day(std::time_t time) {
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts)};
}

void DataAccount::open(const std::filesystem::path& file, const AccountTerms& terms) {
  check_terms(terms);
  HashChain chain;
  AppendOnlyFile out(file);
  out.append(chain.next({{"type", "open"},
                         {"account", 1},
                         // This distinguishes two accounts with the same terms.
                         {"id", RandomKey::from_operating_system().public_hex()},
                         {"opened_on", utc_day(std::time(nullptr))},
                         {"name", terms.name},
                         {"adjacency", to_text(terms.adjacency)},
                         {"unit", to_text(terms.unit)},
                         {"target_epsilon", terms.target_epsilon},
                         {"target_delta", terms.target_delta},
                         {"accountant", terms.accountant}}));
  out.flush_to_disk();
}

void DataAccount::on_waiting(std::function<void(const std::filesystem::path&)> tell) {
  teller() = std::move(tell);
}

DataAccount::DataAccount(std::filesystem::path file) : file_(std::move(file)) {
  Lock lock(file_, Lock::For::reading);
  read(lock);
}

void DataAccount::read(Lock& lock) {
  const ChainedLines read = read_chain(lock.content(), file_.string());
  if (read.lines.empty())
    throw IoError(file_.string() + ": is not an account: it has no first line");
  entries_.clear();
  for (const ChainedLine& line : read.lines) {
    try {
      add(line.json);
    } catch (const std::exception& problem) {
      throw IoError(file_.string() + ":" + line.json.at("line").dump() +
                    ": is not a line of an account: " + problem.what());
    }
  }
  lines_ = read.lines.size();
  whole_bytes_ = read.whole_bytes;
  first_hash_ = read.lines.front().hash;
  last_hash_ = read.lines.back().hash;
}

void DataAccount::add(const Json& line) {
  const auto& type = line.at("type").get_ref<const std::string&>();
  const bool is_first = line.at("line") == 1;
  if (is_first != (type == "open")) throw IoError("type '" + type + "' out of place");
  if (is_first) {
    if (line.at("account") != 1) throw IoError("a version that this program does not know");
    terms_ = {.name = line.at("name"),
              .adjacency = adjacency_from_text(line.at("adjacency").get<std::string>()),
              .unit = unit_from_text(line.at("unit")),
              .target_epsilon = line.at("target_epsilon"),
              .target_delta = line.at("target_delta"),
              .accountant = line.at("accountant")};
    check_terms(terms_);
    opened_on_ = line.value("opened_on", "");
  } else if (type == "reserve") {
    entries_.push_back({.id = line.at("id"),
                        .run = line.at("run"),
                        .reserved = event_of(line),
                        .settled = {},
                        .status = "reserved"});
  } else if (type == "begin") {
    mark_begun(line.at("id"), line.at("bound"));
  } else if (type == "resume") {
    mark_resumed(line.at("id"));
  } else if (type == "settle") {
    AccountEntry& entry = open_entry(line.at("id"));
    entry.settled = event_of(line);
    entry.status = line.at("status");
  } else {
    throw IoError("no such type '" + type + "'");
  }
}

AccountEntry& DataAccount::open_entry(const std::string& id) {
  const auto entry =
      std::ranges::find_if(entries_, [&](const AccountEntry& one) { return one.id == id; });
  if (entry == entries_.end())
    throw PrivacyError(file_.string() + ": there is no reservation " + id);
  if (entry->settled) {
    throw PrivacyError(file_.string() + ": reservation " + id + " was settled before, as " +
                       entry->status);
  }
  return *entry;
}

void DataAccount::mark_begun(const std::string& id, const std::string& bound) {
  AccountEntry& entry = open_entry(id);
  if (entry.begun) {
    throw PrivacyError(file_.string() + ": another run began before on reservation " + id +
                       ", of which this one is a copy");
  }
  entry.begun = true;
  entry.bound = bound;
  entry.status = "begun";
}

void DataAccount::mark_resumed(const std::string& id) {
  AccountEntry& entry = open_entry(id);
  entry.resumed = true;
  entry.status = "resumed";
}

PrivacyAnswer DataAccount::spent(Accountant& filter, const Event& more) const {
  check_filter(filter);
  filter.start(terms_.adjacency);
  for (const AccountEntry& entry : entries_) filter.compose(entry.cost(), 1);
  filter.compose(more, 1);
  return checked_guard(filter.epsilon(terms_.target_delta), "the account's accountant");
}

void DataAccount::append(Lock& lock, Json line) {
  HashChain chain(lines_, last_hash_);
  const std::string text = chain.next(std::move(line));
  lock.write(whole_bytes_, text);
  whole_bytes_ += text.size();
  lines_ = chain.lines();
  last_hash_ = chain.last_hash();
}

std::string DataAccount::reserve(Accountant& filter, const Event& cost, const Json& run) {
  Lock lock(file_, Lock::For::writing);
  read(lock);
  const PrivacyAnswer with = spent(filter, cost);
  if (!(with.value <= terms_.target_epsilon)) {
    const double before = spent(filter).value;
    throw PrivacyError("the account " + file_.string() + " does not pay for this run: with " +
                       std::to_string(entries_.size()) + " earlier ones (epsilon " +
                       format_number(before) + ") it would have spent epsilon " +
                       format_number(with.value) + " of " + format_number(terms_.target_epsilon) +
                       " at delta " + format_number(terms_.target_delta));
  }
  AccountEntry entry{
      .id = new_id(), .run = run, .reserved = cost, .settled = {}, .status = "reserved"};
  append(lock, {{"type", "reserve"},
                {"id", entry.id},
                {"run", run},
                {"event", to_json(cost)},
                {"epsilon", json_number(with.value)}});
  entries_.push_back(std::move(entry));
  return entries_.back().id;
}

void DataAccount::begin(const std::string& id, const std::string& bound) {
  Lock lock(file_, Lock::For::writing);
  read(lock);
  mark_begun(id, bound);
  append(lock, {{"type", "begin"}, {"id", id}, {"bound", bound}});
}

void DataAccount::resume(const std::string& id, const std::string& bound) {
  Lock lock(file_, Lock::For::writing);
  read(lock);
  const AccountEntry& entry = open_entry(id);
  if (entry.bound != bound) {
    throw PrivacyError(file_.string() + ": reservation " + id +
                       " pays for a run that began with other inputs; this one is another run");
  }
  // A client's program may begin anew for each round.
  if (entry.resumed) return;
  mark_resumed(id);
  append(lock, {{"type", "resume"}, {"id", id}});
}

bool DataAccount::give_back(Accountant& filter, const std::string& id) {
  check_filter(filter);
  Lock lock(file_, Lock::For::writing);
  read(lock);
  AccountEntry& entry = open_entry(id);
  if (entry.begun || entry.resumed) return false;
  settle_under(lock, filter, entry, Event::nothing(), "given back");
  return true;
}

void DataAccount::settle(Accountant& filter, const std::string& id, const Event& cost,
                         const std::string& status) {
  check_filter(filter);
  Lock lock(file_, Lock::For::writing);
  read(lock);
  // This run, before it was killed, or a copy of the resumed run has settled the reservation in
  // full, which also pays for the releases of this copy.
  const auto in_full = [&](const AccountEntry& one) {
    return one.id == id && one.settled == one.reserved && (one.resumed || cost == one.reserved);
  };
  if (std::ranges::any_of(entries_, in_full)) return;
  AccountEntry& entry = open_entry(id);
  if (cost_by_filter(filter, terms_.adjacency, cost) >
      cost_by_filter(filter, terms_.adjacency, entry.reserved)) {
    throw PrivacyError(file_.string() + ": reservation " + id + " is for less than was spent");
  }
  settle_under(lock, filter, entry, entry.resumed ? entry.reserved : cost, status);
}

void DataAccount::settle_under(Lock& lock, Accountant& filter, AccountEntry& entry,
                               const Event& cost, const std::string& status) {
  const AccountEntry before = entry;
  entry.settled = cost;
  entry.status = status;
  try {
    const double epsilon = spent(filter).value;
    append(lock, {{"type", "settle"},
                  {"id", entry.id},
                  {"event", to_json(*entry.settled)},
                  {"status", status},
                  {"epsilon", json_number(epsilon)}});
  } catch (...) {
    entry = before;
    throw;
  }
}

}  // namespace privgrad::core

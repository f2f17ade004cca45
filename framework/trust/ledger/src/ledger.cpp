#include "privgrad/trust/ledger.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <string_view>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/trust/chained_line.hpp"
#include "privgrad/trust/checked_answer.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/ledger_reader.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kMostBytes = std::size_t{4} << 30;  // a release takes some 500 bytes

/// Returns the recorded epsilon if it could be another processor's result for the same events,
/// otherwise the proved one.
double as_recorded(double proved, const nlohmann::json& recorded) {
  if (!recorded.is_number()) return proved;
  const double other = recorded.get<double>();
  const bool are_near = std::isfinite(other) && std::isfinite(proved) &&
                        std::abs(other - proved) <= kOfProcessors * std::max(other, proved);
  return are_near ? other : proved;
}

}  // namespace

Ledger::Ledger(const std::filesystem::path& file, Budget budget, Accountant& accountant,
               std::string accountant_name, const nlohmann::json& facts)
    : budget_(budget),
      accountant_(accountant),
      accountant_name_(std::move(accountant_name)),
      spent_(ask()),
      file_(file) {
  file_.append(chain_.next(first_line(facts)));
  file_.flush_to_disk();
  first_hash_ = chain_.last_hash();
}

nlohmann::json Ledger::first_line(const nlohmann::json& facts) const {
  nlohmann::json line = facts;
  line["type"] = "open";
  line["accountant"] = accountant_name_;
  line["target_epsilon"] =
      budget_.target_epsilon ? nlohmann::json(*budget_.target_epsilon) : nullptr;
  line["target_delta"] = budget_.target_delta;
  return line;
}

Ledger::Ledger(const std::filesystem::path& file, Budget budget, Accountant& accountant,
               std::string accountant_name, const nlohmann::json& facts,
               const LedgerReopening& again)
    : budget_(budget),
      accountant_(accountant),
      accountant_name_(std::move(accountant_name)),
      file_(file, again.at.bytes) {
  const std::string text = read_beginning(file, again.at.bytes);
  const std::string first = chain_.next(first_line(facts));
  if (!text.starts_with(first)) {
    throw PrivacyError(file.string() +
                       ":1: the ledger was opened for another manifest, plugin set, data set or "
                       "program than the one that resumes it");
  }
  first_hash_ = chain_.last_hash();
  // The machine that made the plan proved that it is within the budget; another processor may
  // compute an epsilon with different last bits. Only this ledger bounds noise that is chosen
  // during the run, so there the target stays exact: such runs need a filter, whose answers are the
  // same on every processor.
  if (budget_.target_epsilon && !accountant_.is_filter())
    *budget_.target_epsilon *= 1.0 + kOfProcessors;
  nlohmann::json last_epsilon;
  try {
    last_epsilon = take_up(std::string_view(text).substr(first.size()), again);
  } catch (const nlohmann::json::exception& problem) {
    throw IoError(file.string() + ": the ledger cannot be continued: " + problem.what());
  } catch (const ConfigError& problem) {
    throw IoError(file.string() + ": the ledger cannot be continued: " + problem.what());
  } catch (const IoError& problem) {
    throw IoError(file.string() + ":" + std::to_string(chain_.lines() + 1) +
                  ": the ledger cannot be continued: " + problem.what());
  }
  if (!again.may_repeat && !file_.ahead().empty()) {
    throw PrivacyError(
        file.string() +
        ": holds charges from after the checkpoint, for steps that this run cannot repeat with the "
        "same bits: repeating them would be a second release, which the budget does not pay for");
  }
  spent_ = ask();
  if (!last_epsilon.is_null()) spent_.value = as_recorded(spent_.value, last_epsilon);
}

/// Reads and composes the lines after the first one, up to the checkpoint.
/// \returns the last line's epsilon; null if there is none.
nlohmann::json Ledger::take_up(std::string_view text, const LedgerReopening& again) {
  nlohmann::json last_epsilon;
  std::deque<Receipt> last;  // the last steps, at most as many as are in hand
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) throw IoError("the checkpoint ends within a line");
    const std::uint64_t number = chain_.lines() + 1;
    ChainedLine line = parse_chained_line(text.substr(0, end), number, chain_.last_hash());
    if (line.json.at("type") != "release") throw IoError("a line that is not a release");
    last_epsilon = line.json.at("epsilon");
    const auto event = [&](const char* key) {
      return event_from_json(line.json.at(key).dump(), "line " + std::to_string(number));
    };
    accountant_.compose(event("event"), 1);
    ++releases_;
    if (again.in_hand > 0 && !line.json.contains("what")) {
      if (last.size() == again.in_hand) last.pop_front();
      last.push_back(Receipt(line.json.at("step").get<std::uint64_t>(), event("release")));
    }
    chain_ = HashChain(number, std::move(line.hash));
    text.remove_prefix(end + 1);
  }
  if (chain_.lines() != again.at.lines || chain_.last_hash() != again.at.last_hash)
    throw IoError("it is not the one that the checkpoint belongs to");
  if (last.size() < again.in_hand) throw IoError("more receipts are in hand than were charged");
  std::move(last.begin(), last.end(), std::back_inserter(in_hand_));
  return last_epsilon;
}

/// Even without a target the answer is published as a proof, so an estimate is refused.
PrivacyAnswer Ledger::ask() const {
  PrivacyAnswer answer = checked_guard(accountant_.epsilon(budget_.target_delta), accountant_name_);
  return budget_.charges_are_bounds ? of_charges_that_are_bounds(std::move(answer)) : answer;
}

std::vector<Receipt> Ledger::charge(std::span<const Charge> charges) {
  if (broken_) throw IoError("the ledger failed before and accepts no further charge");
  if (exhausted_ || charges.empty()) return {};
  broken_ = true;  // cleared once everything below has succeeded
  // Steps that the first step of their epoch has paid for do not change the total.
  const bool costs = std::ranges::any_of(
      charges, [](const Charge& charge) { return !(charge.cost == Event::nothing()); });
  for (const Charge& charge : charges) accountant_.compose(charge.cost, 1);
  PrivacyAnswer spent = costs ? as_ahead(ask()) : spent_;
  if (budget_.target_epsilon && spent.value > *budget_.target_epsilon) {
    exhausted_ = true;
    broken_ = false;
    return {};
  }
  std::string lines;
  std::vector<Receipt> receipts;
  receipts.reserve(charges.size());
  for (const Charge& charge : charges) {
    nlohmann::json line{{"type", "release"},
                        {"step", charge.step},
                        {"release", to_json(charge.release)},
                        {"event", to_json(charge.cost)},
                        {"epsilon", json_number(spent.value)},
                        {"delta", budget_.target_delta},
                        {"bound", to_text(spent.bound)}};
    if (!charge.what.empty()) line["what"] = charge.what;
    lines += chain_.next(std::move(line));
    receipts.push_back(Receipt(charge.step, charge.release));
  }
  file_.append(lines);
  file_.flush_to_disk();
  spent_ = std::move(spent);
  releases_ += receipts.size();
  broken_ = false;
  return receipts;
}

/// Returns `spent` with the epsilon of the next line in the file, which another processor may have
/// proved: the events, not the epsilon, determine the payment.
PrivacyAnswer Ledger::as_ahead(PrivacyAnswer spent) const {
  const std::string_view ahead = file_.ahead();
  const std::size_t end = ahead.find('\n');
  if (end == ahead.npos) return spent;
  const auto line = nlohmann::json::parse(ahead.substr(0, end), nullptr, false);
  if (line.is_object() && line.contains("epsilon"))
    spent.value = as_recorded(spent.value, line["epsilon"]);
  return spent;
}

void Ledger::close(const std::string& status, std::uint64_t steps_done,
                   const nlohmann::json& files) {
  file_.append(chain_.next({{"type", "close"},
                            {"status", status},
                            {"steps_done", steps_done},
                            {"releases_charged", releases_},
                            {"files", files},
                            {"epsilon", json_number(spent_.value)},
                            {"delta", budget_.target_delta}}));
  file_.flush_to_disk();
  if (!file_.ahead().empty())
    throw PrivacyError("the ledger has lines after the last line that was repeated");
}

void Ledger::close(const std::string& status, std::uint64_t steps_done) {
  close(status, steps_done, nlohmann::json::object());
}

namespace {

/// Reads lines one by one, and checks each against its predecessor.
class LedgerParser {
 public:
  explicit LedgerParser(const std::string& name) : name_(name) {}

  void add(std::string_view line) {
    ++number_;
    try {
      ChainedLine parsed = parse_chained_line(line, number_, contents.last_hash);
      take(std::move(parsed.json));
      if (number_ == 1) contents.first_hash = parsed.hash;
      contents.last_hash = std::move(parsed.hash);
    } catch (const nlohmann::json::exception& problem) {
      throw broken(problem.what());
    } catch (const IoError& problem) {
      throw broken(problem.what());
    }
  }

  LedgerContents contents;

 private:
  IoError broken(const std::string& what) const {
    return IoError(name_ + ":" + std::to_string(number_) + ": the ledger is broken here: " + what);
  }

  void take(nlohmann::json json) {
    const auto type = json.at("type").get<std::string>();
    if ((number_ == 1) != (type == "open") || contents.status)
      throw IoError("a line of type '" + type + "' out of place");
    if (type == "open") {
      contents.facts = std::move(json);
    } else if (type == "release") {
      contents.releases.push_back(release_of(json));
    } else if (type == "close") {
      contents.status = json.at("status").get<std::string>();
      contents.close = std::move(json);
    } else {
      throw IoError("no such type '" + type + "'");
    }
  }

  static LedgerContents::Release release_of(const nlohmann::json& json) {
    const auto& epsilon = json.at("epsilon");
    return {json.at("step").get<std::uint64_t>(),
            json.at("event"),
            epsilon.is_null() ? std::numeric_limits<double>::infinity() : epsilon.get<double>(),
            json.value("what", std::string()),
            json.value("release", nlohmann::json()),
            json.value("delta", nlohmann::json()),
            json.value("bound", nlohmann::json())};
  }

  std::string name_;
  std::uint64_t number_ = 0;
};

}  // namespace

LedgerContents parse_ledger(std::string_view text, const std::string& name) {
  LedgerParser parser(name);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) {  // the write was interrupted before the flush: nothing was released
      parser.contents.torn_tail = true;
      break;
    }
    parser.add(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return std::move(parser.contents);
}

LedgerContents read_ledger(const std::filesystem::path& file) {
  return parse_ledger(read_whole(file, kMostBytes), file.string());
}

}  // namespace privgrad::core

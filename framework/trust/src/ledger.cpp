#include "privgrad/trust/ledger.hpp"

#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/trust/checked_answer.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/json_depth.hpp"
#include "privgrad/trust/ledger_reader.hpp"
#include "privgrad/trust/sha256.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kHashLength = 64;
constexpr int kDeepestLine = 256;  // the JSON of an event is at most 192 deep
constexpr std::string_view kHashKey = ",\"hash\":\"";

/// The line without its own hash, if it ends as every line of a ledger does.
std::optional<std::pair<std::string, std::string>> split_hash(std::string_view line) {
  const std::size_t tail = kHashKey.size() + kHashLength + 2;  // ,"hash":"..."}
  if (line.size() <= tail || !line.ends_with("\"}")) return std::nullopt;
  const std::string_view key = line.substr(line.size() - tail, kHashKey.size());
  if (key != kHashKey) return std::nullopt;
  return std::pair{std::string(line.substr(0, line.size() - tail)) + "}",
                   std::string(line.substr(line.size() - kHashLength - 2, kHashLength))};
}

}  // namespace

Ledger::Ledger(const std::filesystem::path& file, Budget budget, Accountant& accountant,
               std::string accountant_name, const nlohmann::json& facts)
    : budget_(budget),
      accountant_(accountant),
      accountant_name_(std::move(accountant_name)),
      spent_(ask()),
      file_(file) {
  nlohmann::json line = facts;
  line["type"] = "open";
  line["accountant"] = accountant_name_;
  line["target_epsilon"] = budget.target_epsilon ? nlohmann::json(*budget.target_epsilon) : nullptr;
  line["target_delta"] = budget.target_delta;
  file_.append(next_line(std::move(line)));
  file_.flush_to_disk();
  first_hash_ = last_hash_;
}

std::string Ledger::next_line(nlohmann::json line) {
  line["line"] = ++lines_;
  line["previous"] = last_hash_;
  std::string text = line.dump();
  last_hash_ = sha256_hex(text);
  text.pop_back();
  return text.append(kHashKey).append(last_hash_).append("\"}\n");
}

/// Without a target the answer is a statement all the same, and an estimate makes none.
PrivacyAnswer Ledger::ask() const {
  PrivacyAnswer answer = checked_guard(accountant_.epsilon(budget_.target_delta), accountant_name_);
  return budget_.charges_are_bounds ? of_charges_that_are_bounds(std::move(answer)) : answer;
}

std::vector<Receipt> Ledger::charge(std::span<const Charge> charges) {
  if (broken_) throw IoError("the ledger failed before and accepts no further charge");
  if (exhausted_ || charges.empty()) return {};
  broken_ = true;  // until everything below has succeeded
  for (const Charge& charge : charges) accountant_.compose(charge.cost, 1);
  PrivacyAnswer spent = ask();
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
    lines += next_line(std::move(line));
    receipts.push_back(Receipt(charge.step, charge.release));
  }
  file_.append(lines);
  file_.flush_to_disk();
  spent_ = std::move(spent);
  releases_ += receipts.size();
  broken_ = false;
  return receipts;
}

void Ledger::close(const std::string& status, std::uint64_t steps_done,
                   const nlohmann::json& files) {
  file_.append(next_line({{"type", "close"},
                          {"status", status},
                          {"steps_done", steps_done},
                          {"releases_charged", releases_},
                          {"files", files},
                          {"epsilon", json_number(spent_.value)},
                          {"delta", budget_.target_delta}}));
  file_.flush_to_disk();
}

void Ledger::close(const std::string& status, std::uint64_t steps_done) {
  close(status, steps_done, nlohmann::json::object());
}

namespace {

/// Takes lines in, one by one, and checks what each says of the one before it.
class LedgerParser {
 public:
  explicit LedgerParser(const std::string& name) : name_(name) {}

  void add(std::string_view line) {
    ++number_;
    const auto parts = split_hash(line);
    if (!parts) throw broken("the line does not end in its hash");
    if (sha256_hex(parts->first) != parts->second)
      throw broken("the line was changed, its hash does not fit");
    if (nested_deeper_than(kDeepestLine, parts->first))
      throw broken("the line is nested deeper than " + std::to_string(kDeepestLine));
    nlohmann::json json = nlohmann::json::parse(parts->first, nullptr, false);
    if (json.is_discarded()) throw broken("the line is no JSON");
    try {
      take(std::move(json));
    } catch (const nlohmann::json::exception& problem) {
      throw broken(problem.what());
    }
    if (number_ == 1) contents.first_hash = parts->second;
    contents.last_hash = parts->second;
  }

  LedgerContents contents;

 private:
  IoError broken(const std::string& what) const {
    return IoError(name_ + ":" + std::to_string(number_) + ": the ledger is broken here: " + what);
  }

  void take(nlohmann::json json) {
    if (json.at("previous") != contents.last_hash)
      throw broken("a line before it was dropped, inserted or moved");
    if (json.at("line") != number_) throw broken("its number is not " + std::to_string(number_));
    const auto type = json.at("type").get<std::string>();
    if ((number_ == 1) != (type == "open") || contents.status)
      throw broken("a line of type '" + type + "' out of place");
    if (type == "open") {
      contents.facts = std::move(json);
    } else if (type == "release") {
      contents.releases.push_back(release_of(json));
    } else if (type == "close") {
      contents.status = json.at("status").get<std::string>();
      contents.close = std::move(json);
    } else {
      throw broken("no such type '" + type + "'");
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
    if (end == text.npos) {  // no line end: the write was cut off before the flush, so nothing was
                             // released
      parser.contents.torn_tail = true;
      break;
    }
    parser.add(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return std::move(parser.contents);
}

LedgerContents read_ledger(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw IoError(file.string() + ": cannot be read");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return parse_ledger(text, file.string());
}

}  // namespace privgrad::core

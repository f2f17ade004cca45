#include "privgrad/trust/ledger.hpp"

#include <sodium.h>

#include <array>
#include <string_view>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/trust/checked_answer.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/json_depth.hpp"
#include "privgrad/trust/ledger_reader.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

constexpr std::size_t kHashLength = 64;
constexpr int kDeepestLine = 256;  // the JSON of an event is at most 192 deep
constexpr std::size_t kMostBytes = std::size_t{4} << 30;  // some 500 for each release
constexpr std::string_view kHashKey = ",\"hash\":\"";

std::string sha256(std::string_view text) {
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256(digest.data(), reinterpret_cast<const unsigned char*>(text.data()),
                     text.size());
  std::array<char, kHashLength + 1> hex{};
  return sodium_bin2hex(hex.data(), hex.size(), digest.data(), digest.size());
}

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
}

std::string Ledger::next_line(nlohmann::json line) {
  line["line"] = ++lines_;
  line["previous"] = last_hash_;
  std::string text = line.dump();
  last_hash_ = sha256(text);
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

void Ledger::close(const std::string& status, std::uint64_t steps_done) {
  file_.append(next_line({{"type", "close"},
                          {"status", status},
                          {"steps_done", steps_done},
                          {"releases_charged", releases_},
                          {"epsilon", json_number(spent_.value)},
                          {"delta", budget_.target_delta}}));
  file_.flush_to_disk();
}

LedgerContents read_ledger(const std::filesystem::path& file) {
  const std::string text = read_whole(file, kMostBytes);
  LedgerContents contents;
  std::string previous;
  std::uint64_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == text.npos) {  // no line end: the write was cut off before the flush, so nothing was
                             // released
      contents.torn_tail = true;
      break;
    }
    ++number;
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    const auto broken = [&](const std::string& what) -> IoError {
      return IoError(file.string() + ":" + std::to_string(number) +
                     ": the ledger is broken here: " + what);
    };
    const auto parts = split_hash(line);
    if (!parts) throw broken("the line does not end in its hash");
    if (sha256(parts->first) != parts->second)
      throw broken("the line was changed, its hash does not fit");
    if (nested_deeper_than(kDeepestLine, parts->first))
      throw broken("the line is nested deeper than " + std::to_string(kDeepestLine));
    const nlohmann::json json = nlohmann::json::parse(parts->first, nullptr, false);
    if (json.is_discarded()) throw broken("the line is no JSON");
    try {
      if (json.at("previous") != previous)
        throw broken("a line before it was dropped, inserted or moved");
      if (json.at("line") != number) throw broken("its number is not " + std::to_string(number));
      const auto& type = json.at("type").get_ref<const std::string&>();
      if ((number == 1) != (type == "open") || contents.status)
        throw broken("a line of type '" + type + "' out of place");
      if (type == "open") {
        contents.facts = json;
      } else if (type == "release") {
        const auto& epsilon = json.at("epsilon");
        contents.releases.push_back(
            {json.at("step").get<std::uint64_t>(), json.at("event"),
             epsilon.is_null() ? std::numeric_limits<double>::infinity() : epsilon.get<double>(),
             json.value("what", std::string())});
      } else if (type == "close") {
        contents.status = json.at("status").get<std::string>();
      } else {
        throw broken("no such type '" + type + "'");
      }
    } catch (const nlohmann::json::exception& problem) {
      throw broken(problem.what());
    }
    previous = parts->second;
  }
  return contents;
}

}  // namespace privgrad::core

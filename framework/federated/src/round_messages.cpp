#include "round_messages.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "privgrad/error.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {
namespace {

constexpr const char* kOrder = "privgrad order";
constexpr const char* kAnswer = "privgrad answer";
constexpr const char* kFarewell = "privgrad farewell";

constexpr RunStatus kEnds[] = {RunStatus::completed, RunStatus::budget_exhausted,
                               RunStatus::interrupted, RunStatus::diverged};

void check_version(StateReader& in) {
  const std::uint64_t version = in.word();
  if (version == kRoundProtocol) return;
  throw ConfigError("is of version " + std::to_string(version) +
                    " of the messages of a round, this "
                    "program knows " +
                    std::to_string(kRoundProtocol));
}

/// Reads what anybody may have written.
template <class Read>
auto read_message(const std::string& text, const char* what, const Read& read) {
  try {
    StateReader in(text, what);
    in.begin(what);
    check_version(in);
    auto message = read(in);
    in.end();
    return message;
  } catch (const IoError& problem) {
    throw ConfigError(problem.what());
  } catch (const ConfigError& problem) {
    throw ConfigError(std::string(what) + ": " + problem.what());
  }
}

}  // namespace

std::string RemoteOrder::text() const {
  StateWriter out;
  out.begin(kOrder);
  out.word(kRoundProtocol);
  out.bytes(run);
  out.bytes(ground);
  for (const std::uint64_t number : {client, round, steps}) out.word(number);
  out.word(first_step ? 1 : 0);
  out.word(first_step.value_or(0));
  out.array(model);
  return out.text();
}

RemoteOrder RemoteOrder::of(const std::string& text) {
  return read_message(text, kOrder, [](StateReader& in) {
    RemoteOrder order;
    order.run = in.bytes();
    order.ground = in.bytes();
    for (std::uint64_t* number : {&order.client, &order.round, &order.steps}) *number = in.word();
    const bool has_first = in.word() == 1;
    const std::uint64_t first = in.word();
    if (has_first) order.first_step = first;
    order.model = in.array<float>();
    return order;
  });
}

std::string RemoteFarewell::text() const {
  StateWriter out;
  out.begin(kFarewell);
  out.word(kRoundProtocol);
  out.bytes(run);
  out.bytes(ground);
  out.word(client);
  out.bytes(std::string(to_text(status)));
  return out.text();
}

bool RemoteFarewell::begins(const std::string& text) {
  StateWriter out;
  out.begin(kFarewell);
  return text.starts_with(out.text());
}

RemoteFarewell RemoteFarewell::of(const std::string& text) {
  return read_message(text, kFarewell, [](StateReader& in) {
    RemoteFarewell farewell;
    farewell.run = in.bytes();
    farewell.ground = in.bytes();
    farewell.client = in.word();
    const std::string said = in.bytes();
    const auto* const end = std::find_if(std::begin(kEnds), std::end(kEnds),
                                         [&](RunStatus status) { return to_text(status) == said; });
    if (end == std::end(kEnds)) throw ConfigError("has a status that no run ends with");
    farewell.status = *end;
    return farewell;
  });
}

std::string RemoteAnswer::text() const {
  StateWriter out;
  out.begin(kAnswer);
  out.word(kRoundProtocol);
  out.bytes(run);
  out.bytes(ground);
  for (const std::uint64_t number : {client, round, steps_done, estimates_made}) out.word(number);
  out.word(diverged ? 1 : 0);
  out.word(sent ? 1 : 0);
  const ClientRound& made = sent ? *sent : ClientRound{};
  out.array(made.model);
  out.real(made.rates);
  out.real(made.noise_variance);
  out.word(made.loss_changes ? 1 : 0);
  for (const double change : made.loss_changes.value_or(std::array<double, 2>{})) out.real(change);
  return out.text();
}

RemoteAnswer RemoteAnswer::of(const std::string& text) {
  return read_message(text, kAnswer, [](StateReader& in) {
    RemoteAnswer answer;
    answer.run = in.bytes();
    answer.ground = in.bytes();
    for (std::uint64_t* number :
         {&answer.client, &answer.round, &answer.steps_done, &answer.estimates_made})
      *number = in.word();
    answer.diverged = in.word() == 1;
    const bool has_made = in.word() == 1;
    ClientRound made;
    made.model = in.array<float>();
    made.rates = in.real();
    made.noise_variance = in.real();
    const bool has_changes = in.word() == 1;
    const double change = in.real();
    const double second = in.real();
    if (has_changes) made.loss_changes = {change, second};
    if (has_made) answer.sent = std::move(made);
    return answer;
  });
}

}  // namespace privgrad::core

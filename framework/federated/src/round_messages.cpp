#include "round_messages.hpp"

#include <algorithm>
#include <iterator>

#include "privgrad/error.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {
namespace {

constexpr const char* kOrder = "privgrad order";
constexpr const char* kAnswer = "privgrad answer";
constexpr const char* kFarewell = "privgrad farewell";

constexpr RunStatus kEnds[] = {RunStatus::completed, RunStatus::budget_exhausted,
                               RunStatus::interrupted, RunStatus::diverged, RunStatus::untrained};

void check_version(StateReader& in) {
  const std::uint64_t version = in.word();
  if (version == kRoundProtocol) return;
  throw ConfigError("has version " + std::to_string(version) +
                    " of the round messages, expected version " + std::to_string(kRoundProtocol));
}

template <class... T>
std::string message(const char* what, const T&... values) {
  StateWriter out;
  out.begin(what);
  out.put(kRoundProtocol, values...);
  return out.text();
}

/// Reads an untrusted text.
template <class... T>
void read_message(const std::string& text, const char* what, T&... values) {
  try {
    StateReader in(text, what);
    in.begin(what);
    check_version(in);
    in.get(values...);
    in.end();
  } catch (const IoError& problem) {
    throw ConfigError(problem.what());
  } catch (const ConfigError& problem) {
    throw ConfigError(std::string(what) + ": " + problem.what());
  }
}

}  // namespace

std::string RemoteOrder::text() const { return message(kOrder, *this); }

RemoteOrder RemoteOrder::of(const std::string& text) {
  RemoteOrder order;
  read_message(text, kOrder, order);
  return order;
}

std::string RemoteFarewell::text() const {
  return message(kFarewell, run, ground, client, std::string(to_text(status)));
}

bool RemoteFarewell::begins(const std::string& text) {
  StateWriter out;
  out.begin(kFarewell);
  return text.starts_with(out.text());
}

RemoteFarewell RemoteFarewell::of(const std::string& text) {
  RemoteFarewell farewell;
  std::string said;
  read_message(text, kFarewell, farewell.run, farewell.ground, farewell.client, said);
  const auto* const end = std::find_if(std::begin(kEnds), std::end(kEnds),
                                       [&](RunStatus status) { return to_text(status) == said; });
  if (end == std::end(kEnds)) throw ConfigError(std::string(kFarewell) + ": has an unknown status");
  farewell.status = *end;
  return farewell;
}

std::string RemoteAnswer::text() const { return message(kAnswer, *this); }

RemoteAnswer RemoteAnswer::of(const std::string& text) {
  RemoteAnswer answer;
  read_message(text, kAnswer, answer);
  return answer;
}

}  // namespace privgrad::core

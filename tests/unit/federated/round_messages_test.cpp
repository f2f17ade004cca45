#include "round_messages.hpp"

#include <functional>
#include <string>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;
using core::RemoteAnswer;
using core::RemoteFarewell;
using core::RemoteOrder;
using core::RunStatus;

namespace {

RemoteOrder order() {
  return {.run = "run",
          .ground = "facts",
          .client = 3,
          .round = 5,
          .steps = 7,
          .first_step = 11,
          .model = {0.5f, -0.0f}};
}

RemoteAnswer answer() {
  RemoteAnswer made{.run = "run", .ground = "facts", .client = 3, .round = 5, .sent = {}};
  made.sent = core::ClientRound{.model = {1.5f, 2.5f},
                                .rates = 0.25,
                                .noise_variance = 0.125,
                                .loss_changes = std::array{1.0, 2.0},
                                .exact = {}};
  made.steps_done = 7;
  made.estimates_made = 1;
  return made;
}

RemoteFarewell farewell(RunStatus status = RunStatus::diverged) {
  return {.run = "run", .ground = "facts", .client = 3, .status = status};
}

/// Checks that every text is refused that is shorter or longer than the message.
void refuse_other_lengths(const std::string& text,
                          const std::function<void(const std::string&)>& read) {
  CHECK_NOTHROW(read(text));
  for (std::size_t length = 0; length < text.size(); ++length)
    CHECK_THROWS_AS(read(text.substr(0, length)), ConfigError);
  CHECK_THROWS_AS(read(text + '\0'), ConfigError);
}

}  // namespace

TEST_CASE("an order arrives as it was sent", "[messages]") {
  const RemoteOrder read = RemoteOrder::of(order().text());
  CHECK(read.text() == order().text());
  CHECK(read.client == 3);
  CHECK(read.round == 5);
  CHECK(read.steps == 7);
  CHECK(read.first_step == 11);
  CHECK(read.model == order().model);
  CHECK(std::signbit(read.model[1]));
}

TEST_CASE("an answer has what the client releases, and nothing else", "[messages][privacy]") {
  RemoteAnswer whole = answer();
  whole.sent->weight = 0.75;    // the server's
  whole.sent->exact.emplace();  // losses without a payment
  const RemoteAnswer read = RemoteAnswer::of(whole.text());
  CHECK(whole.text() == answer().text());
  CHECK(read.sent->model == whole.sent->model);
  CHECK(read.sent->loss_changes == whole.sent->loss_changes);
  CHECK(read.sent->weight == 0.0);
  CHECK_FALSE(read.sent->exact);
  CHECK(read.steps_done == 7);
  CHECK(read.estimates_made == 1);
  // A client whose ledger pays for no step sends nothing.
  whole.sent.reset();
  CHECK_FALSE(RemoteAnswer::of(whole.text()).sent);
}

TEST_CASE("a farewell says how the run has ended", "[messages]") {
  for (const RunStatus status : {RunStatus::completed, RunStatus::budget_exhausted,
                                 RunStatus::interrupted, RunStatus::diverged, RunStatus::untrained})
    CHECK(RemoteFarewell::of(farewell(status).text()).status == status);
  CHECK_THROWS_WITH(RemoteFarewell::of(farewell(RunStatus::unfinished).text()),
                    ContainsSubstring("an unknown status"));
  CHECK(RemoteFarewell::begins(farewell().text()));
  CHECK_FALSE(RemoteFarewell::begins(order().text()));
}

TEST_CASE("a message that is cut, longer, or of another kind is refused", "[messages]") {
  refuse_other_lengths(order().text(), [](const std::string& text) { RemoteOrder::of(text); });
  refuse_other_lengths(answer().text(), [](const std::string& text) { RemoteAnswer::of(text); });
  refuse_other_lengths(farewell().text(),
                       [](const std::string& text) { RemoteFarewell::of(text); });
  CHECK_THROWS_AS(RemoteOrder::of(answer().text()), ConfigError);
  CHECK_THROWS_AS(RemoteAnswer::of(order().text()), ConfigError);
}

TEST_CASE("a message of another version is refused by its number", "[messages]") {
  std::string text = order().text();
  const std::size_t at = 8 + std::string("privgrad order").size();  // after size and word
  REQUIRE(static_cast<std::uint64_t>(text[at]) == core::kRoundProtocol);
  ++text[at];
  CHECK_THROWS_WITH(RemoteOrder::of(text),
                    ContainsSubstring("has version " + std::to_string(core::kRoundProtocol + 1)));
}

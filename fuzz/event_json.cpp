// Privacy events, read as by `privgrad account`.
#include <nlohmann/json.hpp>

#include "harness/fuzz.hpp"
#include "privgrad/record/event_dp_accounting.hpp"
#include "privgrad/trust/event_json.hpp"

void read_input(std::string_view input) {
  using namespace privgrad::core;
  const privgrad::Event event = event_from_json(input, "input.json");
  const std::string text = to_json(event).dump();
  fuzz::require(to_json(event_from_json(text, "output.json")).dump() == text,
                "what is written of an event reads back as the same event");
  try {
    fuzz::require(!to_dp_accounting(event).empty(), "an expression for dp_accounting has words");
  } catch (const privgrad::ConfigError&) {
    // The error is that dp_accounting has no such event.
  }
}

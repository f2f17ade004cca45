// Ledgers. A fuzzer cannot get past their hashes, so each input is read twice: unchanged, and
// sealed with valid hashes.
#include "privgrad/trust/ledger_reader.hpp"

#include <cmath>

#include "harness/fuzz.hpp"
#include "privgrad/error.hpp"

namespace {

void read(std::string_view text) {
  const auto contents = privgrad::core::read_ledger(fuzz::scratch_file("ledger.jsonl", text));
  fuzz::require(contents.releases.empty() || contents.facts.is_object(),
                "releases come after the facts of the run");
}

}  // namespace

void read_input(std::string_view input) {
  try {
    read(input);
  } catch (const privgrad::IoError&) {
    // The usual case: no hash fits.
  }
  read(fuzz::sealed_ledger(input));
}

#include <random>

#include "manifest_fixture.hpp"
#include "trials.hpp"

using namespace privgrad;
using namespace privgrad::core;

TEST_CASE("however a manifest is damaged, it loads or fails with an error of ours",
          "[manifest][long]") {
  // Bytes are replaced, inserted or removed, and blocks are duplicated; an accepted manifest is
  // resolved, and loading the result must give the same. Fixed seed.
  std::mt19937_64 random(20240602);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::string letters = "[]{}:,-#&*!|>'\"%@`\n\t ?.0159eaxk_\r";
  int loaded = 0;
  int refused = 0;
  const int count = trials(60'000, "damaged manifests");
  for (int round = 0; round < count; ++round) {
    std::string text = kGood;
    for (std::size_t n = 1 + below(2); n > 0; --n) {
      const std::size_t at = below(text.size());
      const char byte =
          below(4) == 0 ? static_cast<char>(below(256)) : letters[below(letters.size())];
      switch (below(4)) {
        case 0:
          text[at] = byte;
          break;
        case 1:
          text.insert(at, 1, byte);
          break;
        case 2:
          text.erase(at, 1 + below(12));
          break;
        default:
          text.insert(at, text.substr(below(text.size()), below(40)));
      }
    }
    CAPTURE(text);
    try {
      const Manifest manifest = load(text);
      ++loaded;
      REQUIRE(manifest.evaluate_every > 0);
      REQUIRE(same(manifest.resolved, load(to_yaml(manifest.resolved)).resolved));
    } catch (const ManifestError& error) {
      ++refused;
      for (const std::string& line : error.lines()) {
        CAPTURE(line);
        REQUIRE(line.starts_with("/nowhere/m.yaml:"));
        REQUIRE(line.find(": error: ") != line.npos);
        REQUIRE_FALSE(find_bad_character(line).has_value());
        REQUIRE(line.find('\n') == line.npos);
      }
    } catch (const Error& error) {
      ++refused;  // e.g. because it now names a file
    }
  }
  // The damage must be such that both results occur often.
  CHECK(loaded > count / 120);
  CHECK(refused > count / 3);
}

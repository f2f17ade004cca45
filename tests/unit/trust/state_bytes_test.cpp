#include "privgrad/trust/state_bytes.hpp"

#include <tuple>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;
using core::StateReader;
using core::StateWriter;

namespace {

enum class Colour : std::uint64_t { red = 1, green };

struct Part {
  std::uint64_t number = 0;
  std::string name;

  static auto state(auto& self) { return std::tie(self.number, self.name); }
  bool operator==(const Part&) const = default;
};

struct Whole {
  int code = 0;
  bool is_on = false;
  Colour colour = Colour::red;
  double real = 0.0;
  std::vector<float> values;
  std::vector<Part> parts;
  std::optional<std::array<double, 2>> pair;
  std::map<std::string, std::string> files;

  static auto state(auto& self) {
    return std::tie(self.code, self.is_on, self.colour, self.real, self.values, self.parts,
                    self.pair, self.files);
  }
  bool operator==(const Whole&) const = default;
};

Whole example() {
  return {.code = -11,
          .is_on = true,
          .colour = Colour::green,
          .real = 0.1,
          .values = {1.5F, -2.0F},
          .parts = {{7, "seven"}, {8, ""}},
          .pair = std::array{1.0, -0.0},
          .files = {{"a", "b"}, {"c", ""}}};
}

std::string words(std::initializer_list<std::uint64_t> all) {
  StateWriter out;
  for (const std::uint64_t word : all) out.word(word);
  return out.text();
}

}  // namespace

TEST_CASE("a state is read back as it was written", "[state]") {
  const std::string text = core::state_text(example());
  CHECK(core::from_state_text<Whole>(text, "state") == example());
  CHECK(core::from_state_text<Whole>(core::state_text(Whole{}), "state") == Whole{});
}

TEST_CASE("a state is its values one behind the other, sizes and switches before them", "[state]") {
  StateWriter by_hand;
  by_hand.word(static_cast<std::uint64_t>(-11));
  by_hand.word(1);
  by_hand.word(2);
  by_hand.real(0.1);
  by_hand.array(std::vector{1.5F, -2.0F});
  by_hand.word(2);
  by_hand.word(7);
  by_hand.bytes("seven");
  by_hand.word(8);
  by_hand.bytes("");
  by_hand.word(1);
  by_hand.real(1.0);
  by_hand.real(-0.0);
  by_hand.word(2);
  for (const char* text : {"a", "b", "c", ""}) by_hand.bytes(text);
  CHECK(core::state_text(example()) == by_hand.text());
}

TEST_CASE("a state that ends anywhere else than it should is refused", "[state]") {
  const std::string text = core::state_text(example());
  for (std::size_t size = 0; size < text.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(core::from_state_text<Whole>(text.substr(0, size), "state"), IoError);
  }
  CHECK_THROWS_AS(core::from_state_text<Whole>(text + '\0', "state"), IoError);
}

TEST_CASE("numbers that their types cannot hold, and odd switches, are refused", "[state]") {
  const auto read = [](const std::string& text, auto value) {
    StateReader in(text, "state");
    in.get(value);
    return value;
  };
  CHECK(read(words({0xFFFFFFFF}), std::uint32_t{}) == 0xFFFFFFFF);
  CHECK_THROWS_AS(read(words({0x100000000}), std::uint32_t{}), IoError);
  CHECK(read(words({static_cast<std::uint64_t>(-3)}), int{}) == -3);
  CHECK_THROWS_AS(read(words({0x80000000}), int{}), IoError);
  CHECK(read(words({1}), bool{}));
  CHECK_THROWS_AS(read(words({2}), bool{}), IoError);
  CHECK_THROWS_AS(read(words({2, 0}), std::optional<std::uint64_t>{}), IoError);
  // No more memory is allocated than the input can fill.
  CHECK_THROWS_AS(read(words({std::uint64_t{1} << 60}), std::vector<double>{}), IoError);
  CHECK_THROWS_AS(read(words({std::uint64_t{1} << 60}), std::vector<Part>{}), IoError);
}

TEST_CASE("a key is written as its 32 bytes and is read back", "[state]") {
  const auto key = core::RandomKey::from_seed(5);
  StateWriter out;
  out.put(key, true);
  StateReader in(out.text(), "state");
  CHECK(std::ranges::equal(in.key().secret_bytes(), key.secret_bytes()));
  CHECK(in.flag());
  in.end();
}

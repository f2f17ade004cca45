#include "saved_component.hpp"

#include <limits>
#include <optional>
#include <vector>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;
using core::Slice;

namespace {

/// A component that remembers a number and a list, and allows only even numbers.
class Remembering final : public Stateful {
 public:
  explicit Remembering(std::vector<float> values = {}, std::uint64_t number = 0)
      : number_(number), values_(std::move(values)) {}
  std::vector<StateMember> state() override { return {{"number", &number_}, {"values", &values_}}; }
  void restored() override {
    if (number_ % 2 == 1) throw ConfigError("odd");
  }
  std::uint64_t number() const { return number_; }
  const std::vector<float>& values() const { return values_; }

 private:
  std::uint64_t number_;
  std::vector<float> values_;
};

class OfOneNumber final : public Stateful {
 public:
  std::vector<StateMember> state() override { return {{"number", &number_}}; }

 private:
  std::uint64_t number_ = 4;
};

std::string saved_text(Stateful& component, const std::optional<Slice>& slice = {}) {
  core::StateWriter out;
  core::save_component(out, component, slice);
  return out.text();
}

void restore_from(const std::string& text, Stateful& component,
                  const std::optional<Slice>& slice = {}) {
  core::StateReader in(text, "state");
  core::restore_component(in, component, slice);
  in.end();
}

}  // namespace

TEST_CASE("a component's state is restored member by member, bit for bit", "[resume]") {
  constexpr std::uint64_t kLarge = (std::uint64_t{1} << 53) + 2;  // neither a double nor a float
  Remembering before({0.1f, -0.0f, 1e-40f}, kLarge);
  Remembering after({7.0f, 7.0f, 7.0f}, 2);
  restore_from(saved_text(before), after);
  CHECK(after.number() == kLarge);
  CHECK(after.values() == before.values());
  CHECK(std::signbit(after.values()[1]));
  // A list that start() left empty receives the saved values.
  Remembering empty;
  restore_from(saved_text(before), empty);
  CHECK(empty.values() == before.values());
}

TEST_CASE("a state of another component, or of no run, is refused", "[resume]") {
  Remembering component({1.0f, 2.0f});
  OfOneNumber other;
  CHECK_THROWS_AS(restore_from(saved_text(other), component), IoError);
  Remembering longer({1.0f, 2.0f, 3.0f}), odd({1.0f, 2.0f}, 3);
  CHECK_THROWS_AS(restore_from(saved_text(longer), component), IoError);
  CHECK_THROWS_AS(restore_from(saved_text(odd), component), IoError);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Remembering spoilt({1.0f, bad});
    CHECK_THROWS_AS(restore_from(saved_text(spoilt), component), IoError);
  }
}

TEST_CASE("processes that share a component each restore their own elements", "[resume]") {
  Remembering whole({0.0f, 1.0f, 2.0f, 3.0f, 4.0f}, 6);
  const std::string text = saved_text(whole);
  Remembering middle({9.0f, 9.0f}), last({9.0f}), none({9.0f});
  restore_from(text, middle, Slice{.first = 1, .size = 2, .of = 5});
  CHECK(middle.values() == std::vector<float>{1.0f, 2.0f});
  CHECK(middle.number() == 6);
  restore_from(text, last, Slice{.first = 4, .size = 1, .of = 5});
  CHECK(last.values() == std::vector<float>{4.0f});
  // A process without elements has started its component for one element.
  CHECK_NOTHROW(restore_from(text, none, Slice{.first = 5, .size = 0, .of = 5}));
  CHECK_THROWS_AS(restore_from(text, last, Slice{.first = 0, .size = 1, .of = 6}), IoError);
}

#include "privgrad/memory_tables.hpp"

#include <array>
#include <cmath>
#include <memory>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;

namespace {

MemoryTable table_of(std::span<const float> numbers, std::span<const float> targets,
                     std::shared_ptr<const void> owner = nullptr) {
  return {{2}, numbers, targets, std::move(owner)};
}

}  // namespace

TEST_CASE("a table is lent under one name, once, and taken back", "[memory]") {
  const std::array<float, 4> numbers{1, 2, 3, 4};
  const std::array<float, 2> targets{0, 1};
  const auto owner = std::make_shared<int>(0);
  lend_memory_table("mine", table_of(numbers, targets, owner));
  CHECK(owner.use_count() == 2);
  CHECK_THROWS_AS(lend_memory_table("mine", table_of(numbers, targets)), ConfigError);
  const auto found = find_memory_table("mine");
  REQUIRE(found);
  CHECK(std::get<0>(found->numbers).data() == numbers.data());
  CHECK(take_memory_table("mine"));
  CHECK_FALSE(take_memory_table("mine"));
  CHECK_FALSE(find_memory_table("mine"));
  CHECK(owner.use_count() == 2);  // held by the result of the search
}

TEST_CASE("lent features are read where they lie, and copied before they are written",
          "[dataset]") {
  const std::array<float, 6> numbers{1, 2, 3, 4, 5, 6};
  const auto owner = std::make_shared<int>(0);
  Dataset data(ExampleShape{{2}, 2}, std::span<const float>(numbers), owner, {0, 1, 1});
  CHECK(owner.use_count() == 2);
  std::vector<float> features(4), targets(2);
  const std::vector<std::uint32_t> rows{2, 0};
  data.gather(rows, features, targets);
  CHECK(features == std::vector<float>{5, 6, 1, 2});
  CHECK(targets == std::vector<float>{1, 0});
  data.features()[0] = 9;
  CHECK(numbers[0] == 1);
  CHECK(owner.use_count() == 1);
  data.gather(rows, features, targets);
  CHECK(features == std::vector<float>{5, 6, 9, 2});
}

TEST_CASE("lent bytes are the numbers of bytes that were copied", "[dataset]") {
  const std::array<std::uint8_t, 3> bytes{0, 51, 255};
  const float scale = 1.0f / 255.0f;
  Dataset lent(ExampleShape{{1}, 0}, std::span<const std::uint8_t>(bytes), scale, nullptr,
               {0, 0, 0});
  Dataset own(ExampleShape{{1}, 0}, std::vector<std::uint8_t>(bytes.begin(), bytes.end()), scale,
              {0, 0, 0});
  std::vector<float> of_lent(3), of_own(3), targets(3);
  const std::vector<std::uint32_t> rows{0, 1, 2};
  lent.gather(rows, of_lent, targets);
  own.gather(rows, of_own, targets);
  CHECK(of_lent == of_own);
  const auto all = lent.features();
  CHECK(std::vector<float>(all.begin(), all.end()) == of_own);
}

TEST_CASE("lent features are checked as copied ones are", "[dataset]") {
  const std::array<float, 2> numbers{1, HUGE_VALF};
  const std::span<const float> features(numbers);
  CHECK_THROWS_WITH(Dataset(ExampleShape{{1}, 0}, features, nullptr, {0, 0}),
                    "row 1, feature 0 is not a finite number");
  CHECK_THROWS_AS(Dataset(ExampleShape{{1}, 2}, features.first(1), nullptr, {2}), IoError);
  CHECK_THROWS_AS(Dataset(ExampleShape{{2}, 2}, features, nullptr, {0, 1}), IoError);
}

// Transforms that learn from released statistics (BoundedStatistic).
#include <cmath>
#include <cstdint>

#include "broken.hpp"
#include "right_statistic.hpp"

namespace statistic_rules_test {

using namespace privgrad;
using privgrad::testing::Verdict;

namespace {

struct AsksWithoutBeingTold final : RightStatistic {
  using RightStatistic::RightStatistic;
  std::optional<StatisticRequest> request(const ExampleShape& input) const override {
    return StatisticRequest{"means", element_count(input.features), 2.0,
                            noise_.value_or(StatisticNoise{.multiplier = 2.0})};
  }
};
struct AsksForNothing final : RightStatistic {
  using RightStatistic::RightStatistic;
  std::optional<StatisticRequest> request(const ExampleShape&) const override { return {}; }
};
struct FollowsItsPlace final : RightStatistic {
  using RightStatistic::RightStatistic;
  void contribution(const Shape& shape, std::span<const float> features,
                    std::span<float> out) const override {
    RightStatistic::contribution(shape, features, out);
    if (reinterpret_cast<std::uintptr_t>(features.data()) % 16 == 4) out[0] *= 0.5f;
  }
};
struct WritesBeside final : RightStatistic {
  using RightStatistic::RightStatistic;
  void contribution(const Shape& shape, std::span<const float> features,
                    std::span<float> out) const override {
    RightStatistic::contribution(shape, features, out);
    *(out.data() + out.size()) = 0.0f;
  }
};
/// A contribution that is stored in memory as a whole.
struct Kept : Contribution {
  explicit Kept(std::vector<float> all) : numbers(std::move(all)) {}
  void piece(std::size_t begin, std::span<float> out) const override {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = numbers[begin + i];
  }
  std::vector<float> numbers;
};
struct ShortensEachPiece final : Kept {
  using Kept::Kept;
  void piece(std::size_t begin, std::span<float> out) const override {
    Kept::piece(begin, out);
    if (begin > 0) out[0] *= 0.5f;
  }
};
struct WritesBesideItsPiece final : Kept {
  using Kept::Kept;
  void piece(std::size_t begin, std::span<float> out) const override {
    Kept::piece(begin, out);
    *(out.data() + out.size()) = 0.0f;
  }
};
/// The same contribution, with the ability to return pieces.
template <class Made>
class InPieces : public RightStatistic {
 public:
  using RightStatistic::RightStatistic;
  std::unique_ptr<Contribution> contribution_in_pieces(
      const Shape& shape, std::span<const float> features) const override {
    std::vector<float> made(features.size());
    contribution(shape, features, made);
    return std::make_unique<Made>(std::move(made));
  }
};
struct PiecesOfSome final : InPieces<Kept> {
  using InPieces::InPieces;
  std::unique_ptr<Contribution> contribution_in_pieces(
      const Shape& shape, std::span<const float> features) const override {
    if (!std::isfinite(features.back())) return nullptr;
    return InPieces::contribution_in_pieces(shape, features);
  }
};
struct BorrowsTheRow final : InPieces<Kept> {
  using InPieces::InPieces;
  struct Late final : Contribution {
    Late(const BorrowsTheRow& by, const Shape& of, std::span<const float> row)
        : owner(by), shape(of), features(row) {}
    void piece(std::size_t begin, std::span<float> out) const override {
      std::vector<float> all(features.size());
      owner.contribution(shape, features, all);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = all[begin + i];
    }
    const BorrowsTheRow& owner;
    Shape shape;
    std::span<const float> features;
  };
  std::unique_ptr<Contribution> contribution_in_pieces(
      const Shape& shape, std::span<const float> features) const override {
    return std::make_unique<Late>(*this, shape, features);
  }
};
struct TakesRoots final : RightStatistic {
  using RightStatistic::RightStatistic;
  void learn(const ExampleShape& input, const Released& mean) override {
    RightStatistic::learn(input, mean);
    for (double& x : mean_) x = std::sqrt(x);
  }
};
struct LearnsSomethingElse final : RightStatistic {
  using RightStatistic::RightStatistic;
  void learn(const ExampleShape& input, const Released& mean) override {
    static int calls = 0;
    RightStatistic::learn(input, mean);
    mean_[0] += ++calls;
  }
};

template <class Impl>
Findings findings() {
  return findings_on<Transform, Impl>(private_statistic_params());
}

}  // namespace

TEST_CASE("each rule of released statistics can fail") {
  const std::vector<Broken> broken{
      {"asks_for_the_statistic_that_it_says", "asks for a release",
       findings<AsksWithoutBeingTold>()},
      {"asks_for_the_statistic_that_it_says", "asks for nothing", findings<AsksForNothing>()},
      {"asks_for_the_statistic_that_it_says", "other noise",
       findings_on("transform/statistic_half_the_noise")},
      {"asks_for_the_statistic_that_it_says", "statistic() says otherwise",
       findings_on("transform/statistic_called_public")},
      {"a_contribution_is_within_its_bound", "request() says at most 1",
       findings_on("transform/statistic_half_the_bound")},
      {"a_contribution_is_within_its_bound", "adds nan",
       findings_on("transform/contribution_unwritten")},
      {"a_contribution_is_a_function_of_its_row", "after other examples",
       findings_on("transform/contribution_over_the_rows_so_far")},
      {"a_contribution_is_a_function_of_its_row", "elsewhere in memory",
       findings<FollowsItsPlace>()},
      {"a_contribution_is_a_function_of_its_row", "writes outside", findings<WritesBeside>()},
      {"pieces_are_the_contribution", "gives nothing", findings<PiecesOfSome>()},
      {"pieces_are_the_contribution", "are not its contribution()", findings<BorrowsTheRow>()},
      {"pieces_are_the_contribution", "pieces of 1 of", findings<InPieces<ShortensEachPiece>>()},
      {"pieces_are_the_contribution", "writes outside", findings<InPieces<WritesBesideItsPiece>>()},
      {"what_is_released_can_be_learnt", "a mean is below 0",
       findings_on("transform/learns_only_what_pleases")},
      {"what_is_released_can_be_learnt", "not finite", findings<TakesRoots>()},
      {"it_learns_from_the_release_alone", "other rows were contributed",
       findings_on("transform/learns_it_in_the_low_digits")},
      {"what_is_released_can_be_learnt", "of the same release", findings<LearnsSomethingElse>()}};
  const Findings right = findings<InPieces<Kept>>();
  for (const Broken& defect : broken) {
    INFO(defect.rule << ", " << defect.text);
    CHECK(not_caught(defect.findings, defect.rule, defect.text) == "");
    REQUIRE(find_rule(right, defect.rule) != nullptr);
    CHECK(find_rule(right, defect.rule)->verdict == Verdict::passed);
  }
  CHECK(findings_text(right, Verdict::failed) == "");
  CHECK(find_rule(findings<RightStatistic>(), "pieces_are_the_contribution")->verdict ==
        Verdict::skipped);
}

}  // namespace statistic_rules_test

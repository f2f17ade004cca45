// Studies, without their base manifests.
#include "privgrad/studies/study.hpp"

#include "harness/fuzz.hpp"

void read_input(std::string_view input) {
  using namespace privgrad::core;
  const Study study = parse_study(input, fuzz::scratch_folder() / "study.yaml");
  fuzz::require(!study.arms.empty() && study.arms.size() <= kMaxArms,
                "a study has 1 to kMaxArms arms");
  fuzz::require(study.baselines.front() < study.arms.size(), "the baseline is one of the arms");
  fuzz::require(!study.seeds.empty() && !study.metrics.empty(), "a study has seeds and metrics");
}

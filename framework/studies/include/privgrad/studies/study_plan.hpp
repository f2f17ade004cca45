// Plans every arm of a study before anything runs, and requires equal privacy of all arms.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "privgrad/plan/plan.hpp"
#include "privgrad/studies/study.hpp"

namespace privgrad::core {

/// How far an arm's epsilon may be below the target under equal privacy, as a share of the target.
/// Noise can have any value, so a larger gap means that something else determined the noise.
inline constexpr double kEpsilonTolerance = 0.005;

/// An arm that the plugins support and that has the study's guarantee.
struct PlannedArm {
  const Arm* arm = nullptr;
  std::unique_ptr<Manifest> manifest;  ///< Has no seed.
  Plan plan;                           ///< Made from `manifest`.
  /// The index of the arm whose runs this arm uses: its own index, unless an earlier arm trains the
  /// same model, as is often the case if two arms differ only in the accountant.
  std::size_t runs_of = 0;
  double plan_seconds = 0.0;  ///< The time to plan the arm, which each run repeats.

  /// Whether the arm has no noise. With equal privacy, it is then only a reference, which takes no
  /// part in comparisons and choices.
  bool is_reference() const { return manifest->noise_off; }
};

struct StudyPlan {
  std::unique_ptr<Study> study;
  std::vector<PlannedArm> arms;     ///< One for each arm of the study.
  std::vector<std::string> stains;  ///< Flaws of the comparison, for its readers.
  /// The search that determined the study's choices; null before it has ended, or without a search.
  std::shared_ptr<const StudyPlan> search;

  bool has_own_runs(std::size_t arm) const { return arms[arm].runs_of == arm; }
  /// How many runs the study makes, over all of its seeds so far.
  std::size_t run_count() const;
  /// Whether the arm takes no part in comparisons, because it does not have the study's privacy.
  bool is_reference(std::size_t arm) const {
    return study->equal_privacy && arms[arm].is_reference();
  }
};

/// Plans every arm; runs nothing and releases nothing.
///
/// With equal privacy, all arms of a level have the same target_epsilon, target_delta and
/// adjacency, and each arm's guarding accountant calibrates the arm to them: it calibrates an open
/// schedule as in any plan, and multiplies given noise values by a common factor
/// (privacy.calibrate: all). Every epsilon is then in [1 - kEpsilonTolerance, 1] times the target.
///
/// \param overrides  `--set` options for the base; keys that the study varies cannot be set.
/// \throws ManifestError, PrivacyError (an arm without a proof, or with a different guarantee) or
///   IoError. For each problem, the text names the first arm with it, unless all have it.
StudyPlan plan_study(Study study, const std::vector<std::string>& overrides,
                     const Catalog& catalog);

/// An arm's manifest: the base with the changes of the study and the arm, without a seed.
/// \throws as load_manifest().
std::unique_ptr<Manifest> arm_manifest(const Study& study, const Arm& arm,
                                       const std::vector<std::string>& overrides,
                                       const Catalog& catalog,
                                       DataFiles data_files = DataFiles::are_there);

/// The requested study as a self-contained study file: its base written out, with the overrides
/// applied. Paths stay as they were written.
/// \throws ManifestError or IoError, as load_manifest(); ConfigError if the text is longer than a
///   study file may be.
std::string study_yaml(const Study& study, const std::vector<std::string>& overrides);

/// Whether both plans are known to train the same model, bit for bit, for each seed: they differ
/// only in the proofs (the accountants and the target).
bool train_alike(const Plan& a, const Plan& b);

/// The first private arm of a level, whose guarantee the level's other arms must have; the level's
/// first arm if no arm is private.
const PlannedArm& first_of_level(const StudyPlan& plan, std::size_t level);

/// The flaws that readers of the comparison must know (StudyPlan::stains).
std::vector<std::string> stains_of(const StudyPlan& plan);

/// Remarks on references, training sets and the arms' guarantees (remarks()): each sentence once,
/// with the names of the arms that it concerns, unless it concerns all arms. With equal privacy,
/// the remarks use the common target as epsilon.
std::vector<std::string> study_remarks(const StudyPlan& plan);

/// Return what study.json says about a part of a study.
AxisFacts facts_of(const Axis& axis);
MetricFacts facts_of(const StudyMetric& metric);
Named<nlohmann::json> facts_of(const std::vector<ManifestChange>& changes);
/// \param index  the arm's index.
ArmFacts facts_of(const StudyPlan& plan, std::size_t index);

/// Returns what study.json and results.json both say, without the arms.
StudyBase base_facts(const StudyPlan& plan);

/// Returns the content of study.json, described in docs/studies.md.
nlohmann::json to_json(const StudyPlan& plan);

}  // namespace privgrad::core

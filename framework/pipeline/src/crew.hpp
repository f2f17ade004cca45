#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/cluster.hpp"
#include "privgrad/pipeline/cluster_talk.hpp"
#include "privgrad/pipeline/plan.hpp"
#include "privgrad/pipeline/run.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/trust/contribution_check.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// What the processes of a run must have in common: program, plugins, manifest, and the examples as
/// they are trained on.
std::vector<CommonPart> common_ground(const Plan& plan, const RunOptions& options,
                                      const RunData& data);

/// At process 0: the other processes of the run, which sum their shares of each batch when they are
/// asked. Between that they wait.
///
/// Whoever asks has paid: a ledger's lines are on the disk before a batch is drawn, and no other
/// process sees a row before it is asked.
/// Threads: calls never overlap.
class Crew {
 public:
  /// \param cluster  outlives this.
  explicit Crew(Cluster& cluster) : cluster_(cluster) {}
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() = default;

  /// \param ground  common_ground().
  /// \throws ConfigError naming a process that has another.
  void join(std::span<const CommonPart> ground) { compare_common_parts(cluster_, ground); }

  /// A step's sum.
  struct Work {
    const Program& program;
    std::span<const float> parameters;  ///< That the program has.
    const Dataset& data;
    std::span<const std::uint32_t> batch;
    const Clip& clip;
    std::size_t most_rows = 0;  ///< As exact_sum() has it.
    PrivacyUnit unit = PrivacyUnit::example;
    const RandomKey& augmentation_key;
    std::uint64_t step = 0;
  };
  /// As exact_sum(), of all processes' shares.
  /// \throws as exact_sum(), and IoError for a process that is gone.
  BoundedOnGrid sum(const Work& work, Executor& executor, SumMemory& memory,
                    ContributionCheck* check);

  /// As evaluate(), of all processes' parts: the same sums in the same order.
  /// \param parameters  that the program has.
  /// \param is_test  whether `data` is the test rows.
  Evaluation evaluate(const Program& program, std::span<const float> parameters,
                      const Dataset& data, bool is_test, Executor& executor);

  /// The run is over: the others end, too.
  void dismiss();

 private:
  void send(const std::string& order);
  void send_parameters(std::span<const float> parameters);
  bool has_sent(std::span<const float> parameters) const;

  Cluster& cluster_;
  std::vector<float> sent_;  // the parameters that all have
};

/// Why the steps of this plan cannot be shared among processes; "" if they can.
std::string why_not_shared(const Plan& plan);

}  // namespace privgrad::core

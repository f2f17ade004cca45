// The processes that make the steps of one run together, and the orders of process 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/cluster.hpp"
#include "privgrad/data/run_data.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/train/cluster_talk.hpp"
#include "privgrad/train/run.hpp"
#include "privgrad/trust/contribution_check.hpp"
#include "privgrad/trust/shared_sum.hpp"
#include "privgrad/trust/slices.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// The order from process 0 for a paid step. It contains private rows and secret keys.
struct StepOrder {
  std::uint64_t step = 0;
  std::vector<std::uint32_t> batch;
  double clip_norm = 0.0, count_share = 0.0;
  /// ContributionCheck::place, the place in the batch of an example to be checked; the batch's size
  /// if none is checked. The next two members are ContributionCheck::others and ::is_of_all.
  std::uint64_t checked = 0;
  std::vector<std::uint64_t> checked_others;
  bool all_are_checked = false;
  std::vector<std::uint8_t> augmentation_key;
  /// PaidNoise::secret_text(); for correlated releases, CorrelatedMechanism::secret_key().
  std::string noise;

  static auto state(auto& self) {
    return std::tie(self.step, self.batch, self.clip_norm, self.count_share, self.checked,
                    self.checked_others, self.all_are_checked, self.augmentation_key, self.noise);
  }
};

/// The requests of process 0.
enum class Wish : std::uint64_t {
  step = 1,
  learn,
  evaluate_train,
  evaluate_test,
  report,
  state,
  end
};

/// At process 0: sends the others what they need to make the same plan: the key that draws its
/// public order of examples, and its computed numbers (KeptNumbers), which depend on the processor.
/// \throws ConfigError naming a process with a different program, plugins or manifest.
void share_plan(Cluster& cluster, const Plan& plan, const RunOptions& options);
/// At the other processes: recreates the plan of process 0.
/// \param manifest  must outlive the plan.
/// \throws as make_shared_plan(). Does not return if process 0 finds a difference (share_plan())
///   and ends all processes.
Plan shared_plan(const Manifest& manifest, const RunOptions& options);

/// What all processes of a run must have in common besides the plan: the examples in the form that
/// is used for training.
std::vector<CommonPart> common_ground(const RunData& data);

/// The messages between the processes that make the steps of a run together. Every process has a
/// group; process 0 sends requests, and the others answer (work_for_others()).
///
/// Process 0 pays for a step or report before it sends the request: the ledger's lines are on the
/// disk before a batch is drawn. Other processes read rows only on request. Threads: calls must not
/// overlap.
class ProcessGroup {
 public:
  /// \param cluster  outlives this.
  /// \param program  the program of the run.
  ProcessGroup(Cluster& cluster, const PlanNumbers& plan, const Program& program);
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  ~ProcessGroup() = default;

  Cluster& cluster() const noexcept { return cluster_; }
  /// The division of a step's sum among the processes.
  const Slices& slices() const noexcept { return slices_; }
  Slice parameters() const { return slices_.parameters_of(cluster_.rank()); }

  // ---- at process 0

  /// Sends the others what they need to begin or to resume.
  /// \param learnt  ResumableRun::learnt_text().
  /// \param ground  common_ground() of the examples: transformed, or as read if the transforms wait
  ///   for statistics.
  /// \param state  the trainer's state (Trainer::save()) to resume from; "" if the run begins.
  /// \throws ConfigError naming a process with a different ground.
  void join(std::string_view learnt, std::span<const CommonPart> ground, std::string_view state);

  /// Lets the others apply the transforms, with the values learnt from statistics, once these are
  /// released.
  /// \param learnt  the same as for join(); not empty.
  /// \param ground  the common ground of the transformed examples.
  /// \throws ConfigError naming a process whose transforms produce other examples.
  void teach(std::string_view learnt, std::span<const CommonPart> ground);

  /// Lets the others begin their part of a step.
  /// \param parameters  the parameters before the step.
  void ask_for(const StepOrder& order, std::span<const float> parameters);

  /// The same as evaluate(), computed from all processes' parts: the same sums in the same order.
  /// \param parameters  the parameters of `program`.
  /// \param is_test  whether `data` is the test rows.
  Evaluation evaluate(const Program& program, std::span<const float> parameters,
                      const Dataset& data, bool is_test, Executor& executor);

  /// The same as correct_halves() of all training rows, computed by all processes in shares.
  /// \param parameters  the parameters of `program`.
  std::vector<float> halves(const Program& program, std::span<const float> parameters,
                            const Dataset& train, Executor& executor);

  /// Tells the others to save their trainers, as this process does at the same time.
  void ask_for_state();

  /// Ends the other processes, because the run is finished.
  void dismiss();

  // ---- at the other processes

  /// Receives the argument `learnt` of process 0's join() or teach(), before the examples are
  /// transformed and compared.
  std::string learnt() { return broadcast_text(cluster_, ""); }
  /// \returns the state from which to resume; "" if the run begins. Does not return if a process
  ///   has a different ground, because process 0 then ends all processes.
  std::string joined(std::span<const CommonPart> ground);

  struct Asked {
    Wish wish = Wish::end;
    StepOrder order;  ///< For Wish::step: the order.
    /// If absent, the process keeps its parameters.
    std::optional<std::vector<float>> parameters;
  };
  Asked next();

  // ---- at all processes, at the same time

  /// This process's parts of an evaluation; process 0 gets all parts, in order.
  std::vector<Evaluation> evaluations(const Program& program, const Dataset& data,
                                      Executor& executor) const;

  /// This process's share of correct_halves() of all rows; process 0 gets all shares, in order.
  std::vector<float> halves(const Program& program, const Dataset& data, Executor& executor) const;

  /// Sends each process's updated slice of the parameters to all processes.
  void exchange(std::span<float> parameters);

  /// Sends the number of each process to all processes; returns all numbers by rank.
  std::vector<double> all(double mine) const;

  /// A function that assembles a vector with one number per parameter from all processes' slices.
  StateWriter::Whole whole() const;

 private:
  void send_order(Wish wish, const StepOrder& order, std::span<const float> parameters);
  bool have(std::span<const float> parameters) const;

  Cluster& cluster_;
  Slices slices_;
  std::size_t parameter_count_;
  std::vector<float> parameters_;  // at process 0: the parameters of all processes
};

}  // namespace privgrad::core

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
#include "privgrad/trust/shared_sum.hpp"
#include "privgrad/trust/slice.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// What process 0 tells the others of a step that is paid for. Private, and secret.
struct StepOrder {
  std::uint64_t step = 0;
  std::vector<std::uint32_t> batch;
  double clip_norm = 0.0, count_share = 0.0;
  /// Of the example whose contribution is looked at, in the batch; the batch's size: none is.
  std::uint64_t checked = 0;
  std::vector<std::uint8_t> augmentation_key;
  /// PaidNoise::secret_text(); of correlated releases CorrelatedMechanism::secret_key().
  std::string noise;

  static auto state(auto& self) {
    return std::tie(self.step, self.batch, self.clip_norm, self.count_share, self.checked,
                    self.augmentation_key, self.noise);
  }
};

/// What process 0 asks for.
enum class Wish : std::uint64_t { step = 1, evaluate_train, evaluate_test, state, end };

/// At process 0: the others plan as it has. Public orders of examples are drawn for a plan, and with
/// correlated releases the noise that is paid for depends on them; what a plan finds (KeptNumbers)
/// depends on the processor.
/// \throws ConfigError naming a process with another program, other plugins or another manifest.
void share_plan(Cluster& cluster, const Plan& plan, const RunOptions& options);
/// At the others.
/// \param manifest  must outlive the plan.
/// \throws as make_shared_plan(). Not at all where process 0 ends all, as share_plan() says.
Plan shared_plan(const Manifest& manifest, const RunOptions& options);

/// What the processes of a run must have in common beside its plan: the examples as they are trained on.
std::vector<CommonPart> common_ground(const RunData& data);

/// The processes of a run that make its steps together: what they tell each other. Every process has
/// one; process 0 asks, and the others answer what they are asked (work_for_others()).
///
/// Who asks has paid: a ledger's lines are on the disk before a batch is drawn, and no other process
/// sees a row before it is asked.
/// Threads: calls never overlap.
class ProcessGroup {
 public:
  /// \param cluster  outlives this.
  /// \param program  of the run.
  ProcessGroup(Cluster& cluster, const Plan& plan, const Program& program);
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  ~ProcessGroup() = default;

  Cluster& cluster() const noexcept { return cluster_; }
  /// How a step's sum is divided.
  const Slices& slices() const noexcept { return slices_; }
  /// Of this process.
  Slice parameters() const { return slices_.parameters_of(cluster_.rank()); }

  // ---- at process 0

  /// \param ground  common_ground().
  /// \param state  of a trainer (Trainer::save()) that all go on from; "": the run begins.
  /// \throws ConfigError naming a process that has another ground.
  void join(std::span<const CommonPart> ground, std::string_view state);

  /// The others begin their part of a step.
  /// \param parameters  that the step is made at.
  void ask_for(const StepOrder& order, std::span<const float> parameters);

  /// As evaluate(), of all processes' parts: the same sums in the same order.
  /// \param parameters  that the program has.
  /// \param is_test  whether `data` is the test rows.
  Evaluation evaluate(const Program& program, std::span<const float> parameters,
                      const Dataset& data, bool is_test, Executor& executor);

  /// The others save their trainers, as this one is about to.
  void ask_for_state();

  /// The run is over: the others end, too.
  void dismiss();

  // ---- at the others

  /// \returns the state to go on from; "": the run begins. Not at all where a process has another
  ///   ground: process 0 then ends all.
  std::string joined(std::span<const CommonPart> ground);

  struct Asked {
    Wish wish = Wish::end;
    StepOrder order;                               ///< Of a step.
    std::optional<std::vector<float>> parameters;  ///< Unless they are those of the last answer.
  };
  Asked next();

  // ---- at all of them, at the same time

  /// This process's parts of an evaluation; process 0 has all, in order.
  std::vector<Evaluation> evaluations(const Program& program, const Dataset& data,
                                      Executor& executor) const;

  /// All get the parameters that each has moved its slice of.
  void exchange(std::span<float> parameters);

  /// All get one number of every process.
  std::vector<double> all(double mine) const;

  /// For vectors with a number for each parameter.
  StateWriter::Whole whole() const;

 private:
  void send_order(Wish wish, const StepOrder& order, std::span<const float> parameters);
  bool have(std::span<const float> parameters) const;

  Cluster& cluster_;
  Slices slices_;
  std::size_t parameter_count_;
  std::vector<float> parameters_;  // at process 0: what all have
};

/// Why the steps of this plan cannot be shared among processes; "" if they can.
std::string why_not_shared(const Plan& plan);

}  // namespace privgrad::core

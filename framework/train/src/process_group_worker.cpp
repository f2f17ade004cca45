#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "privgrad/data/executor.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/train/process_group.hpp"
#include "privgrad/train/statistic_releases.hpp"
#include "privgrad/train/trainer.hpp"

namespace privgrad::core {
namespace {

/// A process that makes its part of each step on request. It has no ledger, draws no batches, and
/// writes nothing.
class Worker {
 public:
  Worker(const Plan& plan, const RunOptions& options)
      : plan_(plan),
        options_(options),
        executor_(make_executor(options.threads)),
        data_(read_rows(plan.manifest->data, *plan.setting)) {
    bench_ = make_workbench(plan, *executor_);
    processes_.emplace(*options.cluster, plan, *bench_.program);
    learn(processes_->learnt());
    const std::string state = processes_->joined(common_ground(data_));
    // Process 0 sends every key with which this process draws.
    trainer_.emplace(plan, data_.train, RandomKey::from_seed(0), *executor_,
                     TrainerSetting{.processes = &*processes_});
    trainer_->expect_receipts();
    if (state.empty()) return;
    StateReader in(state, "the state from which process 0 continues");
    trainer_->restore(in, Trainer::Between::steps);
    in.end();
  }

  void work() {
    for (;;) {
      ProcessGroup::Asked asked = processes_->next();
      if (asked.parameters) bench_.load(std::move(*asked.parameters));
      switch (asked.wish) {
        case Wish::step:
          trainer_->take_part(asked.order, bench_);
          break;
        case Wish::learn:
          learn(processes_->learnt());
          compare_common_parts(processes_->cluster(), common_ground(data_));
          break;
        case Wish::evaluate_train:
          processes_->evaluations(*bench_.program, data_.train, *executor_);
          break;
        case Wish::evaluate_test:
          processes_->evaluations(plan_.manifest->test_is_public
                                      ? bench_.program_for_public_rows(plan_, *executor_)
                                      : *bench_.program,
                                  data_.test, *executor_);
          break;
        case Wish::report:
          processes_->halves(*bench_.program, data_.train, *executor_);
          break;
        case Wish::state: {
          StateWriter own;  // process 0 completes this state
          trainer_->save(own, Trainer::Between::steps);
          break;
        }
        case Wish::end:
          return;
      }
    }
  }

 private:
  /// Applies the transforms, unless they learn from statistics that are not yet released.
  /// \param learnt  the values learnt from statistics; "" if there are none.
  void learn(const std::string& learnt) {
    const auto apply = [this](Teacher* teacher) {
      apply_transforms(*plan_.manifest, *plan_.setting, data_, options_.threads, options_.features,
                       teacher);
    };
    if (plan_.statistics.empty()) return apply(nullptr);
    if (learnt.empty()) return;
    StateReader in(learnt, "the statistics that process 0 has released");
    KeptStatistics teacher(in, plan_);
    in.end();
    apply(&teacher);
    bench_.weigh_classes(class_weights_of(plan_, teacher.counts()), plan_, *executor_);
  }

  const Plan& plan_;
  const RunOptions& options_;
  std::unique_ptr<Executor> executor_;
  RunData data_;
  Workbench bench_;
  std::optional<ProcessGroup> processes_;
  std::optional<Trainer> trainer_;
};

}  // namespace

void work_for_central_run(const Manifest& manifest, const RunOptions& options) {
  const Plan plan = shared_plan(manifest, options);
  Worker(plan, options).work();
}

}  // namespace privgrad::core

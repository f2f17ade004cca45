#include "crew.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "breach.hpp"
#include "federated_crew.hpp"
#include "privgrad/error.hpp"
#include "privgrad/federated.hpp"
#include "privgrad/pipeline/augmented_program.hpp"
#include "privgrad/pipeline/components.hpp"
#include "privgrad/pipeline/data_commitment.hpp"
#include "privgrad/pipeline/executor.hpp"
#include "privgrad/pipeline/trainer.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/sha256.hpp"
#include "privgrad/trust/shared_sum.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {
namespace {

enum class Wish : std::uint64_t { sum = 1, evaluate_train, evaluate_test, end };

/// What process 0 asks of the others, beside the parameters.
struct Order {
  Wish wish = Wish::end;
  std::vector<std::uint32_t> batch;
  double clip_norm = 0.0, count_share = 0.0;
  std::uint64_t most_rows = 0, unit = 0, step = 0;
  std::vector<std::uint8_t> augmentation_key;
  bool parameters_follow = false;
  /// Of the example whose contribution is looked at, in the batch; the batch's size: none is.
  std::uint64_t checked = 0;

  std::string text() const {
    StateWriter out;
    out.word(static_cast<std::uint64_t>(wish));
    out.array(batch);
    out.real(clip_norm);
    out.real(count_share);
    for (const std::uint64_t word : {most_rows, unit, step}) out.word(word);
    out.array(augmentation_key);
    out.word(parameters_follow ? 1 : 0);
    out.word(checked);
    return out.text();
  }

  static Order of(const std::string& text) {
    StateReader in(text, "what process 0 asks for");
    Order order;
    order.wish = static_cast<Wish>(in.word());
    order.batch = in.array<std::uint32_t>();
    order.clip_norm = in.real();
    order.count_share = in.real();
    for (std::uint64_t* word : {&order.most_rows, &order.unit, &order.step}) *word = in.word();
    order.augmentation_key = in.array<std::uint8_t>();
    order.parameters_follow = in.word() == 1;
    order.checked = in.word();
    in.end();
    return order;
  }
};

void broadcast(Cluster& cluster, std::uint64_t& word) {
  cluster.broadcast(std::as_writable_bytes(std::span(&word, 1)));
}

std::string received_text(Cluster& cluster) {
  std::uint64_t size = 0;
  broadcast(cluster, size);
  std::string text(size, '\0');
  cluster.broadcast(std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

/// One number of every process, at process 0.
std::vector<float> gathered(Cluster& cluster, float mine) {
  std::vector<float> all(cluster.size(), 0.0f);
  std::vector<std::size_t> ends(cluster.size());
  for (std::size_t i = 0; i < ends.size(); ++i) ends[i] = i + 1;
  all[cluster.rank()] = mine;
  cluster.gather(all, ends);
  return all;
}

/// This process's evaluations; process 0 has all of them, in order, when every process was here.
std::vector<Evaluation> shared_evaluations(const Program& program, const Dataset& data,
                                           Cluster& cluster, Executor& executor) {
  const std::size_t parts = evaluation_parts(data);
  const auto begin_of = [&](std::size_t rank) { return parts * rank / cluster.size(); };
  const std::size_t begin = begin_of(cluster.rank());
  const std::vector<Evaluation> own =
      evaluate_parts(program, data, begin, begin_of(cluster.rank() + 1), executor);
  // Where one process has a number and the others zero, the sum is that number, bit for bit.
  std::vector<std::uint64_t> words(2 * parts, 0);
  for (std::size_t i = 0; i < own.size(); ++i) {
    words[2 * (begin + i)] = std::bit_cast<std::uint64_t>(own[i].loss);
    words[2 * (begin + i) + 1] = own[i].correct;
  }
  cluster.add_up(words, std::vector<std::size_t>(cluster.size(), words.size()));
  std::vector<Evaluation> all(parts);
  for (std::size_t i = 0; i < parts; ++i) {
    all[i].loss = std::bit_cast<double>(words[2 * i]);
    all[i].correct = words[2 * i + 1];
  }
  return all;
}

/// Whether the checked example is in a process's share, and where.
std::optional<std::size_t> place_in_share(std::span<const std::uint32_t> batch,
                                          std::span<const std::uint32_t> share,
                                          std::uint64_t checked) {
  if (checked >= batch.size()) return std::nullopt;
  const auto begin = static_cast<std::size_t>(share.data() - batch.data());
  if (checked < begin || checked >= begin + share.size()) return std::nullopt;
  return checked - begin;
}

}  // namespace

std::vector<CommonPart> common_ground(const Plan& plan, const RunOptions& options,
                                      const RunData& data) {
  // All of them, also where a run that goes on trusts its commitment and the transforms' promise: no
  // other process has committed to anything.
  return {common_program(),
          {"other plugins", sha256_hex(options.lock)},
          {"another manifest", sha256_hex(to_yaml(plan.manifest->resolved))},
          {"other examples", hash_of_examples(data)}};
}

void Crew::send(const std::string& order) {
  std::uint64_t size = order.size();
  broadcast(cluster_, size);
  std::string text = order;
  cluster_.broadcast(std::as_writable_bytes(std::span(text.data(), text.size())));
}

void Crew::send_parameters(std::span<const float> parameters) {
  sent_.assign(parameters.begin(), parameters.end());
  cluster_.broadcast(std::as_writable_bytes(std::span(sent_)));
}

bool Crew::has_sent(std::span<const float> parameters) const {
  return sent_.size() == parameters.size() && !sent_.empty() &&
         std::memcmp(sent_.data(), parameters.data(), parameters.size_bytes()) == 0;
}

Evaluation Crew::evaluate(const Program& program, std::span<const float> parameters,
                          const Dataset& data, bool is_test, Executor& executor) {
  Order order;
  order.wish = is_test ? Wish::evaluate_test : Wish::evaluate_train;
  order.parameters_follow = !has_sent(parameters);
  send(order.text());
  if (order.parameters_follow) send_parameters(parameters);
  return total_of(shared_evaluations(program, data, cluster_, executor));
}

BoundedOnGrid Crew::sum(const Work& work, Executor& executor, SumMemory& memory,
                        ContributionCheck* check) {
  const auto key = work.augmentation_key.secret_bytes();
  Order order{.wish = Wish::sum,
              .batch = {work.batch.begin(), work.batch.end()},
              .clip_norm = work.clip.clip_norm,
              .count_share = work.clip.count_share,
              .most_rows = work.most_rows,
              .unit = static_cast<std::uint64_t>(work.unit),
              .step = work.step,
              .augmentation_key = {key.begin(), key.end()},
              .parameters_follow = !has_sent(work.parameters),
              .checked = check == nullptr ? work.batch.size() : check->place};
  const auto rows = share_of(work.batch, work.data.rows(), 0, cluster_.size());
  send(order.text());
  if (order.parameters_follow) send_parameters(work.parameters);
  ContributionCheck* own = place_in_share(work.batch, rows, order.checked) ? check : nullptr;
  BoundedOnGrid share = exact_sum(work.program, work.data, rows, work.clip, executor,
                                  work.most_rows, &memory, work.unit, own);
  BoundedOnGrid sum = add_shares(std::move(share), work.batch.size(), cluster_);
  if (check != nullptr) {
    const std::vector<float> differs =
        gathered(cluster_, own != nullptr && own->differs ? 1.0f : 0.0f);
    check->differs = std::count(differs.begin(), differs.end(), 1.0f) > 0;
  }
  return sum;
}

void Crew::dismiss() { send(Order{}.text()); }

std::string why_not_shared(const Plan& plan) {
  const Manifest& manifest = *plan.manifest;
  if (manifest.noise_off) return "runs without noise are not shared among processes";
  if (plan.grid_levels != 0 || plan.arithmetic != Arithmetic::exact)
    return "only sums of aggregator.arithmetic exact are the same on any number of processes";
  const Components made = start_components(plan);
  if (made.differences != nullptr)
    return "the differences of gradients that " + manifest.aggregator.component->full_name() +
           " uses are not shared among processes";
  return "";
}

namespace {

/// Sums this process's share, as often as it is asked to.
class Worker {
 public:
  Worker(const Plan& plan, const RunOptions& options)
      : plan_(plan),
        cluster_(*options.cluster),
        executor_(make_executor(options.threads)),
        made_(start_components(plan)),
        program_owner_(program_owner(*plan.manifest, *plan.setting)),
        data_(read_rows(*plan.manifest, *plan.setting)) {
    apply_transforms(*plan.manifest, *plan.setting, data_, options.threads, options.features);
    bench_ = make_workbench(plan, *executor_);
    compare_common_parts(cluster_, common_ground(plan, options, data_));
  }

  void work() {
    for (;;) {
      const Order order = Order::of(received_text(cluster_));
      if (order.wish == Wish::end) return;
      if (order.parameters_follow) {
        std::vector<float> parameters(plan_.parameters);
        cluster_.broadcast(std::as_writable_bytes(std::span(parameters)));
        bench_.load(std::move(parameters));
      }
      if (order.wish == Wish::sum) {
        sum(order);
      } else {
        const bool is_test = order.wish == Wish::evaluate_test;
        shared_evaluations(*bench_.program, is_test ? data_.test : data_.train, cluster_,
                           *executor_);
      }
    }
  }

 private:
  void sum(const Order& order) {
    const Clip clip{.rule = *made_.clipping,
                    .groups = plan_.setting->groups,
                    .clip_norm = order.clip_norm,
                    .count_share = order.count_share};
    std::optional<ContributionCheck> check;
    const std::string clipping = plan_.manifest->clipping.component->full_name();
    const auto rows = share_of(order.batch, data_.train.rows(), cluster_.rank(), cluster_.size());
    if (const auto place = place_in_share(order.batch, rows, order.checked))
      check = ContributionCheck{.place = *place, .program = program_owner_, .clipping = clipping};
    if (order.augmentation_key.size() != 32)
      throw IoError("process 0 asked for a sum without a key");
    const RandomKey key = RandomKey::from_secret_bytes(
        std::span<const std::uint8_t, 32>(order.augmentation_key.data(), 32));
    const AugmentedStep augmented(*bench_.program, key, order.step);
    give_share(
        exact_sum(*bench_.program, data_.train, rows, clip, *executor_, order.most_rows,
                  &bench_.memory, static_cast<PrivacyUnit>(order.unit), check ? &*check : nullptr),
        cluster_);
    if (order.checked < order.batch.size())
      gathered(cluster_, check && check->differs ? 1.0f : 0.0f);
  }

  const Plan& plan_;
  Cluster& cluster_;
  std::unique_ptr<Executor> executor_;
  Components made_;
  std::string program_owner_;
  RunData data_;
  Workbench bench_;
};

}  // namespace

void work_for_others(const Manifest& manifest, const RunOptions& options) {
  if (manifest.federated) return make_rounds_for_others(manifest, options);
  const Plan plan = make_plan(manifest);
  Worker(plan, options).work();
}

}  // namespace privgrad::core

#include "privgrad/train/process_group.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/plan/components.hpp"
#include "privgrad/train/accuracy_report.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {
namespace {

std::string text_of(Wish wish, const StepOrder& order, bool parameters_follow) {
  StateWriter out;
  out.put(wish, parameters_follow);
  if (wish == Wish::step) out.put(order);
  return out.text();
}

std::vector<CommonPart> common_before_plan(const Value& manifest, const RunOptions& options) {
  return {common_program(),
          {"other plugins", sha256_hex(options.lock)},
          {"another manifest", sha256_hex(to_yaml(manifest))}};
}

}  // namespace

void share_plan(Cluster& cluster, const Plan& plan, const RunOptions& options) {
  compare_common_parts(cluster, common_before_plan(plan.manifest->resolved, options));
  StateWriter planned;
  planned.put(*plan.setting->plan_key, plan.setting->kept->scales(),
              plan.setting->kept->optimized(), plan.setting->kept->schedules_text());
  broadcast_text(cluster, planned.text());
}

Plan shared_plan(const Manifest& manifest, const RunOptions& options) {
  compare_common_parts(*options.cluster, common_before_plan(manifest.resolved, options));
  const std::string text = broadcast_text(*options.cluster, "");
  StateReader in(text, "what process 0 planned with");
  const RandomKey key = in.key();
  std::vector<double> scales, optimized;
  std::string schedules;
  in.get(scales, optimized, schedules);
  in.end();
  return make_shared_plan(
      manifest, key,
      std::make_shared<KeptNumbers>(std::move(scales), std::move(optimized), schedules));
}

std::vector<CommonPart> common_ground(const RunData& data) {
  // Hashes all examples, even if a resumed run trusts its commitment and the transforms' promise,
  // because the other processes have not committed to anything.
  return {{"other examples", hash_of_examples(data)}};
}

ProcessGroup::ProcessGroup(Cluster& cluster, const PlanNumbers& plan, const Program& program)
    : cluster_(cluster),
      slices_(program, cluster.size(), plan.releases_count()),
      parameter_count_(program.parameter_count()) {}

// ---- at process 0

void ProcessGroup::join(std::string_view learnt, std::span<const CommonPart> ground,
                        std::string_view state) {
  broadcast_text(cluster_, learnt);
  compare_common_parts(cluster_, ground);
  broadcast_text(cluster_, state);
}

void ProcessGroup::teach(std::string_view learnt, std::span<const CommonPart> ground) {
  broadcast_text(cluster_, text_of(Wish::learn, {}, false));
  broadcast_text(cluster_, learnt);
  compare_common_parts(cluster_, ground);
}

void ProcessGroup::ask_for(const StepOrder& order, std::span<const float> parameters) {
  send_order(Wish::step, order, parameters);
}

Evaluation ProcessGroup::evaluate(const Program& program, std::span<const float> parameters,
                                  const Dataset& data, bool is_test, Executor& executor) {
  send_order(is_test ? Wish::evaluate_test : Wish::evaluate_train, {}, parameters);
  return total_of(evaluations(program, data, executor));
}

std::vector<float> ProcessGroup::halves(const Program& program, std::span<const float> parameters,
                                        const Dataset& train, Executor& executor) {
  send_order(Wish::report, {}, parameters);
  return halves(program, train, executor);
}

void ProcessGroup::ask_for_state() { broadcast_text(cluster_, text_of(Wish::state, {}, false)); }

void ProcessGroup::dismiss() { broadcast_text(cluster_, text_of(Wish::end, {}, false)); }

void ProcessGroup::send_order(Wish wish, const StepOrder& order,
                              std::span<const float> parameters) {
  const bool parameters_follow = !have(parameters);
  broadcast_text(cluster_, text_of(wish, order, parameters_follow));
  if (!parameters_follow) return;
  parameters_.assign(parameters.begin(), parameters.end());
  cluster_.broadcast(std::as_writable_bytes(std::span(parameters_)));
}

bool ProcessGroup::have(std::span<const float> parameters) const {
  return parameters_.size() == parameters.size() && !parameters_.empty() &&
         std::memcmp(parameters_.data(), parameters.data(), parameters.size_bytes()) == 0;
}

// ---- at the others

std::string ProcessGroup::joined(std::span<const CommonPart> ground) {
  compare_common_parts(cluster_, ground);
  return broadcast_text(cluster_, "");
}

ProcessGroup::Asked ProcessGroup::next() {
  const std::string text = broadcast_text(cluster_, "");
  StateReader in(text, "what process 0 asks for");
  Asked asked;
  bool parameters_follow = false;
  in.get(asked.wish, parameters_follow);
  if (asked.wish == Wish::step) in.get(asked.order);
  in.end();
  if (parameters_follow) {
    asked.parameters.emplace(parameter_count_);
    cluster_.broadcast(std::as_writable_bytes(std::span(*asked.parameters)));
  }
  return asked;
}

// ---- calls that all processes make together

std::vector<Evaluation> ProcessGroup::evaluations(const Program& program, const Dataset& data,
                                                  Executor& executor) const {
  const std::size_t parts = evaluation_parts(data);
  const auto begin_of = [&](std::size_t rank) { return parts * rank / cluster_.size(); };
  const std::size_t begin = begin_of(cluster_.rank());
  const std::vector<Evaluation> own =
      evaluate_parts(program, data, begin, begin_of(cluster_.rank() + 1), executor);
  // Each word is 0 in all processes but one, so the sums keep its bits.
  std::vector<std::uint64_t> words(2 * parts, 0);
  for (std::size_t i = 0; i < own.size(); ++i) {
    words[2 * (begin + i)] = std::bit_cast<std::uint64_t>(own[i].loss);
    words[2 * (begin + i) + 1] = own[i].correct;
  }
  cluster_.add_up(words, std::vector<std::size_t>(cluster_.size(), words.size()));
  std::vector<Evaluation> all(parts);
  for (std::size_t i = 0; i < parts; ++i) {
    all[i].loss = std::bit_cast<double>(words[2 * i]);
    all[i].correct = words[2 * i + 1];
  }
  return all;
}

std::vector<float> ProcessGroup::halves(const Program& program, const Dataset& data,
                                        Executor& executor) const {
  const std::size_t rows = data.rows();
  const auto begin_of = [&](std::size_t rank) { return rows * rank / cluster_.size(); };
  std::vector<std::uint32_t> share(begin_of(cluster_.rank() + 1) - begin_of(cluster_.rank()));
  std::iota(share.begin(), share.end(), static_cast<std::uint32_t>(begin_of(cluster_.rank())));
  const std::vector<float> own = correct_halves(program, data, share, executor);
  std::vector<float> all(rows);
  std::ranges::copy(own, all.begin() + static_cast<std::ptrdiff_t>(begin_of(cluster_.rank())));
  std::vector<std::size_t> ends(cluster_.size());
  for (std::size_t i = 0; i < ends.size(); ++i) ends[i] = begin_of(i + 1) * sizeof(float);
  cluster_.gather(std::as_writable_bytes(std::span(all)), ends);
  return all;
}

void ProcessGroup::exchange(std::span<float> parameters) {
  gather(parameters, slices_.parameter_ends(), cluster_);
  if (cluster_.rank() == 0) parameters_.assign(parameters.begin(), parameters.end());
}

std::vector<double> ProcessGroup::all(double mine) const {
  std::vector<double> numbers(cluster_.size(), 0.0);
  numbers[cluster_.rank()] = mine;
  std::vector<std::size_t> ends(cluster_.size());
  for (std::size_t i = 0; i < ends.size(); ++i) ends[i] = (i + 1) * sizeof(double);
  cluster_.gather(std::as_writable_bytes(std::span(numbers)), ends);
  return numbers;
}

StateWriter::Whole ProcessGroup::whole() const {
  return [this](std::span<const std::byte> slice, std::size_t element) {
    std::vector<std::size_t> ends = slices_.parameter_ends();
    for (std::size_t& end : ends) end *= element;
    std::vector<std::byte> whole(ends.back());
    const std::size_t begin = cluster_.rank() == 0 ? 0 : ends[cluster_.rank() - 1];
    std::ranges::copy(slice, whole.begin() + static_cast<std::ptrdiff_t>(begin));
    cluster_.gather(whole, ends);
    return whole;
  };
}

}  // namespace privgrad::core

#include "crew.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "privgrad/abi.hpp"
#include "privgrad/error.hpp"
#include "privgrad/pipeline/components.hpp"
#include "privgrad/pipeline/data_commitment.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/sha256.hpp"

namespace privgrad::core {
namespace {

std::string text_of(Wish wish, const StepOrder& order, bool parameters_follow) {
  StateWriter out;
  out.word(static_cast<std::uint64_t>(wish));
  out.word(parameters_follow ? 1 : 0);
  if (wish != Wish::step) return out.text();
  out.word(order.step);
  out.array(order.batch);
  out.real(order.clip_norm);
  out.real(order.count_share);
  out.word(order.checked);
  out.array(order.augmentation_key);
  out.bytes(order.noise);
  return out.text();
}

StepOrder order_of(StateReader& in) {
  StepOrder order;
  order.step = in.word();
  order.batch = in.array<std::uint32_t>();
  order.clip_norm = in.real();
  order.count_share = in.real();
  order.checked = in.word();
  order.augmentation_key = in.array<std::uint8_t>(32);
  order.noise = in.bytes();
  return order;
}

/// What most texts fit into, behind their length: one message instead of two.
constexpr std::size_t kEnvelope = 1024;

/// \param text  of process 0; the others get it.
void broadcast(Cluster& cluster, std::string& text) {
  std::array<char, kEnvelope> envelope{};
  std::uint64_t size = text.size();
  constexpr std::size_t kInside = kEnvelope - sizeof size;
  std::memcpy(envelope.data(), &size, sizeof size);
  std::copy_n(text.begin(), std::min(text.size(), kInside), envelope.begin() + sizeof size);
  cluster.broadcast(std::as_writable_bytes(std::span(envelope)));
  std::memcpy(&size, envelope.data(), sizeof size);
  text.resize(size);
  std::copy_n(envelope.begin() + sizeof size, std::min(text.size(), kInside), text.begin());
  if (size <= kInside) return;
  cluster.broadcast(std::as_writable_bytes(std::span(text.data(), text.size()).subspan(kInside)));
}

}  // namespace

std::string common_ground(const Plan& plan, const RunOptions& options, const RunData& data) {
  StateWriter ground;
  ground.bytes(PRIVGRAD_ABI_TAG);
  ground.bytes(options.lock);
  ground.bytes(to_yaml(plan.manifest->resolved));
  // All of them, also where a run that goes on trusts its commitment and the transforms' promise: no
  // other process has committed to anything.
  for (const Dataset* split : {&data.train, &data.test}) {
    ground.word(split->rows());
    ground.bytes(split->rows() == 0 ? "" : commitment_to({}, *split));
  }
  return sha256_hex(ground.text());
}

Crew::Crew(Cluster& cluster, const Plan& plan, const Program& program)
    : cluster_(cluster),
      slices_(program, cluster.size(), plan.clip_norm_adapts()),
      parameter_count_(program.parameter_count()) {}

// ---- at process 0

void Crew::join(const std::string& ground, std::string_view state) {
  send(ground);
  const std::vector<double> differ = all(0.0);
  const auto first = std::find(differ.begin(), differ.end(), 1.0);
  if (first != differ.end()) {
    const auto rank = static_cast<std::size_t>(first - differ.begin());
    throw ConfigError("process " + std::to_string(rank) + " on " + host_of(rank) +
                      " has another program, manifest, plugins or data than process 0");
  }
  send(std::string(state));
}

void Crew::ask_for(const StepOrder& order, std::span<const float> parameters) {
  send_order(Wish::step, order, parameters);
}

Evaluation Crew::evaluate(const Program& program, std::span<const float> parameters,
                          const Dataset& data, bool is_test, Executor& executor) {
  send_order(is_test ? Wish::evaluate_test : Wish::evaluate_train, {}, parameters);
  return total_of(evaluations(program, data, executor));
}

void Crew::ask_for_state() { send(text_of(Wish::state, {}, false)); }

void Crew::dismiss() { send(text_of(Wish::end, {}, false)); }

void Crew::send_order(Wish wish, const StepOrder& order, std::span<const float> parameters) {
  const bool parameters_follow = !have(parameters);
  send(text_of(wish, order, parameters_follow));
  if (!parameters_follow) return;
  parameters_.assign(parameters.begin(), parameters.end());
  cluster_.broadcast(std::as_writable_bytes(std::span(parameters_)));
}

bool Crew::have(std::span<const float> parameters) const {
  return parameters_.size() == parameters.size() && !parameters_.empty() &&
         std::memcmp(parameters_.data(), parameters.data(), parameters.size_bytes()) == 0;
}

void Crew::send(const std::string& text) {
  std::string copy = text;
  broadcast(cluster_, copy);
}

// ---- at the others

std::string Crew::joined(const std::string& ground) {
  const bool differs = received() != ground;
  const std::vector<double> differ = all(differs ? 1.0 : 0.0);
  const auto first = std::find(differ.begin(), differ.end(), 1.0);
  // Process 0 says whose it is, and ends all.
  if (first != differ.end()) host_of(static_cast<std::size_t>(first - differ.begin()));
  return received();
}

Crew::Asked Crew::next() {
  const std::string text = received();
  StateReader in(text, "what process 0 asks for");
  Asked asked;
  asked.wish = static_cast<Wish>(in.word());
  const bool parameters_follow = in.word() == 1;
  if (asked.wish == Wish::step) asked.order = order_of(in);
  in.end();
  if (parameters_follow) {
    asked.parameters.emplace(parameter_count_);
    cluster_.broadcast(std::as_writable_bytes(std::span(*asked.parameters)));
  }
  return asked;
}

std::string Crew::received() const {
  std::string text;
  broadcast(cluster_, text);
  return text;
}

// ---- at all of them, at the same time

std::vector<Evaluation> Crew::evaluations(const Program& program, const Dataset& data,
                                          Executor& executor) const {
  const std::size_t parts = evaluation_parts(data);
  const auto begin_of = [&](std::size_t rank) { return parts * rank / cluster_.size(); };
  const std::size_t begin = begin_of(cluster_.rank());
  const std::vector<Evaluation> own =
      evaluate_parts(program, data, begin, begin_of(cluster_.rank() + 1), executor);
  // Where one process has a number and the others zero, the sum is that number, bit for bit.
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

void Crew::exchange(std::span<float> parameters) {
  gather(parameters, slices_.parameter_ends(), cluster_);
  if (cluster_.rank() == 0) parameters_.assign(parameters.begin(), parameters.end());
}

std::vector<double> Crew::all(double mine) const {
  std::vector<double> numbers(cluster_.size(), 0.0);
  numbers[cluster_.rank()] = mine;
  std::vector<std::size_t> ends(cluster_.size());
  for (std::size_t i = 0; i < ends.size(); ++i) ends[i] = (i + 1) * sizeof(double);
  cluster_.gather(std::as_writable_bytes(std::span(numbers)), ends);
  return numbers;
}

std::string Crew::host_of(std::size_t rank) const {
  constexpr std::size_t kLongest = 256;
  std::vector<char> names(cluster_.size() * kLongest, '\0');
  const std::string own = cluster_.host();
  std::copy_n(own.begin(), std::min(own.size(), kLongest - 1),
              names.begin() + static_cast<std::ptrdiff_t>(cluster_.rank() * kLongest));
  std::vector<std::size_t> ends(cluster_.size());
  for (std::size_t i = 0; i < ends.size(); ++i) ends[i] = (i + 1) * kLongest;
  cluster_.gather(std::as_writable_bytes(std::span(names)), ends);
  return names.data() + rank * kLongest;
}

StateWriter::Whole Crew::whole() const {
  return [this](std::span<const std::byte> slice, std::size_t element) {
    std::vector<std::size_t> ends = slices_.parameter_ends();
    for (std::size_t& end : ends) end *= element;
    std::vector<std::byte> whole(ends.back());
    const std::size_t begin = cluster_.rank() == 0 ? 0 : ends[cluster_.rank() - 1];
    std::copy(slice.begin(), slice.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin));
    cluster_.gather(whole, ends);
    return whole;
  };
}

std::string why_not_shared(const Plan& plan) {
  const Manifest& manifest = *plan.manifest;
  if (plan.federated) return "federated runs are not shared among processes";
  if (!plan.statistics.empty())
    return "transforms that learn from released statistics are not shared among processes";
  if (manifest.noise_off) return "runs without noise are not shared among processes";
  if (plan.grid_levels != 0 || plan.arithmetic != Arithmetic::exact)
    return "only sums of aggregator.arithmetic exact are the same on any number of processes";
  return "";
}

}  // namespace privgrad::core

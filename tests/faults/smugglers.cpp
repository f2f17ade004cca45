// Components that receive private values, and reveal them in answers that become public: late, when
// the suite no longer checks.
#include <atomic>
#include <cmath>
#include <memory>

#include "fault.hpp"
#include "linear_program.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/optimizer.hpp"
#include "right_clipping.hpp"
#include "right_statistic.hpp"

using namespace privgrad;

namespace smugglers {

/// How many values an instance must receive before it reveals one.
constexpr int kLate = 5000;
constexpr const char* kAnswersPublicly = "the instance that answers is shown no private value";

enum class Asked { fitted_values, next_clip_norm, scale, evaluate };
/// Where the received values are stored.
enum class Kept { in_the_instance, in_a_static, in_a_thread };

struct Row {
  Told told;
  Asked asked;
  Kept kept = Kept::in_the_instance;
};

constexpr std::array kTable = std::to_array<Row>({
    {.told = {"says_a_row_late", "saves a row that it was shown, beside what it learnt",
              Let::harmless, kAnswersPublicly},
     .asked = Asked::fitted_values},
    {.told = {"clip_norm_follows_a_norm_late", "its clip norm follows a norm that it was shown",
              Let::harmless, kAnswersPublicly},
     .asked = Asked::next_clip_norm},
    {.told = {"scale_follows_a_norm_late", "scales coordinates by a norm that it was shown",
              Let::harmless, kAnswersPublicly},
     .asked = Asked::scale},
    {.told = {"says_a_row_of_a_static_late", "saves a row that any of its instances was shown"},
     .asked = Asked::fitted_values,
     .kept = Kept::in_a_static},
    {.told = {"clip_norm_follows_a_static_late",
              "its clip norm follows a norm that any of its instances was shown"},
     .asked = Asked::next_clip_norm,
     .kept = Kept::in_a_static},
    {.told = {"clip_norm_follows_a_thread_late",
              "its clip norm follows a norm that was shown on the same thread"},
     .asked = Asked::next_clip_norm,
     .kept = Kept::in_a_thread},
    {.told = {"scale_follows_a_static_late",
              "scales coordinates by a norm that any of its instances was shown"},
     .asked = Asked::scale,
     .kept = Kept::in_a_static},
    {.told = {"public_loss_follows_a_row_late",
              "moves the loss of public rows by a private row that it was shown", Let::harmless,
              kAnswersPublicly},
     .asked = Asked::evaluate},
});

/// The values that the component of row I has received.
template <std::size_t I>
class Memory {
 public:
  void see(double value) const {
    if (++seen_ > kLate) place() = value;
  }
  /// \returns 0 at first.
  double value() const { return place(); }

 private:
  std::atomic<double>& place() const {
    static std::atomic<double> of_all = 0.0;
    static thread_local std::atomic<double> of_thread = 0.0;
    switch (kTable[I].kept) {
      case Kept::in_a_static:
        return of_all;
      case Kept::in_a_thread:
        return of_thread;
      case Kept::in_the_instance:
        break;
    }
    return own_;
  }

  mutable std::atomic<int> seen_ = 0;
  mutable std::atomic<double> own_ = 0.0;
};

template <std::size_t I>
class Statistical final : public RightStatistic {
 public:
  using RightStatistic::RightStatistic;
  void contribution(const Shape& shape, std::span<const float> features,
                    std::span<float> out) const override {
    RightStatistic::contribution(shape, features, out);
    memory_.see(static_cast<double>(features[0]));
  }
  std::vector<FittedTensor> fitted_values() const override {
    std::vector<FittedTensor> values = RightStatistic::fitted_values();
    values.front().values.front() += memory_.value();
    return values;
  }

 private:
  Memory<I> memory_;
};

/// A clipping that remembers norms.
template <std::size_t I>
class Remembering : public RightClipping {
 public:
  using RightClipping::RightClipping;
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    RightClipping::factors(squared_norms, clip_norm, factors);
    memory_.see(norm(squared_norms));
  }

 protected:
  Memory<I> memory_;
};

template <std::size_t I>
class Adapting final : public Remembering<I>, public AdaptiveClipNorm {
 public:
  using Remembering<I>::Remembering;
  double count_noise(double, double noise_multiplier) const override { return noise_multiplier; }
  double next_clip_norm(double clip_norm, double unclipped) const override {
    return std::clamp(clip_norm * (unclipped > 0.5 ? 0.9 : 1.1), 1e-3, 1e3) *
           (1.0 + this->memory_.value());
  }
};

/// The shift is 0; the first coordinate of the scale is 1 plus the remembered value.
template <std::size_t I>
class Scaling final : public Remembering<I>, public CoordinateScaling {
 public:
  using Remembering<I>::Remembering;
  void start(std::span<const ParameterGroup> groups) override {
    shift_.assign(groups.back().offset + groups.back().size, 0.0f);
    scale_.assign(shift_.size(), 1.0f);
  }
  std::span<const float> shift() const override { return shift_; }
  std::span<const float> scale() const override {
    scale_.front() = 1.0f + static_cast<float>(this->memory_.value());
    return scale_;
  }
  void learn(const Released&) override {}

 private:
  std::vector<float> shift_;
  mutable std::vector<float> scale_;
};

/// A program that remembers rows, and a backend whose programs share one memory.
template <std::size_t I>
class Compiled final : public LinearProgram, public ReproducibleRows {
 public:
  using LinearProgram::LinearProgram;
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    LinearProgram::gradient_rows(batch, rows);
    for (const float x : batch.features) memory_->see(std::abs(static_cast<double>(x)));
  }
  Evaluation evaluate(const Batch& batch) const override {
    Evaluation sum = LinearProgram::evaluate(batch);
    sum.loss += memory_->value();
    return sum;
  }
  std::shared_ptr<Memory<I>> memory_;
};

template <std::size_t I>
class Executing final : public OneLayerBackend<Compiled<I>> {
 public:
  using OneLayerBackend<Compiled<I>>::OneLayerBackend;
  std::unique_ptr<Program> compile(const Network& network, Executor& executor) override {
    auto program = OneLayerBackend<Compiled<I>>::compile(network, executor);
    dynamic_cast<Compiled<I>&>(*program).memory_ = memory_;
    return program;
  }

 private:
  std::shared_ptr<Memory<I>> memory_ = std::make_shared<Memory<I>>();
};

template <std::size_t I>
void add(std::vector<Fault>& faults) {
  const std::string data = "data={kind: synthetic, rows: 6000, dimensions: 4";
  const Row& row = kTable[I];
  const std::string id = row.told.id;
  const auto one = [&]<class Interface, class Impl>(const std::string& kind,
                                                    std::vector<std::string> place,
                                                    std::vector<ParamSpec> params) {
    Registrar registrar;
    registrar.add<Interface, Impl>({.name = id,
                                    .summary = "Broken on purpose.",
                                    .reference = "none: a definition",
                                    .params = std::move(params),
                                    .traits = {trait::kAll.begin(), trait::kAll.end()}});
    faults.push_back({.id = kind + "/" + id,
                      .imitates = row.told.imitates,
                      .factory = registrar.factories().front(),
                      .place = std::move(place),
                      .let = row.told.let,
                      .why = row.told.why});
  };
  if constexpr (kTable[I].asked == Asked::fitted_values) {
    one.template operator()<Transform, Statistical<I>>(
        "transform",
        {data + "}",
         "data.transforms=[{kind: " + id + ", statistic: private, noise_multiplier: 4}]"},
        private_statistic_params());
  } else if constexpr (kTable[I].asked == Asked::next_clip_norm) {
    one.template operator()<Clipping, Adapting<I>>("clipping", {data + "}", "clipping=" + id}, {});
  } else if constexpr (kTable[I].asked == Asked::scale) {
    one.template operator()<Clipping, Scaling<I>>("clipping", {data + "}", "clipping=" + id}, {});
  } else {
    one.template operator()<Backend, Executing<I>>(
        "program", {data + ", test_rows: 20}", "data.test_is_public=true", "backend=" + id}, {});
  }
}

template <std::size_t... I>
std::vector<Fault> all(std::index_sequence<I...>) {
  std::vector<Fault> faults;
  (add<I>(faults), ...);
  return faults;
}

}  // namespace smugglers

std::vector<Fault> smuggler_faults() {
  using namespace smugglers;
  std::vector<Fault> faults = all(std::make_index_sequence<kTable.size()>());
  faults.insert(faults.begin(), statistic_faults().front());  // the control
  return faults;
}

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include "privgrad/accountant.hpp"
#include "privgrad/aggregator.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/bounded_statistic.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/cluster.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/error.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/federated.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/model.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/partition.hpp"
#include "privgrad/random.hpp"
#include "privgrad/row_evaluations.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/streamed_rows.hpp"
#include "privgrad/transform.hpp"

#include <utility>
#include <vector>

namespace privgrad {

// Key functions: they pin each interface's vtable and typeinfo to this library.
Accountant::~Accountant() = default;
AdaptiveClipNorm::~AdaptiveClipNorm() = default;
AdaptiveLocalIterations::~AdaptiveLocalIterations() = default;
Aggregator::~Aggregator() = default;
Backend::~Backend() = default;
BoundedStatistic::~BoundedStatistic() = default;
Contribution::~Contribution() = default;
CoordinateScaling::~CoordinateScaling() = default;
Clipping::~Clipping() = default;
Cluster::~Cluster() = default;
DataSource::~DataSource() = default;
Executor::~Executor() = default;
ReproducibleRows::~ReproducibleRows() = default;
ExactClipping::~ExactClipping() = default;
ExactClipping::Pass::~Pass() = default;
Model::~Model() = default;
std::vector<TensorSource> Model::sources(const Network&) const { return {}; }
std::map<std::string, std::string> Model::files() const { return {}; }
Optimizer::~Optimizer() = default;
Outputs::~Outputs() = default;
Partition::~Partition() = default;
Program::~Program() = default;
PublicOrder::~PublicOrder() = default;
RandomSource::~RandomSource() = default;
RandomStream::~RandomStream() = default;
RowEvaluations::~RowEvaluations() = default;
Sampler::~Sampler() = default;
Stateful::~Stateful() = default;
Schedule::~Schedule() = default;
StreamedRows::~StreamedRows() = default;
Transform::~Transform() = default;
UsesGradientDifferences::~UsesGradientDifferences() = default;

StepRule Optimizer::next_rule(const StepContext&) {
  throw PluginError("an optimizer without a rule was asked for one");
}

double Schedule::next(double, std::span<const double>) const {
  throw PluginError("a schedule that adapts no noise was asked for the next");
}

std::unique_ptr<Contribution> BoundedStatistic::contribution_in_pieces(
    const Shape&, std::span<const float>) const {
  return nullptr;
}

std::uint64_t ExactClipping::pass_bytes(std::size_t) const { return 0; }

void ExactClipping::choose(Pass&, std::span<const std::uint8_t>) const {
  throw PluginError("a program without pieces was asked for them");
}

void ExactClipping::add_piece(Pass&, std::size_t, std::span<std::int64_t>) const {
  throw PluginError("a program without pieces was asked for one");
}

namespace {

constexpr std::size_t kTaskRows = 32;

class OneThread final : public Executor {
 public:
  void for_each_chunk(std::size_t chunks, const std::function<void(std::size_t)>& body) override {
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) body(chunk);
  }
};

}  // namespace

void Transform::apply(Dataset& data) const {
  OneThread here;
  apply_to_each_row(*this, output_shape(data.shape()).features, data, here);
}

void Transform::apply_row(const Shape&, std::span<const float>, std::span<float>) const {
  throw PluginError("a transform has neither apply() nor apply_row()");
}

void Transform::restore(const std::vector<FittedTensor>& values) {
  if (!values.empty()) throw ConfigError("expected no fitted tensors");
}

std::vector<RowOperation> Transform::row_operations(const Shape&) const {
  throw ConfigError("it does not tell in operations what it does (row_operations())");
}

void Transform::apply_rows(const Shape& shape, std::size_t rows, std::span<const float> features,
                           std::span<float> out) const {
  const std::size_t before = features.size() / rows, after = out.size() / rows;
  for (std::size_t row = 0; row < rows; ++row) {
    apply_row(shape, features.subspan(row * before, before), out.subspan(row * after, after));
  }
}

void apply_to_each_row(const Transform& transform, const Shape& shape, Dataset& data,
                       Executor& executor) {
  const Shape before_shape = data.shape().features;
  const std::size_t rows = data.rows(), before = data.row_size(), after = element_count(shape);
  const std::span<const float> features = data.features();
  std::vector<float> result(rows * after);
  std::vector<char> is_overflown(rows);  // not bool, because threads write to adjacent elements
  executor.for_each_chunk((rows + kTaskRows - 1) / kTaskRows, [&](std::size_t task) {
    const std::size_t first = task * kTaskRows, count = std::min(kTaskRows, rows - first);
    const auto made = std::span(result).subspan(first * after, count * after);
    transform.apply_rows(before_shape, count, features.subspan(first * before, count * before),
                         made);
    for (std::size_t i = 0; i < count; ++i) {
      const auto out = made.subspan(i * after, after);
      if (all_finite(out)) continue;
      std::ranges::fill(out, 0.0f);
      is_overflown[first + i] = 1;
    }
  });
  data.replace_features(shape, std::move(result));
  // An error here would reveal something about one row. Instead, the row's gradient will not be
  // finite, so it counts as zero.
  const std::span<float> written = data.features();
  for (std::size_t row = 0; row < rows; ++row) {
    if (is_overflown[row] == 0) continue;
    const auto out = written.subspan(row * after, after);
    std::ranges::fill(out, std::numeric_limits<float>::quiet_NaN());
  }
}

const FittedTensor& find_fitted(const std::vector<FittedTensor>& values, std::string_view who,
                                std::string_view name, const Shape& shape) {
  const auto refuse = [&](const std::string& what) -> ConfigError {
    return ConfigError(std::string(who) + ": the fitted tensor " + std::string(name) + " " + what);
  };
  const auto found =
      std::ranges::find_if(values, [&](const FittedTensor& one) { return one.name == name; });
  if (found == values.end()) throw refuse("is missing");
  const auto fits = [](std::size_t given, std::size_t wanted) {
    return given > 0 && (wanted == 0 || given == wanted);
  };
  if (!std::ranges::equal(found->shape, shape, fits)) {
    std::string wanted;
    for (const std::size_t extent : shape)
      wanted += (wanted.empty() ? "" : " x ") + (extent == 0 ? "n" : std::to_string(extent));
    throw refuse("is " + to_text(found->shape) + ", expected " + wanted);
  }
  if (found->values.size() != element_count(found->shape)) {
    throw refuse("has " + std::to_string(found->values.size()) + " values, expected " +
                 std::to_string(element_count(found->shape)));
  }
  if (!std::ranges::all_of(found->values, [](double x) { return std::isfinite(x); })) {
    throw refuse("has a value that is not finite");
  }
  return *found;
}

ParamSpec statistics_param() {
  return param::text(
             "statistic",
             "Whether the training rows may be looked at for this: private rows that "
             "nothing is charged for, or declared public. Listed in every output either "
             "way, and refused in release mode, which takes numbers in the manifest instead, "
             "where the component has parameters for them.")
      .one_of({"unaccounted", "public"})
      .defaults_to("unaccounted");
}

std::string_view to_text(Measured measured) {
  switch (measured) {
    case Measured::loss_change:
      return "loss_change";
    case Measured::validation_loss:
      return "validation_loss";
    case Measured::validation_accuracy:
      return "validation_accuracy";
  }
  throw ConfigError("no such measurement");
}

Statistic statistic_from(const Params& params) {
  const std::string& said = params.text("statistic");
  if (said == "private") return Statistic::released;
  return said == "public" ? Statistic::declared_public : Statistic::unaccounted;
}

std::vector<ParamSpec> private_statistic_params(std::vector<ParamSpec> own) {
  std::vector<ParamSpec> params{
      param::text(
          "statistic",
          "Where the learned numbers come from. private: a noised sum over the training rows, "
          "released once and charged to the budget, with `share` or `noise_multiplier`. "
          "unaccounted: private rows, without a charge. public: rows that may be read for this. "
          "The last two are listed in every output and refused in release mode.")
          .one_of({"unaccounted", "public", "private"})
          .defaults_to("unaccounted"),
      param::real("share",
                  "For a private statistic: the share of the budget that its release takes, as a "
                  "part of 1 / noise multiplier^2 of a Gaussian release that takes all of it.")
          .above(0)
          .below(1)
          .optional(),
      param::real("noise_multiplier",
                  "For a private statistic, instead of `share`: standard deviation of its noise "
                  "over the bound of a row's contribution.")
          .above(0)
          .at_most(1e9)
          .optional()
          .example(4.0),
  };
  std::move(own.begin(), own.end(), std::back_inserter(params));
  return params;
}

std::optional<StatisticNoise> statistic_noise_from(const Params& params, std::string_view who) {
  const bool is_private = statistic_from(params) == Statistic::released;
  const bool has_share = params.has("share"), has_noise = params.has("noise_multiplier");
  if (!is_private) {
    if (!has_share && !has_noise) return std::nullopt;
    throw ConfigError(std::string(who) + ": " + (has_share ? "share" : "noise_multiplier") +
                      " is of a private statistic; say statistic: private, or leave it out");
  }
  if (has_share == has_noise) {
    throw ConfigError(std::string(who) + ": statistic: private takes share or noise_multiplier, " +
                      (has_share ? "both are given" : "neither is given"));
  }
  StatisticNoise noise;
  (has_share ? noise.share : noise.multiplier) =
      params.real(has_share ? "share" : "noise_multiplier");
  return noise;
}

}  // namespace privgrad

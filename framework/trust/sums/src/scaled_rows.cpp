#include "privgrad/trust/scaled_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/row_evaluations.hpp"
#include "privgrad/trust/program_around.hpp"
#include "trust_base.hpp"

namespace privgrad::core {
namespace {

constexpr auto kLargest = static_cast<double>(std::numeric_limits<float>::max());

/// Rounds to float32. A finite value that is too large becomes the largest float; clipping shortens
/// it.
float narrowed(double value) {
  return static_cast<float>(std::isfinite(value) ? std::clamp(value, -kLargest, kLargest) : value);
}

class ScaledRows final : public Keeping<ReproducibleRows, RowEvaluations> {
 public:
  ScaledRows(const Program& program, const Scaling& scaling)
      : program_(program), scaling_(scaling) {}

  const Program& inside() const override { return program_; }
  std::size_t parameter_count() const override { return program_.parameter_count(); }
  void load_parameters(std::span<const float>) override {
    throw PluginError("the parameters of a program changed while its rows were added up");
  }
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    program_.gradient_rows(batch, rows);
    const std::size_t size = scaling_.shift.size();
    for (std::size_t begin = 0; begin < rows.size(); begin += size) {
      const std::span<float> row = rows.subspan(begin, size);
      for (std::size_t i = 0; i < size; ++i) {
        const double moved = static_cast<double>(row[i]) - static_cast<double>(scaling_.shift[i]);
        row[i] = narrowed(moved / static_cast<double>(scaling_.scale[i]));
      }
    }
  }
  Evaluation evaluate(const Batch& batch) const override { return program_.evaluate(batch); }

 private:
  const Program& program_;
  const Scaling scaling_;
};

}  // namespace

void check_scaling(const Scaling& scaling, std::size_t parameters) {
  const auto is_good = [](float value) { return std::isfinite(value); };
  if (scaling.shift.size() != parameters || scaling.scale.size() != parameters) {
    throw PluginError("shifts and scales " + std::to_string(scaling.shift.size()) + " and " +
                      std::to_string(scaling.scale.size()) +
                      " coordinates of gradients that have " + std::to_string(parameters));
  }
  if (!std::all_of(scaling.shift.begin(), scaling.shift.end(), is_good))
    throw PluginError("shifts a coordinate by a number that is not finite");
  for (const float scale : scaling.scale) {
    if (!std::isfinite(scale) || !(scale > 0.0f))
      throw PluginError("scales a coordinate by a number that is not finite and above 0");
  }
}

std::unique_ptr<Program> scaled_rows(const Program& program, const Scaling& scaling) {
  check_scaling(scaling, program.parameter_count());
  return std::make_unique<ScaledRows>(program, scaling);
}

Released unscaled(const Released& release, const Scaling& scaling) {
  const std::span<const float> values = release.values();
  check_scaling(scaling, values.size());
  std::vector<float> gradient(values.size());
  double squares = 0.0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const auto scale = static_cast<double>(scaling.scale[i]);
    gradient[i] =
        narrowed(scale * static_cast<double>(values[i]) + static_cast<double>(scaling.shift[i]));
    squares += scale * scale;
  }
  const double mean = squares / static_cast<double>(std::max<std::size_t>(1, gradient.size()));
  return TrustBase::released(std::move(gradient), std::sqrt(mean) * release.noise_stddev());
}

}  // namespace privgrad::core

#include "audit_program.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "privgrad/trust/program_around.hpp"

namespace privgrad::core {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::size_t kRoleFeatures = 2;

/// A batch, separated into examples of the data and canaries.
struct Parted {
  std::vector<std::uint32_t> rows;  // positions of the data's examples in the batch
  std::vector<float> features, targets;
  struct Canary {
    std::uint32_t row;
    Role role;
  };
  std::vector<Canary> canaries;

  explicit Parted(const Batch& batch) {
    if (batch.rows() == 0) return;
    const std::size_t width = batch.features.size() / batch.rows();
    for (std::uint32_t row = 0; row < batch.rows(); ++row) {
      const auto features_of_row = batch.features.subspan(row * width, width);
      const Role role{static_cast<std::uint32_t>(features_of_row[width - 2]),
                      features_of_row[width - 1]};
      if (role.slot != 0) {
        canaries.push_back({row, role});
        continue;
      }
      rows.push_back(row);
      features.insert(features.end(), features_of_row.begin(),
                      features_of_row.end() - kRoleFeatures);
      targets.push_back(batch.targets[row]);
    }
  }

  Batch batch() const { return {features, targets}; }
};

class ByRows : public Keeping<ReproducibleRows> {
 public:
  ByRows(Program& program, const SpareLayout& layout) : program_(program), layout_(layout) {}

  const Program& inside() const override { return program_; }
  std::size_t parameter_count() const override { return layout_.outer_parameters(); }

  void load_parameters(std::span<const float> parameters) override {
    std::vector<float> inner(layout_.parameters());
    layout_.gather(parameters, inner);
    program_.load_parameters(inner);
  }

  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    const Parted parted(batch);
    std::vector<float> inner(parted.rows.size() * layout_.parameters());
    if (!parted.rows.empty()) program_.gradient_rows(parted.batch(), inner);
    std::ranges::fill(rows, 0.0f);
    const auto row = [&](std::size_t i) {
      return rows.subspan(i * parameter_count(), parameter_count());
    };
    for (std::size_t i = 0; i < parted.rows.size(); ++i) {
      layout_.spread(std::span(inner).subspan(i * layout_.parameters(), layout_.parameters()),
                     row(parted.rows[i]));
    }
    for (const Parted::Canary& canary : parted.canaries) {
      for (std::size_t group = 0; group < layout_.inner().size(); ++group)
        row(canary.row)[layout_.spare(group, canary.role.slot - 1)] = canary.role.gradient;
    }
  }

  /// Evaluates only the examples of the data.
  Evaluation evaluate(const Batch& batch) const override {
    const Parted parted(batch);
    return parted.rows.empty() ? Evaluation{} : program_.evaluate(parted.batch());
  }

 protected:
  const SpareLayout& layout() const { return layout_; }

 private:
  Program& program_;
  const SpareLayout& layout_;
};

class ByPasses : public ByRows, public ExactClipping {
 public:
  ByPasses(Program& program, const SpareLayout& layout)
      : ByRows(program, layout), exact_(*ability_of<ExactClipping>(program)) {}

  std::size_t groups() const override { return exact_.groups(); }
  std::size_t microbatch_rows() const override { return exact_.microbatch_rows(); }

  std::unique_ptr<Pass> make_pass(std::size_t most_rows) const override {
    auto made = std::make_unique<AuditPass>();
    made->inner = exact_.make_pass(most_rows);
    if (made->inner == nullptr) return nullptr;  // the core reports the missing ability
    return made;
  }

  void backward(const Batch& batch, Pass& pass, std::span<double> squared_norms) const override {
    AuditPass& own = of(pass);
    own.parted.emplace(batch);
    const Parted& parted = *own.parted;
    std::vector<double> inner(parted.rows.size() * groups());
    if (!parted.rows.empty()) exact_.backward(parted.batch(), *own.inner, inner);
    for (std::size_t i = 0; i < parted.rows.size(); ++i)
      std::copy_n(&inner[i * groups()], groups(), &squared_norms[parted.rows[i] * groups()]);
    for (const Parted::Canary& canary : parted.canaries) {
      const auto value = static_cast<double>(canary.role.gradient);
      std::fill_n(&squared_norms[canary.row * groups()], groups(), value * value);
    }
  }

  void make_cells(Pass& pass, std::span<const double> scales, std::uint64_t most_cells,
                  std::span<SquaredLength> lengths) const override {
    AuditPass& own = of(pass);
    const Parted& parted = *own.parted;
    std::vector<double> inner(parted.rows.size() * groups());
    for (std::size_t i = 0; i < parted.rows.size(); ++i)
      std::copy_n(&scales[parted.rows[i] * groups()], groups(), &inner[i * groups()]);
    std::vector<SquaredLength> inner_lengths(parted.rows.size());
    if (!parted.rows.empty()) exact_.make_cells(*own.inner, inner, most_cells, inner_lengths);
    for (std::size_t i = 0; i < parted.rows.size(); ++i) lengths[parted.rows[i]] = inner_lengths[i];
    own.cells.assign(parted.canaries.size() * groups(), 0);
    for (std::size_t i = 0; i < parted.canaries.size(); ++i) {
      const Parted::Canary& canary = parted.canaries[i];
      lengths[canary.row] =
          cells_of(canary.role.gradient, scales.subspan(canary.row * groups(), groups()),
                   most_cells, std::span(own.cells).subspan(i * groups(), groups()));
    }
  }

  void add_cells(Pass& pass, std::span<const std::uint8_t> taken,
                 std::span<std::int64_t> sum) const override {
    AuditPass& own = of(pass);
    const Parted& parted = *own.parted;
    if (!parted.rows.empty()) {
      std::vector<std::uint8_t> inner_taken;
      for (const std::uint32_t row : parted.rows) inner_taken.push_back(taken[row]);
      std::vector<std::int64_t> inner_sum(layout().parameters(), 0);
      exact_.add_cells(*own.inner, inner_taken, inner_sum);
      layout().add(inner_sum, sum);
    }
    for (std::size_t i = 0; i < parted.canaries.size(); ++i) {
      const Parted::Canary& canary = parted.canaries[i];
      if (taken[canary.row] == 0) continue;
      for (std::size_t group = 0; group < groups(); ++group)
        sum[layout().spare(group, canary.role.slot - 1)] += own.cells[i * groups() + group];
    }
  }

 private:
  struct AuditPass final : Pass {
    std::unique_ptr<Pass> inner;
    std::optional<Parted> parted;
    std::vector<std::int64_t> cells;  // [canaries, groups]
  };

  static AuditPass& of(Pass& pass) { return dynamic_cast<AuditPass&>(pass); }

  /// Computes scale * gradient for each group, rounded towards zero. If rounding errors made the
  /// vector too long, shortens each of its cells by one until it fits.
  static SquaredLength cells_of(float gradient, std::span<const double> scales,
                                std::uint64_t most_cells, std::span<std::int64_t> cells) {
    const auto most = static_cast<double>(most_cells);
    for (std::size_t group = 0; group < cells.size(); ++group) {
      const double value = scales[group] * static_cast<double>(gradient);
      cells[group] = static_cast<std::int64_t>(std::clamp(value, -most, most));
    }
    const auto squared = [&] {
      Wide sum = 0;
      for (const std::int64_t cell : cells) sum += static_cast<Wide>(cell * cell);  // at most 2^56
      return sum;
    };
    while (squared() > static_cast<Wide>(most_cells) * most_cells) {
      for (std::int64_t& cell : cells) cell -= cell > 0 ? 1 : cell < 0 ? -1 : 0;
    }
    const Wide length = squared();
    return {static_cast<std::uint64_t>(length >> 64), static_cast<std::uint64_t>(length)};
  }

  const ExactClipping& exact_;
};

}  // namespace

SpareLayout::SpareLayout(std::vector<ParameterGroup> groups, std::size_t spares)
    : inner_(std::move(groups)), outer_(inner_), spares_(spares) {
  for (std::size_t group = 0; group < outer_.size(); ++group) {
    outer_[group].offset += group * spares_;
    outer_[group].size += spares_;
  }
}

void SpareLayout::spread(std::span<const float> from, std::span<float> to) const {
  for (std::size_t group = 0; group < inner_.size(); ++group)
    std::copy_n(&from[inner_[group].offset], inner_[group].size, &to[outer_[group].offset]);
}

void SpareLayout::gather(std::span<const float> from, std::span<float> to) const {
  for (std::size_t group = 0; group < inner_.size(); ++group)
    std::copy_n(&from[outer_[group].offset], inner_[group].size, &to[inner_[group].offset]);
}

void SpareLayout::add(std::span<const std::int64_t> from, std::span<std::int64_t> to) const {
  for (std::size_t group = 0; group < inner_.size(); ++group) {
    for (std::size_t i = 0; i < inner_[group].size; ++i) {
      std::int64_t& sum = to[outer_[group].offset + i];
      sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) +
                                      static_cast<std::uint64_t>(from[inner_[group].offset + i]));
    }
  }
}

Dataset with_roles(const Dataset& data, std::span<const Role> roles) {
  const std::size_t width = data.row_size();
  std::vector<float> features(data.rows() * (width + kRoleFeatures)), row(width);
  std::vector<float> target(1);
  for (std::uint32_t i = 0; i < data.rows(); ++i) {
    data.gather(std::span(&i, 1), row, target);
    float* out = &features[i * (width + kRoleFeatures)];
    std::ranges::copy(row, out);
    out[width] = static_cast<float>(roles[i].slot);
    out[width + 1] = roles[i].gradient;
  }
  ExampleShape shape = data.shape();
  shape.features = {width + kRoleFeatures};
  const std::span<const float> targets = data.targets();
  return {std::move(shape), std::move(features), {targets.begin(), targets.end()}};
}

std::unique_ptr<Program> audit_program(Program& program, const SpareLayout& layout) {
  if (ability_of<ExactClipping>(program) != nullptr)
    return std::make_unique<ByPasses>(program, layout);
  return std::make_unique<ByRows>(program, layout);
}

}  // namespace privgrad::core

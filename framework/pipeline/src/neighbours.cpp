#include "neighbours.hpp"

#include <algorithm>
#include <cfloat>
#include <numeric>
#include <utility>

#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

/// Gives examples that are in memory.
class ExamplesInMemory final : public DataSource {
 public:
  ExamplesInMemory(DataInfo info, RunData data) : info_(std::move(info)), data_(std::move(data)) {}
  DataInfo info() override { return info_; }
  Dataset read(Split split) override { return split == Split::train ? data_.train : data_.test; }

 private:
  DataInfo info_;
  RunData data_;
};

/// Of classes the next one; a real target becomes its negative.
float another_target(const ExampleShape& shape, float target) {
  if (shape.classes == 0) return -target;
  const auto next = static_cast<std::size_t>(target) + 1;
  return static_cast<float>(next % shape.classes);
}

}  // namespace

std::string to_text(LastRow change) {
  switch (change) {
    case LastRow::as_it_is:
      return "the same rows";
    case LastRow::zeros:
      return "the last row of zeros and another class";
    case LastRow::copy:
      return "the last row a copy of the one before it";
    case LastRow::huge:
      return "the last row of the largest numbers";
    case LastRow::subnormal:
      return "the last row of subnormal numbers";
    case LastRow::removed:
      return "the last row removed";
  }
  return "";
}

std::vector<LastRow> neighbours_under(Adjacency adjacency) {
  std::vector<LastRow> all{LastRow::zeros, LastRow::copy, LastRow::huge, LastRow::subnormal};
  if (adjacency == Adjacency::add_or_remove_one) all.push_back(LastRow::removed);
  return all;
}

Dataset with_last_row(const Dataset& data, LastRow change) {
  if (change == LastRow::as_it_is) return data;
  const std::size_t kept = data.rows() - 1;
  const std::size_t width = data.row_size();
  std::vector<std::uint32_t> rows(change == LastRow::removed ? kept : data.rows());
  std::iota(rows.begin(), rows.end(), 0u);
  if (change == LastRow::copy) rows.back() -= 1;
  std::vector<float> features(rows.size() * width), targets(rows.size());
  data.gather(rows, features, targets);
  const auto last = std::span(features).subspan(kept * width);
  if (change == LastRow::zeros) {
    std::fill(last.begin(), last.end(), 0.0f);
    targets.back() = another_target(data.shape(), targets.back());
  } else if (change == LastRow::huge) {
    for (std::size_t i = 0; i < last.size(); ++i) last[i] = i % 2 == 0 ? FLT_MAX : -FLT_MAX;
  } else if (change == LastRow::subnormal) {
    std::fill(last.begin(), last.end(), FLT_MIN / 1024.0f);
  }
  return Dataset(data.shape(), std::move(features), std::move(targets));
}

RunData raw_data(const Plan& plan) {
  const Manifest& manifest = *plan.manifest;
  DataSource& source = *plan.setting->data;
  return manifest.data.with_position([&] {
    RunData data;
    data.train = source.read(Split::train);
    if (plan.setting->info.test_rows > 0) data.test = source.read(Split::test);
    return data;
  });
}

RunData neighbouring_data(const Plan& plan, const RunData& raw, LastRow change) {
  RunData data{.train = with_last_row(raw.train, change), .test = raw.test};
  apply_transforms(*plan.manifest, *plan.setting, data);
  return data;
}

Plan plan_on(const Plan& plan, const RunData& raw, LastRow change) {
  const std::shared_ptr<Setting> setting = make_setting(*plan.manifest);
  RunData data{.train = with_last_row(raw.train, change), .test = raw.test};
  setting->info.train_rows = data.train.rows();
  setting->dataset_size = plan.setting->dataset_size;  // public, whatever is really there
  setting->data = ComponentPtr<DataSource>(
      new ExamplesInMemory(setting->info, std::move(data)),
      {[](void* object) noexcept { delete static_cast<DataSource*>(object); }, nullptr});
  Plan changed = plan;
  changed.setting = setting;
  return changed;
}

}  // namespace privgrad::core

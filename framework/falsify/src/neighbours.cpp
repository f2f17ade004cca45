#include "neighbours.hpp"

#include <algorithm>
#include <cfloat>
#include <numeric>
#include <span>
#include <utility>

#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/read_data.hpp"

namespace privgrad::core {
namespace {

class ExamplesInMemory final : public DataSource {
 public:
  ExamplesInMemory(DataInfo info, RunData data) : info_(std::move(info)), data_(std::move(data)) {}
  DataInfo info() override { return info_; }
  Dataset read(Split split) override { return split == Split::train ? data_.train : data_.test; }

 private:
  DataInfo info_;
  RunData data_;
};

/// A different target: the next class, or a real number with the opposite sign.
float another_target(const ExampleShape& shape, float target) {
  if (shape.classes == 0) return -target;
  const auto next = static_cast<std::size_t>(target) + 1;
  return static_cast<float>(next % shape.classes);
}

}  // namespace

std::string to_text(LastRow change, PrivacyUnit unit) {
  const bool is_client = unit == PrivacyUnit::client;
  const std::string who = is_client ? "the last client's rows" : "the last row";
  switch (change) {
    case LastRow::as_it_is:
      return "the same rows";
    case LastRow::zeros:
      return who + " replaced by zeros and another class";
    case LastRow::copy:
      return who + " replaced by " +
             (is_client ? "copies of earlier rows" : "a copy of the row before it");
    case LastRow::huge:
      return who + " replaced by the largest numbers";
    case LastRow::subnormal:
      return who + " replaced by subnormal numbers";
    case LastRow::removed:
      return who + " removed";
    case LastRow::rare_token:
      return who + " replaced by the last token of the vocabulary";
    case LastRow::no_token:
      return who + " replaced by no tokens";
  }
  return "";
}

namespace {

/// The client of fed_avg that owns a row; null for a run with one owner, or with a server.
const ClientPlan* owner_of(const FederatedPlan* federated, std::uint32_t row) {
  if (federated == nullptr || federated->at_server) return nullptr;
  for (const ClientPlan& client : federated->clients) {
    if (std::ranges::binary_search(client.rows, row)) return &client;
  }
  return nullptr;
}

}  // namespace

std::vector<LastRow> neighbours_of(const Plan& plan) {
  std::vector<LastRow> all{LastRow::zeros, LastRow::copy, LastRow::huge, LastRow::subnormal};
  if (vocabulary_of(plan.setting->whole) > 0)
    all = {LastRow::zeros, LastRow::copy, LastRow::huge, LastRow::rare_token, LastRow::no_token};
  if (plan.manifest->adjacency != Adjacency::add_or_remove_one) return all;
  if (plan.unit == PrivacyUnit::client) return all;
  const auto last = static_cast<std::uint32_t>(plan.setting->info.train_rows - 1);
  const ClientPlan* owner = owner_of(plan.federated.get(), last);
  if (owner == nullptr || owner->rows.size() > 1) all.push_back(LastRow::removed);
  return all;
}

std::vector<std::uint32_t> changed_rows(const Plan& plan, const Dataset& train) {
  if (plan.unit == PrivacyUnit::client) return plan.federated->clients.back().rows;
  return {static_cast<std::uint32_t>(train.rows() - 1)};
}

Dataset with_change(const Dataset& data, const std::vector<std::uint32_t>& rows, LastRow change,
                    std::size_t vocabulary) {
  if (change == LastRow::as_it_is) return data;
  std::vector<std::uint32_t> taken(data.rows());
  std::iota(taken.begin(), taken.end(), 0u);
  for (const std::uint32_t row : rows) {
    if (change == LastRow::copy) taken[row] = row == 0 ? 1 : row - 1;
  }
  if (change == LastRow::removed) {
    std::erase_if(taken, [&](std::uint32_t row) { return std::ranges::binary_search(rows, row); });
  }
  const std::size_t width = data.row_size();
  std::vector<float> features(taken.size() * width), targets(taken.size());
  data.gather(taken, features, targets);
  for (const std::uint32_t row : rows) {
    if (change == LastRow::copy || change == LastRow::removed) break;
    const auto changed = std::span(features).subspan(row * width, width);
    if (change == LastRow::zeros) {
      std::ranges::fill(changed, 0.0f);
      targets[row] = another_target(data.shape(), targets[row]);
    } else if (change == LastRow::huge) {
      for (std::size_t i = 0; i < width; ++i) changed[i] = i % 2 == 0 ? FLT_MAX : -FLT_MAX;
    } else if (change == LastRow::subnormal) {
      std::ranges::fill(changed, FLT_MIN / 1024.0f);
    } else if (change == LastRow::rare_token) {
      std::ranges::fill(changed, static_cast<float>(vocabulary - 1));
    } else if (change == LastRow::no_token) {
      std::ranges::fill(changed, kEmptyPlace);
    }
  }
  return Dataset(data.shape(), std::move(features), std::move(targets));
}

RunData raw_data(const ComponentUse& source, const Setting& setting) {
  return source.with_position([&] {
    RunData data;
    data.train = setting.data->read(Split::train);
    if (setting.info.test_rows > 0) data.test = setting.data->read(Split::test);
    return data;
  });
}

RunData neighbouring_data(const Plan& plan, const RunData& raw, LastRow change, Teacher* teacher) {
  RunData data{.train = with_change(raw.train, changed_rows(plan, raw.train), change,
                                    vocabulary_of(plan.setting->whole)),
               .test = raw.test};
  apply_transforms(*plan.manifest, *plan.setting, data, 1, nullptr, teacher);
  return data;
}

Plan plan_on(const Plan& plan, const Manifest& manifest, const RunData& raw, LastRow change) {
  const std::shared_ptr<Setting> setting = make_setting(manifest);
  const std::vector<std::uint32_t> rows = changed_rows(plan, raw.train);
  RunData data{.train = with_change(raw.train, rows, change, vocabulary_of(plan.setting->whole)),
               .test = raw.test};
  setting->info.train_rows = data.train.rows();
  // The public number of examples stays, even if the number of rows changes.
  setting->dataset_size = plan.setting->dataset_size;
  setting->data = ComponentPtr<DataSource>(
      new ExamplesInMemory(setting->info, std::move(data)),
      {[](void* object) noexcept { delete static_cast<DataSource*>(object); }, nullptr});
  Plan changed = plan;
  changed.manifest = &manifest;
  changed.setting = setting;
  if (plan.federated && change == LastRow::removed) {
    const auto federated = std::make_shared<FederatedPlan>(*plan.federated);
    for (ClientPlan& client : federated->clients) std::erase(client.rows, rows.back());
    changed.federated = federated;
  }
  return changed;
}

}  // namespace privgrad::core

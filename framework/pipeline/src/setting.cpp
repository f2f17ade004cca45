#include "privgrad/pipeline/setting.hpp"

#include <string>

#include "privgrad/partition.hpp"

namespace privgrad::core {
namespace {

/// \returns the shape of the examples that the model sees.
ExampleShape plan_transforms(const Manifest& manifest, Setting& setting) {
  ExampleShape shape = setting.info.shape;
  for (const ComponentUse& use : manifest.transforms) {
    const auto transform = use.make<Transform>();
    shape = use.with_position([&] {
      if (dynamic_cast<const Partition*>(transform.get()) != nullptr) {
        throw ConfigError(use.name() +
                          " shares examples out among clients and changes none; its place is "
                          "federated.partition");
      }
      return transform->output_shape(shape);
    });
    setting.statistics.push_back(transform->statistic());
  }
  return shape;
}

/// The size that everybody may know.
std::uint64_t public_size(const Manifest& manifest, const DataInfo& info) {
  const std::uint64_t size = manifest.dataset_size.value_or(info.train_rows);
  const bool size_is_public = manifest.adjacency != Adjacency::add_or_remove_one;
  if (size_is_public && size != info.train_rows) {
    throw error_at(manifest, "data.size",
                   "is " + std::to_string(size) + ", but there are " +
                       std::to_string(info.train_rows) + " training examples; under " +
                       std::string(to_text(manifest.adjacency)) +
                       " the size is public and must be the real one");
  }
  return size;
}

}  // namespace

std::shared_ptr<const Setting> make_setting(const Manifest& manifest) {
  auto setting = std::make_shared<Setting>();
  setting->data = manifest.data.make<DataSource>();
  setting->info = manifest.data.with_position([&] { return setting->data->info(); });
  if (setting->info.train_rows == 0)
    throw IoError(error_text(manifest, "data", "there are no training examples"));
  const ExampleShape shape = plan_transforms(manifest, *setting);
  setting->dataset_size = public_size(manifest, setting->info);
  setting->model = manifest.model.make<Model>();
  manifest.model.with_position([&] {
    setting->network = setting->model->network(shape);
    check_network(setting->network);
  });
  setting->parameters = parameter_count(setting->network);
  setting->groups = parameter_groups(setting->network);
  return setting;
}

RunData read_data(const Manifest& manifest, const Setting& setting) {
  RunData data;
  data.train = manifest.data.with_position([&] { return setting.data->read(Split::train); });
  if (setting.info.test_rows > 0)
    data.test = manifest.data.with_position([&] { return setting.data->read(Split::test); });
  if (data.train.rows() != setting.info.train_rows) {
    throw IoError("the training data changed between the plan and the run: " +
                  std::to_string(data.train.rows()) + " examples, planned " +
                  std::to_string(setting.info.train_rows));
  }
  for (const ComponentUse& use : manifest.transforms) {
    const auto transform = use.make<Transform>();
    use.with_position([&] {
      transform->fit(data.train);
      transform->apply(data.train);
      if (data.test.rows() > 0) transform->apply(data.test);
    });
  }
  return data;
}

}  // namespace privgrad::core

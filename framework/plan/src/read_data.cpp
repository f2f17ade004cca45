#include "privgrad/plan/read_data.hpp"

#include <string>

#include "frozen_features.hpp"
#include "privgrad/data/apply_transform.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/data/streamed_source.hpp"
#include "privgrad/data/streamed_transforms.hpp"
#include "privgrad/error.hpp"

namespace privgrad::core {

RunData read_rows(const ComponentUse& source, const Setting& setting) {
  RunData data;
  data.train = source.with_position([&] { return setting.data->read(Split::train); });
  if (setting.info.test_rows > 0)
    data.test = source.with_position([&] { return setting.data->read(Split::test); });
  if (data.train.rows() != setting.info.train_rows) {
    throw IoError("the training data changed between the plan and the run: " +
                  std::to_string(data.train.rows()) + " examples, planned " +
                  std::to_string(setting.info.train_rows));
  }
  if (auto* streamed = dynamic_cast<StreamedSource*>(setting.data.get()))
    data.kept_as = streamed->content();
  return data;
}

void apply_transforms(const Manifest& manifest, const Setting& setting, RunData& data, int threads,
                      const FeatureCache* cache, Teacher* teacher) {
  if (manifest.size_noise && teacher == nullptr) {
    throw error_at(
        manifest, "data.size",
        "is the number of rows, which a run releases and pays for, and this is not a run; "
        "give it as a number");
  }
  const auto executor = make_executor(threads);
  if (manifest.streaming)
    return apply_streamed_transforms(manifest.transforms, *manifest.streaming, setting.statistics,
                                     data, *executor, teacher);
  for (std::size_t i = 0; i < manifest.transforms.size(); ++i) {
    const ComponentUse& use = manifest.transforms[i];
    const PlannedTransform planned{i, setting.statistics.at(i), setting.by_row.at(i)};
    data.preprocessing.push_back(apply_transform(use, planned, data, *executor, cache, teacher));
  }
  apply_frozen_layers(manifest, setting, data, threads, cache);
}

RunData read_data(const Manifest& manifest, const Setting& setting) {
  RunData data = read_rows(manifest.data, setting);
  apply_transforms(manifest, setting, data);
  return data;
}

}  // namespace privgrad::core

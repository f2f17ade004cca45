#include "privgrad/api/model_call.hpp"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "privgrad/api/model_place.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/data/open_source.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/data_section.hpp"
#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/manifest/utf8.hpp"
#include "privgrad/names.hpp"

namespace privgrad::api {
namespace {

namespace fs = std::filesystem;
using core::DataSection;

/// \param file  the content of the model file, which records how the run's data source read files.
DataSection given_section(const ModelRequest& request, const Catalog& catalog,
                          const core::ModelFile& file) {
  const std::string& text = *request.data;
  const std::string called = request.dashes + "data";
  const fs::path here = fs::current_path();
  const core::KnownReading reading =
      file.data ? core::KnownReading{file.data->name, file.data->params} : core::KnownReading{};
  if (text.find_first_not_of(" \t\n") != text.npos &&
      text[text.find_first_not_of(" \t\n")] == '{') {
    return core::parse_data_section(text, called, here, catalog, &reading);
  }
  std::error_code absent;
  if (!fs::exists(text, absent)) {
    throw IoError(text + ": there is no such file; " + called +
                  " takes a file, or a section in braces: '{kind: csv, ...}'");
  }
  return core::parse_data_section(core::read_yaml_file(text), text,
                                  fs::absolute(text).parent_path(), catalog, &reading);
}

DataSection section_of_run(const fs::path& model, const std::string& dashes,
                           const Catalog& catalog) {
  const fs::path folder = fs::absolute(model).parent_path();
  std::error_code absent;
  if (!fs::exists(folder / "manifest.yaml", absent)) {
    throw ConfigError(
        model.string() +
        ": is not in a run directory, so there are no test rows to use; name the rows with " +
        dashes + "data");
  }
  return core::parse_data_section(core::read_yaml_file(folder / "manifest.yaml"),
                                  folder / "manifest.yaml", folder, catalog);
}

/// Checks that a section has no transforms, or the model's transforms.
void check_transforms(const DataSection& section, const core::ModelFile& file) {
  if (section.transforms.empty()) return;
  bool are_same = section.transforms.size() == file.preprocessing.size();
  for (std::size_t i = 0; are_same && i < section.transforms.size(); ++i) {
    const core::SavedComponent& own = file.preprocessing[i].component;
    are_same = section.transforms[i].component->full_name() == own.name &&
               core::value_to_json(section.transforms[i].params.value()) ==
                   core::value_to_json(own.params);
  }
  if (are_same) return;
  throw core::ManifestError({section.transforms.front().position +
                             ": error: data.transforms: differ from the transforms "
                             "of the model, which contains its own; remove them"});
}

void check_classes(const DataInfo& info, const core::ModelFile& file) {
  if (info.class_names.empty()) return;
  for (std::size_t i = 0; i < info.class_names.size(); ++i) {
    const std::string name = core::shown_line(info.class_names[i]);
    if (i < file.classes.size() && name == file.classes[i]) continue;
    throw ConfigError("class " + std::to_string(i) + " of the examples is '" + name +
                      "', that of the model '" +
                      (i < file.classes.size() ? file.classes[i] : std::string()) + "'");
  }
}

/// Refuses features whose names differ from the model's, because such features mean something else
/// even if their number fits.
void check_features(const DataInfo& info, const core::ModelFile& file) {
  const std::size_t count = std::min(info.feature_names.size(), file.features.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = core::shown_line(info.feature_names[i]);
    if (name == file.features[i]) continue;
    throw ConfigError("feature " + std::to_string(i) + " of the examples is '" + name +
                      "', that of the model '" + file.features[i] + "'");
  }
}

/// Returns the requested split; by default test, or train if the given data have no test rows.
Split split_of(const ModelRequest& request, const DataInfo& info) {
  const std::string& dashes = request.dashes;
  if (!request.split) {
    if (!info.has_test_split && !request.data) {
      throw ConfigError("the run has no test rows; use " + dashes +
                        "split train for its training rows, or " + dashes + "data for other rows");
    }
    return info.has_test_split ? Split::test : Split::train;
  }
  const std::string& name = *request.split;
  if (name != "train" && name != "test")
    throw ConfigError(dashes + "split is '" + name + "', expected train or test");
  if (name == "test" && !info.has_test_split) throw ConfigError("there are no test rows");
  return name == "test" ? Split::test : Split::train;
}

/// Makes the source keep the requested columns.
void keep_columns(const ModelRequest& request, DataSource& source, const DataSection& section) {
  if (request.keep.empty()) return;
  const std::string who = request.dashes + "keep: ";
  if (section.streaming) throw ConfigError(who + "streamed rows have no columns; remove streaming");
  const std::vector<std::string> columns = source.columns();
  if (columns.empty())
    throw ConfigError(who + "rows of " + section.data.name() +
                      " have no named columns; rows of csv have them");
  for (auto name = request.keep.begin(); name != request.keep.end(); ++name) {
    const std::string shown = who + "'" + core::shown_line(*name) + "'";
    if (std::find(request.keep.begin(), name, *name) != name)
      throw ConfigError(shown + " is given twice");
    if (std::ranges::find(columns, *name) != columns.end()) continue;
    throw ConfigError(shown + " is not a column of the rows" + did_you_mean(*name, columns));
  }
  source.keep(request.keep);
}

}  // namespace

ModelCall open_model_call(const ModelRequest& request, const Catalog& catalog) {
  ModelCall call;
  call.file = model_file_of(request.model);
  core::ModelFile file = core::read_model_file(call.file);
  call.executor = core::make_executor(request.threads);
  call.model = std::make_unique<core::TrainedModel>(std::move(file), call.file.string(), catalog,
                                                    *call.executor);
  const DataSection section = request.data ? given_section(request, catalog, call.model->file())
                                           : section_of_run(call.file, request.dashes, catalog);
  check_transforms(section, call.model->file());
  const auto source = core::open_source(section.data, section.streaming);
  keep_columns(request, *source, section);
  section.data.with_position([&] {
    const DataInfo info = source->info();
    call.model->check_examples(info.shape);
    check_classes(info, call.model->file());
    check_features(info, call.model->file());
    call.has_targets = info.has_targets;
    for (const std::string& remark : info.remarks) call.remarks.push_back(core::shown_line(remark));
    const Split split = split_of(request, info);
    call.split = split == Split::test ? "test" : "train";
    call.is_private = split == Split::train || !section.test_is_public;
    call.rows = source->read(split);
    std::vector<std::vector<std::string>> texts = source->kept(split);
    for (std::size_t i = 0; i < texts.size(); ++i)
      call.kept.push_back({request.keep[i], std::move(texts[i])});
  });
  return call;
}

nlohmann::json model_call_json(const ModelCall& call) {
  nlohmann::json json{{"model", core::shown_line(call.file.string())},
                      {"split", call.split},
                      {"private", call.is_private}};
  for (const KeptColumn& column : call.kept) json["kept"][column.name] = column.texts;
  return json;
}

nlohmann::json evaluate(const ModelCall& call,
                        const std::function<void(std::size_t)>& on_progress) {
  nlohmann::json result;
  const Network& network = call.model->file().network;
  if (network.loss == Loss::next_token) {
    result = core::next_token_json(network, call.rows,
                                   [&](const Dataset& rows) { return call.model->predict(rows); });
  } else if (call.has_targets) {
    result = core::evaluation_json(call.model->predict(call.rows, on_progress), call.rows.targets(),
                                   call.model->file().classes);
  } else {
    throw ConfigError(
        "the rows have no targets to compare with; use privgrad predict for such rows");
  }
  result.update(model_call_json(call));
  return result;
}

}  // namespace privgrad::api

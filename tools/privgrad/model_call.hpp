#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "privgrad/catalog.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/pipeline/model_use.hpp"

namespace privgrad::tool {

/// What a call that applies a model is given: the model, and rows.
struct ModelCall {
  std::filesystem::path file;  ///< The model's.
  std::unique_ptr<Executor> executor;
  std::unique_ptr<core::TrainedModel> model;
  Dataset rows;
  std::string split;        ///< "test", "train".
  bool is_private = true;   ///< Whether nobody has said that the rows are public.
  bool has_targets = true;  ///< Whether the rows can be compared with.
};

/// --data, --split, --threads, --json, --plugin-dir and --quiet.
std::vector<Option> model_call_options();

/// Reads the model and the rows: those of --data, or the test rows of the run.
/// \param catalog  outlives the call.
/// \throws UsageError, ConfigError, IoError
ModelCall open_model_call(const Arguments& arguments, const Catalog& catalog);

/// Predicts all rows, and shows on a terminal how many are done.
core::Predictions predict_rows(const ModelCall& call, bool quiet);

/// What both documents begin with.
nlohmann::json model_call_json(const ModelCall& call);

/// Says on standard error what the numbers are about, if that is private.
void tell_if_private(const ModelCall& call, const std::string& what);

}  // namespace privgrad::tool

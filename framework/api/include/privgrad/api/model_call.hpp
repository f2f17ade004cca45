// Opens a trained model and the rows to which it is applied, for evaluation and prediction.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/model/model_use.hpp"

namespace privgrad::api {

/// The arguments of a call that applies a model.
struct ModelRequest {
  std::string model;  ///< A run directory, or the file of a model.
  /// A manifest's section `data`, in braces or in a file; by default the data of the run.
  std::optional<std::string> data;
  /// train or test; by default test, or train if the given `data` have no test rows.
  std::optional<std::string> split;
  /// Columns of the rows' table that are returned with the results.
  std::vector<std::string> keep = {};
  int threads = 1;            ///< > 0.
  std::string dashes = "--";  ///< Prefix of data, split and keep in errors.
};

/// A column of the rows' table that is returned with the results.
struct KeptColumn {
  std::string name;
  std::vector<std::string> texts;  ///< [rows]: bytes, not necessarily UTF-8.
};

/// A loaded model and the rows to apply it to.
struct ModelCall {
  std::filesystem::path file;  ///< The model's file.
  std::unique_ptr<Executor> executor;
  std::unique_ptr<core::TrainedModel> model;
  Dataset rows;
  std::vector<KeptColumn> kept;      ///< In the order of the request.
  std::string split;                 ///< "test" or "train".
  bool is_private = true;            ///< False if the rows were declared public.
  bool has_targets = true;           ///< Whether the rows have targets for comparison.
  std::vector<std::string> remarks;  ///< For users who may see the rows, one line each.
};

/// Reads the model and the rows.
/// \param catalog  must outlive the result.
/// \throws ConfigError, IoError
ModelCall open_model_call(const ModelRequest& request, const Catalog& catalog);

/// Returns "model", "split", "private" and, if columns were requested, "kept" with the texts of
/// each column by its name.
nlohmann::json model_call_json(const ModelCall& call);

/// Returns the output of `privgrad evaluate --json`.
/// \throws ConfigError if the rows have no targets.
nlohmann::json evaluate(const ModelCall& call,
                        const std::function<void(std::size_t)>& on_progress = {});

}  // namespace privgrad::api

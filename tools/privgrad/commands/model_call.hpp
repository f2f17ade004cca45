// The options and the opening of a model and its rows, for commands that apply a trained model.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "privgrad/api/model_call.hpp"
#include "privgrad/catalog.hpp"
#include "status_line.hpp"

namespace privgrad::tool {

using api::ModelCall;

/// --data, --split, --threads, --json, --plugin-dir and --quiet.
std::vector<Option> model_call_options();

/// Reads the model and the rows: those of --data, or the test rows of the run.
/// \param catalog  outlives the call. \param keep  columns that come along.
/// \throws UsageError, ConfigError, IoError
ModelCall open_model_call(const Arguments& arguments, const Catalog& catalog,
                          std::vector<std::string> keep = {});

/// Shows on a terminal how many rows are done.
/// \param status  outlives the result.
std::function<void(std::size_t)> row_display(const ModelCall& call, StatusLine& status, bool quiet);

/// Says on standard error which rows the numbers are about, if those are private.
void tell_if_private(const ModelCall& call, const std::string& what);

}  // namespace privgrad::tool

// The options of commands that apply a trained model, and a function that opens the model and the
// rows.
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

/// Returns --data, --split, --threads, --json, --plugin-dir and --quiet.
std::vector<Option> model_call_options();

/// Reads the model and the rows: the rows of --data, or the test rows of the run.
/// \param catalog  must outlive the result.
/// \param keep  the columns to copy to the output.
/// \throws UsageError for a wrong --threads; errors of api::open_model_call().
ModelCall open_model_call(const Arguments& arguments, const Catalog& catalog,
                          std::vector<std::string> keep = {});

/// Returns a function that shows the number of processed rows on a terminal.
/// \param status  must outlive the result.
std::function<void(std::size_t)> row_display(const ModelCall& call, StatusLine& status, bool quiet);

/// Prints on standard error which rows were used, if the rows are private.
void tell_if_private(const ModelCall& call, const std::string& what);

}  // namespace privgrad::tool

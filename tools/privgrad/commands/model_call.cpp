#include "model_call.hpp"

#include <utility>

#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/data/executor.hpp"

namespace privgrad::tool {
namespace {

constexpr int kMostModelThreads = 4096;

}  // namespace

std::vector<Option> model_call_options() {
  return {
      {"data", "SECTION",
       "The rows: a manifest's section data, in braces ('{kind: csv, train: new.csv}') or a file "
       "that holds one. Default: the test rows of the run."},
      {"split", "SPLIT",
       "Which rows of it: train or test. Default: test where there are test rows, else train."},
      {"threads", "N", "Threads to use; every number gives the same result. Default: all cores."},
      {"json", "", "Print the result as JSON."},
      plugin_dir_option(),
      quiet_option()};
}

ModelCall open_model_call(const Arguments& arguments, const Catalog& catalog,
                          std::vector<std::string> keep) {
  api::ModelRequest request{.model = arguments.operand(0), .data = {}, .split = {}};
  if (arguments.has("data")) request.data = arguments.text("data");
  if (arguments.has("split")) request.split = arguments.text("split");
  request.keep = std::move(keep);
  request.threads = arguments.has("threads")
                        ? whole_number("threads", arguments.text("threads"), 1, kMostModelThreads)
                        : core::available_threads();
  ModelCall call = api::open_model_call(request, catalog);
  for (const std::string& remark : call.remarks) complain("note", remark);
  return call;
}

std::function<void(std::size_t)> row_display(const ModelCall& call, StatusLine& status,
                                             bool quiet) {
  return [quiet, &status, all = std::to_string(call.rows.rows())](std::size_t done) {
    if (!quiet && status.rewrites() && status.is_due())
      status.rewrite(std::to_string(done) + " of " + all + " rows");
  };
}

void tell_if_private(const ModelCall& call, const std::string& what) {
  if (!call.is_private) return;
  complain("note", what + " of " + (call.split == "test" ? "test rows" : "rows") +
                       " that are not declared public: they are private, and no epsilon covers "
                       "them");
}

}  // namespace privgrad::tool

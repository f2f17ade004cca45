#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/pipeline/run.hpp"
#include "privgrad/pipeline/statement.hpp"
#include "privgrad/pipeline/trainer.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::core {

/// For summary.json. Whether a contribution differed depends on private rows: in research mode only.
nlohmann::json checks_json(const RunChecks& checks, Mode mode);

/// The files that every run leaves, and its display.
class RunOutput {
 public:
  /// \param plan, options  outlive this.
  RunOutput(const Plan& plan, const RunOptions& options) : plan_(plan), options_(options) {}

  /// Makes the directory, and writes what is known before the first step.
  void open();

  /// What the first line of a ledger says besides the budget.
  nlohmann::json ledger_facts() const;

  /// Measures the model, and adds a line to metrics.jsonl.
  /// \param progress  without metrics.
  /// \param more  members of that line.
  void report(Progress progress, const nlohmann::json& more, const RunData& data,
              const Workbench& bench, Executor& executor);

  const Metrics& last_metrics() const { return last_metrics_; }

  /// Writes statement, model and summary, and puts them into the result.
  /// \param more  members of the summary.
  void close(RunResult& result, const std::vector<float>& parameters, const nlohmann::json& more);

 private:
  void write_statement(const nlohmann::json& statement) const;
  void write_schedules(const Outcome& outcome) const;
  Metrics measure(const RunData& data, const Workbench& bench, Executor& executor) const;
  void measure_split(const Dataset& data, const Workbench& bench, Executor& executor,
                     std::optional<double>& loss, std::optional<double>& accuracy) const;
  std::map<std::string, std::string> model_metadata(const RunResult& result) const;
  nlohmann::json summary(const RunResult& result) const;

  const Plan& plan_;
  const RunOptions& options_;
  std::optional<AppendOnlyFile> metrics_file_;
  Metrics last_metrics_;
};

}  // namespace privgrad::core

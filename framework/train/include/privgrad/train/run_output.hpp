// The files that every run leaves in its directory, and the lines of its progress display.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/data/run_data.hpp"
#include "privgrad/record/date.hpp"
#include "privgrad/record/summary_facts.hpp"
#include "privgrad/statement/statement.hpp"
#include "privgrad/train/run.hpp"
#include "privgrad/train/trainer.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// The checks for summary.json. Whether a contribution differed depends on private rows, so it is
/// shown only in research mode.
ChecksFacts facts_of(const RunChecks& checks, Mode mode);

/// The mean of the gradient norms that a run measured after its steps, that is, the expected norm
/// after a uniformly drawn step. The initial parameters do not count.
/// \param lines  the lines of metrics.jsonl, of a run with `gradient_norm: true`.
/// \returns NaN if there is no such line, or if a line has no finite norm.
/// \throws IoError if a line is not a JSON object with a step, or is nested too deeply.
double mean_gradient_norm_along(const std::string& lines);

/// The length of a file of lines and the hash of its content, for a checkpoint.
struct FilePosition {
  std::uint64_t bytes = 0;
  std::string hash;  ///< The hash of the first `bytes` bytes.

  void save(StateWriter& out) const;
  static FilePosition restored(StateReader& in);
};

/// A file of lines in a run directory, to which a resumed run appends.
class LineFile {
 public:
  /// \throws IoError if the file exists or cannot be created.
  explicit LineFile(const std::filesystem::path& path) : path_(path), file_(path) {}
  /// Reopens a file.
  /// \throws IoError if the file cannot be opened, or its content up to `at` was changed.
  LineFile(const std::filesystem::path& path, const FilePosition& at);

  void append(const std::string& text) { file_.append(text); }
  /// Flushes the file to the disk.
  FilePosition position();
  /// Whether it contains lines that a resumed run has yet to repeat.
  bool is_behind() const { return !file_.ahead().empty(); }

 private:
  std::filesystem::path path_;
  AppendOnlyFile file_;
};

/// The files that every run leaves, and its progress display.
class RunOutput {
 public:
  /// \param plan, options  outlive this.
  RunOutput(const Plan& plan, const RunOptions& options)
      : plan_(plan), options_(options), date_(options.date.empty() ? utc_date() : options.date) {}

  /// Makes the directory, and writes the files that are known before the first step.
  /// \param data  the commitment for the ledgers.
  void open(const DataCommitment& data);

  /// Replaces open() in a resumed run, in which the files from before the first step exist.
  /// \param metrics  the position in metrics.jsonl at the checkpoint.
  /// \throws PrivacyError if facts.json has changed; IoError if metrics.jsonl has.
  void reopen(const DataCommitment& data, const FilePosition& metrics);

  /// For a resumed run that continues: rewrites the files from before the first step if they
  /// differ, so that the hashes at the end are correct even if the files were changed in between.
  void write_again() const;

  /// Lets other processes take part in measuring models from now on.
  /// \param processes  outlives this.
  void share_work_with(ProcessGroup& processes) { processes_ = &processes; }

  /// The position for a checkpoint; flushes metrics.jsonl to the disk.
  FilePosition metrics_position() { return metrics_file_->position(); }
  /// Whether metrics.jsonl contains lines that a resumed run has yet to repeat.
  bool is_behind() const { return metrics_file_->is_behind(); }

  /// Repeats the measurement of a model, for the summary.
  void measure_again(const RunData& data, Workbench& bench, Executor& executor) {
    last_metrics_ = measure(data, bench, executor);
  }

  /// The facts in a ledger's first line in addition to the budget, with the hashes of the files
  /// that open() wrote.
  nlohmann::json ledger_facts() const;

  /// Stores the hashes of the ledgers' first lines, which are written to the model file.
  /// \param hashes  the hashes by the ledgers' names.
  void ledgers_are_open(const std::vector<std::pair<std::string, std::string>>& hashes);

  /// Measures the model, and adds a line to metrics.jsonl.
  /// \param progress  without metrics.
  /// \param line  without metrics and epsilon.
  void report(Progress progress, MetricsLine line, const RunData& data, Workbench& bench,
              Executor& executor);

  /// The final model's quality on the test rows (evaluation_json()), for the summary; null if there
  /// are no test rows, if their metrics may not be shown, or if the program returns no outputs.
  nlohmann::json test_evaluation(const RunData& data, Workbench& bench, Executor& executor) const;
  /// Measures the parameters of `bench`: in release mode, only on public rows.
  Metrics measure(const RunData& data, Workbench& bench, Executor& executor) const;

  const Metrics& last_metrics() const { return last_metrics_; }

  /// When the run began; a resumed run keeps the original date.
  const std::string& date() const { return date_; }
  void set_date(std::string date) { date_ = std::move(date); }

  /// The status of a finished run: diverged if its last model has a loss that is not finite and may
  /// be shown. A private loss that is not finite does not change the status.
  RunStatus status_of_model(RunStatus status) const;

  /// Writes statement, model and summary, and stores them in the result.
  /// \param preprocessing  the values that the transforms have learnt.
  /// \param summary  the members of the summary that the kind of run and its features have set.
  /// \param close_ledgers  receives the hashes of all files for the ledgers' last lines. The
  ///   summary is written afterwards, so if there is a summary, the ledgers are closed.
  /// \param settled  may be empty; receives the summary before any hash depends on it, and returns
  ///   the summary to write: the recorded one, if the run was interrupted after recording it.
  void close(RunResult& result, const std::vector<float>& parameters,
             const std::vector<FittedTransform>& preprocessing, Summary summary,
             const std::function<void(const nlohmann::json& files)>& close_ledgers,
             const std::function<std::string(const std::string&)>& settled = {});

 private:
  void put(const char* name, const std::string& text) const;
  void write_promise() const;
  void write_statement(const nlohmann::json& statement) const;
  void write_schedules(const Outcome& outcome) const;
  enum class Split { train, test };
  const Program& program_for(Split split, Workbench& bench, Executor& executor) const;
  void measure_split(Split split, const RunData& data, Workbench& bench, Executor& executor,
                     std::optional<double>& loss, std::optional<double>& accuracy) const;
  void complete(Summary& summary, const RunResult& result) const;
  nlohmann::json left_files(const std::string& summary) const;

  const Plan& plan_;
  const RunOptions& options_;
  std::optional<LineFile> metrics_file_;
  Metrics last_metrics_;
  std::string date_;  // determined before the data was read
  DataCommitment data_;
  ProcessGroup* processes_ = nullptr;  // null if this process is alone
  std::string ledger_opening_;         // joint_hash() of the ledgers' first lines; "" without noise
};

/// Reads the data, and commits to the training examples as they were read. Applies the transforms,
/// unless one of them learns from a statistic, which is released only after a ledger is open.
/// \param data  out.
/// \returns the commitment; without noise, only the hash of the test rows, because there is no
///   ledger to contain a commitment.
DataCommitment read_committed_data(const Plan& plan, const RunOptions& options, RunData& data);

/// The plan's facts in the first line of each ledger, in addition to the budget.
/// \param client  with fed_avg: the client that the ledger belongs to; if absent: the run has only
///   one ledger.
nlohmann::json ledger_facts(const Plan& plan, std::optional<std::size_t> client);

/// The metadata of a model file. A model may be moved without its directory, so it contains its own
/// privacy statement and the hash of the facts to which its run was bound before the first step.
std::map<std::string, std::string> model_metadata(const Plan& plan, const Outcome& outcome,
                                                  const Statement& statement,
                                                  const std::string& ledger_opening);

/// The members of a summary that follow from the plan and its outcome.
OutcomeFacts outcome_facts(const Plan& plan, const Outcome& outcome, nlohmann::json statement);

}  // namespace privgrad::core

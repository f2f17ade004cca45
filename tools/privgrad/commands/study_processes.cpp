#include "study_processes.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "privgrad/api/lock_text.hpp"
#include "privgrad/api/run_directory.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/train/cluster_talk.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/sha256.hpp"
#include "privgrad/trust/state_bytes.hpp"
#include "study_children.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

/// Between two meetings, at most.
constexpr int kMeetingMs = 50;
constexpr std::size_t kMostFile = std::size_t{64} << 30;

// ---- what the processes tell each other

/// Process 0's message at a meeting.
struct Orders {
  enum class State : std::uint64_t { go_on = 1, stop, over };
  State what_now = State::go_on;
  std::vector<std::vector<std::uint64_t>> start;  ///< [processes]: places in the list of runs.

  static auto state(auto& self) { return std::tie(self.what_now, self.start); }
};

/// A run that has ended, as another process tells of it.
struct Report {
  std::uint64_t run = 0;
  ChildEnd end;
  std::map<std::string, std::string> files;  ///< By their names; none if it has no summary.

  static auto state(auto& self) {
    return std::tie(self.run, self.end.by_signal, self.end.code, self.end.error, self.files);
  }
};

/// The work to be done, which process 0 announces once.
struct Job {
  std::string folder;  ///< The name of the folder of others.
  std::string study;   ///< The study's directory, as process 0 calls it.
  std::vector<OpenRun> runs;

  static auto state(auto& self) { return std::tie(self.folder, self.study, self.runs); }
};

/// A process's message when it joins.
struct Joining {
  int jobs = 0;                     ///< Runs that it makes at a time.
  std::vector<std::uint64_t> held;  ///< Runs that it has begun in an earlier call.

  static auto state(auto& self) { return std::tie(self.jobs, self.held); }
};

// ---- what they have in common

/// The examples of all arms, as their sources have them. Arms with the same data are read once.
std::string hash_of_all_examples(const core::StudyPlan& plan) {
  std::set<std::string> seen;
  core::StateWriter all;
  for (const core::PlannedArm& arm : plan.arms) {
    const Value* data = arm.manifest->resolved.find("data");
    if (!seen.insert(data == nullptr ? arm.arm->name : core::to_yaml(*data)).second) continue;
    all.bytes(core::hash_of_examples(core::read_rows(*arm.manifest, *arm.plan.setting)));
  }
  return core::sha256_hex(all.text());
}

std::string plugins_of(const core::StudyPlan& plan) {
  std::vector<const core::Manifest*> manifests;
  for (const core::PlannedArm& arm : plan.arms) manifests.push_back(arm.manifest.get());
  return api::lock_text(manifests);
}

std::vector<core::CommonPart> common_ground(const core::StudyPlan& plan) {
  std::string arms = core::to_json(plan).dump();
  for (const core::PlannedArm& arm : plan.arms)
    arms.append("\n").append(core::to_yaml(arm.manifest->resolved));
  return {core::common_program(),
          {"other plugins", core::sha256_hex(plugins_of(plan))},
          {"another study", core::sha256_hex(arms)},
          {"other examples", hash_of_all_examples(plan)}};
}

/// An account is a file that is locked, which processes of one machine can share.
void check_accounts(const core::StudyPlan& plan, const std::vector<std::string>& hosts) {
  if (std::set<std::string>(hosts.begin(), hosts.end()).size() < 2) return;
  for (const core::PlannedArm& arm : plan.arms) {
    if (!arm.manifest->account) continue;
    throw PrivacyError(
        "arm " + arm.arm->name +
        ": privacy.account is a file of one machine, and the processes are on several: what one of "
        "them spends would not be seen by the others; give all processes one machine, or run the "
        "study without --cluster");
  }
}

// ---- files

/// The files of a run's directory.
std::map<std::string, std::string> files_of(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    files[entry.path().lexically_relative(directory).generic_string()] =
        core::read_whole(entry.path(), kMostFile);
  }
  return files;
}

/// The summary comes last: what has none was not finished.
void write_files(const fs::path& directory, const Report& report, const std::string& from) {
  fs::remove_all(directory);
  const std::string last = "summary.json";
  for (const auto& [name, content] : report.files) {
    const fs::path relative(name);
    if (relative.is_absolute() || relative.lexically_normal().generic_string() != name ||
        name.starts_with(".."))
      throw IoError(std::string(from)
                        .append(" sent a file called '")
                        .append(name)
                        .append("', which no run has"));
    core::make_directories((directory / relative).parent_path());
    if (name != last) core::write_atomically(directory / relative, content);
  }
  core::write_atomically(directory / last, report.files.at(last));
}

/// Held while a run is made, by the process and its run, so that a process that is about to die and
/// one that begins never make the same run at once in one folder.
class HeldFile {
 public:
  explicit HeldFile(const fs::path& file) {
    core::make_directories(file.parent_path());
    // Without O_CLOEXEC: the run inherits it, and with it the lock.
    descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT, 0600);
    for (int attempt = 0; descriptor_ >= 0 && attempt < 100; ++attempt) {
      if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
    if (descriptor_ >= 0) ::close(descriptor_);
    throw IoError(file.string() + ": another process makes this run");
  }
  HeldFile(const HeldFile&) = delete;
  HeldFile& operator=(const HeldFile&) = delete;
  ~HeldFile() {
    ::flock(descriptor_, LOCK_UN);  // also for runs that began meanwhile and inherited it
    ::close(descriptor_);
  }

 private:
  int descriptor_ = -1;
};

/// The name of the folder in which other processes keep their runs of this study.
std::string folder_of(const core::StudyDirectory& directory, const std::string& host) {
  return core::sha256_hex(host + "\n" + fs::absolute(directory.path()).lexically_normal().string())
      .substr(0, 32);
}

// ---- process 0

/// Which process makes which run.
class Sharing {
 public:
  /// \param held  [processes]: runs that a process has begun, and goes on with.
  Sharing(std::size_t runs, std::vector<std::uint64_t> slots,
          const std::vector<std::vector<std::uint64_t>>& held)
      : slots_(std::move(slots)), holders_(runs) {
    for (std::size_t rank = 0; rank < held.size(); ++rank) {
      for (const std::uint64_t run : held[rank]) {
        if (run < runs) holders_[run].insert(rank);
      }
    }
    for (std::size_t run = 0; run < runs; ++run) left_.insert(run);
  }

  /// The next run for a process that has a free slot: one that it has begun, or else one that
  /// nobody has.
  std::optional<std::size_t> next_for(std::size_t rank) {
    if (slots_[rank] == 0) return std::nullopt;
    std::optional<std::size_t> chosen;
    for (const std::size_t run : left_) {
      const bool is_held = holders_[run].contains(rank);
      if (!is_held && (chosen || !holders_[run].empty())) continue;
      chosen = run;
      if (is_held) break;
    }
    if (!chosen) return std::nullopt;
    left_.erase(*chosen);
    --slots_[rank];
    ++running_;
    return chosen;
  }

  void ended(std::size_t rank) {
    ++slots_[rank];
    --running_;
  }
  bool is_over() const { return left_.empty() && running_ == 0; }

 private:
  std::vector<std::uint64_t> slots_;
  std::vector<std::set<std::size_t>> holders_;
  std::set<std::size_t> left_;
  std::size_t running_ = 0;
};

/// Process 0 while runs are made.
class Leader {
 public:
  Leader(const core::StudyPlan& plan, const core::StudyDirectory& directory,
         const std::vector<OpenRun>& open, const std::vector<std::string>& names,
         const Arguments& arguments, const std::atomic<bool>& stop, StudyRecorder& recorder,
         Cluster& cluster)
      : plan_(plan),
        directory_(directory),
        open_(open),
        names_(names),
        stop_(stop),
        recorder_(recorder),
        cluster_(cluster),
        own_(plan, arguments) {}

  void make(int jobs) {
    core::broadcast_text(cluster_,
                         core::state_text(Job{.folder = folder_of(directory_, cluster_.host()),
                                              .study = directory_.path().string(),
                                              .runs = open_}));
    Sharing sharing = join(jobs);
    while (true) {
      for (const ChildRuns::Ended& ended : own_.wait(kMeetingMs)) {
        sharing.ended(0);
        recorder_.ended(open_[ended.number], ended.end, "");
      }
      const std::vector<std::string> reports = core::gathered_texts(cluster_, "");
      for (std::size_t rank = 1; rank < reports.size(); ++rank) take(reports[rank], rank, sharing);
      const Orders orders = next_orders(sharing);
      core::broadcast_text(cluster_, core::state_text(orders));
      if (orders.what_now != Orders::State::go_on) return own_.stop();
      for (const std::uint64_t run : orders.start.front())
        own_.start(run, open_[run], place_in(directory_, plan_, open_[run]));
      recorder_.waiting();
    }
  }

 private:
  Sharing join(int jobs) {
    std::vector<std::uint64_t> held;
    for (std::size_t run = 0; run < open_.size(); ++run) {
      if (core::can_be_resumed(options_at(place_in(directory_, plan_, open_[run]))))
        held.push_back(run);
    }
    std::vector<std::uint64_t> slots;
    std::vector<std::vector<std::uint64_t>> all_held;
    const std::vector<std::string> texts =
        core::gathered_texts(cluster_, core::state_text(Joining{jobs, held}));
    for (const std::string& text : texts) {
      auto joining = core::from_state_text<Joining>(text, "what a process says when it joins");
      slots.push_back(static_cast<std::uint64_t>(joining.jobs));
      all_held.push_back(std::move(joining.held));
    }
    return {open_.size(), std::move(slots), all_held};
  }

  Orders next_orders(Sharing& sharing) {
    Orders orders;
    orders.start.resize(cluster_.size());
    if (stop_.load() || sharing.is_over()) {
      orders.what_now = stop_.load() ? Orders::State::stop : Orders::State::over;
      return orders;
    }
    // One after the other in turns, so that few runs are spread over all processes.
    for (bool any = true; any;) {
      any = false;
      for (std::size_t rank = 0; rank < orders.start.size(); ++rank) {
        const auto run = sharing.next_for(rank);
        if (!run) continue;
        any = true;
        orders.start[rank].push_back(*run);
        recorder_.started(open_[*run]);
      }
    }
    return orders;
  }

  void take(const std::string& text, std::size_t rank, Sharing& sharing) {
    core::StateReader in(text, "what " + names_[rank] + " reports");
    std::vector<Report> reports;
    in.get(reports);
    in.end();
    for (const Report& report : reports) {
      if (report.run >= open_.size()) in.fail("there is no such run");
      const OpenRun& run = open_[report.run];
      if (!report.files.empty())
        write_files(place_in(directory_, plan_, run).directory, report, names_[rank]);
      recorder_.ended(run, report.end, " by " + names_[rank]);
      sharing.ended(rank);
    }
  }

  const core::StudyPlan& plan_;
  const core::StudyDirectory& directory_;
  const std::vector<OpenRun>& open_;
  const std::vector<std::string>& names_;
  const std::atomic<bool>& stop_;
  StudyRecorder& recorder_;
  Cluster& cluster_;
  StudyChildren own_;
};

// ---- the others

/// Another process while runs are made.
class Helper {
 public:
  Helper(const core::StudyPlan& plan, const Arguments& arguments, Cluster& cluster, Job job)
      : plan_(plan),
        cluster_(cluster),
        job_(std::move(job)),
        folder_(api::default_state_directory() / "studies" / job_.folder),
        runs_(plan, arguments) {
    core::make_directories(folder_);
    fs::permissions(folder_, fs::perms::owner_all);
    core::write_atomically(folder_ / "privgrad.lock", plugins_of(plan));
    for (const core::PlannedArm& arm : plan_.arms) {
      const fs::path manifest = manifest_of(arm.arm->name);
      core::make_directories(manifest.parent_path());
      core::write_atomically(manifest, core::to_yaml(arm.manifest->resolved));
    }
  }

  void work(int jobs) {
    core::gathered_texts(cluster_, core::state_text(Joining{jobs, held()}));
    while (true) {
      const std::vector<Report> reports = reports_of(runs_.wait(kMeetingMs));
      core::StateWriter out;
      out.put(reports);
      core::gathered_texts(cluster_, out.text());
      const Orders orders = core::from_state_text<Orders>(core::broadcast_text(cluster_, ""),
                                                          "what process 0 orders");
      for (const Report& report : reports) forget(report);  // process 0 has it
      if (orders.what_now == Orders::State::over) clean_up();
      if (orders.what_now != Orders::State::go_on) return runs_.stop();
      for (const std::uint64_t run : orders.start.at(cluster_.rank())) start(run);
    }
  }

 private:
  fs::path manifest_of(const std::string& arm) const { return folder_ / "arms" / (arm + ".yaml"); }

  RunPlace place_of(const OpenRun& run) const {
    const std::string& arm = plan_.arms.at(run.arm).arm->name;
    const fs::path relative = fs::path("runs") / arm / ("seed-" + std::to_string(run.seed));
    return {.manifest = manifest_of(arm),
            .lock = folder_ / "privgrad.lock",
            .directory = folder_ / relative,
            .called = fs::path(job_.study) / relative};
  }

  std::vector<std::uint64_t> held() const {
    std::vector<std::uint64_t> held;
    for (std::size_t run = 0; run < job_.runs.size(); ++run) {
      if (core::can_be_resumed(options_at(place_of(job_.runs[run])))) held.push_back(run);
    }
    return held;
  }

  void start(std::uint64_t number) {
    const OpenRun& run = job_.runs.at(number);
    const RunPlace place = place_of(run);
    fs::path lock = place.directory;
    held_[number] = std::make_unique<HeldFile>(lock += ".lock");
    runs_.start(number, run, place);
  }

  std::vector<Report> reports_of(const std::vector<ChildRuns::Ended>& ended) const {
    std::vector<Report> reports;
    for (const ChildRuns::Ended& one : ended) {
      const RunPlace place = place_of(job_.runs[one.number]);
      Report report{.run = one.number, .end = one.end, .files = {}};
      if (fs::exists(place.directory / "summary.json")) report.files = files_of(place.directory);
      reports.push_back(std::move(report));
    }
    return reports;
  }

  void forget(const Report& report) {
    held_.erase(report.run);
    if (report.files.empty()) return;
    std::error_code left;  // it goes with the folder
    fs::remove_all(place_of(job_.runs[report.run]).directory, left);
  }

  /// Nobody goes on with what was begun here and finished elsewhere.
  void clean_up() {
    for (std::size_t arm = 0; arm < plan_.arms.size(); ++arm) {
      for (const std::uint64_t seed : plan_.study->seeds) discard_run(place_of({arm, seed}));
    }
    std::error_code gone;  // another process of this machine may do the same
    fs::remove_all(folder_, gone);
  }

  const core::StudyPlan& plan_;
  Cluster& cluster_;
  Job job_;
  fs::path folder_;
  StudyChildren runs_;
  std::map<std::uint64_t, std::unique_ptr<HeldFile>> held_;
};

}  // namespace

StudyProcesses::StudyProcesses(const core::StudyPlan& plan, int jobs, const Arguments& arguments,
                               Cluster& cluster)
    : plan_(plan), jobs_(jobs), arguments_(arguments), cluster_(cluster) {
  core::compare_common_parts(cluster, common_ground(plan));
  const std::vector<std::string> hosts = core::gathered_texts(cluster, cluster.host());
  check_accounts(plan, hosts);
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    names_.push_back(core::name_of_process(rank, hosts[rank]));
}

std::vector<std::string> StudyProcesses::make(const core::StudyDirectory& directory,
                                              const std::vector<OpenRun>& open,
                                              const std::atomic<bool>& stop,
                                              StudyRecorder& recorder) {
  is_over_ = true;
  Leader(plan_, directory, open, names_, arguments_, stop, recorder, cluster_).make(jobs_);
  return recorder.failed();
}

void StudyProcesses::dismiss() {
  if (is_over_) return;
  is_over_ = true;
  core::broadcast_text(cluster_, "");
}

void make_runs_for_others(const core::StudyPlan& plan, int jobs, const Arguments& arguments,
                          Cluster& cluster) {
  // The user stops process 0, which ends the others.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  if (api::default_state_directory().empty()) {
    throw IoError(
        "no folder is known to make runs in (neither XDG_STATE_HOME nor HOME is given), and only "
        "process 0 writes the study's directory");
  }
  core::compare_common_parts(cluster, common_ground(plan));
  core::gathered_texts(cluster, cluster.host());
  const std::string job = core::broadcast_text(cluster, "");
  if (!job.empty()) {
    Helper(plan, arguments, cluster,
           core::from_state_text<Job>(job, "the runs that process 0 shares out"))
        .work(jobs);
  }
}

}  // namespace privgrad::tool

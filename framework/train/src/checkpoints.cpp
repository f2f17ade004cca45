#include "privgrad/train/checkpoints.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/plan/components.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/ledger_reader.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// A part that must be the same when a run is resumed.
struct Bound {
  const char* name;
  std::string hash;
};

std::string hash_of_numbers(const Plan& plan) {
  static const std::vector<ClientPlan> no_clients;
  Sha256 hash;
  const auto add = [&](const void* first, std::size_t bytes) {
    hash.add(std::span(static_cast<const std::uint8_t*>(first), bytes));
  };
  for (const std::vector<double>* numbers :
       {&plan.noise_multiplier, &plan.clip_norm, &plan.learning_rate, &plan.batch_size,
        &plan.sampler_batch_size, &plan.count_noise, &plan.count_share, &plan.optimized}) {
    const std::uint64_t size = numbers->size();
    add(&size, sizeof size);
    add(numbers->data(), size * sizeof(double));
  }
  for (const std::uint64_t number : {plan.planned_steps, plan.affordable_steps, plan.dataset_size})
    add(&number, sizeof number);
  hash.add(to_json(plan.event).dump());
  for (const Charge& charge : plan.beside) hash.add(to_json(charge.cost).dump());
  const Plan* last = nullptr;
  for (const ClientPlan& client : plan.federated ? plan.federated->clients : no_clients) {
    // The rest of a client's plan follows from the manifest or from the client's examples.
    if (client.plan.get() != last) hash.add(to_json(client.plan->event).dump());
    last = client.plan.get();
  }
  return hash.hex();
}

/// Everything that decides the releases of a run, except its rows, which are read later. The keys
/// of steps depend on the same list (Checkpoints::bound_to), as a second protection against copied
/// states.
std::array<Bound, 5> bound_parts(const Plan& plan, const std::string& lock) {
  const Manifest& manifest = *plan.manifest;
  const std::optional<WeightsFacts>& weights = plan.setting->weights;
  return {{{"the manifest as resolved", sha256_hex(to_yaml(manifest.resolved))},
           {"the set of plugins (privgrad.lock)", sha256_hex(lock)},
           {"the backend", manifest.backend.component->full_name()},
           {"the file of model.weights", weights ? weights->sha256 : ""},
           {"what the plan says of steps, noise, clip norms and learning rates (facts.json)",
            hash_of_numbers(plan)}}};
}

/// \returns the name of the folder; "" if the directory names none.
std::string folder_name(const RecordDirectory& directory) {
  if (!directory.has(kResumeFile)) return "";
  constexpr std::size_t kMost = 4096;
  const Json json = Json::parse(directory.read(kResumeFile, kMost), nullptr, false);
  const bool has_one = json.is_object() && json.contains("state") && json.at("state").is_string() &&
                       CheckpointFolder::is_id(json.at("state").get_ref<const std::string&>());
  if (!has_one) {
    throw IoError((directory.path() / kResumeFile).string() +
                  ": holds no 'state' of 32 hex digits, as a run writes it");
  }
  return json.at("state");
}

constexpr const char* kPlanKey = "plan-key";
constexpr const char* kHome = "home";

/// The canonical path of a directory; "" if it does not exist.
std::string place_of(const fs::path& directory) {
  std::error_code failure;
  return fs::canonical(directory, failure).string();
}

/// Whether a private folder belongs to the finished run in a directory: whether the settled summary
/// in the folder equals the directory's summary.json.
bool is_of_finished(const CheckpointFolder& folder, const fs::path& directory) {
  const auto settled = folder.settled_summary();
  return settled &&
         RecordDirectory(directory).read_beginning("summary.json", settled->size() + 1) == *settled;
}

/// Removes kResumeFile and the private folder `name`, once the run's summary is written. Does
/// nothing if the folder has checkpoints of another run.
void clean_up(const fs::path& directory, const fs::path& state, const std::string& name) {
  if (CheckpointFolder::is_there(state, name)) {
    CheckpointFolder folder = CheckpointFolder::open(state, name);
    if (folder.has_checkpoints() && !is_of_finished(folder, directory)) return;
    folder.erase();
  }
  ::unlink((directory / kResumeFile).c_str());
}

}  // namespace

std::string hash_of_shown(std::span<const float> parameters, std::string_view more) {
  Sha256 hash;
  hash.add(more);
  hash.add(
      std::span(reinterpret_cast<const std::uint8_t*>(parameters.data()), parameters.size_bytes()));
  return hash.hex();
}

std::string hash_of_shards(const FederatedPlan& federated) {
  Sha256 hash;
  for (const ClientPlan& client : federated.clients) {
    const std::uint64_t size = client.rows.size();
    hash.add(std::span(reinterpret_cast<const std::uint8_t*>(&size), sizeof size));
    hash.add(std::span(reinterpret_cast<const std::uint8_t*>(client.rows.data()),
                       client.rows.size() * sizeof(std::uint32_t)));
  }
  return hash.hex();
}

RandomKey kept_plan_key(const fs::path& directory, const fs::path& state) {
  const std::string name = folder_name(RecordDirectory(directory));
  const std::string bytes = CheckpointFolder::kept(state, name, kPlanKey).value_or("");
  std::array<std::uint8_t, 32> key{};
  if (bytes.size() != key.size()) {
    throw IoError((state / ("run-" + name) / kPlanKey).string() +
                  ": is not the key of 32 bytes that the run's plan was drawn with");
  }
  std::memcpy(key.data(), bytes.data(), key.size());
  return RandomKey::from_secret_bytes(key);
}

std::string kept_schedules(const fs::path& directory, const fs::path& state) {
  const std::string name = folder_name(RecordDirectory(directory));
  std::optional<std::string> text = CheckpointFolder::kept(state, name, kKeptSchedules);
  if (text) return *std::move(text);
  throw IoError((state / ("run-" + name) / kKeptSchedules).string() +
                ": is missing, and no other file has the run's schedules to the last digit");
}

std::string why_no_checkpoints(const fs::path& state) {
  if (state.empty()) {
    return "no directory is known to keep them in (neither --state, XDG_STATE_HOME nor HOME is "
           "given)";
  }
  return "";
}

bool steps_are_repeatable(const Plan& plan) {
  if (plan.manifest->noise_off) return true;
  const ExactAbilities& can = plan.setting->program;
  // Differences of gradients need rows.
  const bool needs_rows = plan.correlated && plan.correlated->parts.size() > 1;
  return plan.arithmetic == Arithmetic::exact && (can.rows || (can.clipping && !needs_rows));
}

std::string transformed_hash(const Setting& setting, const Dataset& train) {
  const bool promised = std::ranges::all_of(setting.by_row, [](bool one) { return one; });
  return promised ? "" : commitment_to({}, train);
}

std::string Checkpoints::bound_to(const Plan& plan, const std::string& lock,
                                  const DataCommitment& data) {
  std::string text;
  for (const Bound& part : bound_parts(plan, lock)) text += part.hash + "\n";
  if (plan.federated) text += hash_of_shards(*plan.federated) + "\n";
  return text + data.test_rows + "\n" + data.value.value_or("no data");
}

Checkpoints Checkpoints::begin(const Plan& plan, const RunOptions& options) {
  const std::string name = CheckpointFolder::new_id();
  // The directory only names its private folder, because the folder contains keys.
  write_atomically(options.directory / kResumeFile, Json{{"state", name}}.dump() + "\n");
  try {
    Checkpoints made(CheckpointFolder::make(options.state, name), plan.manifest->checkpoint);
    made.settle_in(options.directory);
    made.folder_.keep(kKeptSchedules, plan.setting->kept->schedules_text());
    if (!plan.manifest->seed) {
      const auto key = plan.setting->plan_key->secret_bytes();
      made.folder_.keep(kPlanKey, {reinterpret_cast<const char*>(key.data()), key.size()});
    }
    return made;
  } catch (const IoError&) {
    ::unlink((options.directory / kResumeFile).c_str());
    throw;
  }
}

namespace {

/// \returns the name of the private folder.
std::string name_to_resume(const RunOptions& options) {
  const fs::path& where = options.directory;
  const RecordDirectory directory(where);
  std::string name = folder_name(directory);
  if (directory.has("summary.json")) {
    if (!name.empty()) clean_up(where, options.state, name);
    throw ConfigError(where.string() + ": the run is finished; there is nothing to resume");
  }
  if (name.empty()) {
    throw IoError(where.string() +
                  (directory.has("manifest.yaml")
                       ? ": the run has left no checkpoint (it names none in resume.json)"
                       : ": holds no run"));
  }
  return name;
}

constexpr std::size_t kMostLedgers = 1'000'000;
constexpr std::size_t kMostFirstLine = std::size_t{1} << 20;

/// Whether a ledger of the run contains a charge; true for a ledger that cannot be read.
bool is_charged(const fs::path& directory) {
  std::vector<std::string> ledgers{"ledger.jsonl"};
  const RecordDirectory run(directory);
  for (const std::string& name : run.names("ledgers", kMostLedgers))
    ledgers.push_back("ledgers/" + name);
  return std::ranges::any_of(ledgers, [&](const std::string& name) {
    if (!run.has(name)) return false;
    try {
      // A ledger without a complete first line has no charge.
      if (run.read_beginning(name, kMostFirstLine).find('\n') == std::string::npos) return false;
      return !read_ledger(directory / name).releases.empty();
    } catch (const Error&) {
      return true;
    }
  });
}

constexpr std::string_view kCutOffEarly =
    ": the run was interrupted before its first checkpoint, and was charged nothing; start it "
    "again here (privgrad account --close returns a reservation that it made in an account)";

/// Whether the directory contains only files that a run makes before its first charge, and no
/// checkpoint exists from which the run could continue.
bool is_cut_off_early(const RunOptions& options) {
  static const std::set<std::string> early{"metrics.jsonl", "manifest.yaml",  "privgrad.lock",
                                           "facts.json",    "schedules.json", "statement.json",
                                           "resume.json",   "ledger.jsonl",   "ledgers",
                                           "rounds.jsonl",  "clients.json"};
  const fs::path& where = options.directory;
  for (const auto& entry : fs::directory_iterator(where)) {
    const std::string name = entry.path().filename().string();
    if (!early.contains(name) && !is_unfinished(name)) return false;
  }
  const RecordDirectory directory(where);
  if (!directory.has("metrics.jsonl")) return false;
  if (is_being_written(where / "metrics.jsonl")) return false;
  for (const char* name : {"metrics.jsonl", "rounds.jsonl"})
    if (directory.has(name) && directory.size(name) != 0) return false;
  const std::string name = folder_name(directory);
  return !is_charged(where) &&
         (name.empty() || !CheckpointFolder::has_checkpoints(options.state, name));
}

}  // namespace

RoomForRun::RoomForRun(const RunOptions& options) {
  const fs::path& where = options.directory;
  std::error_code failure;
  if (!fs::exists(where, failure)) make_directories(where);
  if (!fs::is_directory(where, failure)) return;  // make_run_directory() reports the failure
  descriptor_ = ::open(where.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Every run holds this lock until its first file exists and is locked, so files found here do not
  // belong to a run that is just beginning. Without locks nothing is removed.
  if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX) != 0) return;
  if (fs::is_empty(where, failure) || failure || !is_cut_off_early(options)) return;
  discard_state(options);
  for (const auto& entry : fs::directory_iterator(where)) fs::remove_all(entry.path(), failure);
}

RoomForRun::~RoomForRun() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void check_resumable(const RunOptions& options) {
  const std::string name = name_to_resume(options);
  if (!CheckpointFolder::has_checkpoints(options.state, name) && is_cut_off_early(options))
    throw IoError(options.directory.string() + std::string(kCutOffEarly));
}

bool can_be_resumed(const RunOptions& options) {
  try {
    return CheckpointFolder::has_checkpoints(options.state, name_to_resume(options));
  } catch (const Error&) {
    return false;
  }
}

std::string discard_state(const RunOptions& options) {
  std::string name;
  try {
    name = folder_name(RecordDirectory(options.directory));
  } catch (const IoError&) {
    return "";  // the file names no folder
  }
  if (name.empty()) return "";
  const std::string here = place_of(options.directory);
  std::string home = here;
  if (CheckpointFolder::is_there(options.state, name)) {
    // A folder records the place of its run before it contains a checkpoint.
    const auto said = CheckpointFolder::kept(options.state, name, kHome);
    const bool is_new = !said && !CheckpointFolder::has_checkpoints(options.state, name);
    home = is_new ? here : said.value_or("a place not named there");
    if (home == here) CheckpointFolder::open(options.state, name).erase();
  }
  ::unlink((options.directory / kResumeFile).c_str());
  if (home == here) return "";
  return (options.state / ("run-" + name)).string() + " is named by " +
         (options.directory / kResumeFile).string() + ", and is of the run in " + home +
         "; it was not changed";
}

Checkpoints Checkpoints::take_up(const Plan& plan, const RunOptions& options) {
  return {CheckpointFolder::open(options.state, name_to_resume(options)),
          plan.manifest->checkpoint};
}

std::string Checkpoints::content(const Plan& plan, const RunOptions& options) {
  const auto found = folder_.read(steps_are_repeatable(plan));
  if (!found && is_charged(options.directory)) {
    throw IoError(folder_.path().string() + ": has lost its checkpoints, and the run in " +
                  options.directory.string() + " has already been charged; it cannot be resumed");
  }
  if (!found) {
    throw IoError(options.directory.string() + std::string(kCutOffEarly));
  }
  StateReader in(found->content, folder_.path().string());
  in.begin("run 2");  // the number rises whenever the parts of a checkpoint change
  for (const Bound& now : bound_parts(plan, options.lock)) {
    if (in.bytes() == now.hash) continue;
    throw PrivacyError(options.directory.string() + ": " + now.name +
                       " is not what the run began with; a run can only be resumed unchanged");
  }
  return in.bytes();
}

void Checkpoints::settle_in(const fs::path& directory) {
  const std::string place = place_of(directory);
  if (folder_.kept(kHome) != place) folder_.keep(kHome, place);
}

bool Checkpoints::is_due(std::uint64_t steps_done) const {
  if (wish_.every_steps > 0) return steps_done % wish_.every_steps == 0;
  const auto passed = std::chrono::steady_clock::now() - last_;
  return std::chrono::duration<double>(passed).count() >= wish_.every_seconds;
}

void Checkpoints::write(const Plan& plan, const RunOptions& options, std::string_view body) {
  StateWriter out;
  out.begin("run 2");
  for (const Bound& part : bound_parts(plan, options.lock)) out.bytes(part.hash);
  out.bytes(body);
  folder_.write(out.text());
  last_ = std::chrono::steady_clock::now();
}

void Checkpoints::erase(const fs::path& directory) {
  folder_.erase();
  const fs::path file = directory / kResumeFile;
  if (::unlink(file.c_str()) != 0) {
    throw IoError(file.string() + ": cannot be removed: " + std::generic_category().message(errno));
  }
}

}  // namespace privgrad::core

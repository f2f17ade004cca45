// The private folder from which an interrupted run can be resumed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace privgrad::core {

/// The private folder of one run that can be resumed: STATE/run-ID, readable only by the user. It
/// is outside the run's directory, which users may share, and contains
///
///   checkpoint-a, checkpoint-b the last two checkpoints: "privgrad checkpoint 1\n", the number of
///                                the checkpoint (8 bytes), its content, and the SHA-256 of these,
///                                64 hex digits. The content includes keys and private sums.
///   bindings.jsonl               the hash of each output, written before the output is shown
///   summary.json                 the summary of a run that is about to end
///   plan-key                     the key of the random choices in the plan of a run without a
///                                seed, 32 bytes
///   home                         the run directory's absolute path, when the run last continued
///   lock                         locked (flock) by the process that makes the run
///
/// A file is complete or absent: it is written to a temporary file, synced and renamed atomically.
/// Only bindings.jsonl grows line by line; a truncated last line is removed when the run
/// continues. Threads: calls never overlap.
class CheckpointFolder {
 public:
  /// Returns a new random name for a run, 32 hex digits; not secret.
  static std::string new_id();
  static bool is_id(std::string_view text);

  /// Makes the folder of a new run.
  /// \throws IoError
  static CheckpointFolder make(const std::filesystem::path& state, const std::string& id);
  /// Opens the folder of an interrupted run.
  /// \throws IoError if it does not exist, or a running process uses it.
  static CheckpointFolder open(const std::filesystem::path& state, const std::string& id);
  /// Whether the folder exists.
  static bool is_there(const std::filesystem::path& state, const std::string& id);

  CheckpointFolder(CheckpointFolder&& other) noexcept;
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(CheckpointFolder&&) = delete;
  ~CheckpointFolder();

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Replaces the older of the two checkpoints. The other one stays intact, even after a crash.
  /// \throws IoError
  void write(std::string_view content);

  struct Checkpoint {
    std::uint64_t number = 0;  ///< The number of the checkpoint, counted from 1.
    std::string content;
  };
  /// Returns the last complete checkpoint; nothing if none was written.
  /// \param fall_back  whether to use the previous checkpoint if the last is damaged.
  /// \throws IoError if checkpoints are damaged and none can be used.
  std::optional<Checkpoint> read(bool fall_back);

  /// Records that the n-th output is about to be shown, and returns once the record is on the disk.
  /// \param hash  the hash of the output, 64 hex digits.
  /// \throws PrivacyError if the n-th output was bound with another hash before, or if earlier
  ///   bindings are missing; the output must not be shown then. IoError
  void bind(std::uint64_t n, const std::string& what, const std::string& hash);

  /// Stores a text beside the checkpoints, replacing any text of that name. It is on the disk when
  /// this returns.
  /// \throws IoError
  void keep(const char* name, std::string_view text);
  /// \returns the text kept under that name; nothing if there is no such text.
  /// \throws IoError
  std::optional<std::string> kept(const char* name) const;
  /// Does the same as kept(), for a folder that is not open.
  /// \throws IoError, also if the folder does not exist.
  static std::optional<std::string> kept(const std::filesystem::path& state, const std::string& id,
                                         const char* name);

  /// Whether there is a checkpoint, even an incomplete one.
  bool has_checkpoints() const;
  /// Does the same as has_checkpoints(), for a folder that is not open; false if it does not exist.
  /// \throws IoError
  static bool has_checkpoints(const std::filesystem::path& state, const std::string& id);

  /// The number of outputs that were bound.
  std::uint64_t bindings() const noexcept { return bound_.size(); }

  /// Fixes the summary of a run that is ending: the first call stores and returns it; later calls,
  /// in resumed runs, return the stored summary.
  std::string settle_summary(const std::string& text);
  /// \returns the stored summary; nothing if the run did not get that far.
  std::optional<std::string> settled_summary() const;

  /// Removes everything in the folder, checkpoints and plan-key first, and then the folder.
  /// \throws IoError
  void erase();

 private:
  explicit CheckpointFolder(std::filesystem::path path) : path_(std::move(path)) {}
  void lock();
  void read_bindings();

  std::filesystem::path path_;
  int lock_ = -1;
  int bindings_ = -1;
  std::uint64_t last_number_ = 0;
  std::vector<std::string> bound_;  // the n-th line, without its line end
};

}  // namespace privgrad::core

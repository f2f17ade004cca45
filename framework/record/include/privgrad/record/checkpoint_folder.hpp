// The private folder from which an interrupted run can be resumed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace privgrad::core {

/// The private folder STATE/run-ID of one resumable run, readable only by the user. The folder is
/// outside the run directory, which users may share, and contains
///
///   checkpoint-a, checkpoint-b the last two checkpoints: "privgrad checkpoint 1\n", the number of
///                                the checkpoint (8 bytes), its content, and the SHA-256 of these
///                                three, 64 hex digits. The content includes keys and private sums.
///   bindings.jsonl               the hash of each output, written before the output is shown
///   summary.json                 the summary of a run that is about to end
///   plan-key                     for a run without a seed: the key of the plan's random choices,
///                                32 bytes
///   home                         the run directory's absolute path when the run last continued
///   lock                         locked (flock) by the process that makes the run
///
/// Files are complete or absent: each is written under a temporary name, synced and renamed. Only
/// bindings.jsonl grows line by line; if its last line is truncated, resuming the run removes this
/// line. Threads: calls never overlap.
class CheckpointFolder {
 public:
  /// Returns a new random name for a run, 32 hex digits; not secret.
  static std::string new_id();
  static bool is_id(std::string_view text);

  /// Makes the folder of a new run.
  /// \throws IoError
  static CheckpointFolder make(const std::filesystem::path& state, const std::string& id);
  /// Opens the folder of an interrupted run.
  /// \throws IoError if the folder does not exist or a running process uses it.
  static CheckpointFolder open(const std::filesystem::path& state, const std::string& id);
  static bool is_there(const std::filesystem::path& state, const std::string& id);

  CheckpointFolder(CheckpointFolder&& other) noexcept;
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(CheckpointFolder&&) = delete;
  ~CheckpointFolder();

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Replaces the older of the two checkpoints. A crash leaves the newer checkpoint intact.
  /// \throws IoError
  void write(std::string_view content);

  struct Checkpoint {
    std::uint64_t number = 0;  ///< Counted from 1.
    std::string content;
  };
  /// Returns the last complete checkpoint; nothing if none was written.
  /// \param fall_back  whether one checkpoint may be used if the other is damaged.
  /// \throws IoError if a checkpoint is damaged, and either there is no intact one or `fall_back`
  ///   is false.
  std::optional<Checkpoint> read(bool fall_back);

  /// Records that output `n`, counted from 0, is about to be shown, and returns once the record is
  /// on the disk.
  /// \param hash  the hash of the output, 64 hex digits.
  /// \throws PrivacyError if output `n` was bound with another hash before, or if earlier bindings
  ///   are missing; then the output must not be shown. IoError
  void bind(std::uint64_t n, const std::string& what, const std::string& hash);

  /// Stores `text` in the folder under `name`, replacing any earlier text. It is on the disk when
  /// keep() returns.
  /// \throws IoError
  void keep(const char* name, std::string_view text);
  /// \returns the text that keep() stored under `name`; nothing if there is none.
  /// \throws IoError
  std::optional<std::string> kept(const char* name) const;
  /// \returns the text that keep() stored under `name` in a folder that is not open; nothing if
  ///   there is none.
  /// \throws IoError, also if the folder does not exist.
  static std::optional<std::string> kept(const std::filesystem::path& state, const std::string& id,
                                         const char* name);

  /// Whether there is a checkpoint, even a damaged one.
  bool has_checkpoints() const;
  /// Whether a folder that is not open has a checkpoint, even a damaged one; false if the folder
  /// does not exist.
  /// \throws IoError
  static bool has_checkpoints(const std::filesystem::path& state, const std::string& id);

  /// The number of outputs that were bound.
  std::uint64_t bindings() const noexcept { return bound_.size(); }

  /// Stores and returns the summary of a run that is ending. If a summary is stored already, for a
  /// run that was resumed while ending, returns the stored one.
  std::string settle_summary(const std::string& text);
  /// \returns the stored summary; nothing if none is stored.
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
  std::vector<std::string> bound_;  // the lines of bindings.jsonl, without line ends
};

}  // namespace privgrad::core

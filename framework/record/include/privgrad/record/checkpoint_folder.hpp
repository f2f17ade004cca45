// The private folder from which a run that was cut off can be resumed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace privgrad::core {

/// The private folder of one run that can be resumed: STATE/run-ID, which nobody but the user can
/// look into. It lies outside the run's directory, which people hand on, and holds
///
///   checkpoint-a, checkpoint-b   the last two checkpoints: "privgrad checkpoint 1\n", the number of
///                                the checkpoint (8 bytes), its content, and the SHA-256 of all
///                                that, 64 hex digits. The content has keys and private sums.
///   bindings.jsonl               the hash of each thing that was shown, before it was
///   summary.json                 of a run that is about to end
///   plan-key                     what the plan of a run without a seed was drawn with, 32 bytes
///   home                         the run directory's absolute path, when the run last went on
///   lock                         locked (flock) by the process that has the run
///
/// A file is complete or absent: it is written aside, flushed, renamed, and its folder flushed.
/// Only bindings.jsonl grows line by line; a last line that was cut off is removed when the run
/// goes on. Threads: calls never overlap.
class CheckpointFolder {
 public:
  /// A new name for a run, from the operating system: 32 hex digits, no secret.
  static std::string new_id();
  static bool is_id(std::string_view text);

  /// Makes the folder of a run that begins.
  /// \throws IoError
  static CheckpointFolder make(const std::filesystem::path& state, const std::string& id);
  /// Opens that of a run that was cut off.
  /// \throws IoError if it is not there, or belongs to a process that lives.
  static CheckpointFolder open(const std::filesystem::path& state, const std::string& id);
  /// Whether there is one.
  static bool is_there(const std::filesystem::path& state, const std::string& id);

  CheckpointFolder(CheckpointFolder&& other) noexcept;
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(CheckpointFolder&&) = delete;
  ~CheckpointFolder();

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Puts a checkpoint in the place of the older one of two. The other one stays, whatever happens.
  /// \throws IoError
  void write(std::string_view content);

  struct Checkpoint {
    std::uint64_t number = 0;  ///< From 1 on.
    std::string content;
  };
  /// The last checkpoint that is whole; nothing: none was written.
  /// \param fall_back  whether the one before will do where the last one is damaged.
  /// \throws IoError if checkpoints are damaged and there is none to go on from.
  std::optional<Checkpoint> read(bool fall_back);

  /// Says that the n-th thing is about to be shown, and returns once that is on the disk.
  /// \param hash  the hash of the thing, 64 hex digits.
  /// \throws PrivacyError if something else was bound as the n-th before, or if bindings before the
  ///   n-th are missing: nothing may be shown. IoError
  void bind(std::uint64_t n, const std::string& what, const std::string& hash);

  /// Keeps a text beside the checkpoints, in place of what had that name. It is on the disk when this
  /// returns.
  /// \throws IoError
  void keep(const char* name, std::string_view text);
  /// \returns the text kept under that name; nothing if there is none.
  /// \throws IoError
  std::optional<std::string> kept(const char* name) const;
  /// The same for a folder that nobody opened.
  /// \throws IoError, also if the folder is not there.
  static std::optional<std::string> kept(const std::filesystem::path& state, const std::string& id,
                                         const char* name);

  /// Whether there is a checkpoint, whole or not.
  bool has_checkpoints() const;
  /// The same for a folder that nobody opened; false if it is not there.
  /// \throws IoError
  static bool has_checkpoints(const std::filesystem::path& state, const std::string& id);

  /// The number of things that were bound.
  std::uint64_t bindings() const noexcept { return bound_.size(); }

  /// The summary of a run that ends: the first call keeps it, later ones, of the run resumed, get
  /// what the first has kept.
  std::string settle_summary(const std::string& text);
  /// \returns that; nothing: the run did not come so far.
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

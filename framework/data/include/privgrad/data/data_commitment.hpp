// The commitment that binds a run's ledger to its training data, and the secret that opens it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "privgrad/dataset.hpp"

namespace privgrad::core {

/// 256 random bits. Anyone who has these bits can check whether a commitment belongs to given data,
/// and can thus confirm guesses about any row. The owner of the data keeps them secret.
using Opening = std::array<std::uint8_t, 32>;

/// The identity of the training data in a ledger's first line.
struct DataCommitment {
  std::optional<std::string> value;  ///< 64 hex digits; nothing if the run is bound to no data.
  std::string why_not;               ///< Why there is no value.
  /// The hash of the test rows. Measurements depend on these rows, and so do schedules that follow
  /// measurements. Private; only for a run that can be resumed.
  std::string test_rows = {};
};

/// Why the server of a federated run is bound to no data, if its clients are separate programs.
inline constexpr std::string_view kCommittedByClients =
    "the clients hold the examples, and commit to them";

/// Returns the commitment to examples, in their order: SHA-256 of
///
///     "privgrad data commitment 1\n", the opening, and as little-endian 64-bit numbers: the number
///     of rows, the number of the features' extents, each extent, the number of classes; then row
///     by row the features and the target, each the 32 bits of a little-endian IEEE single.
///
/// Binding: a different data set with the same commitment would be a collision of SHA-256. Hiding:
/// the opening comes first and has 256 unknown bits, so without the opening the hash is the value
/// of a random oracle at an unknown point; equal data has a different commitment in each run. An
/// opening from a seed hides nothing from anyone who knows the seed.
std::string commitment_to(const Opening& opening, const Dataset& rows);

/// Returns the opening of a seeded run, which follows from the seed and needs no file.
Opening opening_of_seed(std::uint64_t seed);

/// Commits to the training examples. Without a seed the opening comes from the operating system,
/// and is saved in STATE/FIRST 32 DIGITS OF THE COMMITMENT/opening.json, which only the user can
/// read, before this function returns. If the opening cannot be saved, there is no commitment,
/// because a commitment without an opening proves nothing.
/// \param state  the user's state folder, outside run directories; empty if there is none.
DataCommitment commit(std::optional<std::uint64_t> seed, const Dataset& train,
                      const std::filesystem::path& state);

/// Returns a resumed run's commitment to the current examples: `value` if they are the same.
/// \param value  the run's commitment; nothing if it is bound to no data.
/// \throws PrivacyError if the run is bound to other examples; as read_opening() if `state` lacks
///   the run's opening.
DataCommitment commit_again(std::optional<std::uint64_t> seed, const Dataset& train,
                            const std::filesystem::path& state,
                            const std::optional<std::string>& value);

/// \param file  an opening.json.
/// \throws IoError if the file cannot be read; ConfigError if it contains no opening.
Opening read_opening(const std::filesystem::path& file);

}  // namespace privgrad::core

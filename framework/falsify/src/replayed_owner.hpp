// Recomputes one owner's releases in two neighbouring runs, and compares them with the records.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "clients_again.hpp"
#include "privgrad/data/run_data.hpp"
#include "recorded_run.hpp"
#include "replay.hpp"

namespace privgrad::core {

/// How exactly released numbers can be recomputed.
enum class ReleaseReach {
  bits = 1,  ///< Exactly.
  near,      ///< Up to the rounding errors of a sum in floating point.
  /// The noise is not rounded, so only the difference between the two worlds can be checked.
  differences,
};

ReleaseReach reach_of(const Plan& plan);

/// Recomputes the releases of one owner of data (the owner of a central run, a client, or a server)
/// in two runs, and compares them with the recorded releases. The second run was led through the
/// first run's releases.
class ReplayedOwner {
 public:
  /// \param what, detail as in Difference.
  /// \param step  the step of the release.
  using Report =
      std::function<void(const std::string& what, std::uint64_t step, const std::string& detail)>;

  /// The examples of both worlds (the two runs' data), and their difference.
  struct Worlds {
    const RunData& here;
    const RunData& there;
    std::uint32_t last = 0;  ///< The differing row; for a server, the differing client.
    double divisor = 0.0;    ///< The first run's divisor of sums over all rows.
    /// The first run's class weights, used in both worlds.
    std::vector<double> class_weights = {};
  };

  /// \param run  the plan of the run.
  /// \param key  the key of the run. All arguments outlive this.
  /// \param client  the client with fed_avg; if absent: the run's owner, or its server.
  ReplayedOwner(const Plan& run, std::optional<std::size_t> client, const RandomKey& key,
                const Worlds& worlds, Executor& executor, Report report);

  /// Compares two releases of the same name, one from each run. Releases must come in order.
  void compare(const RecordedRelease& here, const RecordedRelease& there);

  /// The number of released values that were recomputed.
  std::uint64_t coordinates() const { return coordinates_; }

 private:
  using Sums = std::vector<std::vector<std::int64_t>>;

  void compare_batches(const RecordedRelease& here, const RecordedRelease& there);
  void compare_parameters(const RecordedRelease& here, const RecordedRelease& there);
  void compare_gradient(const RecordedRelease& here, const RecordedRelease& there);
  void compare_constants(const RecordedRelease& here, const RecordedRelease& there);
  void compare_sums(const RecordedRelease& here, const RecordedRelease& there, Sums in_a,
                    Sums in_b);
  void compare_measurement(const RecordedRelease& here, const RecordedRelease& there);
  void compare_report(const RecordedRelease& here, const RecordedRelease& there);
  void compare_estimate(const RecordedRelease& here, const RecordedRelease& there);
  void begin_step(const RecordedRelease& here);
  void add(const RecordedRelease& at, std::uint32_t row, Replay& replay, const Dataset& data,
           Sums& sums);
  void check_release(std::uint64_t step, std::span<const float> found, const Replayed& expected,
                     const std::string& whose);
  bool has_last(const RecordedRelease& at) const;
  bool is_server() const { return plan_.unit == PrivacyUnit::client; }
  std::vector<double> bounded_losses(Replay& replay, const Dataset& data,
                                     std::span<const std::uint32_t> rows,
                                     std::span<const float> model) const;
  void look_at_losses(std::span<const float> model);
  static std::vector<float> changes_along(Replay& replay, const Dataset& data,
                                          const RecordedRelease& at,
                                          std::span<const std::uint32_t> rows);
  void compare_beside(const Replay::Beside& what, const RecordedRelease& here,
                      const RecordedRelease& there, std::span<const float> rows_here,
                      std::span<const float> rows_there);

  const Plan& run_;
  const Plan& plan_;
  std::optional<std::size_t> client_;
  Worlds worlds_;
  Report report_;
  ReleaseReach reach_;
  Dataset numbers_;                           // for a server: the numbers of its clients
  std::optional<ClientsAgain> here_, there_;  // for a server
  std::unique_ptr<Replay> in_a_, in_b_;
  std::optional<ReplayedSums> past_a_, past_b_;
  // The losses of all rows in the first world, at the last measurement.
  std::vector<double> losses_;
  double loss_there_ = 0.0;  // the loss of the differing row in the second world
  double clip_norm_;         // the expected clip norm of the next step
  std::uint64_t coordinates_ = 0;
};

}  // namespace privgrad::core

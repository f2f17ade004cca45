// A witness that sees and may replace each release; tests compare neighbouring runs with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "privgrad/privacy.hpp"

namespace privgrad::core {

/// The place of a release in a run, and its inputs. As private as the batch.
struct ReleaseSeen {
  enum class What {
    gradient = 1,  ///< A step's sum; several sums if the aggregator uses differences of gradients.
    measurement,   ///< The measurement for adaptive noise.
    estimate,      ///< The estimate from a client's losses.
    statistic,     ///< The statistic from which a transform learns, before the first step.
    report,        ///< The accuracy of a model between the steps, or of the final one.
    rows,          ///< The number of rows, before any statistic.
    classes,       ///< The number of rows of each class.
  };
  What what = What::gradient;
  /// The client that makes the release, with fed_avg; if absent: the run's owner, or its server.
  std::optional<std::size_t> client;
  /// The step that the release's receipt names; for a statistic, the number of the transform.
  std::uint64_t step = 0;
  /// Rows of the data set as they were drawn; at a server, the numbers of clients; empty for
  /// measurements, statistics, counts and reports, which concern all rows.
  std::span<const std::uint32_t> batch;
  std::span<const float> model;    ///< The parameters at which the release was computed.
  std::span<const float> reached;  ///< For an estimate: the model after the local steps.
  /// For a gradient: the clip norm; for any other release: the bound on one contribution.
  double clip_norm = 0.0;
};

/// A step of a trainer, after its release and before the optimizer. As private as the batch.
struct StepSeen {
  std::uint64_t step = 0;
  std::span<const std::uint32_t> batch;  ///< Rows of the data set, as they were drawn.
  const Released& gradient;
  double clip_norm = 0.0;  ///< The step's clip norm; the next step's if the clip norm is adaptive.
};

/// Stands between the releases of a run and everything that follows from them. A run passes the
/// results of every use of private rows to the witness, and may afterwards depend only on the
/// returned values. So a run on different rows must behave like the first run if it receives the
/// first run's releases. This is how falsify.hpp tests adaptive composition.
///
/// A returned value is a Released, which only a mechanism can make, so it was paid for, possibly by
/// another run.
///
/// Threads: called by the thread that releases; in federated runs by many threads at once.
class ReleaseWitness {
 public:
  ReleaseWitness() = default;
  ReleaseWitness(const ReleaseWitness&) = delete;
  ReleaseWitness& operator=(const ReleaseWitness&) = delete;
  virtual ~ReleaseWitness() = default;

  /// \param own  the run's own releases.
  /// \returns the releases with which the run continues, in the same number and with the same
  ///   sizes; valid until the run ends.
  virtual std::span<const Released> released(const ReleaseSeen& seen,
                                             std::vector<Released> own) = 0;
};

/// \param witness  may be null.
/// \param own  the run's own releases; passed to the witness. Must outlive the returned span.
/// \returns the releases with which the run continues.
inline std::span<const Released> led_by(ReleaseWitness* witness, const ReleaseSeen& seen,
                                        std::vector<Released>& own) {
  return witness == nullptr ? std::span<const Released>(own)
                            : witness->released(seen, std::move(own));
}

}  // namespace privgrad::core

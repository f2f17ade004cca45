// A witness that sees each release and may replace it, with which tests compare neighbouring runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "privgrad/privacy.hpp"

namespace privgrad::core {

/// The place of a release in a run, and its inputs. Private, as the batch is.
struct ReleaseSeen {
  enum class What {
    gradient = 1,  ///< A step's; several sums where the aggregator takes differences of gradients.
    measurement,   ///< For noise that adapts.
    estimate,      ///< A client's losses.
    statistic,     ///< For a transform that learns from it, before the first step.
    report,        ///< The accuracy of a model between the steps, or of the final one.
    rows,          ///< The number of rows, before any statistic.
    classes,       ///< The number of rows of each class.
  };
  What what = What::gradient;
  std::optional<std::size_t> client;  ///< With fed_avg; nothing: the run's owner, or its server.
  std::uint64_t step = 0;             ///< As its receipt counts; for a statistic, the transform.
  /// Rows of the data set as they were drawn; clients' numbers at a server; empty for a
  /// measurement, a statistic or a report, which are about all rows.
  std::span<const std::uint32_t> batch;
  std::span<const float> model;    ///< The parameters at which it was computed.
  std::span<const float> reached;  ///< For an estimate: the model after the local steps.
  double clip_norm = 0.0;          ///< A gradient's, as in use; any other release's bound.
};

/// A step of a trainer, between its release and the optimizer. Private, as the batch is.
struct StepSeen {
  std::uint64_t step = 0;
  std::span<const std::uint32_t> batch;  ///< Rows of the data set, as they were drawn.
  const Released& gradient;
  double clip_norm = 0.0;  ///< The step's; the next step's where it adapts.
};

/// Stands between the releases of a run and everything that follows from them. A run shows here
/// every use that it makes of private rows; all that it does afterwards may follow from the values
/// given back, and from nothing else. So a run on other rows that is given the releases of the
/// first must do as the first did: adaptive composition, acted out (falsify.hpp).
///
/// A value given back is a Released, which a mechanism alone can make: paid for, if by another run.
///
/// Threads: called by the thread that releases; in federated runs by many at once.
class ReleaseWitness {
 public:
  ReleaseWitness() = default;
  ReleaseWitness(const ReleaseWitness&) = delete;
  ReleaseWitness& operator=(const ReleaseWitness&) = delete;
  virtual ~ReleaseWitness() = default;

  /// \param own  the run's own releases.
  /// \returns the releases to go on with, as many and of the same sizes; valid as long as the run.
  virtual std::span<const Released> released(const ReleaseSeen& seen,
                                             std::vector<Released> own) = 0;
};

/// \param witness  null: nobody stands between.
/// \param own  the run's own releases; given away to a witness. Outlives the returned span.
/// \returns the releases to go on with.
inline std::span<const Released> led_by(ReleaseWitness* witness, const ReleaseSeen& seen,
                                        std::vector<Released>& own) {
  return witness == nullptr ? std::span<const Released>(own)
                            : witness->released(seen, std::move(own));
}

}  // namespace privgrad::core

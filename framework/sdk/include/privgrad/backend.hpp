#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/export.hpp"
#include "privgrad/network.hpp"

namespace privgrad {

/// Sums over examples; the caller divides.
struct Evaluation {
  double loss = 0.0;  ///< Sum of the per-example losses, in nats for cross-entropy and logistic.
  std::size_t correct =
      0;  ///< Examples whose largest output is at their class; 0 for real targets.
};

/// A network made executable. It owns the parameters, wherever they live.
///
/// Privacy: sees private rows; everything it returns is private and goes to the core alone.
/// Threads: const functions may run concurrently; load_parameters() may not run beside anything.
class PRIVGRAD_API Program {
 public:
  virtual ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  virtual std::size_t parameter_count() const = 0;

  /// \param parameters  float32, [parameter_count()], laid out as parameter_blocks() says.
  virtual void load_parameters(std::span<const float> parameters) = 0;

  /// The gradient of each example's loss, one row per example: the path that is always correct, and
  /// the reference that faster ones are tested against. The core clips and sums. \param rows  out:
  /// float32, [batch.rows(), parameter_count()]. A row depends on its example alone.
  virtual void gradient_rows(const Batch& batch, std::span<float> rows) const = 0;

  virtual Evaluation evaluate(const Batch& batch) const = 0;

 protected:
  Program() = default;
};

/// Executes networks on some device.
class PRIVGRAD_API Backend {
 public:
  static constexpr std::string_view kKind = "backend";
  static constexpr int kInterfaceVersion = 1;
  static constexpr std::string_view kSees = "private rows";

  virtual ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  /// \param executor  outlives the program.
  /// \throws ConfigError naming the layer or loss that this backend cannot execute.
  virtual std::unique_ptr<Program> compile(const Network& network, Executor& executor) = 0;

 protected:
  Backend() = default;
};

}  // namespace privgrad

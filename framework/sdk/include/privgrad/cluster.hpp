// The interface of clusters, through which the processes of one run exchange numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "privgrad/export.hpp"

namespace privgrad {

/// The processes that make one run, on one machine or several, and the exchange of numbers.
///
/// Process 0 leads: it draws batches, holds the ledger, makes the releases, and writes all files.
/// Once it has stored a charge, the other processes compute what it requests, on the rows that it
/// names.
///
/// All calls except rank(), size() and host() are collective: every process makes them, in the same
/// order and with spans of the same sizes, and returns when its own part of the result has arrived.
/// A process that waits in vain for another one gives up after a time set by the component's
/// parameters.
///
/// Privacy: a cluster carries sums of clipped gradients without noise, and keys. The processes
/// trust each other and the network between them (SECURITY.md). Threads: calls never overlap, but
/// may come from different threads.
class PRIVGRAD_API Cluster {
 public:
  static constexpr std::string_view kKind = "cluster";
  static constexpr int kInterfaceVersion = 1;
  static constexpr std::string_view kSees = "private sums and keys";

  virtual ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  /// The number of this process, below size().
  virtual std::size_t rank() const noexcept = 0;
  virtual std::size_t size() const noexcept = 0;
  /// The name of the host that this process runs on, for messages.
  virtual std::string host() const = 0;

  /// \param bytes  in: the bytes of process 0; out: the same bytes in all other processes.
  /// \throws IoError that names the process that did not respond.
  virtual void broadcast(std::span<std::byte> bytes) = 0;

  /// Adds the values of all processes, element by element, modulo 2^64, and gives each process its
  /// part of the sum.
  /// \param values  in: the process's own addends; out: the sums in [ends[rank - 1], ends[rank]),
  ///   anything elsewhere.
  /// \param ends  [size()], ascending: where the part of each process ends; the last is the size of
  ///   `values`.
  /// \throws IoError as broadcast() does.
  virtual void add_up(std::span<std::uint64_t> values, std::span<const std::size_t> ends) = 0;

  /// Sends the parts of all processes to all processes.
  /// \param bytes  in: the process's own part, at [ends[rank - 1], ends[rank]); out: all parts.
  /// \param ends  the same as in add_up(), in bytes.
  /// \throws IoError as broadcast() does.
  virtual void gather(std::span<std::byte> bytes, std::span<const std::size_t> ends) = 0;

  /// Sends the bytes of one process to process 0.
  /// \param bytes  in process `from`: the bytes to send; in process 0: a span of the same size that
  ///   receives them; in all other processes ignored, and best empty.
  /// \param from  below size(); 0: nothing is done.
  /// \throws IoError as broadcast() does.
  virtual void bring(std::span<std::byte> bytes, std::size_t from) = 0;

  /// Ends all processes at once, including those that wait or compute. Does not return.
  /// \param exit_code  the exit code of the whole run, if the launcher passes it on.
  [[noreturn]] virtual void end_all(int exit_code) noexcept = 0;

 protected:
  Cluster() = default;
};

}  // namespace privgrad

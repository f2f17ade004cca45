// The interface of clusters: how the processes of one run exchange numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "privgrad/export.hpp"

namespace privgrad {

/// The processes that make one run together, on one machine or on many, and how numbers get from one
/// to the other.
///
/// Process 0 leads: it draws batches, holds the ledger, makes what is released, and writes all files.
/// The others compute what it asks them for, on rows that it named, after the charge is on its disk.
///
/// All calls but rank(), size() and host() are collective: every process makes them, in the same
/// order and with spans of the same sizes, and none returns before its own part of the result is
/// there. A process that waits for one that does not come gives up after a time that the component's
/// parameters say.
///
/// Privacy: sums of clipped gradients, without noise, and keys go through here. The processes trust
/// each other and the network between them (SECURITY.md).
/// Threads: calls never overlap. They may come from different threads.
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

  /// \param bytes  in: the bytes of process 0; out: the same bytes at all others.
  /// \throws IoError naming the process that it waited for, if that one is gone or does not come.
  virtual void broadcast(std::span<std::byte> bytes) = 0;

  /// Adds up what all processes have, element by element, modulo 2^64, and leaves each process its
  /// part of the sum.
  /// \param values  in: the process's own addends; out: in [ends[rank - 1], ends[rank]) the sums,
  ///   elsewhere anything.
  /// \param ends  [size()], ascending: where the part of each process ends; the last is the size of
  ///   `values`.
  /// \throws as broadcast().
  virtual void add_up(std::span<std::uint64_t> values, std::span<const std::size_t> ends) = 0;

  /// Brings the parts of all processes to all.
  /// \param bytes  in: the process's own part, at [ends[rank - 1], ends[rank]); out: all parts.
  /// \param ends  as of add_up(), in bytes.
  /// \throws as broadcast().
  virtual void gather(std::span<std::byte> bytes, std::span<const std::size_t> ends) = 0;

  /// Brings the bytes of one process to process 0.
  /// \param bytes  at `from`: the bytes to bring; at process 0: room for as many, which they
  ///   replace; elsewhere ignored, and best empty.
  /// \param from  below size(); 0: nothing is done.
  /// \throws as broadcast().
  virtual void bring(std::span<std::byte> bytes, std::size_t from) = 0;

  /// Ends all processes at once, those that wait and those that compute. Does not return.
  /// \param exit_code  exit code of the whole run, if the launcher of the processes passes it on.
  [[noreturn]] virtual void end_all(int exit_code) noexcept = 0;

 protected:
  Cluster() = default;
};

}  // namespace privgrad

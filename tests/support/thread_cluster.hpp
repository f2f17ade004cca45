// A cluster whose processes are threads of the test, for tests of runs shared by processes.
#pragma once

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "privgrad/cluster.hpp"

/// Processes simulated by threads, for tests: they read each other's memory directly.
class ThreadCluster final : public privgrad::Cluster {
 public:
  /// Calls run(cluster) in each of this many processes, at the same time. Make assertions after it
  /// returns, because they must come from a single thread.
  static void run(std::size_t processes, const std::function<void(privgrad::Cluster&)>& run) {
    Shared shared(processes);
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < processes; ++rank) {
      threads.emplace_back([&, rank] {
        ThreadCluster cluster(shared, rank);
        run(cluster);
      });
    }
  }

  std::size_t rank() const noexcept override { return rank_; }
  std::size_t size() const noexcept override { return shared_.bytes.size(); }
  std::string host() const override { return "here"; }

  void broadcast(std::span<std::byte> bytes) override {
    meet(bytes, [&] {
      if (rank_ != 0) std::copy_n(shared_.bytes[0].begin(), bytes.size(), bytes.begin());
    });
  }

  void add_up(std::span<std::uint64_t> values, std::span<const std::size_t> ends) override {
    const std::vector<std::uint64_t> own(values.begin(), values.end());
    shared_.addends[rank_] = own;
    shared_.all.arrive_and_wait();
    for (std::size_t i = begin_of(ends); i < ends[rank_]; ++i) {
      values[i] = 0;
      for (const auto& addends : shared_.addends) values[i] += addends[i];
    }
    shared_.all.arrive_and_wait();
  }

  void gather(std::span<std::byte> bytes, std::span<const std::size_t> ends) override {
    meet(bytes, [&] {
      for (std::size_t rank = 0; rank < size(); ++rank) {
        const std::size_t begin = rank == 0 ? 0 : ends[rank - 1];
        if (rank == rank_) continue;
        std::copy(shared_.bytes[rank].begin() + static_cast<std::ptrdiff_t>(begin),
                  shared_.bytes[rank].begin() + static_cast<std::ptrdiff_t>(ends[rank]),
                  bytes.begin() + static_cast<std::ptrdiff_t>(begin));
      }
    });
  }

  void bring(std::span<std::byte> bytes, std::size_t from) override {
    if (rank_ == from) shared_.bytes[from] = bytes;
    shared_.all.arrive_and_wait();
    if (rank_ == 0 && from != 0)
      std::copy_n(shared_.bytes[from].begin(), bytes.size(), bytes.begin());
    shared_.all.arrive_and_wait();
  }

  [[noreturn]] void end_all(int exit_code) noexcept override { std::_Exit(exit_code); }

 private:
  struct Shared {
    explicit Shared(std::size_t processes)
        : bytes(processes), addends(processes), all(static_cast<std::ptrdiff_t>(processes)) {}
    std::vector<std::span<const std::byte>> bytes;
    std::vector<std::span<const std::uint64_t>> addends;
    std::barrier<> all;
  };

  ThreadCluster(Shared& shared, std::size_t rank) : shared_(shared), rank_(rank) {}

  std::size_t begin_of(std::span<const std::size_t> ends) const {
    return rank_ == 0 ? 0 : ends[rank_ - 1];
  }

  template <class Body>
  void meet(std::span<std::byte> bytes, const Body& body) {
    shared_.bytes[rank_] = bytes;
    shared_.all.arrive_and_wait();
    body();
    shared_.all.arrive_and_wait();
  }

  Shared& shared_;
  std::size_t rank_;
};

#include "privgrad/cluster.hpp"

#include <string>
#include <vector>

#include "rules.hpp"

namespace privgrad::testing {
namespace {

/// Sizes that no number of processes divides evenly, and a size that needs many packets.
constexpr std::size_t kSizes[] = {0, 1, 5, 1021, 300'007};

/// Returns a different number for each process and element; sums of these numbers wrap around.
std::uint64_t number(std::size_t rank, std::size_t i) {
  return (0x9e3779b97f4a7c15u * (i + 1)) ^ (0xd1b54a32d192ed03u * (rank + 1));
}

/// Returns divisions: into about equal parts, into one whole part, and with some empty parts.
std::vector<std::vector<std::size_t>> divisions(std::size_t size, std::size_t processes) {
  std::vector<std::size_t> equal, last(processes, 0);
  for (std::size_t i = 1; i <= processes; ++i) equal.push_back(size * i / processes);
  last.back() = size;
  return {equal, std::vector<std::size_t>(processes, size), last};
}

std::string where(std::size_t size, std::size_t i) {
  return "element " + std::to_string(i) + " of " + std::to_string(size);
}

void require_broadcast(Cluster& cluster, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(number(cluster.rank(), i));
  cluster.broadcast(bytes);
  for (std::size_t i = 0; i < size; ++i) {
    require(bytes[i] == static_cast<std::byte>(number(0, i)),
            "after broadcast() " + where(size, i) + " is not what process 0 had");
  }
}

void require_sums(Cluster& cluster, std::size_t size, const std::vector<std::size_t>& ends) {
  std::vector<std::uint64_t> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = number(cluster.rank(), i);
  cluster.add_up(values, ends);
  const std::size_t begin = cluster.rank() == 0 ? 0 : ends[cluster.rank() - 1];
  for (std::size_t i = begin; i < ends[cluster.rank()]; ++i) {
    std::uint64_t sum = 0;
    for (std::size_t rank = 0; rank < cluster.size(); ++rank) sum += number(rank, i);
    require(values[i] == sum,
            "after add_up() " + where(size, i) + " is not the sum of what the processes had");
  }
}

void require_gathered(Cluster& cluster, std::size_t size, const std::vector<std::size_t>& ends) {
  const auto value = [](std::size_t rank, std::size_t i) {
    return static_cast<std::byte>(number(rank, i) >> 40);
  };
  std::vector<std::byte> values(size);
  const std::size_t begin = cluster.rank() == 0 ? 0 : ends[cluster.rank() - 1];
  for (std::size_t i = begin; i < ends[cluster.rank()]; ++i) values[i] = value(cluster.rank(), i);
  cluster.gather(values, ends);
  std::size_t rank = 0;
  for (std::size_t i = 0; i < size; ++i) {
    while (i >= ends[rank]) ++rank;
    require(values[i] == value(rank, i), "after gather() " + where(size, i) +
                                             " is not what process " + std::to_string(rank) +
                                             " had");
  }
}

void require_brought(Cluster& cluster, std::size_t size) {
  for (std::size_t from = 0; from < cluster.size(); ++from) {
    const bool takes_part = cluster.rank() == 0 || cluster.rank() == from;
    std::vector<std::byte> bytes(takes_part ? size : 0);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(number(cluster.rank(), i));
    cluster.bring(bytes, from);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      require(bytes[i] == static_cast<std::byte>(number(from, i)),
              "after bring() " + where(size, i) + " is not what process " + std::to_string(from) +
                  " had");
    }
  }
}

}  // namespace

// All processes of a cluster can run these rules at the same time; a program started alone is a
// cluster of one process.
void check_cluster(Checker& checker) {
  const auto cluster = checker.make<Cluster>();
  checker.rule("knows_its_place", [&] {
    require(cluster->size() > 0, "size() is 0");
    require(cluster->rank() < cluster->size(), "rank() is not below size()");
    require(!cluster->host().empty(), "host() is empty");
  });
  checker.rule("broadcasts_what_process_0_has", [&] {
    for (const std::size_t size : kSizes) require_broadcast(*cluster, size);
  });
  checker.rule("adds_up_modulo_2_to_the_64", [&] {
    for (const std::size_t size : kSizes) {
      for (const auto& ends : divisions(size, cluster->size())) require_sums(*cluster, size, ends);
    }
  });
  checker.rule("gathers_what_all_have", [&] {
    for (const std::size_t size : kSizes) {
      for (const auto& ends : divisions(size, cluster->size()))
        require_gathered(*cluster, size, ends);
    }
  });
  checker.rule("brings_bytes_to_process_0", [&] {
    for (const std::size_t size : kSizes) require_brought(*cluster, size);
  });
}

}  // namespace privgrad::testing

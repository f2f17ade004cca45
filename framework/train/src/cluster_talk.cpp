#include "privgrad/train/cluster_talk.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "privgrad/abi.hpp"
#include "privgrad/data/data_commitment.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {
namespace {

std::span<std::byte> bytes_of(std::string& text) {
  return std::as_writable_bytes(std::span(text.data(), text.size()));
}

/// The size of the first message, which contains the text's length and has room for most texts, so
/// that one message usually suffices.
constexpr std::size_t kEnvelope = 1024;

}  // namespace

std::string broadcast_text(Cluster& cluster, std::string_view text) {
  std::array<char, kEnvelope> envelope{};
  std::uint64_t size = text.size();
  constexpr std::size_t kInside = kEnvelope - sizeof size;
  std::memcpy(envelope.data(), &size, sizeof size);
  std::copy_n(text.begin(), std::min(text.size(), kInside), envelope.begin() + sizeof size);
  cluster.broadcast(std::as_writable_bytes(std::span(envelope)));
  std::memcpy(&size, envelope.data(), sizeof size);
  std::string all = cluster.rank() == 0 ? std::string(text) : std::string(size, '\0');
  std::copy_n(envelope.begin() + sizeof size, std::min(all.size(), kInside), all.begin());
  if (all.size() > kInside) cluster.broadcast(bytes_of(all).subspan(kInside));
  return all;
}

std::vector<std::string> gathered_texts(Cluster& cluster, std::string_view mine) {
  const std::size_t processes = cluster.size(), rank = cluster.rank();
  std::vector<std::uint64_t> sizes(processes, 0);
  sizes[rank] = mine.size();
  cluster.add_up(sizes, std::vector<std::size_t>(processes, processes));
  std::vector<std::string> texts(rank == 0 ? processes : 0);
  std::string own(mine);
  for (std::size_t from = 1; from < processes; ++from) {
    if (rank == 0) {
      texts[from].resize(sizes[from]);
      cluster.bring(bytes_of(texts[from]), from);
    } else {
      cluster.bring(rank == from ? bytes_of(own) : std::span<std::byte>(), from);
    }
  }
  if (rank == 0) texts.front() = std::move(own);
  return texts;
}

std::string name_of_process(std::size_t rank, std::string_view host) {
  return "process " + std::to_string(rank) + " on " + std::string(host);
}

std::vector<std::string> names_of_processes(Cluster& cluster) {
  std::vector<std::string> names = gathered_texts(cluster, cluster.host());
  for (std::size_t rank = 0; rank < names.size(); ++rank)
    names[rank] = name_of_process(rank, names[rank]);
  return names;
}

CommonPart common_program() {
  return {
      "another version of PrivGrad",
      sha256_hex(PRIVGRAD_TEXT(PRIVGRAD_VERSION_MAJOR) "." PRIVGRAD_TEXT(
          PRIVGRAD_VERSION_MINOR) "." PRIVGRAD_TEXT(PRIVGRAD_VERSION_PATCH) "\n" PRIVGRAD_ABI_TAG)};
}

std::string hash_of_examples(const RunData& data) {
  StateWriter examples;
  examples.bytes(data.kept_as);
  for (const Dataset* split : {&data.train, &data.test}) {
    examples.word(split->rows());
    if (!data.kept_as.empty()) {
      // Streamed rows are identified by the hash of their file, so that no process reads all rows
      // for this.
      examples.bytes(privgrad::to_text(split->shape().features));
      examples.word(split->shape().classes);
      continue;
    }
    examples.bytes(split->rows() == 0 ? "" : commitment_to({}, *split));
  }
  return sha256_hex(examples.text());
}

void compare_common_parts(Cluster& cluster, std::span<const CommonPart> parts) {
  StateWriter mine;
  for (const CommonPart& part : parts) mine.bytes(part.hash);
  const std::vector<std::string> names = names_of_processes(cluster);
  const std::vector<std::string> all = gathered_texts(cluster, mine.text());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    StateReader theirs(all[rank], "what " + names[rank] + " has in common with others");
    for (const CommonPart& part : parts) {
      if (theirs.bytes() == part.hash) continue;
      throw ConfigError(names[rank] + " has " + part.what + " than " + names.front());
    }
    theirs.end();
  }
}

}  // namespace privgrad::core

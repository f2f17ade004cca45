#include "privgrad/trust/shared_sum.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "support.hpp"

using namespace privgrad;
using core::share_of;

namespace {

using Rows = std::vector<std::uint32_t>;

Rows batch_of(std::size_t size) {
  Rows rows(size);
  std::iota(rows.begin(), rows.end(), 0u);
  return rows;
}

}  // namespace

TEST_CASE("every row of a batch is in one share, and shares are of one size but for a row") {
  for (const std::size_t size : {0, 1, 2, 7, 64, 1000}) {
    const Rows batch = batch_of(size);
    for (const std::size_t processes : {1, 2, 3, 7, 64}) {
      Rows together;
      std::size_t smallest = size, largest = 0;
      for (std::size_t rank = 0; rank < processes; ++rank) {
        const auto share = share_of(batch, 1000, rank, processes);
        together.insert(together.end(), share.begin(), share.end());
        smallest = std::min(smallest, share.size());
        largest = std::max(largest, share.size());
      }
      CHECK(together == batch);
      CHECK(largest - smallest <= 1);
    }
  }
}

TEST_CASE("a row that comes again in another share, where no sum would show it, is refused") {
  // The first and the last row: each belongs to some share, with any number of processes.
  const Rows batch{1, 2, 3, 4, 4};
  for (std::size_t rank = 0; rank < 5; ++rank) {
    CHECK_THROWS_WITH(share_of(batch, 10, rank, 5),
                      "the sampler broke its contract: row 4 was drawn twice in one batch");
  }
  CHECK_THROWS_WITH(share_of(Rows{1, 10}, 10, 0, 2),
                    "the sampler broke its contract: row 10 does not exist");
}

TEST_CASE("a process looks at its part of the rows, whatever batches are drawn") {
  // Rows 0, 7, 14, ... of 7000, and likewise their neighbours: batches that cover the data set
  // evenly, as samplers draw them. The ends of the shares are then within one gap of the batch from
  // the ends of the data set's parts.
  for (std::uint32_t shift = 0; shift < 7; ++shift) {
    Rows batch(1000);
    for (std::uint32_t i = 0; i < 1000; ++i) batch[i] = 7 * i + shift;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const auto share = share_of(batch, 7000, rank, 4);
      CHECK(share.front() >= 1750 * rank);
      CHECK(share.back() < 1750 * (rank + 1));
    }
  }
  CHECK_THROWS_WITH(share_of(Rows{3, 1, 2}, 10, 0, 2),
                    "a batch that is to be shared among processes is not in order");
}

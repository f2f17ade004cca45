#include "privgrad/trust/shared_sum.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "deferred_cells.hpp"
#include "gradient_rows.hpp"
#include "privgrad/error.hpp"
#include "trust_base.hpp"

namespace privgrad::core {
namespace {

/// Returns the first row, or element, of a part.
std::size_t begin_of(std::size_t size, std::size_t part, std::size_t parts) {
  return size / parts * part + std::min(part, size % parts);
}

/// The approximate number of elements sent at once: 4 MiB.
constexpr std::size_t kWindow = std::size_t{1} << 19;

/// A part of the sum that is added up and sent at once: some pieces of every slice.
class Window {
 public:
  /// \param next  in: this window's first piece, for every process; out: the next window's.
  Window(const Slices& slices, std::span<std::size_t> next) {
    const auto pieces = slices.pieces();
    const std::size_t most = kWindow / slices.processes();
    for (std::size_t process = 0; process < slices.processes(); ++process) {
      std::size_t& piece = next[process];
      const std::size_t begin = begin_of_piece(pieces, piece);
      const std::size_t first = piece;
      while (piece < pieces.size() && pieces[piece] <= slices.ends()[process]) {
        if (piece != first && pieces[piece] - begin > most) break;
        places_.push_back({piece, size_});
        size_ += pieces[piece] - begin_of_piece(pieces, piece);
        ++piece;
      }
      ends_.push_back(size_);
    }
  }

  static std::size_t begin_of_piece(std::span<const std::size_t> pieces, std::size_t piece) {
    return piece == 0 ? 0 : pieces[piece - 1];
  }

  /// A piece of the sum, and where it is in the window.
  struct Place {
    std::size_t piece, at;
  };
  std::span<const Place> places() const { return places_; }
  std::span<const std::size_t> ends() const { return ends_; }
  std::size_t size() const { return size_; }

 private:
  std::vector<Place> places_;
  std::vector<std::size_t> ends_;
  std::size_t size_ = 0;
};

std::vector<Window> windows_of(const Slices& slices) {
  std::vector<std::size_t> next(slices.processes(), 0);
  const auto pieces = slices.pieces();
  for (std::size_t process = 1; process < next.size(); ++process) {
    while (next[process] < pieces.size() && pieces[next[process]] <= slices.ends()[process - 1])
      ++next[process];
  }
  std::vector<Window> windows;
  for (;;) {
    Window window(slices, next);
    if (window.size() == 0) return windows;
    windows.push_back(std::move(window));
  }
}

/// The sum of a share, read window by window.
class Share {
 public:
  Share(TrustBase::Parts parts, const Slices& slices, Executor& executor)
      : parts_(std::move(parts)), pieces_(slices.pieces()), executor_(executor) {
    const std::size_t size =
        parts_.deferred == nullptr ? parts_.cells.size() : parts_.deferred->ends().back();
    const bool fits =
        size == pieces_.back() &&
        (parts_.deferred == nullptr || std::ranges::equal(parts_.deferred->ends(), pieces_));
    if (!fits) throw PluginError("a process's share of a sum is not divided as the others' are");
  }

  /// \param cells  [window.size()], may be uninitialised.
  void read(const Window& window, std::span<std::int64_t> cells) const {
    executor_.for_each_chunk(window.places().size(), [&](std::size_t i) {
      const auto [piece, at] = window.places()[i];
      const std::size_t begin = Window::begin_of_piece(pieces_, piece);
      const auto out = cells.subspan(at, pieces_[piece] - begin);
      if (parts_.cells.empty()) {
        std::fill(out.begin(), out.end(), 0);
      } else {
        std::copy_n(parts_.cells.begin() + static_cast<std::ptrdiff_t>(begin), out.size(),
                    out.begin());
      }
      if (parts_.deferred != nullptr) parts_.deferred->add(piece, out);
    });
  }

 private:
  TrustBase::Parts parts_;
  std::span<const std::size_t> pieces_;
  Executor& executor_;
};

/// The number of cores that this process may use, which may be 1: with two processes, mpirun binds
/// each to one core.
int cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// Signed and unsigned integers of one size may alias, and add up alike modulo 2^64.
std::span<std::uint64_t> as_unsigned(std::span<std::int64_t> cells) {
  return {reinterpret_cast<std::uint64_t*>(cells.data()), cells.size()};
}

/// Uninitialised memory for a window: everything is written before it is read.
class Buffer {
 public:
  explicit Buffer(std::size_t size) : cells_(new std::int64_t[size]) {}
  std::span<std::int64_t> first(std::size_t size) { return {cells_.get(), size}; }

 private:
  std::unique_ptr<std::int64_t[]> cells_;
};

}  // namespace

std::span<const std::uint32_t> share_of(std::span<const std::uint32_t> batch, std::size_t rows,
                                        std::size_t rank, std::size_t processes) {
  check_batch(batch, rows);
  if (!std::is_sorted(batch.begin(), batch.end()))
    throw PluginError("a batch that is to be shared among processes is not in order");
  const std::size_t begin = begin_of(batch.size(), rank, processes);
  return batch.subspan(begin, begin_of(batch.size(), rank + 1, processes) - begin);
}

BoundedOnGrid add_shares(BoundedOnGrid share, std::size_t rows, const Slices& slices,
                         Cluster& cluster, Executor& executor) {
  const std::uint64_t levels = share.levels();
  const double l2_bound = share.l2_bound();
  const double cell_width = share.cell_width();
  const PrivacyUnit unit = share.unit();
  const Share own(TrustBase::take_parts(std::move(share)), slices, executor);
  const Slice slice = slices.of(cluster.rank());
  // In every slice, each window begins where the last one ended.
  std::vector<std::int64_t> sum;
  sum.reserve(slice.size);
  const std::vector<Window> windows = windows_of(slices);
  std::size_t largest = 0;
  for (const Window& window : windows) largest = std::max(largest, window.size());
  std::array<Buffer, 2> buffers{Buffer(largest), Buffer(windows.size() > 1 ? largest : 0)};
  std::future<void> sent;  // the cluster's calls never overlap, on any thread
  const bool has_cores = cores() > 1;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    const std::span<std::int64_t> cells = buffers[i % 2].first(window.size());
    own.read(window, cells);
    if (sent.valid()) sent.get();
    // After the last window nothing is left to add up, so this thread sends it.
    const bool overlaps = has_cores && i + 1 < windows.size();
    const auto when = overlaps ? std::launch::async : std::launch::deferred;
    sent = std::async(when, [&window, &sum, &cluster, cells] {
      cluster.add_up(as_unsigned(cells), window.ends());
      const std::size_t rank = cluster.rank();
      const std::size_t begin = rank == 0 ? 0 : window.ends()[rank - 1];
      const auto mine = cells.subspan(begin, window.ends()[rank] - begin);
      sum.insert(sum.end(), mine.begin(), mine.end());
    });
  }
  if (sent.valid()) sent.get();
  return TrustBase::bounded_on_grid(std::move(sum), levels, l2_bound, cell_width, rows, unit);
}

void gather(std::span<float> values, std::span<const std::size_t> ends, Cluster& cluster) {
  std::vector<std::size_t> in_bytes;
  for (const std::size_t end : ends) in_bytes.push_back(end * sizeof(float));
  cluster.gather(std::as_writable_bytes(values), in_bytes);
}

std::optional<Released> put_together(const Released& slice, std::span<const std::size_t> ends,
                                     Cluster& cluster) {
  std::vector<float> values(ends.back());
  const std::size_t first = cluster.rank() == 0 ? 0 : ends[cluster.rank() - 1];
  std::copy(slice.values().begin(), slice.values().end(),
            values.begin() + static_cast<std::ptrdiff_t>(first));
  gather(values, ends, cluster);
  if (cluster.rank() != 0) return std::nullopt;
  return TrustBase::released(std::move(values), slice.noise_stddev());
}

}  // namespace privgrad::core

#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "privgrad/cluster.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"

namespace {

using privgrad::IoError;
namespace param = privgrad::param;

/// MPI is begun once in a process and ended once, whatever components were made in between.
class Library {
 public:
  /// \throws IoError
  static void begin() {
    static std::once_flag once;
    std::call_once(once, [] {
      int provided = 0;
      // Only the thread that made the component calls MPI; the run has others.
      if (::MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
          provided < MPI_THREAD_FUNNELED) {
        throw IoError("MPI cannot begin");
      }
      ::MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
      std::atexit([] {
        int is_over = 0;
        ::MPI_Finalized(&is_over);
        if (is_over == 0) ::MPI_Finalize();
      });
    });
  }
};

std::string words_of(int error) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  ::MPI_Error_string(error, text.data(), &length);
  return std::string(text.data(), static_cast<std::size_t>(length));
}

/// Counts are of type int; longer messages are several.
constexpr std::size_t kMost = std::size_t{1} << 27;

/// The processes that mpirun, srun or another PMIx launcher has started together.
class Mpi final : public privgrad::Cluster {
 public:
  explicit Mpi(const privgrad::Params& params) : limit_(params.real("timeout_seconds")) {
    Library::begin();
    int rank = 0, size = 1;
    ::MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    ::MPI_Comm_size(MPI_COMM_WORLD, &size);
    rank_ = static_cast<std::size_t>(rank);
    size_ = static_cast<std::size_t>(size);
  }

  std::size_t rank() const noexcept override { return rank_; }
  std::size_t size() const noexcept override { return size_; }

  std::string host() const override {
    std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
    int length = 0;
    ::MPI_Get_processor_name(name.data(), &length);
    return std::string(name.data(), static_cast<std::size_t>(length));
  }

  void broadcast(std::span<std::byte> bytes) override {
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min(bytes.size(), kMost));
      wait("for process 0", [&](MPI_Request* request) {
        return ::MPI_Ibcast(part.data(), static_cast<int>(part.size()), MPI_BYTE, 0, MPI_COMM_WORLD,
                            request);
      });
      bytes = bytes.subspan(part.size());
    }
  }

  void add_up(std::span<std::uint64_t> values, std::span<const std::size_t> ends) override {
    for (std::size_t part = 0; part < size_; ++part) {
      std::size_t begin = part == 0 ? 0 : ends[part - 1];
      while (begin < ends[part]) {
        const std::size_t count = std::min(ends[part] - begin, kMost);
        add_part(values.subspan(begin, count), part);
        begin += count;
      }
    }
  }

  void gather(std::span<float> values, std::span<const std::size_t> ends) override {
    for (std::size_t part = 1; part < size_; ++part) {
      std::size_t begin = ends[part - 1];
      while (begin < ends[part]) {
        const std::size_t count = std::min(ends[part] - begin, kMost);
        bring(values.subspan(begin, count), part);
        begin += count;
      }
    }
  }

  void end_all(int exit_code) noexcept override {
    ::MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 private:
  /// Reduces to one process; all parts together are a reduce-scatter.
  void add_part(std::span<std::uint64_t> values, std::size_t to) {
    wait("for the sums of the others", [&](MPI_Request* request) {
      const bool is_mine = to == rank_;
      return ::MPI_Ireduce(is_mine ? MPI_IN_PLACE : values.data(),
                           is_mine ? values.data() : nullptr, static_cast<int>(values.size()),
                           MPI_UINT64_T, MPI_SUM, static_cast<int>(to), MPI_COMM_WORLD, request);
    });
  }

  void bring(std::span<float> values, std::size_t from) {
    if (rank_ != 0 && rank_ != from) return;
    const auto count = static_cast<int>(values.size());
    wait("for process " + std::to_string(rank_ == 0 ? from : 0), [&](MPI_Request* request) {
      return rank_ == 0
                 ? ::MPI_Irecv(values.data(), count, MPI_FLOAT, static_cast<int>(from), 0,
                               MPI_COMM_WORLD, request)
                 : ::MPI_Isend(values.data(), count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, request);
    });
  }

  /// \param start  begins an operation and returns MPI's code.
  template <class Start>
  void wait(const std::string& whom, const Start& start) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(start(&request), whom);
    const auto begun = std::chrono::steady_clock::now();
    for (std::uint64_t tries = 0;; ++tries) {
      int is_done = 0;
      check(::MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), whom);
      // Returns at once; by the book, every operation is waited for.
      if (is_done != 0) return check(::MPI_Wait(&request, MPI_STATUS_IGNORE), whom);
      if (tries < kSpins) continue;
      // Where there are more processes than cores, the one that is waited for needs this one's.
      ::sched_yield();
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begun;
      if (waited.count() > limit_) {
        throw IoError("process " + std::to_string(rank_) + " on " + host() + " has waited " +
                      std::to_string(static_cast<long>(limit_)) + " s " + whom +
                      " (cluster timeout_seconds)");
      }
    }
  }

  void check(int code, const std::string& whom) const {
    if (code == MPI_SUCCESS) return;
    throw IoError("process " + std::to_string(rank_) + " on " + host() + ", waiting " + whom +
                  ": " + words_of(code));
  }

  static constexpr std::uint64_t kSpins = 2000;
  double limit_;
  std::size_t rank_ = 0, size_ = 1;
};

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::Cluster, Mpi>({
      .name = "mpi",
      .summary = "The processes that mpirun or srun has started, on one machine or on many.",
      .reference =
          "Message Passing Interface Forum: MPI, a message-passing interface standard, 3.1",
      .params = {param::real("timeout_seconds",
                             "How long a process waits for another before it gives the run up.")
                     .at_least(1)
                     .defaults_to(600)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.mpi", "0.1.0", register_components)

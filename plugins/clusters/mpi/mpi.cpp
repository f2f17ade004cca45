#include <mpi.h>
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
      // One thread after the other calls MPI.
      if (::MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS ||
          provided < MPI_THREAD_SERIALIZED) {
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
    start_broadcasts(bytes, 0);
    finish("for process 0");
  }

  void add_up(std::span<std::uint64_t> values, std::span<const std::size_t> ends) override {
    // All parts at once: together they are a reduce-scatter, which sends each number once.
    for (std::size_t part = 0; part < size_; ++part) {
      const bool is_mine = part == rank_;
      in_messages(values, begin_of(part, ends), ends[part], [&](auto message, int count) {
        check(::MPI_Ireduce(is_mine ? MPI_IN_PLACE : message.data(),
                            is_mine ? message.data() : nullptr, count, MPI_UINT64_T, MPI_SUM,
                            static_cast<int>(part), MPI_COMM_WORLD, new_request()),
              kSums);
      });
    }
    finish(kSums);
  }

  void gather(std::span<std::byte> bytes, std::span<const std::size_t> ends) override {
    for (std::size_t part = 0; part < size_; ++part) {
      const std::size_t begin = begin_of(part, ends);
      start_broadcasts(bytes.subspan(begin, ends[part] - begin), part);
    }
    finish("for the parts of the others");
  }

  void end_all(int exit_code) noexcept override {
    ::MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 private:
  static std::size_t begin_of(std::size_t part, std::span<const std::size_t> ends) {
    return part == 0 ? 0 : ends[part - 1];
  }

  /// Calls start(message, elements of it) for all elements in [begin, end).
  template <class T, class Start>
  static void in_messages(std::span<T> values, std::size_t begin, std::size_t end,
                          const Start& start) {
    while (begin < end) {
      const std::size_t count = std::min(end - begin, kMost);
      start(values.subspan(begin, count), static_cast<int>(count));
      begin += count;
    }
  }

  void start_broadcasts(std::span<std::byte> bytes, std::size_t from) {
    in_messages(bytes, 0, bytes.size(), [&](auto message, int count) {
      check(::MPI_Ibcast(message.data(), count, MPI_BYTE, static_cast<int>(from), MPI_COMM_WORLD,
                         new_request()),
            "for process " + std::to_string(from));
    });
  }

  MPI_Request* new_request() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  /// Waits for all that was begun.
  void finish(const std::string& whom) {
    const auto begun = std::chrono::steady_clock::now();
    for (std::uint64_t tries = 0; !requests_.empty(); ++tries) {
      const auto count = static_cast<int>(requests_.size());
      int are_done = 0;
      check(::MPI_Testall(count, requests_.data(), &are_done, MPI_STATUSES_IGNORE), whom);
      if (are_done != 0) {
        // Returns at once; by the book, every operation is waited for.
        check(::MPI_Waitall(count, requests_.data(), MPI_STATUSES_IGNORE), whom);
        requests_.clear();
        return;
      }
      if (tries < kSpins) continue;
      // Where there are more processes than cores, the one that is waited for needs this one's. Who
      // sleeps is let in again at once when it wakes; who only yields may come last.
      std::this_thread::sleep_for(std::chrono::microseconds(20));
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

  static constexpr const char* kSums = "for the sums of the others";
  static constexpr std::uint64_t kSpins = 2000;
  double limit_;
  std::size_t rank_ = 0, size_ = 1;
  std::vector<MPI_Request> requests_;  // that were begun
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

#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
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
    learn_hosts();
  }

  std::size_t rank() const noexcept override { return rank_; }
  std::size_t size() const noexcept override { return size_; }

  std::string host() const override { return hosts_[rank_].data(); }

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
        move_to_first(values.data() + begin, count, MPI_FLOAT, part);
        begin += count;
      }
    }
  }

  void bring(std::span<std::byte> bytes, std::size_t from) override {
    if (from == 0 || (rank_ != 0 && rank_ != from)) return;
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min(bytes.size(), kMost));
      move_to_first(part.data(), part.size(), MPI_BYTE, from);
      bytes = bytes.subspan(part.size());
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

  void move_to_first(void* values, std::size_t size, MPI_Datatype type, std::size_t from) {
    if (rank_ != 0 && rank_ != from) return;
    const auto count = static_cast<int>(size);
    const auto other = static_cast<int>(from);
    wait("for process " + std::to_string(rank_ == 0 ? from : 0), [&](MPI_Request* request) {
      return rank_ == 0 ? ::MPI_Irecv(values, count, type, other, kNumbers, MPI_COMM_WORLD, request)
                        : ::MPI_Isend(values, count, type, 0, kNumbers, MPI_COMM_WORLD, request);
    });
  }

  /// Who is where, for messages. As long as it lasts, a process has no name but its own.
  void learn_hosts() {
    hosts_.resize(size_);
    int length = 0;
    ::MPI_Get_processor_name(hosts_[rank_].data(), &length);
    Host mine = hosts_[rank_];
    wait("for all processes to begin", [&](MPI_Request* request) {
      return ::MPI_Iallgather(mine.data(), kHostSize, MPI_CHAR, hosts_.data(), kHostSize, MPI_CHAR,
                              MPI_COMM_WORLD, request);
    });
    is_crowded_ = is_crowded();
  }

  std::string name_of(std::size_t rank) const {
    return "process " + std::to_string(rank) + " on " + hosts_[rank].data();
  }

  /// \param start  begins an operation and returns MPI's code.
  template <class Start>
  void wait(const std::string& whom, const Start& start) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(start(&request), whom);
    const auto begun = Clock::now();
    for (;;) {
      int is_done = 0;
      check(::MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), whom);
      // Returns at once; by the book, every operation is waited for.
      if (is_done != 0) return check(::MPI_Wait(&request, MPI_STATUS_IGNORE), whom);
      const std::chrono::duration<double> waited = Clock::now() - begun;
      if (waited.count() < kShortWait) continue;
      make_room();
      if (rank_ != 0 && waited.count() > kLongWait) answer_roll_call();
      // Process 0 is the one that can find out who is missing.
      if (waited.count() > limit_ + (rank_ == 0 ? 0.0 : kRollCall + 2.0))
        throw IoError(why_given_up(whom));
    }
  }

  /// Where there are more processes than cores, the one that is waited for needs this one's.
  void make_room() const {
    if (is_crowded_) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    } else {
      ::sched_yield();
    }
  }

  /// Whether this machine has fewer cores for its processes than there are of these.
  bool is_crowded() const {
    const auto here = std::count(hosts_.begin(), hosts_.end(), hosts_[rank_]);
    return static_cast<unsigned>(here) > std::thread::hardware_concurrency();
  }

  std::string why_given_up(const std::string& whom) {
    const std::string limit = std::to_string(static_cast<long>(limit_)) + " s ";
    const std::string why = " (cluster timeout_seconds)";
    // Whoever shows the words of another process says whose they are.
    if (rank_ != 0) return "has waited " + limit + whom + why;
    std::string missing;
    for (const std::size_t rank : call_roll())
      missing += (missing.empty() ? ": no answer from " : ", ") + name_of(rank);
    return name_of(0) + " has waited " + limit + "for the others" + missing + why;
  }

  /// At process 0: asks who is there.
  /// \returns those that have not answered in time: they are stopped, gone, or still computing.
  std::vector<std::size_t> call_roll() {
    std::vector<MPI_Request> asked(size_, MPI_REQUEST_NULL), answers(size_, MPI_REQUEST_NULL);
    // What is not answered may be written to for as long as MPI lives.
    static char word = 0;
    static std::vector<char> words;
    words.assign(size_, 0);
    for (std::size_t rank = 1; rank < size_; ++rank) {
      const auto to = static_cast<int>(rank);
      ::MPI_Irecv(&words[rank], 1, MPI_CHAR, to, kHere, MPI_COMM_WORLD, &answers[rank]);
      ::MPI_Isend(&word, 1, MPI_CHAR, to, kWhoIsThere, MPI_COMM_WORLD, &asked[rank]);
    }
    std::vector<bool> is_there(size_, false);
    const auto begun = Clock::now();
    while (std::chrono::duration<double>(Clock::now() - begun).count() < kRollCall) {
      for (std::size_t rank = 1; rank < size_; ++rank) {
        int is_done = 0;
        if (!is_there[rank] &&
            ::MPI_Test(&answers[rank], &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS)
          is_there[rank] = is_done != 0;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::vector<std::size_t> missing;
    for (std::size_t rank = 1; rank < size_; ++rank) {
      if (!is_there[rank]) missing.push_back(rank);
    }
    return missing;
  }

  /// Elsewhere, while it waits itself.
  void answer_roll_call() {
    int is_asked = 0;
    ::MPI_Iprobe(0, kWhoIsThere, MPI_COMM_WORLD, &is_asked, MPI_STATUS_IGNORE);
    if (is_asked == 0) return;
    char word = 0;
    ::MPI_Recv(&word, 1, MPI_CHAR, 0, kWhoIsThere, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ::MPI_Send(&word, 1, MPI_CHAR, 0, kHere, MPI_COMM_WORLD);
  }

  void check(int code, const std::string& whom) const {
    if (code == MPI_SUCCESS) return;
    throw IoError("waiting " + whom + ": " + words_of(code));
  }

  using Clock = std::chrono::steady_clock;
  static constexpr int kHostSize = MPI_MAX_PROCESSOR_NAME;
  using Host = std::array<char, kHostSize>;
  enum Tag { kNumbers = 0, kWhoIsThere, kHere };
  static constexpr double kShortWait = 2e-4;  // seconds
  static constexpr double kLongWait = 0.5;    // seconds, from which on a roll call may come
  static constexpr double kRollCall = 5.0;    // seconds that it takes: machines are busy
  double limit_;
  std::size_t rank_ = 0, size_ = 1;
  std::vector<Host> hosts_;
  bool is_crowded_ = false;
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

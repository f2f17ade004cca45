#include <mpi.h>
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
    learn_hosts();
  }

  std::size_t rank() const noexcept override { return rank_; }
  std::size_t size() const noexcept override { return size_; }

  std::string host() const override { return hosts_[rank_].data(); }

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

  void bring(std::span<std::byte> bytes, std::size_t from) override {
    if (from == 0 || (rank_ != 0 && rank_ != from)) return;
    const std::string whom = "for process " + std::to_string(rank_ == 0 ? from : 0);
    const auto other = static_cast<int>(from);
    in_messages(bytes, 0, bytes.size(), [&](auto message, int count) {
      check(rank_ == 0 ? ::MPI_Irecv(message.data(), count, MPI_BYTE, other, kNumbers,
                                     MPI_COMM_WORLD, new_request())
                       : ::MPI_Isend(message.data(), count, MPI_BYTE, 0, kNumbers, MPI_COMM_WORLD,
                                     new_request()),
            whom);
    });
    finish(whom);
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

  /// Who is where, for messages. As long as it lasts, a process has no name but its own.
  void learn_hosts() {
    hosts_.resize(size_);
    int length = 0;
    ::MPI_Get_processor_name(hosts_[rank_].data(), &length);
    Host mine = hosts_[rank_];
    const std::string whom = "for all processes to begin";
    check(::MPI_Iallgather(mine.data(), kHostSize, MPI_CHAR, hosts_.data(), kHostSize, MPI_CHAR,
                           MPI_COMM_WORLD, new_request()),
          whom);
    finish(whom);
  }

  std::string name_of(std::size_t rank) const {
    return "process " + std::to_string(rank) + " on " + hosts_[rank].data();
  }

  /// Waits for all that was begun.
  void finish(const std::string& whom) {
    const auto begun = Clock::now();
    while (!requests_.empty()) {
      const auto count = static_cast<int>(requests_.size());
      int are_done = 0;
      check(::MPI_Testall(count, requests_.data(), &are_done, MPI_STATUSES_IGNORE), whom);
      if (are_done != 0) {
        // Returns at once; by the book, every operation is waited for.
        check(::MPI_Waitall(count, requests_.data(), MPI_STATUSES_IGNORE), whom);
        return requests_.clear();
      }
      const std::chrono::duration<double> waited = Clock::now() - begun;
      if (waited.count() < kShortWait) continue;
      // Where there are more processes than cores, the one that is waited for needs this one's. Who
      // sleeps is let in again at once when it wakes; who only yields may come last.
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      if (rank_ != 0 && waited.count() > kLongWait) answer_roll_call();
      // Process 0 is the one that can find out who is missing.
      if (waited.count() > limit_ + (rank_ == 0 ? 0.0 : kRollCall + 2.0))
        throw IoError(why_given_up(whom));
    }
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
  static constexpr const char* kSums = "for the sums of the others";
  static constexpr int kHostSize = MPI_MAX_PROCESSOR_NAME;
  using Host = std::array<char, kHostSize>;
  enum Tag { kNumbers = 0, kWhoIsThere, kHere };
  static constexpr double kShortWait = 2e-4;  // seconds
  static constexpr double kLongWait = 0.5;    // seconds, from which on a roll call may come
  static constexpr double kRollCall = 5.0;    // seconds that it takes: machines are busy
  double limit_;
  std::size_t rank_ = 0, size_ = 1;
  std::vector<Host> hosts_;
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

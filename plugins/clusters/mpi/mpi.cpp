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

using namespace privgrad;

/// Initialises and finalises MPI once per process, no matter how many components are made.
class Library {
 public:
  /// \throws IoError if MPI cannot begin.
  static void begin() {
    static std::once_flag once;
    std::call_once(once, [] {
      int provided = 0;
      // MPI_THREAD_SERIALIZED: several threads may call MPI, one at a time.
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

/// The longest message in bytes: MPI's counts are of type int, so longer messages are split.
constexpr std::size_t kMost = std::size_t{1} << 30;
/// The longest message, in bytes, when all processes send to each other.
constexpr std::size_t kMessage = std::size_t{1} << 16;

/// A cluster of the processes that mpirun, srun or another PMIx launcher started together.
class Mpi final : public Cluster {
 public:
  explicit Mpi(const Params& params) : limit_(params.real("timeout_seconds")) {
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
    in_messages(bytes, [&](auto message, int count) {
      check(::MPI_Ibcast(message.data(), count, MPI_BYTE, 0, MPI_COMM_WORLD, new_request()),
            kLeader);
    });
    finish(kLeader);
  }

  void add_up(std::span<std::uint64_t> values, std::span<const std::size_t> ends) override {
    // Sends each number once, to the process that adds it up, which is the minimum for a
    // reduce-scatter. MPI_Ireduce of Open MPI 4 takes fifty times as long for megabytes between two
    // processes of one machine.
    const std::span<std::uint64_t> mine = part_of(values, rank_, ends);
    std::vector<std::span<const std::byte>> out(size_);
    for (std::size_t part = 0; part < size_; ++part)
      out[part] = std::as_bytes(part_of(values, part, ends));
    constexpr std::size_t kCount = kMessage / sizeof(std::uint64_t);
    std::vector<std::array<std::uint64_t, kCount>> room(slots_each_way());
    exchange(
        out, std::vector<std::size_t>(size_, mine.size_bytes()),
        [&](const Slot& slot) { return std::as_writable_bytes(std::span(room[slot.number])); },
        [&](const Slot& slot) {
          const auto sums = mine.subspan(slot.begin / sizeof(std::uint64_t));
          const auto& theirs = room[slot.number];
          for (std::size_t i = 0; i < slot.size / sizeof(std::uint64_t); ++i) sums[i] += theirs[i];
        },
        kSums);
  }

  void gather(std::span<std::byte> bytes, std::span<const std::size_t> ends) override {
    std::vector<std::size_t> in(size_);
    for (std::size_t part = 0; part < size_; ++part) in[part] = part_of(bytes, part, ends).size();
    exchange(
        std::vector<std::span<const std::byte>>(size_, part_of(bytes, rank_, ends)), in,
        [&](const Slot& slot) { return part_of(bytes, slot.other, ends).subspan(slot.begin); },
        [](const Slot&) {}, "for the parts of the others");
  }

  void bring(std::span<std::byte> bytes, std::size_t from) override {
    if (from == 0 || (rank_ != 0 && rank_ != from)) return;
    const std::string whom = "for process " + std::to_string(rank_ == 0 ? from : 0);
    const auto other = static_cast<int>(from);
    in_messages(bytes, [&](auto message, int count) {
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
  /// Returns the elements in [ends[part - 1], ends[part]).
  template <class T>
  static std::span<T> part_of(std::span<T> values, std::size_t part,
                              std::span<const std::size_t> ends) {
    const std::size_t begin = part == 0 ? 0 : ends[part - 1];
    return values.subspan(begin, ends[part] - begin);
  }

  /// Calls start(message, its size) for consecutive messages that cover all bytes.
  template <class Start>
  static void in_messages(std::span<std::byte> bytes, const Start& start) {
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kMost))) {
      const auto message = bytes.first(std::min(bytes.size(), kMost));
      start(message, static_cast<int>(message.size()));
    }
  }

  /// A message in transit to or from another process.
  struct Slot {
    std::size_t number;  ///< Its number among the messages in its direction.
    std::size_t other;   ///< The other process.
    bool comes;
    std::size_t begin = 0, size = 0;  ///< Its bytes, within the data of that direction.
  };

  /// Returns the number of messages in transit at the same time from and to each other process. It
  /// is large enough that no process waits between two messages, but small if there are many
  /// processes, because incoming messages take memory.
  std::size_t messages_at_once() const { return std::clamp<std::size_t>(32 / (size_ + 1), 2, 8); }
  std::size_t slots_each_way() const { return messages_at_once() * (size_ - 1); }

  /// Sends to and receives from all other processes, in messages that are short enough to show
  /// progress.
  /// \param out  [size()]: the bytes to send to each process.
  /// \param in  [size()]: the number of bytes from each process.
  /// \param room  returns the memory for a slot's message.
  /// \param came  is called with the slot of each message that has arrived.
  template <class Room, class Came>
  void exchange(const std::vector<std::span<const std::byte>>& out,
                const std::vector<std::size_t>& in, const Room& room, const Came& came,
                const std::string& whom) {
    std::vector<Slot> slots;
    for (const bool comes : {true, false}) {
      std::size_t number = 0;
      for (std::size_t i = 0; i < messages_at_once(); ++i) {
        // Each process begins with its neighbour, so that they do not all send to process 0 first.
        for (std::size_t next = rank_ + 1; next < rank_ + size_; ++next) {
          const std::size_t other = next < size_ ? next : next - size_;
          slots.push_back({.number = number++, .other = other, .comes = comes});
        }
      }
    }
    std::vector<std::size_t> asked_for(size_, 0), sent(size_, 0);
    requests_.assign(slots.size(), MPI_REQUEST_NULL);
    const auto start = [&](std::size_t i) {
      Slot& slot = slots[i];
      std::size_t& next = (slot.comes ? asked_for : sent)[slot.other];
      const std::size_t end = slot.comes ? in[slot.other] : out[slot.other].size();
      slot.begin = next;
      slot.size = std::min(kMessage, end - next);
      next += slot.size;
      if (slot.size == 0) return;
      const auto other = static_cast<int>(slot.other), count = static_cast<int>(slot.size);
      check(slot.comes ? ::MPI_Irecv(room(slot).data(), count, MPI_BYTE, other, kNumbers,
                                     MPI_COMM_WORLD, &requests_[i])
                       : ::MPI_Isend(&out[slot.other][slot.begin], count, MPI_BYTE, other, kNumbers,
                                     MPI_COMM_WORLD, &requests_[i]),
            whom);
    };
    for (std::size_t i = 0; i < slots.size(); ++i) start(i);
    finish(whom, [&](std::size_t i) {
      if (slots[i].comes) came(slots[i]);
      start(i);
    });
  }

  MPI_Request* new_request() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  /// Collects the names of the processes' hosts, for messages. Until this is done, a process knows
  /// only its own host.
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

  void finish(const std::string& whom) {
    finish(whom, [](std::size_t) {});
  }

  /// Waits for all requests.
  /// \param done  is called with the index of each completed request, and may put another request
  ///   in its place.
  template <class Done>
  void finish(const std::string& whom, const Done& done) {
    std::vector<int> numbers(requests_.size());
    auto moved = Clock::now();
    for (;;) {
      int count = 0;
      check(::MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                           numbers.data(), MPI_STATUSES_IGNORE),
            whom);
      if (count == MPI_UNDEFINED) return requests_.clear();  // no requests are left
      if (count > 0) {
        for (const int number : std::span(numbers).first(static_cast<std::size_t>(count)))
          done(static_cast<std::size_t>(number));
        moved = Clock::now();
        continue;
      }
      // Measures the wait from the last progress. After progress, polls without a pause, because
      // the next poll continues the transfer.
      const std::chrono::duration<double> waited = Clock::now() - moved;
      if (waited.count() < kShortWait) continue;
      // If there are more processes than cores, the other process may need this core. A
      // sleeping process is scheduled as soon as it wakes, but a process that only yields may
      // come last.
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      if (rank_ != 0 && waited.count() > kLongWait) answer_roll_call();
      // Processes other than 0 wait a little longer, because only process 0 can find out which
      // process is missing.
      if (waited.count() > limit_ + (rank_ == 0 ? 0.0 : kRollCall + 2.0))
        throw IoError(why_given_up(whom));
    }
  }

  std::string why_given_up(const std::string& whom) {
    const std::string limit = std::to_string(static_cast<long>(limit_)) + " s ";
    const std::string why = " (cluster timeout_seconds)";
    // The caller that shows this message adds the process's name.
    if (rank_ != 0) return "has waited " + limit + whom + why;
    std::string missing;
    for (const std::size_t rank : call_roll())
      missing += (missing.empty() ? ": no answer from " : ", ") + name_of(rank);
    return name_of(0) + " has waited " + limit + "for the others" + missing + why;
  }

  /// At process 0: asks which processes are alive.
  /// \returns the processes that have not answered in time, because they are stopped, gone, or
  ///   still computing.
  std::vector<std::size_t> call_roll() {
    std::vector<MPI_Request> asked(size_, MPI_REQUEST_NULL), answers(size_, MPI_REQUEST_NULL);
    // MPI may write to the buffers of unanswered calls until it is finalised.
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

  /// Answers the roll call of process 0; all other processes call this function while they wait.
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
  static constexpr const char* kLeader = "for process 0";
  static constexpr const char* kSums = "for the sums of the others";
  static constexpr int kHostSize = MPI_MAX_PROCESSOR_NAME;
  using Host = std::array<char, kHostSize>;
  enum Tag { kNumbers = 0, kWhoIsThere, kHere };
  static constexpr double kShortWait = 2e-4;  // seconds
  static constexpr double kLongWait = 0.5;    // seconds until a roll call may come
  // seconds for the roll call: long, because machines may be busy
  static constexpr double kRollCall = 5.0;
  double limit_;
  std::size_t rank_ = 0, size_ = 1;
  std::vector<Host> hosts_;
  std::vector<MPI_Request> requests_;  // requests in progress
};

void register_components(Registrar& registrar) {
  registrar.add<Cluster, Mpi>({
      .name = "mpi",
      .summary = "The processes that mpirun or srun has started, on one machine or on many.",
      .reference =
          "Message Passing Interface Forum: MPI, a message-passing interface standard, 3.1",
      .params = {param::real("timeout_seconds",
                             "How long a process waits for another before it ends the run.")
                     .at_least(1)
                     .defaults_to(600)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.mpi", "0.1.0", "cluster/mpi", register_components)

#include "privgrad/train/second_look.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <optional>
#include <string>

#include "privgrad/bounded_statistic.hpp"
#include "privgrad/data/breach.hpp"
#include "privgrad/error.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/plan/setting.hpp"
#include "privgrad/trust/released_again.hpp"
#include "privgrad/trust/state_bytes.hpp"
#include "saved_component.hpp"

namespace privgrad::core {
namespace {

enum class Question : std::uint64_t { learnt = 1, clip_norm, scaling, state };

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool receive_all(int socket, char* into, std::size_t size) {
  while (size > 0) {
    // The caller's lock keeps each answer with its question.
    const ssize_t received =
        ::recv(socket, into, size, 0);  // NOLINT(clang-analyzer-unix.BlockInCriticalSection)
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    into += received;
    size -= static_cast<std::size_t>(received);
  }
  return true;
}

bool send_text(int socket, std::string_view text) {
  const auto size = std::bit_cast<std::array<char, 8>>(std::uint64_t{text.size()});
  return send_all(socket, {size.data(), size.size()}) && send_all(socket, text);
}

std::optional<std::string> receive_text(int socket) {
  std::array<char, 8> size{};
  if (!receive_all(socket, size.data(), size.size())) return std::nullopt;
  std::string text(std::bit_cast<std::uint64_t>(size), '\0');
  if (!receive_all(socket, text.data(), text.size())) return std::nullopt;
  return text;
}

void put(StateWriter& out, const Released& release) {
  out.array(release.values());
  out.real(release.noise_stddev());
}

Released release_from(StateReader& in) {
  std::vector<float> values = in.array<float>();
  const double noise_stddev = in.real();
  return released_again(std::move(values), noise_stddev);
}

// ---- answers, which both processes compute

std::string answer_of(const Transform& transform) {
  StateWriter out;
  for (const FittedTensor& tensor : transform.fitted_values()) {
    out.bytes(tensor.name);
    out.array(std::vector<std::uint64_t>(tensor.shape.begin(), tensor.shape.end()));
    out.array(tensor.values);
  }
  return out.text();
}

std::string answer_of(Clipping& clipping) {
  StateWriter out;
  const auto& scaling = dynamic_cast<const CoordinateScaling&>(clipping);
  out.array(scaling.shift());
  out.array(scaling.scale());
  save_component(out, clipping);
  return out.text();
}

/// The components of the other process, which give the answers.
class Answering {
 public:
  explicit Answering(const Plan& plan) : plan_(plan) {
    clipping_ = plan.manifest->clipping.make<Clipping>();
    clipping_->start(plan.setting->groups);
  }

  std::string answer(StateReader& in) {
    switch (static_cast<Question>(in.word())) {
      case Question::learnt:
        return learn(in);
      case Question::clip_norm: {
        const double clip_norm = in.real(), unclipped = in.real();
        StateWriter out;
        out.real(ability<AdaptiveClipNorm>().next_clip_norm(clip_norm, unclipped));
        return out.text();
      }
      case Question::scaling:
        ability<CoordinateScaling>().learn(release_from(in));
        return answer_of(*clipping_);
      case Question::state:
        restore_component(in, *clipping_);
        return "";
    }
    return "";
  }

 private:
  template <class Ability>
  Ability& ability() const {
    return dynamic_cast<Ability&>(*clipping_);
  }

  std::string learn(StateReader& in) {
    const ComponentUse& use = plan_.manifest->transforms[in.word()];
    ExampleShape input;
    const std::vector<std::uint64_t> features = in.array<std::uint64_t>();
    input.features.assign(features.begin(), features.end());
    input.classes = in.word();
    const auto transform = use.make<Transform>();
    dynamic_cast<BoundedStatistic&>(*transform).learn(input, release_from(in));
    return answer_of(*transform);
  }

  const Plan& plan_;
  ComponentPtr<Clipping> clipping_;
};

/// Runs in the child after the fork, where only this thread exists. It must not destroy, write to
/// or wait for anything that belongs to the parent process.
[[noreturn]] void answer_all(const Plan& plan, int socket) noexcept {
  constexpr int kSocket = 3;
  ::signal(SIGINT, SIG_IGN);  // a signal from the terminal is meant for the parent process
  ::signal(SIGTERM, SIG_IGN);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, stream);
  if (socket != kSocket) ::dup2(socket, kSocket);
  ::close_range(kSocket + 1, ~0U, 0);
  try {
    Answering answering(plan);
    while (const auto question = receive_text(kSocket)) {
      StateReader in(*question, "a question");
      if (!send_text(kSocket, answering.answer(in))) break;
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): the end is the answer
  }
  ::_exit(0);
}

bool gives_something_away(const Plan& plan) {
  const auto clipping = plan.manifest->clipping.make<Clipping>();
  return dynamic_cast<const AdaptiveClipNorm*>(clipping.get()) != nullptr ||
         dynamic_cast<const CoordinateScaling*>(clipping.get()) != nullptr ||
         std::ranges::any_of(plan.statistics,
                             [](const auto& one) { return one.of == StatisticOf::transform; });
}

}  // namespace

class SecondLook::Child {
 public:
  explicit Child(const Plan& plan) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail();
    socket_ = ends[0];
    const timeval patience{.tv_sec = 600, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    pid_ = ::fork();
    if (pid_ == 0) answer_all(plan, ends[1]);
    ::close(ends[1]);
    if (pid_ < 0) {
      ::close(socket_);
      fail();
    }
  }

  ~Child() {
    ::close(socket_);
    ::kill(pid_, SIGKILL);  // closing may not end it: another process may hold a copy of the socket
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// \returns nothing if there is no answer.
  std::optional<std::string> answer_to(std::string_view question) {
    const std::lock_guard lock(mutex_);
    if (!send_text(socket_, question)) return std::nullopt;
    return receive_text(socket_);
  }

 private:
  [[noreturn]] static void fail() {
    throw IoError(
        "the second process, which checks what components make public, cannot be started");
  }

  std::mutex mutex_;
  int socket_ = -1;
  pid_t pid_ = -1;
};

SecondLook::SecondLook(const Plan& plan) : manifest_(*plan.manifest) {
  if (gives_something_away(plan)) child_ = std::make_unique<Child>(plan);
}

SecondLook::~SecondLook() = default;

void SecondLook::compare(const std::string& who, const StateWriter& question,
                         const std::string& here, const char* what) {
  if (child_->answer_to(question.text()) == here) return;
  throw PluginError(
      who + ": a process that was shown no row computes another " + what +
      " from the same releases, or none; public values must follow only from releases");
}

void SecondLook::check_learnt(std::size_t number, const ExampleShape& input, const Released& mean,
                              const Transform& transform) {
  StateWriter question;
  question.put(Question::learnt, std::uint64_t{number});
  question.array(std::vector<std::uint64_t>(input.features.begin(), input.features.end()));
  question.word(input.classes);
  put(question, mean);
  compare(manifest_.transforms[number].component->full_name(), question, answer_of(transform),
          "set of learnt values");
}

void SecondLook::check_clip_norm(double clip_norm, double unclipped, double next) {
  StateWriter question, here;
  question.put(Question::clip_norm, clip_norm, unclipped);
  here.real(next);
  compare(manifest_.clipping.component->full_name(), question, here.text(), "clip norm");
}

void SecondLook::check_scaling(const Released& release, Clipping& clipping) {
  StateWriter question;
  question.put(Question::scaling);
  put(question, release);
  compare(manifest_.clipping.component->full_name(), question, answer_of(clipping),
          "scaling of coordinates");
}

void SecondLook::restore_scaling(Clipping& clipping) {
  StateWriter question;
  question.put(Question::state);
  save_component(question, clipping);
  compare(manifest_.clipping.component->full_name(), question, "", "state");
}

}  // namespace privgrad::core

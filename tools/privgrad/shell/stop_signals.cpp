#include "stop_signals.hpp"

#include <csignal>

namespace privgrad::tool {
namespace {

// A signal handler can only use static objects.
std::atomic<bool> stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

void request_stop(int) { stop.store(true); }

void install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  // SA_RESETHAND: the second signal has the default action. SA_RESTART: the first signal does not
  // make a write of the ledger fail with EINTR.
  action.sa_flags = handler == SIG_DFL ? 0 : static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction old {};
    ::sigaction(signal, nullptr, &old);
    // A signal stays ignored if the parent process ignores it (nohup, a script's background job).
    if (old.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace

StopSignals::StopSignals() {
  stop.store(false);
  install(request_stop);
}

StopSignals::~StopSignals() { install(SIG_DFL); }

const std::atomic<bool>& StopSignals::flag() const noexcept { return stop; }

}  // namespace privgrad::tool

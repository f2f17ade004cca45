#include "last_words.hpp"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <typeinfo>

#include "privgrad/host/loading.hpp"

namespace privgrad::tool {
namespace {

/// A range of a plugin's executable memory. The table of ranges is static, because the heap may be
/// broken when the table is read.
struct Code {
  std::uintptr_t begin = 0, end = 0;
  char name[96] = "";
};
constexpr std::size_t kMostCode = 1024;
std::array<Code, kMostCode> codes;
std::size_t code_count = 0;

std::atomic<const Code*> thrower = nullptr;

Silence silent = Silence::never;
pid_t watched = 0;  // the process whose command is not done yet; 0: none

const Code* code_at(std::uintptr_t address) {
  for (std::size_t i = 0; i < code_count; ++i) {
    if (address >= codes[i].begin && address < codes[i].end) return &codes[i];
  }
  return nullptr;
}

/// A line made of parts and written by one write(). It uses no allocation and no locks.
class Line {
 public:
  Line() : silent_(silent == Silence::while_loading && *host::loading_now() != '\0') {}
  Line& operator<<(const char* text) {
    for (; *text != '\0' && size_ + 1 < text_.size(); ++text) text_[size_++] = *text;
    return *this;
  }
  ~Line() {
    if (silent_) return;
    text_[size_++] = '\n';
    // A failure here cannot be reported.
    if (::write(STDERR_FILENO, text_.data(), size_) < 0) return;
  }

 private:
  const bool silent_;
  std::array<char, 1024> text_{};
  std::size_t size_ = 0;
};

struct Search {
  const Code* found = nullptr;
  int frames = 0;
};

_Unwind_Reason_Code look_at(_Unwind_Context* frame, void* given) {
  auto& search = *static_cast<Search*>(given);
  // A return address may point to the first byte after the calling function.
  search.found = code_at(_Unwind_GetIP(frame) - 1);
  constexpr int kMostFrames = 200;
  return search.found != nullptr || ++search.frames > kMostFrames ? _URC_END_OF_STACK
                                                                  : _URC_NO_REASON;
}

/// Returns the innermost frame of a plugin on this thread's stack. The unwinder allocates no memory
/// and, since glibc 2.35 has _dl_find_object, takes no lock.
const Code* innermost() {
  Search search;
  _Unwind_Backtrace(look_at, &search);
  return search.found;
}

/// Returns the address at which a signal interrupted a thread, and the caller's address, which is
/// needed after a call through a null pointer: the call leaves a return address, but no frame that
/// could be unwound.
std::array<std::uintptr_t, 2> places(const ucontext_t& context) {
#if defined(__x86_64__)
  const auto at = static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
  const auto top = static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RSP]);
  std::uintptr_t from = 0;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is a register's, which is a number
  if (at == 0) std::memcpy(&from, reinterpret_cast<const void*>(top), sizeof from);
  return {at, from};
#elif defined(__aarch64__)
  return {context.uc_mcontext.pc, context.uc_mcontext.regs[30]};
#else
  static_cast<void>(context);
  return {0, 0};
#endif
}

void blame(Line& line, const Code* own, const Code* caller) {
  if (own != nullptr) {
    line << " in plugin " << own->name;
  } else if (caller != nullptr) {
    line << " in code that plugin " << caller->name << " had called";
  } else if (*host::loading_now() != '\0') {
    line << " while " << host::loading_now() << " was loaded";
  } else {
    line << " outside of the code of plugins";
  }
}

extern "C" void on_crash(int signal, siginfo_t*, void* context) {
  const auto [at, from] = places(*static_cast<const ucontext_t*>(context));
  const Code* const own = code_at(at);
  const Code* caller = code_at(from);
  if (own == nullptr && caller == nullptr) caller = innermost();
  {
    Line line;
    const char* const name = ::sigdescr_np(signal);
    line << "privgrad: error: " << (name != nullptr ? name : "a signal");
    blame(line, own, caller);
  }
  // SA_RESETHAND has restored the default action, so the signal sets the exit code and dumps core.
  ::raise(signal);
}

[[noreturn]] void leave(int code) {
  for (;;) ::syscall(SYS_exit_group, code);
}

/// Returns the environment's time limit for loading a plugin; 0 if it sets none.
unsigned given_seconds() {
  constexpr long kMost = 86'400;
  const char* const given = std::getenv("PRIVGRAD_LOADING_SECONDS");
  const long seconds = given == nullptr ? 0 : std::strtol(given, nullptr, 10);
  return seconds < 1 || seconds > kMost ? 0 : static_cast<unsigned>(seconds);
}

const unsigned kGivenSeconds = given_seconds();

/// Returns the time limit, which is shorter for a command that can go on without a plugin.
unsigned loading_seconds() {
  if (kGivenSeconds > 0) return kGivenSeconds;
  return silent == Silence::while_loading ? 10 : 60;
}

extern "C" void on_alarm(int) {
  {
    std::array<char, 12> digits{};
    std::size_t at = digits.size() - 1;
    for (unsigned rest = loading_seconds(); rest > 0; rest /= 10)
      digits[--at] = static_cast<char>('0' + rest % 10);
    Line line;
    line << "privgrad: error: " << host::loading_now() << " has been loading for "
         << digits.data() + at
         << " seconds; remove the plugin, or raise the limit by PRIVGRAD_LOADING_SECONDS";
  }
  leave(silent == Silence::while_loading ? kNotLoadedInTime : 1);
}

/// Sets an alarm before a plugin is loaded, and removes it afterwards.
void watch_loading(bool begins) { ::alarm(begins ? loading_seconds() : 0); }

/// Called on exit(), quick_exit() and _exit(), which only foreign code calls before conclude().
void on_exit_too_early() {
  if (watched == 0 || watched != ::getpid()) return;
  {
    Line line;
    line << "privgrad: error: the process was ended";
    blame(line, nullptr, innermost());
    line << ", before the command was done";
  }
  leave(1);
}

/// Signal handlers get their own stack, because after a stack overflow no other can be used.
void give_signals_a_stack() {
  static std::array<char, 1 << 16> memory;
  stack_t stack{};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  ::sigaltstack(&stack, nullptr);
}

int add_code(dl_phdr_info* object, std::size_t, void* given) {
  const auto& plugin = *static_cast<const PluginIdentity*>(given);
  if (plugin.file != object->dlpi_name) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0 || code_count == kMostCode) continue;
    Code& code = codes[code_count];
    code.begin = object->dlpi_addr + part.p_vaddr;
    code.end = code.begin + part.p_memsz;
    plugin.name.copy(code.name, sizeof code.name - 1);
    ++code_count;
  }
  return 1;
}

}  // namespace

void watch_for_the_end(Silence silence) {
  silent = silence;
  if (watched == 0) {  // a child process has inherited the handlers
    std::atexit(on_exit_too_early);
    std::at_quick_exit(on_exit_too_early);
  }
  watched = ::getpid();
  std::signal(SIGALRM, on_alarm);
  host::tell_of_loading(watch_loading);
// The sanitizers report crashes better.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  give_signals_a_stack();
  innermost();  // the unwinder may allocate memory the first time it is used
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND | SA_NODEFER;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    ::sigaction(signal, &action, nullptr);
#endif
}

void conclude() noexcept { watched = 0; }

void name_code_of(const PluginIdentity& plugin) {
  ::dl_iterate_phdr(add_code, const_cast<PluginIdentity*>(&plugin));
}

std::string plugin_that_threw() {
  const Code* const code = thrower;
  return code == nullptr ? "" : code->name;
}

/// Remembers the plugin whose code throws, because the code that catches the exception cannot find
/// the plugin.
void note_throw(const std::type_info& type, void* thrown) {
  if (!typeid(std::exception).__do_catch(&type, &thrown, 1)) thrower = innermost();
}

}  // namespace privgrad::tool

// Replaces the C++ library's function, for plugins and the command. `type` is a std::type_info*;
// the compiler's own declaration says void*.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the ABI's name
extern "C" [[noreturn, gnu::visibility("default")]] void __cxa_throw(void* thrown, void* type,
                                                                     void (*destroy)(void*)) {
  privgrad::tool::note_throw(*static_cast<const std::type_info*>(type), thrown);
  static const auto next =
      reinterpret_cast<decltype(&__cxa_throw)>(::dlsym(RTLD_NEXT, "__cxa_throw"));
  next(thrown, type, destroy);
  __builtin_unreachable();
}

// Replaces the C library's _exit(), for plugins and the command: the original runs no handlers, so
// a call would go unnoticed.
extern "C" {
[[gnu::visibility("default")]] void _exit(int code) {
  privgrad::tool::on_exit_too_early();
  privgrad::tool::leave(code);
}
[[gnu::visibility("default")]] void _Exit(int code) noexcept { ::_exit(code); }
}

#include "exit_code.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <typeinfo>

#include "output.hpp"
#include "privgrad/error.hpp"

namespace privgrad::tool {
namespace {

enum ExitCode { kOther = 1, kWrongCall = 2, kRefusedForPrivacy = 3, kInputOutput = 4 };

/// "std::length_error" for its mangled name.
std::string type_of(const std::exception& problem) {
  int status = 0;
  const char* mangled = typeid(problem).name();
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  return status == 0 && name != nullptr ? name.get() : mangled;
}

int report(const std::exception& problem, ExitCode code) {
  const std::string what = problem.what();
  report_failure(what.empty() ? "an exception without a message was thrown: " + type_of(problem)
                              : what);
  return code;
}

}  // namespace

int with_exit_code(const std::function<int()>& action) {
  try {
    return action();
  } catch (const ConfigError& problem) {
    return report(problem, kWrongCall);
  } catch (const PrivacyError& problem) {
    return report(problem, kRefusedForPrivacy);
  } catch (const IoError& problem) {
    return report(problem, kInputOutput);
  } catch (const std::filesystem::filesystem_error& problem) {
    return report(problem, kInputOutput);
  } catch (const std::bad_alloc&) {
    report_failure("out of memory");
    return kOther;
  } catch (const std::exception& problem) {
    return report(problem, kOther);
  } catch (...) {
    report_failure("a plugin threw something that is no std::exception");
    return kOther;
  }
}

}  // namespace privgrad::tool

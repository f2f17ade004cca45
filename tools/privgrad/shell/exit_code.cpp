#include "exit_code.hpp"

#include <cxxabi.h>

#include <boost/core/demangle.hpp>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <typeinfo>

#include "last_words.hpp"
#include "output.hpp"
#include "privgrad/error.hpp"

namespace privgrad::tool {
namespace {

int report(const std::exception& problem, ExitCode code) {
  const std::string what = problem.what();
  report_failure(what.empty() ? "an exception without a message was thrown: " +
                                    boost::core::demangle(typeid(problem).name())
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
    const auto& path = problem.path2().empty() ? problem.path1() : problem.path2();
    report_failure(path.string() + ": " + problem.code().message());
    return kInputOutput;
  } catch (const std::bad_alloc&) {
    report_failure("out of memory");
    return kOther;
  } catch (const std::exception& problem) {
    return report(problem, kOther);
  } catch (...) {
    const std::string plugin = plugin_that_threw();
    report_failure((plugin.empty() ? "a plugin" : "plugin " + plugin) + " threw " +
                   boost::core::demangle(abi::__cxa_current_exception_type()->name()) +
                   ", which is not a std::exception");
    return kOther;
  }
}

}  // namespace privgrad::tool

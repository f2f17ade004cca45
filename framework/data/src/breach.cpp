#include "privgrad/data/breach.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>
#include <typeinfo>

#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

std::string type_of(const std::exception& problem) {
  int status = 0;
  const char* mangled = typeid(problem).name();
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  return status == 0 && name != nullptr ? name.get() : mangled;
}

std::string blamed(const std::string& who, const std::exception& problem) {
  const std::string_view what = problem.what();
  if (what.find(who) != what.npos) return std::string(what);
  return who + ": " +
         (what.empty() ? "threw " + type_of(problem) + " without a message" : std::string(what));
}

}  // namespace

void in_run_of(const std::string& who, const std::function<void()>& action) {
  try {
    action();
  } catch (const PrivacyError&) {
    throw;
  } catch (const IoError&) {
    throw;
  } catch (const NumericError& problem) {
    throw NumericError(blamed(who, problem));
  } catch (const std::bad_alloc&) {
    throw;  // nobody's breach alone
  } catch (const std::exception& problem) {
    throw PluginError(blamed(who, problem));
  }
}

}  // namespace privgrad::core

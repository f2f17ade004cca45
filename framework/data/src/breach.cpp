#include "privgrad/data/breach.hpp"

#include <cxxabi.h>

#include <boost/core/demangle.hpp>
#include <new>
#include <string_view>
#include <typeinfo>

#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

std::string blamed(const std::string& who, const std::exception& problem) {
  const std::string_view what = problem.what();
  if (what.find(who) != what.npos) return std::string(what);
  return who + ": " +
         (what.empty()
              ? "threw " + boost::core::demangle(typeid(problem).name()) + " without a message"
              : std::string(what));
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
    throw;  // not the fault of a single component
  } catch (const std::exception& problem) {
    throw PluginError(blamed(who, problem));
  } catch (...) {
    throw PluginError(who + ": threw " +
                      boost::core::demangle(abi::__cxa_current_exception_type()->name()) +
                      ", which is not a std::exception");
  }
}

}  // namespace privgrad::core

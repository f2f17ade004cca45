#include "checker.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <typeinfo>

namespace privgrad::testing {
namespace {

Thrown kind_of(const Error& problem) {
  if (dynamic_cast<const ConfigError*>(&problem) != nullptr) return Thrown::config;
  if (dynamic_cast<const PrivacyError*>(&problem) != nullptr) return Thrown::privacy;
  if (dynamic_cast<const IoError*>(&problem) != nullptr) return Thrown::io;
  if (dynamic_cast<const PluginError*>(&problem) != nullptr) return Thrown::plugin;
  if (dynamic_cast<const NumericError*>(&problem) != nullptr) return Thrown::numeric;
  return Thrown::other;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace

bool Checker::rule(std::string_view name, const std::function<void()>& body) {
  Finding finding{std::string(name), Verdict::failed, ""};
  try {
    body();
    finding.verdict = Verdict::passed;
  } catch (const Broken& promise) {
    finding.detail = one_line(promise.detail);
  } catch (const NotChecked& nothing) {
    finding.verdict = Verdict::skipped;
    finding.detail = one_line(nothing.reason);
  } catch (const Error& problem) {
    finding.detail = "an unexpected " + std::string(to_text(kind_of(problem))) +
                     " was thrown: " + one_line(problem.what());
  } catch (const std::exception& problem) {
    finding.detail = std::string("an exception that is no privgrad::Error was thrown (") +
                     typeid(problem).name() + "): " + one_line(problem.what());
  } catch (...) {
    finding.detail = "something that is no exception was thrown";
  }
  const bool kept = finding.verdict == Verdict::passed;
  findings_.push_back(std::move(finding));
  return kept;
}

void Checker::skip(std::string_view name, std::string reason) {
  findings_.push_back({std::string(name), Verdict::skipped, std::move(reason)});
}

std::string_view to_text(Thrown thrown) {
  switch (thrown) {
    case Thrown::nothing:
      return "nothing";
    case Thrown::config:
      return "ConfigError";
    case Thrown::privacy:
      return "PrivacyError";
    case Thrown::io:
      return "IoError";
    case Thrown::plugin:
      return "PluginError";
    case Thrown::numeric:
      return "NumericError";
    case Thrown::other:
      return "Error";
  }
  return "?";
}

Thrown outcome_of(const std::function<void()>& function, std::string* message) {
  try {
    function();
    return Thrown::nothing;
  } catch (const Error& problem) {
    if (message != nullptr) *message = problem.what();
    return kind_of(problem);
  }
}

void require_throws(Thrown expected, const std::string& what,
                    const std::function<void()>& function) {
  std::string message;
  const Thrown thrown = outcome_of(function, &message);
  if (thrown == expected) return;
  broken(what + " must throw " + std::string(to_text(expected)) + ", not " +
         std::string(to_text(thrown)) + (message.empty() ? "" : " (" + message + ")"));
}

bool accepted(const std::string& what, std::initializer_list<Thrown> allowed,
              const std::function<void()>& function) {
  std::string message;
  const Thrown thrown = outcome_of(function, &message);
  if (thrown == Thrown::nothing) return true;
  if (std::find(allowed.begin(), allowed.end(), thrown) != allowed.end()) return false;
  broken(what + " threw " + std::string(to_text(thrown)) +
         ", which its interface does not allow: " + message);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) { return same(a, b); }
bool same_bits(const std::vector<double>& a, const std::vector<double>& b) { return same(a, b); }
bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

bool close(double a, double b, double relative, double absolute) {
  if (a == b) return true;
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  return std::abs(a - b) <= relative * std::max(std::abs(a), std::abs(b)) + absolute;
}

}  // namespace privgrad::testing

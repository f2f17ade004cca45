#include "prototypes.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/abi.hpp"
#include "privgrad/accountant.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/trust/event_json.hpp"

namespace privgrad::python {
namespace {

namespace nb = nanobind;
namespace param = privgrad::param;

/// Calls into the interpreter, from any thread; Python exceptions become errors of a plugin.
template <class Action>
auto ask(const std::string& who, Action action) {
  const nb::gil_scoped_acquire acquire;
  try {
    return action();
  } catch (nb::python_error& problem) {
    throw PluginError(who + ": " + std::string(nb::str(problem.value()).c_str()));
  } catch (const nb::cast_error&) {
    throw PluginError(who + ": gave something that is not a number");
  }
}

nb::object find(const char* kind, const std::string& name) {
  return nb::module_::import_("privgrad.prototypes").attr("_find")(kind, name);
}

/// Computes all values at the start, so that later calls give the same values on every thread,
/// without the interpreter.
class PythonSchedule final : public Schedule {
 public:
  explicit PythonSchedule(const Params& params)
      : name_(params.text("name")), who_("schedule python, " + name_) {
    is_shape_ = ask(who_, [&] { return nb::cast<bool>(find("schedule", name_).attr("is_shape")); });
  }

  void start(const Horizon& horizon) override {
    values_ = ask(who_, [&] {
      const nb::object schedule = find("schedule", name_);
      std::vector<double> values;
      for (std::uint64_t step = 0; step < horizon.steps; ++step)
        values.push_back(nb::cast<double>(schedule.attr("value")(step, horizon.steps)));
      return values;
    });
    for (std::size_t step = 0; step < values_.size(); ++step) {
      const double value = values_[step];
      if (std::isfinite(value) && value >= 0.0 && (value > 0.0 || !is_shape_)) continue;
      throw PluginError(who_ + ": value(" + std::to_string(step) + ") is " + format_number(value) +
                        ", expected a finite number " + (is_shape_ ? "above 0" : ">= 0"));
    }
  }

  double value(std::uint64_t step) const override { return values_.at(step); }
  bool is_shape() const override { return is_shape_; }

 private:
  std::string name_, who_;
  bool is_shape_ = false;
  std::vector<double> values_;
};

/// Stores the composed events; the Python object computes each answer from the whole list.
class PythonAccountant final : public Accountant {
 public:
  explicit PythonAccountant(const Params& params)
      : name_(params.text("name")), who_("accountant python, " + name_) {}

  void start(Adjacency adjacency) override {
    adjacency_ = adjacency;
    composed_ = nlohmann::json::array();
  }

  std::optional<std::string> refuses(const Event& event) const override {
    const std::string text = core::to_json(event).dump();
    return ask(who_, [&]() -> std::optional<std::string> {
      const nb::object why = find("accountant", name_).attr("_refuses")(text, adjacency());
      if (why.is_none()) return std::nullopt;
      return nb::cast<std::string>(why);
    });
  }

  void compose(const Event& event, std::uint64_t count) override {
    if (const auto why = refuses(event)) throw PrivacyError(name_ + ": " + *why);
    composed_.push_back(
        {{"event", "self_composed"}, {"count", count}, {"of", core::to_json(event)}});
  }

  PrivacyAnswer epsilon(double delta) const override { return answer("_epsilon", delta); }
  PrivacyAnswer delta(double epsilon) const override { return answer("_delta", epsilon); }

 private:
  std::string adjacency() const { return std::string(to_text(adjacency_)); }

  PrivacyAnswer answer(const char* question, double given) const {
    const std::string event = nlohmann::json{{"event", "composed"}, {"of", composed_}}.dump();
    return ask(who_, [&] {
      const nb::object found = find("accountant", name_);
      const double value = nb::cast<double>(found.attr(question)(event, adjacency(), given));
      if (std::isnan(value) || value < 0.0)
        throw PluginError(who_ + ": gave " + format_number(value) + ", expected a number >= 0");
      PrivacyAnswer made;
      made.value = value;
      made.bound = nb::cast<std::string>(found.attr("bound")) == "upper" ? BoundKind::upper
                                                                         : BoundKind::estimate;
      made.note = "by a prototype in Python";
      return made;
    });
  }

  std::string name_, who_;
  Adjacency adjacency_ = Adjacency::add_or_remove_one;
  nlohmann::json composed_ = nlohmann::json::array();
};

std::vector<ParamSpec> params() {
  return {param::text("name", "What it was registered as.").example("mine"),
          param::text("sha256", "Of its source, for the record.").defaults_to("")};
}

void register_components(Registrar& registrar) {
  registrar.add<Schedule, PythonSchedule>({.name = "python",
                                           .summary = "A schedule that is a class in Python.",
                                           .reference = "privgrad.prototypes",
                                           .params = params()});
  registrar.add<Accountant, PythonAccountant>(
      {.name = "python",
       .summary = "An accountant that is a class in Python.",
       .reference = "privgrad.prototypes",
       .params = params()});
}

}  // namespace

void add_prototypes(Catalog& catalog) {
  Registrar registrar;
  register_components(registrar);
  auto plugin = std::make_shared<PluginIdentity>();
  plugin->name = kPrototypes;
  plugin->version = "0";
  // This is the hash of no file, so nothing can be loaded or allowed by it.
  plugin->sha256 = std::string(64, '0');
  plugin->abi_tag = PRIVGRAD_ABI_TAG;
  plugin->file = "python.privgrad.so";
  plugin->record_problem = "it is a class in Python, for research";
  catalog.add(std::move(plugin), nullptr, registrar.factories());
}

}  // namespace privgrad::python

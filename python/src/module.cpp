#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "federated.hpp"
#include "framework.hpp"
#include "lending.hpp"
#include "long_call.hpp"
#include "privgrad/abi.hpp"
#include "privgrad/api/check_components.hpp"
#include "privgrad/api/problem_json.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/model/network_json.hpp"
#include "privgrad/report/notebook_chart.hpp"

// The module privgrad._core: functions for the surrounding package, which turns their JSON into
// objects. Only the package calls them.
namespace privgrad::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

/// Raises the exception that privgrad.errors creates from an error.
void raise(const char* kind, const std::exception& problem) {
  auto problems = nlohmann::json::array();
  for (const std::string& line : api::lines_of(problem))
    problems.push_back(api::problem_json(line));
  try {
    const nb::object error = nb::module_::import_("privgrad.errors")
                                 .attr("_from_core")(kind, problem.what(), problems.dump());
    PyErr_SetObject(error.type().ptr(), error.ptr());
  } catch (nb::python_error& broken) {
    broken.restore();
  }
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const core::ManifestError& problem) {
    raise("ManifestError", problem);
  } catch (const ConfigError& problem) {
    raise("ConfigError", problem);
  } catch (const PrivacyError& problem) {
    raise("PrivacyError", problem);
  } catch (const IoError& problem) {
    raise("DataError", problem);
  } catch (const std::filesystem::filesystem_error& problem) {
    raise("DataError", problem);
  } catch (const PluginError& problem) {
    raise("PluginError", problem);
  } catch (const NumericError& problem) {
    raise("NumericError", problem);
  }
}

ManifestText manifest_text(bool is_file, std::string text, std::string name,
                           std::vector<std::string> overrides) {
  return {is_file, std::move(text), std::move(name), std::move(overrides)};
}

/// Makes a call without the interpreter's lock.
template <class Action>
auto unlocked(Action action) {
  const nb::gil_scoped_release release;
  return action();
}

void add_calls(nb::class_<Framework>& framework) {
  framework
      .def(
          "account",
          [](const Framework& self, const std::optional<std::string>& accountant,
             const std::string& adjacency, const std::string& event, std::optional<double> delta,
             std::optional<double> epsilon) {
            return unlocked(
                [&] { return self.account(accountant, adjacency, event, delta, epsilon); });
          },
          "accountant"_a.none(), "adjacency"_a, "event"_a, "delta"_a.none(), "epsilon"_a.none())
      .def(
          "calibrate",
          [](const Framework& self, const std::optional<std::string>& accountant,
             const std::string& adjacency, double target_epsilon, double target_delta,
             std::optional<double> sample_rate, std::optional<std::uint64_t> allocation,
             std::optional<std::uint64_t> steps, std::optional<double> noise_multiplier) {
            return unlocked([&] {
              return self.calibrate(
                  accountant, adjacency,
                  {target_epsilon, target_delta, sample_rate, allocation, steps, noise_multiplier});
            });
          },
          "accountant"_a.none(), "adjacency"_a, "target_epsilon"_a, "target_delta"_a,
          "sample_rate"_a.none(), "allocation"_a.none(), "steps"_a.none(),
          "noise_multiplier"_a.none())
      .def(
          "noise_error",
          [](const Framework& self, const std::vector<ManifestText>& manifests,
             std::optional<double> momentum, std::optional<std::uint64_t> restart_every,
             std::optional<double> smoothness, std::optional<std::vector<std::uint64_t>> windows,
             bool samplers) {
            return unlocked([&] {
              return self.noise_error(
                  manifests, {momentum, restart_every, smoothness, std::move(windows), samplers});
            });
          },
          "manifests"_a, "momentum"_a.none(), "restart_every"_a.none(), "smoothness"_a.none(),
          "windows"_a.none(), "samplers"_a)
      .def("plugins", &Framework::plugins)
      .def("refused", &Framework::refused)
      .def("describe", &Framework::describe, "component"_a)
      .def("schema", &Framework::schema, "of_studies"_a)
      .def(
          "validate",
          [](const Framework& self, const ManifestText& manifest) {
            unlocked([&] { self.validate(manifest); });
          },
          "manifest"_a)
      .def(
          "plan",
          [](const Framework& self, const ManifestText& manifest,
             const std::optional<std::string>& cache) {
            return unlocked([&] { return self.plan(manifest, cache); });
          },
          "manifest"_a, "cache"_a.none())
      .def("data_section", &Framework::data_section, "manifest"_a)
      .def(
          "suggest",
          [](const Framework& self, const std::string& section) {
            return unlocked([&] { return self.suggest(section); });
          },
          "section"_a)
      .def("reading", &Framework::reading, "model"_a)
      .def(
          "predict",
          [](const Framework& self, const std::string& model,
             const std::optional<std::string>& data, const std::optional<std::string>& split,
             const std::vector<std::string>& keep, int threads) {
            return unlocked([&] { return self.predict(model, data, split, keep, threads); });
          },
          "model"_a, "data"_a.none(), "split"_a.none(), "keep"_a, "threads"_a)
      .def(
          "evaluate",
          [](const Framework& self, const std::string& model,
             const std::optional<std::string>& data, const std::optional<std::string>& split,
             int threads) {
            return unlocked([&] { return self.evaluate(model, data, split, threads); });
          },
          "model"_a, "data"_a.none(), "split"_a.none(), "threads"_a);
}

void add_long_calls(nb::class_<Framework>& framework) {
  framework
      .def(
          "run",
          [](const Framework& self, const std::optional<ManifestText>& manifest,
             const std::optional<std::string>& directory, const std::optional<std::string>& state,
             const std::optional<std::string>& locked, const std::optional<std::string>& cache,
             int threads, bool finish, bool alone, nb::object callback) {
            const auto path = [](const std::optional<std::string>& text) {
              return text ? std::optional<std::filesystem::path>(*text) : std::nullopt;
            };
            const RunCall call{manifest, path(directory), path(state), path(locked),
                               cache,    threads,         finish,      alone};
            return long_call([&](const Watch& watch) { return self.run(call, watch); },
                             std::move(callback));
          },
          "manifest"_a.none(), "directory"_a.none(), "state"_a.none(), "locked"_a.none(),
          "cache"_a.none(), "threads"_a, "finish"_a, "alone"_a, "callback"_a.none())
      .def(
          "verify",
          [](const Framework& self, std::string directory, std::optional<std::uint64_t> client,
             std::vector<std::string> client_dirs, bool data, bool audit, bool new_key,
             std::optional<std::string> opening, std::optional<std::string> trusted,
             std::optional<std::string> sign) {
            const VerifyCall call{std::move(directory),
                                  client,
                                  std::move(client_dirs),
                                  data,
                                  audit,
                                  new_key,
                                  std::move(opening),
                                  std::move(trusted),
                                  std::move(sign)};
            return long_call([&](const Watch&) { return self.verify(call); }, nb::none());
          },
          "directory"_a, "client"_a.none(), "client_dirs"_a, "data"_a, "audit"_a, "new_key"_a,
          "opening"_a.none(), "trusted"_a.none(), "sign"_a.none());
}

void add_studies(nb::class_<Framework>& framework) {
  framework
      .def(
          "audit",
          [](const Framework& self, const std::optional<ManifestText>& manifest,
             std::string directory, std::optional<std::uint64_t> canaries,
             std::optional<std::uint64_t> runs, std::optional<double> confidence,
             std::optional<std::string> neighbours, bool exposure, int threads,
             nb::object callback) {
            const AuditCall call{manifest,   std::move(directory),  canaries, runs,
                                 confidence, std::move(neighbours), exposure, threads};
            return long_call([&](const Watch& watch) { return self.audit(call, watch); },
                             std::move(callback));
          },
          "manifest"_a.none(), "directory"_a, "canaries"_a.none(), "runs"_a.none(),
          "confidence"_a.none(), "neighbours"_a.none(), "exposure"_a, "threads"_a,
          "callback"_a.none())
      .def(
          "ablate",
          [](const Framework& self, bool is_file, std::string text, std::string name,
             std::vector<std::string> overrides, std::optional<std::string> directory,
             std::optional<std::string> cache, int jobs, int threads, bool dry_run,
             nb::object callback) {
            const StudyCall call{is_file,
                                 std::move(text),
                                 std::move(name),
                                 std::move(overrides),
                                 std::move(directory),
                                 std::move(cache),
                                 jobs,
                                 threads,
                                 dry_run};
            return long_call([&](const Watch& watch) { return self.ablate(call, watch); },
                             std::move(callback));
          },
          "is_file"_a, "text"_a, "name"_a, "overrides"_a, "directory"_a.none(), "cache"_a.none(),
          "jobs"_a, "threads"_a, "dry_run"_a, "callback"_a.none());
}

/// Numbers owned by a Python array.
template <class T>
nb::ndarray<nb::numpy, T> as_array(std::vector<T>&& numbers,
                                   std::initializer_list<std::size_t> shape) {
  auto* kept = new std::vector<T>(std::move(numbers));
  const nb::capsule owner(
      kept, [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
  return nb::ndarray<nb::numpy, T>(kept->data(), shape, owner);
}

void add_predictions(nb::module_& module) {
  nb::class_<PredictedRows>(module, "PredictedRows")
      .def_ro("json", &PredictedRows::json)
      .def_ro("are_probabilities", &PredictedRows::are_probabilities)
      .def("numbers",
           [](PredictedRows& self) {
             return as_array(std::move(self.numbers), {self.rows, self.columns});
           })
      .def("predicted", [](PredictedRows& self) {
        const std::size_t count = self.predicted.size();
        return as_array(std::move(self.predicted), {count});
      });
}

}  // namespace
}  // namespace privgrad::python

NB_MODULE(_core, module) {
  using namespace privgrad::python;
  namespace nb = nanobind;
  using namespace nb::literals;
  module.def(
      "chart",
      [](const std::string& json) {
        return privgrad::report::notebook_chart(nlohmann::json::parse(json));
      },
      "json"_a);
  module.def(
      "network",
      [](const std::string& json) {
        const auto described = nlohmann::json::parse(json, nullptr, false);
        if (described.is_discarded()) throw privgrad::IoError("its network is not JSON");
        return privgrad::core::to_json(privgrad::core::network_from_json(described)).dump();
      },
      "json"_a);
  module.attr("ABI") = PRIVGRAD_ABI_TAG;
  module.attr("VERSION") = PRIVGRAD_TEXT(PRIVGRAD_VERSION_MAJOR) "." PRIVGRAD_TEXT(
      PRIVGRAD_VERSION_MINOR) "." PRIVGRAD_TEXT(PRIVGRAD_VERSION_PATCH);
  nb::register_exception_translator(translate);
  nb::class_<ManifestText>(module, "ManifestText")
      .def(
          "__init__",
          [](ManifestText* self, bool is_file, std::string text, std::string name,
             std::vector<std::string> overrides) {
            new (self) ManifestText(
                manifest_text(is_file, std::move(text), std::move(name), std::move(overrides)));
          },
          "is_file"_a, "text"_a, "name"_a, "overrides"_a);
  nb::class_<Framework> framework(module, "Framework");
  framework.def(nb::init<const std::vector<std::string>&, std::string>(), "plugin_dirs"_a,
                "program"_a);
  add_calls(framework);
  add_long_calls(framework);
  add_studies(framework);
  add_predictions(module);
  add_lending(module);
  add_federated(module, framework);
}

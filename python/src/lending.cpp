#include "lending.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/memory_tables.hpp"

namespace privgrad::python {
namespace {

namespace nb = nanobind;

/// Read in place, by the buffer protocol or DLPack.
using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

struct Arrays {
  Array features;
  std::optional<Array> targets;
};

/// Arrays that a data set may let go of on any thread, and after the interpreter is gone.
std::shared_ptr<const void> owner_of(Arrays&& arrays) {
  return {new Arrays(std::move(arrays)), [](const void* pointer) {
            if (Py_IsInitialized() == 0) return;  // the process is ending; the rows go with it
            const nb::gil_scoped_acquire acquire;
            delete static_cast<const Arrays*>(pointer);
          }};
}

void lend(const std::string& name, const Array& features, const std::optional<Array>& targets,
          float scale) {
  if (features.ndim() < 2) {
    throw ConfigError("features have " + std::to_string(features.ndim()) +
                      " axes, expected at least two: rows, and what an example has");
  }
  MemoryTable table;
  table.scale = scale;
  for (std::size_t axis = 1; axis < features.ndim(); ++axis)
    table.features.push_back(features.shape(axis));
  if (element_count(table.features) == 0) throw ConfigError("examples have no features");
  if (features.dtype() == nb::dtype<float>()) {
    table.numbers = std::span(static_cast<const float*>(features.data()), features.size());
  } else if (features.dtype() == nb::dtype<std::uint8_t>()) {
    table.numbers = std::span(static_cast<const std::uint8_t*>(features.data()), features.size());
  } else {
    throw ConfigError("features are neither float32 nor uint8");
  }
  if (targets) {
    if (targets->ndim() != 1 || targets->dtype() != nb::dtype<float>())
      throw ConfigError("targets are no float32 of one axis");
    table.targets = std::span(static_cast<const float*>(targets->data()), targets->size());
  }
  table.owner = owner_of({features, targets});
  lend_memory_table(name, std::move(table));
}

}  // namespace

void add_lending(nb::module_& module) {
  using namespace nb::literals;
  module.def("lend", &lend, "name"_a, "features"_a, "targets"_a.none(), "scale"_a);
  module.def(
      "take_back", [](const std::string& name) { return take_memory_table(name); }, "name"_a);
}

}  // namespace privgrad::python

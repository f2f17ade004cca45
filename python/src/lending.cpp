#include "lending.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/memory_tables.hpp"

namespace privgrad::python {
namespace {

namespace nb = nanobind;

/// An array that is read in place, through the buffer protocol or DLPack.
using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

struct Arrays {
  Array features;
  std::optional<Array> targets;
};

/// A column's name, the offsets of its texts, their bytes, the facts that its type implies, and the
/// type.
using TextColumn = std::tuple<std::string, Array, Array, std::string, std::string>;

/// Arrays that a data set may release on any thread, even after the interpreter has ended.
template <class Held>
std::shared_ptr<const void> owner_of(Held&& arrays) {
  return {new Held(std::move(arrays)), [](const void* pointer) {
            if (Py_IsInitialized() == 0) return;  // the process is ending, and the rows with it
            const nb::gil_scoped_acquire acquire;
            delete static_cast<const Held*>(pointer);
          }};
}

void lend(const std::string& name, const Array& features, const std::optional<Array>& targets,
          const std::string& shares_rows_with) {
  if (features.ndim() < 2) {
    throw ConfigError("features have " + std::to_string(features.ndim()) +
                      " axes, expected at least two: rows, and what an example has");
  }
  MemoryTable table;
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
      throw ConfigError("targets are not float32 values of one axis");
    table.targets = std::span(static_cast<const float*>(targets->data()), targets->size());
  }
  table.shares_rows_with = shares_rows_with;
  table.owner = owner_of(Arrays{features, targets});
  lend_memory_table(name, std::move(table));
}

MemoryColumn::Cells cells_named(const std::string& name) {
  using Cells = MemoryColumn::Cells;
  if (name == "numbers") return Cells::numbers;
  if (name == "days") return Cells::days;
  return name == "texts" ? Cells::texts : Cells::unreadable;
}

MemoryColumn column_of(const TextColumn& given) {
  const auto& [name, offsets, bytes, cells, type] = given;
  if (offsets.ndim() != 1 || offsets.size() == 0 || offsets.dtype() != nb::dtype<std::int64_t>() ||
      bytes.ndim() != 1 || bytes.dtype() != nb::dtype<std::uint8_t>())
    throw ConfigError("the column '" + name + "' has no offsets of int64, or bytes of uint8");
  const std::span<const std::int64_t> places(static_cast<const std::int64_t*>(offsets.data()),
                                             offsets.size());
  if (places.front() < 0 || !std::ranges::is_sorted(places) ||
      static_cast<std::uint64_t>(places.back()) > bytes.size())
    throw ConfigError("the column '" + name + "' has offsets outside of its bytes");
  return {.name = name,
          .offsets = places,
          .bytes = {static_cast<const char*>(bytes.data()), bytes.size()},
          .cells = cells_named(cells),
          .type = type};
}

void lend_columns(const std::string& name, std::vector<TextColumn> columns,
                  const std::string& shares_rows_with) {
  if (columns.empty()) throw ConfigError("the table has no columns");
  MemoryTable table;
  for (const TextColumn& column : columns) {
    table.columns.push_back(column_of(column));
    if (table.columns.back().offsets.size() != table.columns.front().offsets.size())
      throw ConfigError("the column '" + table.columns.back().name +
                        "' is not of as many rows as the others");
  }
  table.shares_rows_with = shares_rows_with;
  table.owner = owner_of(std::move(columns));
  lend_memory_table(name, std::move(table));
}

}  // namespace

void add_lending(nb::module_& module) {
  using namespace nb::literals;
  module.def("lend", &lend, "name"_a, "features"_a, "targets"_a.none(), "shares_rows_with"_a = "");
  module.def("lend_columns", &lend_columns, "name"_a, "columns"_a, "shares_rows_with"_a = "");
  module.def(
      "take_back", [](const std::string& name) { return take_memory_table(name); }, "name"_a);
}

}  // namespace privgrad::python

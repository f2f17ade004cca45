// Common code of the tests of tables: a file, and the declaration of its columns.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "data_sources_files.hpp"
#include "privgrad/data_source.hpp"

namespace data_sources_table_test {

using privgrad::Dataset;
using privgrad::DataSource;
using privgrad::Split;
using privgrad::Value;

using Floats = std::vector<float>;
using Names = std::vector<std::string>;

inline Value object(Value::Object members) { return Value(std::move(members)); }

inline Value list(std::initializer_list<Value> items) { return Value(Value::List(items)); }

inline Value column(const std::string& name, const std::string& type, Value::Object more = {}) {
  Value value(std::move(more));
  value.set("name", name);
  value.set("type", type);
  return value;
}

struct TableFile {
  TempDir dir;
  std::filesystem::path path = dir.path() / "table.csv";

  explicit TableFile(const std::string& text) { write_file(path, text); }

  privgrad::ComponentPtr<DataSource> open(Value::Object extra = {}) const {
    Value params(std::move(extra));
    params.set("train", path.string());
    if (params.find("target") == nullptr) params.set("target", "y");
    return house().create<DataSource>("csv", params);
  }
  Dataset read(Value::Object extra = {}) const {
    return open(std::move(extra))->read(Split::train);
  }
  void replace(const std::string& text) const { replace_file(path, text); }
};

inline Floats features(Dataset data) { return {data.features().begin(), data.features().end()}; }
inline Floats targets(const Dataset& data) {
  return {data.targets().begin(), data.targets().end()};
}

}  // namespace data_sources_table_test

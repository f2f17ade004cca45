#include "data_source_call.hpp"

#include "privgrad/error.hpp"
#include "privgrad/params.hpp"

namespace privgrad::tool {

std::vector<std::filesystem::path> OpenedSource::files() const { return source->files(); }

OpenedSource open_source(const Catalog& catalog, const std::string& kind, const Value& params) {
  const Component& component = catalog.find<DataSource>(kind);
  std::vector<Problem> problems;
  const Params checked = Params::check(component.factory.info.params, params, problems);
  if (!problems.empty()) {
    std::string all;
    for (const Problem& problem : problems) {
      all += (all.empty() ? "" : "; ") + problem.where + ": " + problem.what;
    }
    throw ConfigError("data source " + kind + ": " + all);
  }
  return {kind, Catalog::create<DataSource>(component, checked)};
}

}  // namespace privgrad::tool

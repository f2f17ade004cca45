// The YAML of manifests and studies, without regard to its meaning.
#include "privgrad/manifest/yaml.hpp"
#include "harness/fuzz.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace {

privgrad::Value parse(std::string_view text) {
  std::vector<privgrad::Problem> problems;
  const std::optional<privgrad::Value> value = privgrad::core::parse_yaml(text, problems);
  fuzz::require(value.has_value() || !problems.empty(), "a text that is not read has a problem");
  if (!problems.empty()) throw privgrad::ConfigError(problems.front().what);
  return *value;
}

}  // namespace

void read_input(std::string_view input) {
  using privgrad::core::to_yaml;
  const std::string text = to_yaml(parse(input));
  fuzz::require(to_yaml(parse(text)) == text,
                "what is written of a value reads back as the same value");
}

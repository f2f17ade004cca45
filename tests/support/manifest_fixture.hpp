// Declared components and a valid manifest, for tests of reading manifests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "privgrad/accountant.hpp"
#include "privgrad/aggregator.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/catalog.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/model.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/transform.hpp"
#include "support.hpp"

/// Declares a component without an implementation, because manifests are only checked against
/// declarations.
template <class Interface>
privgrad::Factory declare(std::string name, std::vector<privgrad::ParamSpec> params = {}) {
  privgrad::Factory factory;
  factory.kind = std::string(Interface::kKind);
  factory.interface_version = Interface::kInterfaceVersion;
  factory.sees = std::string(Interface::kSees);
  factory.info = {std::move(name), "A component of the test.", "none", std::move(params)};
  return factory;
}

/// Returns a catalog of every kind but `cluster`, with parameters of every type.
inline privgrad::Catalog make_catalog() {
  using namespace privgrad;
  Catalog catalog;
  const auto plugin =
      std::make_shared<PluginIdentity>(PluginIdentity{"test", "1.0", "", "", "", "this program"});
  catalog.add(
      plugin, nullptr,
      {
          declare<DataSource>("memory",
                              {param::integer("rows", "Rows.").at_least(1).defaults_to(10)}),
          declare<DataSource>(
              "files",
              {param::object("train", "Training files.",
                             {param::path("images", "Images.").example("a"),
                              param::path("labels", "Labels.").example("b")}),
               param::list("more", "More files.", param::path("", "")).optional(),
               param::list("keep_labels", "Labels to keep.", param::integer("", "").at_least(0))
                   .optional()}),
          declare<Transform>("scale", {param::real("to", "Largest norm.").above(0).defaults_to(1)}),
          declare<Transform>("flatten"),
          declare<Model>("net",
                         {param::list("hidden", "Widths.", param::integer("", "").at_least(1))
                              .at_least_items(1)
                              .defaults_to(Value::List{Value(8)}),
                          param::text("activation", "Activation.")
                              .one_of({"relu", "tanh"})
                              .defaults_to("relu")}),
          declare<Backend>("cpu"),
          declare<Sampler>("all"),
          declare<Sampler>("shuffle",
                           {param::integer("batch_size", "Examples.").at_least(1).example(5)}),
          declare<Clipping>("flat"),
          declare<Aggregator>("gaussian"),
          declare<Optimizer>("sgd"),
          declare<Optimizer>(
              "momentum", {param::real("beta", "Kept share.").at_least(0).below(1).defaults_to(0.9),
                           param::boolean("nesterov", "Look ahead.").defaults_to(false)}),
          declare<Schedule>("constant", {param::real("value", "Value.").at_least(0).example(1)}),
          declare<Schedule>("uniform"),
          declare<Schedule>("exponential", {param::real("rate", "Factor.").above(0).example(0.9)}),
          declare<Accountant>("zcdp", {param::text("conversion", "Which.")
                                           .one_of({"optimal", "classic"})
                                           .defaults_to("optimal")}),
          declare<Accountant>("rdp"),
      });
  return catalog;
}

inline const privgrad::Catalog& fakes() {
  static const privgrad::Catalog catalog = make_catalog();
  return catalog;
}

/// A valid manifest, which tests damage with replaced().
inline const std::string kGood =
    "privgrad: 1\n"                                      // 1
    "name: good\n"                                       // 2
    "data:\n"                                            // 3
    "  kind: memory\n"                                   // 4
    "  rows: 20\n"                                       // 5
    "  transforms: [flatten, {kind: scale, to: 10}]\n"   // 6
    "model: {kind: net, hidden: [4, 2]}\n"               // 7
    "sampler: all\n"                                     // 8
    "optimizer:\n"                                       // 9
    "  kind: momentum\n"                                 // 10
    "  beta: 0.5\n"                                      // 11
    "schedules:\n"                                       // 12
    "  clip_norm: 4\n"                                   // 13
    "  learning_rate: {kind: exponential, rate: 0.9}\n"  // 14
    "privacy:\n"                                         // 15
    "  target_epsilon: 3\n"                              // 16
    "  target_delta: 1e-5\n"                             // 17
    "  adjacency: zero_out\n"                            // 18
    "  accountant: {kind: zcdp, conversion: classic}\n"  // 19
    "  also: [rdp]\n"                                    // 20
    "steps: 100\n";                                      // 21

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == text.npos) throw std::logic_error("the manifest of the test has no '" + from + "'");
  return text.replace(at, from.size(), to);
}

/// Reads a text as if it were the file /nowhere/m.yaml.
inline privgrad::core::Manifest load(const std::string& text,
                                     const std::vector<std::string>& overrides = {}) {
  return privgrad::core::parse_manifest(text, "/nowhere/m.yaml", overrides, fakes());
}

/// Returns the lines of the error, without the folder.
template <class ErrorType = privgrad::core::ManifestError>
std::vector<std::string> errors_of(const std::string& text,
                                   const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> lines;
  try {
    load(text, overrides);
  } catch (const ErrorType& error) {
    const std::string all = error.what();
    for (std::size_t begin = 0; begin <= all.size();) {
      const std::size_t end = std::min(all.find('\n', begin), all.size());
      std::string line = all.substr(begin, end - begin);
      if (line.starts_with("/nowhere/")) line.erase(0, std::string("/nowhere/").size());
      lines.push_back(std::move(line));
      begin = end + 1;
    }
  }
  return lines;
}

/// Whether two values are equal up to their positions; reals are compared by bits, so that NaN
/// equals itself.
inline bool same(const privgrad::Value& a, const privgrad::Value& b) {
  using privgrad::Value;
  if (a.data().index() != b.data().index()) return false;
  if (const auto* x = std::get_if<Value::Object>(&a.data())) {
    const auto& y = std::get<Value::Object>(b.data());
    return std::equal(x->begin(), x->end(), y.begin(), y.end(), [](const auto& m, const auto& n) {
      return m.key == n.key && same(m.value, n.value);
    });
  }
  if (const auto* x = std::get_if<Value::List>(&a.data())) {
    const auto& y = std::get<Value::List>(b.data());
    return std::equal(x->begin(), x->end(), y.begin(), y.end(), same);
  }
  if (const auto* x = std::get_if<double>(&a.data())) {
    const double y = std::get<double>(b.data());
    return (*x != *x && y != y) || (*x == y && std::signbit(*x) == std::signbit(y));
  }
  if (const auto* x = std::get_if<std::string>(&a.data()))
    return *x == std::get<std::string>(b.data());
  if (const auto* x = std::get_if<bool>(&a.data())) return *x == std::get<bool>(b.data());
  if (const auto* x = std::get_if<std::int64_t>(&a.data())) {
    return *x == std::get<std::int64_t>(b.data());
  }
  return true;
}

#include "layers.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "privgrad/error.hpp"

namespace privgrad::cnn {
namespace {

/// The keys of a kind of layer.
struct Kind {
  std::string_view name;
  std::vector<std::string_view> needs;
  std::vector<std::string_view> may_have;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kinds{{"conv2d", {"channels", "kernel"}, {"stride", "padding"}},
                                       {"max_pool", {"window"}, {"stride"}},
                                       {"avg_pool", {"window"}, {"stride"}},
                                       {"flatten", {}, {}},
                                       {"dense", {"units"}, {"per_place"}},
                                       {"activation", {"function"}, {}},
                                       {"group_norm", {"groups"}, {}},
                                       {"layer_norm", {}, {}},
                                       {"shortcut", {"over"}, {"stride"}}};
  return kinds;
}

std::string listed(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) {
    text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

bool contains(const std::vector<std::string_view>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// One entry of the list.
class Entry {
 public:
  Entry(const Params& given, std::size_t index)
      : given_(given),
        where_("cnn: layers." + std::to_string(index) + ", " + given.text("kind") + ", "),
        kind_(*std::find_if(kinds().begin(), kinds().end(),
                            [&](const Kind& kind) { return kind.name == given.text("kind"); })) {}

  Layer layer() const {
    check();
    const std::string_view kind = kind_.name;
    if (kind == "conv2d") {
      return Conv2d{.channels = size("channels"),
                    .kernel = size("kernel"),
                    .stride = size("stride", 1),
                    .padding = size("padding", 0)};
    }
    if (kind == "max_pool") return pool(PoolKind::max);
    if (kind == "avg_pool") return pool(PoolKind::average);
    if (kind == "flatten") return Flatten{};
    if (kind == "dense") {
      return Dense{.units = size("units"),
                   .per_place = given_.has("per_place") && given_.boolean("per_place")};
    }
    if (kind == "activation") return Activation{activation_from_text(given_.text("function"))};
    if (kind == "group_norm") return GroupNorm{.groups = size("groups")};
    if (kind == "shortcut") return Shortcut{.over = size("over"), .stride = size("stride", 1)};
    return LayerNorm{};
  }

 private:
  void check() const {
    for (const std::string_view name : kind_.needs) {
      if (!given_.has(name)) throw ConfigError(where_ + "lacks '" + std::string(name) + "'");
    }
    for (const Value::Member& member : std::get<Value::Object>(given_.value().data())) {
      if (member.key == "kind" || contains(kind_.needs, member.key) ||
          contains(kind_.may_have, member.key)) {
        continue;
      }
      std::vector<std::string_view> all = kind_.needs;
      all.insert(all.end(), kind_.may_have.begin(), kind_.may_have.end());
      throw ConfigError(where_ + "has no '" + member.key + "'; it has " +
                        (all.empty() ? "nothing but its kind" : listed(all)));
    }
  }

  std::size_t size(std::string_view name) const {
    return static_cast<std::size_t>(given_.integer(name));
  }
  std::size_t size(std::string_view name, std::size_t otherwise) const {
    return given_.has(name) ? size(name) : otherwise;
  }

  Pool pool(PoolKind kind) const {
    return {.kind = kind, .window = size("window"), .stride = size("stride", size("window"))};
  }

  const Params& given_;
  std::string where_;
  const Kind& kind_;
};

}  // namespace

ParamSpec layers_parameter() {
  using namespace param;
  constexpr double kMost = 65536;
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) names.emplace_back(kind.name);
  const auto number = [&](const char* name, const char* doc, double least = 1) {
    return integer(name, doc).at_least(least).at_most(kMost).optional();
  };
  std::vector<ParamSpec> fields{
      text("kind",
           "What the layer is; the other keys say which kinds have them. flatten and layer_norm "
           "have none.")
          .one_of(names)
          .example("flatten"),
      number("channels", "conv2d: output channels."),
      number("kernel", "conv2d: height and width of the kernels, in pixels."),
      number("padding", "conv2d: zeros added on every side, fewer than kernel; 0 if not given.", 0),
      number("window", "max_pool, avg_pool: height and width of the windows, in pixels."),
      number("stride",
             "conv2d, max_pool, avg_pool, shortcut: pixels from one window to the next; if not "
             "given, 1, or for pools the window."),
      number("units", "dense: outputs; it flattens what enters it, unless per_place."),
      boolean("per_place",
              "dense: whether it works on the last extent at each place by itself, such as the "
              "channels of each pixel; false if not given.")
          .optional(),
      text("function", "activation: which one.").one_of(activation_names()).optional(),
      number("groups", "group_norm: groups of channels that are normalised together."),
      number("over",
             "shortcut: layers that it goes round. It adds what entered the first of them to what "
             "leaves the last; where their shapes differ, or with a stride, behind a convolution "
             "of kernel 1 that makes them alike.")};
  const auto entry = [](Value::Object members) { return Value(std::move(members)); };
  return list("layers",
              "The layers, from the input on, instead of a preset. The output layer, dense with "
              "one unit for each output that the loss needs, is added at the end.",
              object("layer", "", std::move(fields)))
      .at_least_items(1)
      .optional()
      .example(Value::List{
          entry(
              {{"kind", "conv2d", {}}, {"channels", 8, {}}, {"kernel", 3, {}}, {"padding", 1, {}}}),
          entry({{"kind", "activation", {}}, {"function", "tanh", {}}}),
          entry({{"kind", "max_pool", {}}, {"window", 2, {}}})});
}

std::vector<Layer> layers_from(const std::vector<Params>& given) {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < given.size(); ++i) layers.push_back(Entry(given[i], i).layer());
  return layers;
}

}  // namespace privgrad::cnn

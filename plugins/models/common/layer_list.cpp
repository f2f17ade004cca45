#include "layer_list.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/names.hpp"

namespace privgrad::layer_list {
namespace {

/// The name of the features among a graph's values.
constexpr std::string_view kFeatures = "input";

/// The keys of a kind of layer.
struct Kind {
  std::string_view name;
  std::vector<std::string_view> needs;
  std::vector<std::string_view> may_have;
  std::optional<Form> only_in = std::nullopt;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kinds{
      {"conv2d", {"channels", "kernel"}, {"stride", "padding", "bias"}},
      {"max_pool", {"window"}, {"stride"}},
      {"avg_pool", {"window"}, {"stride"}},
      {"flatten", {}, {}},
      {"dense", {"units"}, {"per_place", "bias"}},
      {"activation", {"function"}, {}},
      {"group_norm", {"groups"}, {}},
      {"layer_norm", {}, {}},
      {"shortcut", {"over"}, {"stride"}, Form::chain},
      {"add", {}, {}, Form::graph},
      {"multiply", {}, {}, Form::graph},
      {"rms_norm", {}, {}, Form::graph},
      {"scale", {"factor"}, {}, Form::graph},
      {"part", {"first", "size"}, {}, Form::graph},
      {"reshape", {"shape"}, {}, Form::graph},
      {"embedding", {"vocabulary", "width"}, {}, Form::graph},
      {"mask", {}, {}, Form::graph},
      {"positions", {}, {}, Form::graph},
      {"prepend", {}, {}, Form::graph},
      {"attention", {"heads"}, {"key_heads", "causal", "rotary"}, Form::graph},
      {"mean", {}, {}, Form::graph},
      {"pick", {}, {"place"}, Form::graph}};
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

class Entry {
 public:
  Entry(Form form, const Params& given, std::size_t index)
      : form_(form),
        given_(given),
        where_((form == Form::chain ? "cnn: layers." : "graph: nodes.") + std::to_string(index) +
               ", " + given.text("kind") + ", "),
        kind_(*std::ranges::find_if(
            kinds(), [&](const Kind& kind) { return kind.name == given.text("kind"); })) {
    check();
  }

  ChainLink link() const {
    if (kind_.name == "shortcut")
      return Shortcut{.over = size("over"), .stride = size("stride", 1)};
    return layer();
  }

  Layer layer() const {
    const std::string_view kind = kind_.name;
    if (kind == "conv2d") {
      return Conv2d{.channels = size("channels"),
                    .kernel = size("kernel"),
                    .stride = size("stride", 1),
                    .padding = size("padding", 0),
                    .no_bias = !holds("bias", true)};
    }
    if (kind == "max_pool") return pool(PoolKind::max);
    if (kind == "avg_pool") return pool(PoolKind::average);
    if (kind == "flatten") return Flatten{};
    if (kind == "dense") {
      return Dense{.units = size("units"),
                   .per_place = holds("per_place", false),
                   .no_bias = !holds("bias", true)};
    }
    if (kind == "activation") return Activation{activation_from_text(given_.text("function"))};
    if (kind == "group_norm") return GroupNorm{.groups = size("groups")};
    if (kind == "add") return Add{};
    if (kind == "multiply") return ElementwiseProduct{};
    if (kind == "rms_norm") return RmsNorm{};
    if (kind == "scale") return Scale{given_.real("factor")};
    if (kind == "part") return PartOf{.first = size("first"), .size = size("size")};
    if (kind == "reshape") return Reshape{shape()};
    if (kind == "embedding")
      return Embedding{.vocabulary = size("vocabulary"), .width = size("width")};
    if (kind == "mask") return TokenMask{};
    if (kind == "positions") return Positions{};
    if (kind == "prepend") return Prepend{};
    if (kind == "attention") {
      return Attention{.heads = size("heads"),
                       .key_heads = size("key_heads", size("heads")),
                       .causal = holds("causal", false),
                       .rotary = given_.has("rotary") ? given_.real("rotary") : 0.0};
    }
    if (kind == "mean") return MeanOfPlaces{};
    if (kind == "pick") return PickPlace{.place = size("place", 0), .last = !given_.has("place")};
    return LayerNorm{};
  }

  /// Returns the place of the entry, for messages.
  const std::string& where() const { return where_; }

 private:
  void check() const {
    for (const std::string_view name : kind_.needs) {
      if (!given_.has(name)) throw ConfigError(where_ + "lacks '" + std::string(name) + "'");
    }
    for (const Value::Member& member : std::get<Value::Object>(given_.value().data())) {
      if (member.key == "kind" || contains(kind_.needs, member.key) ||
          contains(kind_.may_have, member.key) ||
          (form_ == Form::graph &&
           (member.key == "name" || member.key == "from" || member.key == "shares"))) {
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

  bool holds(std::string_view name, bool otherwise) const {
    return given_.has(name) ? given_.boolean(name) : otherwise;
  }
  Shape shape() const {
    Shape shape;
    for (const std::int64_t extent : given_.integers("shape"))
      shape.push_back(static_cast<std::size_t>(extent));
    return shape;
  }

  Pool pool(PoolKind kind) const {
    return {.kind = kind, .window = size("window"), .stride = size("stride", size("window"))};
  }

  Form form_;
  const Params& given_;
  std::string where_;
  const Kind& kind_;
};

/// Returns the specification of a layer's key whose value is a whole number.
ParamSpec whole(const char* key, const char* about, double least = 1) {
  constexpr double kMost = 65536;
  return param::integer(key, about).at_least(least).at_most(kMost).optional();
}

/// Adds the keys of the layers `attention` and `pick`.
void add_fields_of_sequences(std::vector<ParamSpec>& fields) {
  using namespace param;
  fields.push_back(whole("heads",
                         "attention: heads; its values are queries, keys, values and perhaps a "
                         "mask."));
  fields.push_back(whole("key_heads",
                         "attention: heads of keys and values, which divide heads; as many if "
                         "not given."));
  fields.push_back(
      boolean("causal", "attention: whether a place sees only earlier ones and itself.")
          .optional());
  fields.push_back(
      real("rotary",
           "attention: the base of the angles by which queries and keys are turned at their "
           "places, such as 10000; if not given, they are not turned.")
          .above(1)
          .optional());
  fields.push_back(whole("place",
                         "pick: which place; if not given, the last, or the last that has a token "
                         "if the second value is a mask.",
                         0));
}

}  // namespace

ParamSpec parameter(Form form, const std::string& name, const std::string& doc) {
  using namespace param;
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) {
    if (kind.only_in.value_or(form) == form) names.emplace_back(kind.name);
  }
  std::vector<ParamSpec> fields{
      text("kind", "What the layer is; the other keys say which kinds have them, if any.")
          .one_of(names)
          .example("flatten"),
      whole("channels", "conv2d: output channels."),
      whole("kernel", "conv2d: height and width of the kernels, in pixels."),
      whole("padding", "conv2d: zeros added on every side, fewer than kernel; 0 if not given.", 0),
      whole("window", "max_pool, avg_pool: height and width of the windows, in pixels."),
      whole("stride",
            "conv2d, max_pool, avg_pool, shortcut: pixels from one window to the next; if not "
            "given, 1, or for pools the window."),
      whole("units", "dense: outputs; it flattens what enters it, unless per_place."),
      boolean("per_place",
              "dense: whether it works on the last extent at each place by itself, such as the "
              "channels of each pixel; false if not given.")
          .optional(),
      boolean("bias", "conv2d, dense: whether it has biases; true if not given.").optional(),
      text("function", "activation: which one.").one_of(activation_names()).optional(),
      whole("groups", "group_norm: groups of channels that are normalised together.")};
  if (form == Form::chain) {
    fields.push_back(whole(
        "over",
        "shortcut: layers that it goes round. It adds what entered the first of them to what "
        "leaves the last; where their shapes differ, or with a stride, behind a convolution of "
        "kernel 1 that makes them alike."));
  } else {
    fields.push_back(text("name",
                          "What later nodes call the value that this one makes, and the first part "
                          "of the names of its tensors: NAME.weight.")
                         .optional());
    fields.push_back(
        list("from",
             "The values that the node works on, by name; input is the features. If "
             "not given, what the node before makes. add has two or more, multiply two, attention "
             "queries, keys and values; attention, mean and pick may have one more, the value of a "
             "node of the kind mask, which works on tokens.",
             text("value", ""))
            .at_least_items(1)
            .optional());
    fields.push_back(
        text(
            "shares",
            "The earlier node, by name, whose parameters this one uses instead of its own, such as "
            "an embedding's table in a dense layer with bias: false, whose units are the tokens.")
            .optional());
    fields.push_back(real("factor", "scale: what every element is multiplied by.").optional());
    fields.push_back(whole("first", "part: the first element of the last extent.", 0));
    fields.push_back(whole("size", "part: elements of the last extent."));
    fields.push_back(
        list("shape", "reshape: the extents.", integer("extent", "").at_least(1)).optional());
    fields.push_back(
        integer("vocabulary", "embedding: tokens; they are 0, 1, ..., and -1 is an empty place.")
            .at_least(1)
            .at_most(0x1p24)
            .optional());
    fields.push_back(whole("width", "embedding: numbers for each token."));
    add_fields_of_sequences(fields);
  }
  return list(name, doc, object("layer", "", std::move(fields))).at_least_items(1);
}

std::vector<ChainLink> chain_from(const std::vector<Params>& given) {
  std::vector<ChainLink> chain;
  for (std::size_t i = 0; i < given.size(); ++i)
    chain.push_back(Entry(Form::chain, given[i], i).link());
  return chain;
}

std::vector<Node> graph_from(const std::vector<Params>& given) {
  std::vector<Node> nodes;
  std::map<std::string, std::size_t, std::less<>> values{{std::string(kFeatures), 0}};
  for (const Params& one : given) {
    const Entry entry(Form::graph, one, nodes.size());
    Node node(entry.layer());
    const auto earlier = [&](const std::string& name, const char* use) {
      if (const auto found = values.find(name); found != values.end()) return found->second;
      std::vector<std::string> names;
      for (const auto& [known, number] : values) names.push_back(known);
      throw ConfigError(entry.where() + use + "'" + name + "', which no node before it is called" +
                        did_you_mean(name, names));
    };
    for (const std::string& value :
         one.has("from") ? one.texts("from") : std::vector<std::string>{})
      node.from.push_back(earlier(value, "works on "));
    if (one.has("shares")) {
      const std::size_t owner = earlier(one.text("shares"), "shares the parameters of ");
      if (owner == 0) throw ConfigError(entry.where() + "shares parameters with the features");
      node.shares = owner - 1;
    }
    if (one.has("name")) node.name = one.text("name");
    nodes.push_back(std::move(node));
    if (!nodes.back().name.empty() && !values.emplace(nodes.back().name, nodes.size()).second)
      throw ConfigError(entry.where() + "has the name '" + nodes.back().name +
                        "', which an earlier value has");
  }
  return nodes;
}

}  // namespace privgrad::layer_list

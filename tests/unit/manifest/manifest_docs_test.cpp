#include "manifest_fixture.hpp"
#include "privgrad/manifest/component_docs.hpp"

using namespace privgrad;
using namespace privgrad::core;

namespace {

/// Returns a component with a parameter of every kind, and a plugin with a version and a file.
const Component& specimen() {
  static const Catalog catalog = [] {
    Catalog made;
    made.add(
        std::make_shared<PluginIdentity>(
            PluginIdentity{"acme.x", "1.2.0", "", "", "/x.privgrad.so"}),
        nullptr,
        {declare<DataSource>(
            "specimen",
            {param::real("rate", "Share | part.").at_least(0).below(1).defaults_to(0.5),
             param::real("wait", "Delay.").above(0).in_unit("s").optional(),
             param::integer("count", "How many.").at_most(9).example(3),
             param::text("rule", "Which.").one_of({"a", "b"}).defaults_to("b"),
             param::list("widths", "Units.", param::integer("", "").at_least(1)).at_least_items(2),
             param::object("train", "Files.",
                           {param::path("images", "Images."),
                            param::boolean("raw", "Raw.").defaults_to(false)})})});
    return made;
  }();
  return catalog.components().front();
}

}  // namespace

TEST_CASE("a component's page comes from its declaration", "[manifest_docs]") {
  CHECK(component_page(specimen()) ==
        "# data_source/specimen\n\nA component of the test.\n\n"
        "- Plugin: `acme.x`\n- Follows: none\n- Sees: private rows\n\n"
        "## Parameters\n\n"
        "| name | type | range | default | meaning |\n|---|---|---|---|---|\n"
        "| `rate` | real | [0, 1) | 0.5 | Share \\| part. |\n"
        "| `wait` | real | > 0 s | none | Delay. |\n"
        "| `count` | integer | <= 9 | required | How many. |\n"
        "| `rule` | one of: a, b |  | b | Which. |\n"
        "| `widths` | list of integers, at least 2 | >= 1 | required | Units. |\n"
        "| `train` | object |  | required | Files. |\n"
        "| `train.images` | path |  | required | Images. |\n"
        "| `train.raw` | boolean |  | false | Raw. |\n\n"
        "## In a manifest\n\n```yaml\n"
        "kind: specimen\ncount: 3\nwidths: [2, 2]\ntrain:\n  images: '...'\n"
        "```\n");
}

TEST_CASE("a component's text fits a terminal", "[manifest_docs]") {
  CHECK(component_text(specimen()) ==
        "data_source/specimen\n  A component of the test.\n\n"
        "  Follows       none\n  Sees          private rows\n  Plugin        acme.x 1.2.0\n"
        "  File          /x.privgrad.so\n\n"
        "Parameters\n"
        "  rate\n      real; range [0, 1); default 0.5\n      Share | part.\n"
        "  wait\n      real; range > 0 s; default none\n      Delay.\n"
        "  count\n      integer; range <= 9; required\n      How many.\n"
        "  rule\n      one of: a, b; default b\n      Which.\n"
        "  widths\n      list of integers, at least 2; range >= 1; required\n      Units.\n"
        "  train\n      object; required\n      Files.\n"
        "  train.images\n      path; required\n      Images.\n"
        "  train.raw\n      boolean; default false\n      Raw.\n\n"
        "In a manifest\n"
        "  kind: specimen\n  count: 3\n  widths: [2, 2]\n  train:\n    images: '...'\n");
  const std::string text = component_text(fakes().find<Optimizer>("momentum"));
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    CHECK(text.find('\n', begin) - begin <= 80);
  }
}

// Exported models in onnxruntime, which knows nothing of this project: each layer and each
// transform is compared with `privgrad predict` on the same raw rows.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "../cli/cli.hpp"
#include "onnxruntime.hpp"
#include "privgrad/chain.hpp"
#include "privgrad/model/model_file.hpp"
#include "privgrad/model/network_json.hpp"

using namespace privgrad;

namespace {

constexpr std::size_t kRows = 40;

/// Returns a file in version 1.0 of NumPy's format.
std::string npy(const std::string& type, const Shape& shape, const std::string& numbers) {
  std::string extents;
  for (const std::size_t extent : shape) extents += std::to_string(extent) + ", ";
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + extents + "), }";
  header.resize((header.size() + 10 + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + header + numbers;
}

template <class Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

/// Numbers around 0, the same in every run; some rows are far larger than others.
std::vector<float> random_rows(std::size_t width, std::uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> rows(kRows * width);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = normal(random) * (i / width % 7 == 0 ? 20.0f : 1.0f);
  return rows;
}

/// A model of any layers, whose weights are drawn and scaled down so that outputs stay moderate.
/// \param raw  the input of the transforms before the network.
/// \param transforms  JSON, as in a model's file.
std::string model_of(const Network& network, float size, const ExampleShape& raw,
                     const std::string& transforms) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> parameters(parameter_count(network));
  for (const ParameterBlock& block : parameter_blocks(network)) {
    const float scale =
        block.fan_in > 1 ? 1.0f / std::sqrt(static_cast<float>(block.fan_in)) : 0.5f;
    for (std::size_t i = 0; i < element_count(block.shape); ++i)
      parameters[block.offset + i] = block.initial + size * scale * normal(random);
  }
  const ExampleShape& shape = raw;
  return core::to_safetensors(
      network, parameters, {},
      {{"format", "privgrad"},
       {"model_format", std::string(core::model_format_of(network))},
       {"input", Json{{"features", shape.features}, {"classes", shape.classes}}.dump()},
       {"classes", Json(core::class_names(shape, {})).dump()},
       {"preprocessing", transforms},
       {"network", core::to_json(network).dump()},
       {"model", R"({"kind": "privgrad.linear:linear", "params": {}})"},
       {"backend", R"({"kind": "privgrad.cpu:cpu", "params": {}})"},
       {"statement", "epsilon 3 at delta 1e-05"}});
}

std::string model_of(const Network& network, float size = 1.0f) {
  return model_of(network, size, network.input, "[]");
}

/// The facts in the file, and its results for rows.
struct Executed {
  Json about;
  std::vector<float> result;
};

struct Exporting : Cli {
  void export_model(const std::string& model) const {
    const Outcome outcome = (*this)({"export", model, "--format", "onnx", "--out", "m.onnx"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.out == "");
    CHECK(outcome.err == "");
  }

  Executed by_onnxruntime() const {
    const Outcome outcome = python(
        {(kSource / "tests/export/by_onnxruntime.py").string(), "m.onnx", "x.npy", "theirs.npy"},
        dir());
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return {Json::parse(outcome.out), numbers_of<float>(out("theirs.npy"))};
  }

  std::vector<double> by_predict(const std::string& model, const ExampleShape& shape) const {
    const std::string classes =
        shape.classes == 0 ? ", task: regression" : ", classes: " + std::to_string(shape.classes);
    const Outcome outcome =
        (*this)({"predict", model, "--out", "ours.npy", "--data",
                 "{kind: npy, train: {features: x.npy, targets: y.npy}" + classes + "}"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return numbers_of<double>(out("ours.npy"));
  }

  /// \param rows  [kRows, ...] of the shape.
  void write_rows(const ExampleShape& shape, const std::vector<float>& rows) const {
    Shape extents = shape.features;
    extents.insert(extents.begin(), kRows);
    write_file(out("x.npy"), npy("<f4", extents, bytes_of(rows)));
    write_file(out("y.npy"), shape.classes == 0
                                 ? npy("<f4", {kRows}, bytes_of(std::vector<float>(kRows)))
                                 : npy("<i8", {kRows}, bytes_of(std::vector<std::int64_t>(kRows))));
  }

  /// Checks that no difference exceeds 1e-5, and that a row without a result has none in either.
  Json check_same(const std::string& model, const ExampleShape& shape,
                  const std::vector<float>& rows) const {
    write_rows(shape, rows);
    export_model(model);
    const Executed theirs = by_onnxruntime();
    const std::vector<double> ours = by_predict(model, shape);
    REQUIRE(ours.size() == theirs.result.size());
    double largest = 0.0, smallest_value = 1e300, largest_value = -1e300;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const auto its = static_cast<double>(theirs.result[i]);
      INFO("number " << i << ": " << ours[i] << " and " << its);
      REQUIRE(std::isnan(ours[i]) == std::isnan(its));
      if (std::isnan(its)) continue;
      largest = std::max(largest, std::abs(ours[i] - its));
      smallest_value = std::min(smallest_value, ours[i]);
      largest_value = std::max(largest_value, ours[i]);
    }
    CHECK(largest <= 1e-5);
    CHECK(largest_value - smallest_value > 0.05);  // differs between rows and classes
    return theirs.about;
  }

  Json check_network(const Network& network) const {
    write_file(out("m.safetensors"), model_of(network));
    return check_same("m.safetensors", network.input,
                      random_rows(element_count(network.input.features)));
  }
};

}  // namespace

TEST_CASE("dense networks give the same probabilities and values by onnxruntime") {
  NEEDS_ONNXRUNTIME();
  const Exporting exporting;
  for (const auto& [kind, name] : kActivations) {
    INFO(to_text(kind));
    const Json about = exporting.check_network(
        {{{5}, 3}, {Dense{8}, Activation{kind}, Dense{3}}, Loss::cross_entropy});
    CHECK(about.at("input") == Json({"features", "tensor(float)", {"n", 5}}));
    CHECK(about.at("output") == Json({"probabilities", "tensor(float)", {"n", 3}}));
    CHECK(about.at("metadata").at("statement") == "epsilon 3 at delta 1e-05");
    CHECK(about.at("metadata").at("classes") == R"(["0","1","2"])");
    CHECK(about.at("description") == "epsilon 3 at delta 1e-05");
  }
  INFO("logistic");
  const Json two = exporting.check_network({{{5}, 2}, {Dense{1}}, Loss::logistic});
  CHECK(two.at("output") == Json({"probabilities", "tensor(float)", {"n", 2}}));
  INFO("squared");
  const Json real = exporting.check_network(
      {{{2, 3}, 0}, {Dense{4}, Activation{ActivationKind::tanh}, Dense{1}}, Loss::squared});
  CHECK(real.at("output") == Json({"values", "tensor(float)", {"n", 1}}));
  const Json scores = exporting.check_network({{{5}, 3}, {Dense{3}}, Loss::squared});
  CHECK(scores.at("output") == Json({"values", "tensor(float)", {"n", 3}}));
}

TEST_CASE("every layer on images gives the same by onnxruntime") {
  NEEDS_ONNXRUNTIME();
  const Exporting exporting;
  const Activation relu{ActivationKind::relu};
  // Two extents mean one channel; heights and widths differ, so that they cannot be confused.
  std::vector<std::pair<Shape, std::vector<ChainLink>>> networks{
      {{9, 7}, {Conv2d{.channels = 4, .kernel = 3}, relu, Dense{3}}},
      {{9, 7, 2}, {Conv2d{.channels = 4, .kernel = 3, .stride = 2, .padding = 1}, relu, Dense{3}}},
      {{8, 9, 2},
       {Conv2d{.channels = 4, .kernel = 2, .stride = 1, .padding = 1}, Pool{PoolKind::max, 2, 2},
        Conv2d{.channels = 5, .kernel = 3}, Pool{PoolKind::average, 2, 1}, Flatten{}, Dense{6},
        relu, Dense{3}}},
      {{9, 7}, {Pool{PoolKind::average, 3, 2}, Pool{PoolKind::max, 2, 1}, Dense{3}}},
      {{6, 5, 3}, {Conv2d{.channels = 6, .kernel = 3}, GroupNorm{.groups = 3}, relu, Dense{3}}},
      {{6, 5, 4},
       {GroupNorm{.groups = 2}, LayerNorm{}, Conv2d{.channels = 3, .kernel = 2}, Dense{3}}},
      {{6, 5, 4}, {LayerNorm{}, GroupNorm{.groups = 1, .epsilon = 0.1}, Dense{3}}},
      {{6, 4}, {GroupNorm{.groups = 2}, Conv2d{.channels = 2, .kernel = 3}, Dense{3}}},
      {{6, 4}, {LayerNorm{.epsilon = 0.1}, Pool{PoolKind::max, 2, 2}, Dense{3}}},
      {{12}, {Dense{8}, GroupNorm{.groups = 4}, relu, Dense{6}, LayerNorm{}, Dense{3}}},
      {{4, 3}, {Dense{3}}},
      // Shortcuts with channels in different places at their two ends, and one without images.
      {{6, 5, 3},
       {LayerNorm{}, Conv2d{.channels = 3, .kernel = 3, .padding = 1}, Shortcut{.over = 2}, relu,
        Conv2d{.channels = 4, .kernel = 3, .stride = 2, .padding = 1},
        Shortcut{.over = 2, .stride = 2}, LayerNorm{}, Shortcut{.over = 1}, Dense{3}}},
      {{7, 9},
       {Conv2d{.channels = 2, .kernel = 3, .stride = 2, .padding = 1},
        Shortcut{.over = 1, .stride = 2}, Dense{3}}},
      {{12}, {Dense{8}, relu, Dense{8}, Shortcut{.over = 2}, Dense{3}}},
      // Blocks of a wide residual network: norms and activations before convolutions.
      {{8, 8, 3},
       {Conv2d{.channels = 4, .kernel = 3, .padding = 1}, GroupNorm{.groups = 2}, relu,
        Conv2d{.channels = 4, .kernel = 3, .padding = 1}, GroupNorm{.groups = 2}, relu,
        Conv2d{.channels = 4, .kernel = 3, .padding = 1}, Shortcut{.over = 6},
        GroupNorm{.groups = 2}, relu, Conv2d{.channels = 6, .kernel = 3, .stride = 2, .padding = 1},
        GroupNorm{.groups = 2}, relu, Conv2d{.channels = 6, .kernel = 3, .padding = 1},
        Shortcut{.over = 4, .stride = 2}, GroupNorm{.groups = 2}, relu,
        Pool{PoolKind::average, 4, 4}, Dense{3}}},
  };
  const auto each = [](std::size_t units) { return Dense{.units = units, .per_place = true}; };
  networks.insert(
      networks.end(),
      {{{6, 4}, {each(5), relu, each(3), Dense{3}}},
       {{6, 5, 4}, {Conv2d{.channels = 3, .kernel = 2}, each(7), relu, each(2), Dense{3}}},
       {{6, 5, 4}, {each(2), Conv2d{.channels = 3, .kernel = 2}, Dense{3}}},
       {{1, 5}, {each(3)}},
       {{5}, {each(3)}}});
  const auto check = [&](Network network) {
    std::string words;
    for (const Node& node : network.nodes) words += to_text(node.layer) + "; ";
    INFO(to_text(network.input.features) << ": " << words);
    exporting.check_network(network);
  };
  for (const auto& [shape, chain] : networks) {
    const ExampleShape input{shape, 3};
    check({input, nodes_of(input, chain), Loss::cross_entropy, {}});
  }
  check({{{6, 5, 4}, 3},
         {Conv2d{.channels = 4, .kernel = 3},
          RmsNorm{.epsilon = 0.1},
          {Conv2d{.channels = 4, .kernel = 1}, {1}},
          {ElementwiseProduct{}, {2, 3}},
          Flatten{},
          RmsNorm{},
          Dense{3}},
         Loss::cross_entropy});
  // A graph: parallel convolutions, one of which is used twice and one in another order.
  check({{{6, 5, 4}, 3},
         {Conv2d{.channels = 4, .kernel = 3, .padding = 1, .no_bias = true},
          {relu, {1}},
          {Flatten{}, {1}},
          {Reshape{{6, 5, 4}}, {3}},
          {Scale{-0.5}, {1}},
          {Add{}, {2, 4, 5, 1}},
          PartOf{.first = 1, .size = 2},
          Dense{.units = 3, .per_place = true, .no_bias = true},
          {Reshape{{5, 6, 2}}, {7}},
          {Flatten{}, {8}},
          {Flatten{}, {9}},
          {Dense{.units = 3, .no_bias = true}, {10}},
          {Dense{3}, {11}},
          {Add{}, {12, 13}}},
         Loss::cross_entropy,
         {}});
}

TEST_CASE("tokens that are none have no prediction, by onnxruntime either") {
  NEEDS_ONNXRUNTIME();
  const Exporting exporting;
  const Network network{{{4}, 3},
                        {Embedding{.vocabulary = 6, .width = 5}, LayerNorm{},
                         Activation{ActivationKind::relu}, Dense{3}},
                        Loss::cross_entropy};
  write_file(exporting.out("m.safetensors"), model_of(network));
  std::vector<float> tokens(kRows * 4);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<float>((i * i + i / 4) % 6);
  tokens[1] = 6.0f;
  tokens[4] = -2.0f;
  tokens[10] = 0.5f;
  tokens[13] = 1e9f;
  tokens[16] = -0.0f;
  tokens[17] = tokens[19] = tokens[22] = -1.0f;  // empty places
  exporting.check_same("m.safetensors", network.input, tokens);
  const std::vector<float> theirs = exporting.by_onnxruntime().result;
  for (std::size_t row = 0; row < kRows; ++row) CHECK(std::isnan(theirs[row * 3]) == (row < 4));
}

TEST_CASE("sequences and their attention give the same by onnxruntime") {
  NEEDS_ONNXRUNTIME();
  const Exporting exporting;
  const auto each = [](std::size_t units) { return Dense{.units = units, .per_place = true}; };
  const Network of_tokens{
      {{6}, 3},
      {Embedding{.vocabulary = 7, .width = 4},  // 1
       Positions{},                             // 2
       {TokenMask{}, {0}},                      // 3
       {each(8), {2}},                          // 4
       {each(4), {2}},                          // 5
       {each(4), {2}},                          // 6
       {Attention{.heads = 4, .key_heads = 2, .causal = true, .rotary = 50.0}, {4, 5, 6, 3}},
       Activation{ActivationKind::silu},  // 8
       {Attention{.heads = 2, .key_heads = 2}, {8, 8, 8, 3}},
       {Attention{.heads = 1, .key_heads = 1, .causal = true}, {9, 9, 9}},
       {PickPlace{.last = true}, {10, 3}},  // 11
       {MeanOfPlaces{}, {10, 3}},           // 12
       {PickPlace{.last = true}, {10}},     // 13
       {Add{}, {11, 12, 13}},
       Dense{3}},
      Loss::cross_entropy};
  std::vector<float> tokens;
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t t = 0; t < 6; ++t)
      tokens.push_back(t < row % 7 ? static_cast<float>((row + t * t) % 7) : kEmptyPlace);
  }
  write_file(exporting.out("m.safetensors"), model_of(of_tokens));
  exporting.check_same("m.safetensors", of_tokens.input, tokens);
  const Network of_places{{{6}, 0},
                          {Embedding{.vocabulary = 7, .width = 4},
                           {TokenMask{}, {0}},
                           {Attention{.heads = 2, .key_heads = 2, .causal = true}, {1, 1, 1, 2}},
                           each(7)},
                          Loss::next_token};
  write_file(exporting.out("m.safetensors"), model_of(of_places));
  exporting.check_same("m.safetensors", of_places.input, tokens);
  exporting.check_network({{{6, 4, 3}, 3},
                           {Conv2d{.channels = 4, .kernel = 2, .stride = 2},
                            Reshape{{6, 4}},
                            Prepend{},
                            Positions{},
                            {each(2), {4}},
                            {Attention{.heads = 2, .key_heads = 1}, {4, 5, 5}},
                            Dense{3}},
                           Loss::cross_entropy});
  Network tied{{{6}, 7},
               {Embedding{.vocabulary = 7, .width = 4},
                MeanOfPlaces{},
                each(4),
                {each(4), {3}},
                Dense{.units = 7, .no_bias = true}},
               Loss::cross_entropy};
  tied.nodes[3].shares = 2;
  tied.nodes[4].shares = 0;
  write_file(exporting.out("tied.safetensors"), model_of(tied));
  exporting.check_same("tied.safetensors", tied.input, tokens);
  exporting.check_network({{{5, 4}, 3},
                           {{Attention{}, {0, 0, 0}},
                            {MeanOfPlaces{}, {1}},
                            {PickPlace{.place = 2}, {1}},
                            {Add{}, {2, 3}},
                            Dense{3}},
                           Loss::cross_entropy});
}

TEST_CASE("rows that are not finite, or overflow, have no prediction, by onnxruntime either") {
  NEEDS_ONNXRUNTIME();
  const Exporting exporting;
  const Network network{
      {{3}, 2}, {Dense{64}, Activation{ActivationKind::relu}, Dense{2}}, Loss::cross_entropy};
  write_file(exporting.out("m.safetensors"), model_of(network));
  std::vector<float> rows = random_rows(3);
  rows[0] = std::numeric_limits<float>::quiet_NaN();
  rows[3] = std::numeric_limits<float>::infinity();
  rows[6] = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 9; i < 12; ++i) rows[i] = std::numeric_limits<float>::max();
  exporting.write_rows(network.input, rows);
  exporting.export_model("m.safetensors");
  const std::vector<float> theirs = exporting.by_onnxruntime().result;
  for (std::size_t row = 0; row < kRows; ++row) {
    INFO(row);
    CHECK(std::isnan(theirs[2 * row]) == (row < 4));
    CHECK(std::isnan(theirs[2 * row + 1]) == (row < 4));
  }
}

TEST_CASE("an output that overflows is not a certainty of a class, by onnxruntime either") {
  NEEDS_ONNXRUNTIME();
  const Exporting exporting;
  const Network network{{{1}, 2}, {Dense{1}}, Loss::logistic};
  write_file(exporting.out("m.safetensors"), model_of(network, 100.0f));
  std::vector<float> rows = random_rows(1);
  rows[0] = std::numeric_limits<float>::max();
  exporting.check_same("m.safetensors", network.input, rows);
  const std::vector<float> theirs = exporting.by_onnxruntime().result;
  CHECK(std::isnan(theirs[0]));
  CHECK_FALSE(std::isnan(theirs[2]));
}

TEST_CASE("every transform is in the graph: raw rows go in") {
  NEEDS_ONNXRUNTIME();
  const Exporting exporting;
  const std::string chains[] = {
      "[standardize]",
      "[{kind: standardize, mean: [1000, 0, -3, 2], std: [0.25, 0, 7, 1]}]",
      "[{kind: pca, dimensions: 3}]",
      "[{kind: scale_max_norm, to: 2}]",
      "[{kind: scale_max_norm, to: 3, max_norm: 1.5}]",
      "[flatten]",
      "[standardize, {kind: pca, dimensions: 3}, {kind: scale_max_norm, to: 2, max_norm: 1}, "
      "flatten]",
      "[]",
  };
  for (const std::string& chain : chains) {
    INFO(chain);
    const Outcome run = exporting.on_manifest(
        "run", {"--set", "data.transforms=" + chain, "--set", "seed=1", "--set",
                "privacy.target_epsilon=20", "--out", "run" + std::to_string(chain.size()), "-q"});
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    // The first feature is as large as that of the second chain, whose differences are small.
    std::vector<float> rows = random_rows(4, 5);
    if (chain.find("1000") != chain.npos) {
      for (std::size_t i = 0; i < rows.size(); i += 4) rows[i] = 1000.0f + 0.25f * rows[i];
    }
    const std::string model = "run" + std::to_string(chain.size());
    const Json about = exporting.check_same(model, {{4}, 2}, rows);
    const Json summary = Json::parse(read_file(exporting.out(model + "/summary.json")));
    CHECK(Json::parse(about.at("metadata").at("unaccounted").get<std::string>()) ==
          summary.at("unaccounted"));
    if (chain.find("1000") == chain.npos) continue;
    // A feature with deviation 0 becomes 0, whatever its value, as in apply_row().
    const std::vector<float> before = exporting.by_onnxruntime().result;
    rows[1] = std::numeric_limits<float>::quiet_NaN();
    exporting.write_rows({{4}, 2}, rows);
    CHECK(exporting.by_onnxruntime().result == before);
  }
}

TEST_CASE("scattering is in the graph: images go in") {
  NEEDS_ONNXRUNTIME();
  const Exporting exporting;
  struct Case {
    Shape image, coefficients;
    std::string params;
  };
  // Heights, widths and channels differ, so that they cannot be confused.
  const Case cases[] = {
      {{13, 9}, {3, 2, 81}, "{}"},
      {{28, 28}, {7, 7, 25}, R"({"angles": 4})"},
      {{9, 12, 3}, {1, 1, 3 * 37}, R"({"scales": 3, "angles": 3})"},
      {{7, 8, 2}, {3, 4, 2 * 6}, R"({"scales": 1, "angles": 5, "max_order": 1})"},
  };
  for (const Case& one : cases) {
    INFO(to_text(one.image) << " " << one.params);
    // Every output is a sum over all coefficients, with weights of similar size.
    const Network network{{one.coefficients, 5}, {Dense{5}}, Loss::squared};
    const ExampleShape images{one.image, 5};
    write_file(exporting.out("m.safetensors"),
               model_of(network, 1.0f, images,
                        R"([{"kind": "privgrad.scattering:scattering", "is_known": true, )"
                        R"("params": )" +
                            one.params + "}]"));
    std::vector<float> rows = random_rows(element_count(one.image));
    rows[0] = std::numeric_limits<float>::quiet_NaN();
    const std::size_t size = element_count(one.image);
    rows[size] = std::numeric_limits<float>::infinity();
    exporting.write_rows(images, rows);
    exporting.export_model("m.safetensors");
    const Executed theirs = exporting.by_onnxruntime();
    Json extents = one.image;
    extents.insert(extents.begin(), "n");
    CHECK(theirs.about.at("input").at(2) == extents);
    // Rows that are not finite are refused as data; in the graph they have no result.
    for (std::size_t i = 0; i < 10; ++i) CHECK(std::isnan(theirs.result[i]));
    std::copy(rows.end() - static_cast<std::ptrdiff_t>(2 * size), rows.end(), rows.begin());
    exporting.write_rows(images, rows);
    const std::vector<float> given = exporting.by_onnxruntime().result;
    const std::vector<double> ours = exporting.by_predict("m.safetensors", images);
    REQUIRE(ours.size() == given.size());
    double largest = 0.0, gap = 0.0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      largest = std::max(largest, std::abs(ours[i]));
      gap = std::max(gap, std::abs(ours[i] - static_cast<double>(given[i])));
    }
    CHECK(largest > 0.05);
    CHECK(gap <= 1e-5 * largest);
  }
}

TEST_CASE("a model is exported to the same bytes each time, by its run or its file") {
  const Exporting exporting;
  REQUIRE(exporting.on_manifest("run", {"--set", "seed=1", "--out", "run", "-q"}).exit_code == 0);
  exporting.export_model("run");
  const std::string bytes = read_file(exporting.out("m.onnx"));
  CHECK(bytes.size() > 100);
  exporting.export_model("run/model.safetensors");
  CHECK(read_file(exporting.out("m.onnx")) == bytes);
}

TEST_CASE("what cannot be exported is one line, and a file that was there stays") {
  const Exporting exporting;
  const auto refused = [&](Words words, int code, const std::string& part) {
    write_file(exporting.out("m.onnx"), "before");
    words.insert(words.begin(), "export");
    const Outcome outcome = exporting(words);
    check_one_error_line(outcome, code);
    CHECK_THAT(outcome.err, ContainsSubstring(part));
    CHECK(read_file(exporting.out("m.onnx")) == "before");
  };
  const Network network{{{3}, 2}, {Dense{2}}, Loss::cross_entropy};
  const std::string model = model_of(network);
  write_file(exporting.out("m.safetensors"), model);
  refused({"m.safetensors", "--format", "pmml", "--out", "m.onnx"}, 2, "expected onnx");
  refused({"m.safetensors", "--format", "huggingface", "--out", "folder"}, 2,
          "is for models whose training began from a public model's folder");
  refused({"m.safetensors"}, 2, "needs --out FILE");
  refused({"--out", "m.onnx"}, 2, "MODEL");
  refused({"nowhere", "--out", "m.onnx"}, 4, "nowhere");
  refused({"m.safetensors", "--out", "nowhere/m.onnx"}, 4, "nowhere");
  write_file(exporting.out("cut.safetensors"), model.substr(0, model.size() - 1));
  refused({"cut.safetensors", "--out", "m.onnx"}, 4, "cut.safetensors: ");
  std::filesystem::create_directory(exporting.out("empty"));
  refused({"empty", "--out", "m.onnx"}, 4, "contains no model.safetensors");
  // Keys exist for a run that can be resumed.
  write_file(exporting.out("empty/model.safetensors"), model);
  write_file(exporting.out("empty/resume.json"), "{}");
  refused({"empty", "--out", "m.onnx"}, 3, "its run is not finished");
  refused({"empty/model.safetensors", "--out", "m.onnx"}, 3, "its run is not finished");
  std::filesystem::remove(exporting.out("empty/resume.json"));
  exporting.export_model("empty");
  write_file(exporting.out("m.onnx"), "before");
  // A transform whose operation is defined only in its own code.
  const std::filesystem::path plugins = exporting.out("plugins");
  std::filesystem::create_directory(plugins);
  const std::string fixture = "test_tells_no_operations.privgrad.so";
  std::filesystem::copy_file(kFixtures / fixture, plugins / fixture);
  std::filesystem::permissions(plugins / fixture, std::filesystem::perms::owner_all);
  const Outcome run = exporting.on_manifest(
      "run", {"--plugin-dir", plugins, "--set", "data.transforms=[negate]", "--out", "own", "-q"});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  refused({"own", "--out", "m.onnx", "--plugin-dir", plugins}, 2,
          ":negate cannot be exported: it does not tell");
  refused({"own", "--out", "m.onnx"}, 2, "negate");  // without the plugin
  // A model larger than a protobuf message, refused before it is read: the file has no blocks.
  write_file(exporting.out("large.safetensors"), model);
  std::filesystem::resize_file(exporting.out("large.safetensors"), (1ull << 31) + 1);
  refused({"large.safetensors", "--out", "m.onnx"}, 2, "larger than 2 GiB");
  // The disk has no room for the model.
  Call full = exporting.prepare({"export", "m.safetensors", "--out", "m.onnx"});
  full.file_size = 500;  // the message still fits
  check_one_error_line(call(full), 4);
  CHECK(read_file(exporting.out("m.onnx")) == "before");
}

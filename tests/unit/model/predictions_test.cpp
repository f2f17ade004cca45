// The quality measures of predictions. Expected values are scikit-learn's documented examples, or
// counted by hand, or over all pairs.
#include "privgrad/model/predictions.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "support.hpp"

using namespace privgrad;
using core::evaluation_json;
using core::Predictions;
using Json = nlohmann::json;

namespace {

/// Returns logistic outputs with these probabilities of class 1.
Predictions logistic(const std::vector<double>& probabilities) {
  Predictions result{.loss = Loss::logistic, .classes = 2, .outputs = 1, .values = {}};
  for (const double p : probabilities)
    result.values.push_back(static_cast<float>(std::log(p / (1.0 - p))));
  return result;
}

/// Returns cross-entropy outputs with these probabilities, row after row.
Predictions softmax(std::size_t classes, const std::vector<double>& probabilities) {
  Predictions result{
      .loss = Loss::cross_entropy, .classes = classes, .outputs = classes, .values = {}};
  for (const double p : probabilities) result.values.push_back(static_cast<float>(std::log(p) + 3));
  return result;
}

Predictions values(std::vector<float> given) {
  return {.loss = Loss::squared, .classes = 0, .outputs = 1, .values = std::move(given)};
}

double at(const Json& json, const char* key) { return json.at(key).get<double>(); }

/// Returns the share of pairs (a row of the class, another row) in the right order.
double pairs_in_order(const Predictions& predictions, const std::vector<float>& truth,
                      std::size_t of) {
  double right = 0.0, all = 0.0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    for (std::size_t j = 0; j < truth.size(); ++j) {
      if (truth[i] != static_cast<float>(of) || truth[j] == static_cast<float>(of)) continue;
      const double a = predictions.probabilities(i)[of], b = predictions.probabilities(j)[of];
      all += 1.0;
      right += a > b ? 1.0 : (a == b ? 0.5 : 0.0);
    }
  }
  return right / all;
}

}  // namespace

TEST_CASE("two classes: the example of scikit-learn's roc_auc_score and roc_curve") {
  const std::vector<float> truth{0, 0, 1, 1};
  const Json json = evaluation_json(logistic({0.1, 0.4, 0.35, 0.8}), truth, {"no", "yes"});
  CHECK(json.at("rows") == 4);
  CHECK(at(json, "auc") == 0.75);
  CHECK(json.at("roc").at("fpr") == Json({0.0, 0.0, 0.5, 0.5, 1.0}));
  CHECK(json.at("roc").at("tpr") == Json({0.0, 0.5, 0.5, 1.0, 1.0}));
  CHECK(at(json, "accuracy") == 0.75);
  CHECK(json.at("confusion") == Json({{2, 0}, {1, 1}}));  // each row of the matrix is a true class
  const Json& no = json.at("per_class")[0];
  CHECK(no.at("class") == "no");
  CHECK_THAT(at(no, "precision"), WithinAbs(2.0 / 3.0, 1e-6));
  CHECK(at(no, "recall") == 1.0);
  CHECK_THAT(at(no, "f1"), WithinAbs(0.8, 1e-6));
  const Json& yes = json.at("per_class")[1];
  CHECK(at(yes, "precision") == 1.0);
  CHECK(at(yes, "recall") == 0.5);
  CHECK_THAT(at(yes, "f1"), WithinAbs(2.0 / 3.0, 1e-6));
  CHECK_THAT(
      at(json, "loss"),
      WithinAbs(-(std::log(0.9) + std::log(0.6) + std::log(0.35) + std::log(0.8)) / 4, 1e-6));
}

TEST_CASE("classes that have rows and are never predicted are named") {
  const auto remark = [](const std::vector<double>& probabilities,
                         const std::vector<float>& truth) {
    return evaluation_json(softmax(3, probabilities), truth, {"a", "b", "c"}).value("remark", "");
  };
  CHECK_THAT(remark({.5, .3, .2, .6, .3, .1}, {0, 1}),
             ContainsSubstring(
                 "never predicted: 'b' (1 of 2 rows); accuracy shows little about a rare class"));
  CHECK_THAT(remark({.5, .3, .2, .6, .3, .1, .4, .3, .3}, {2, 1, 1}),
             ContainsSubstring("never predicted: 'b' (2 of 3 rows), 'c' (1 of 3 rows);"));
  CHECK(remark({.5, .3, .2, .3, .5, .2}, {0, 1}).empty());  // no row has class c
  CHECK(remark({.5, .3, .2, .3, .5, .2}, {1, 0}).empty());  // predicted, although wrongly
}

TEST_CASE("two classes: equal scores count as half") {
  // Of the four pairs three are in order and one is a tie.
  const Json json =
      evaluation_json(logistic({0.5, 0.5, 0.2, 0.8}), std::vector<float>{0, 1, 0, 1}, {"a", "b"});
  CHECK(at(json, "auc") == 0.875);
  const Json all_equal =
      evaluation_json(logistic({0.3, 0.3, 0.3}), std::vector<float>{0, 1, 0}, {"a", "b"});
  CHECK(at(all_equal, "auc") == 0.5);
}

TEST_CASE("a class without rows has no area under its curve") {
  const std::vector<float> only{1, 1};
  CHECK(evaluation_json(logistic({0.4, 0.9}), only, {"a", "b"}).at("auc").is_null());
  const Json three = evaluation_json(softmax(3, {.2, .3, .5, .6, .3, .1}), std::vector<float>{2, 0},
                                     {"a", "b", "c"});
  CHECK(three.at("auc").is_null());
  CHECK(three.at("auc_per_class") == Json({1.0, nullptr, 1.0}));
  CHECK(three.at("per_class")[1].at("precision") == 0.0);  // scikit-learn's zero_division=0
  CHECK(three.at("per_class")[1].at("rows") == 0);
}

TEST_CASE("many classes: each against the rest, and their mean") {
  const Predictions predictions = softmax(3, {.2, .3, .5, .6, .3, .1, .1, .8, .1, .3, .3, .4,  //
                                              .5, .2, .3, .2, .5, .3, .3, .4, .3});
  const std::vector<float> truth{2, 0, 1, 0, 2, 1, 1};
  const Json json = evaluation_json(predictions, truth, {"a", "b", "c"});
  double mean = 0.0;
  for (std::size_t k = 0; k < 3; ++k) {
    const double expected = pairs_in_order(predictions, truth, k);
    CHECK_THAT(json.at("auc_per_class")[k].get<double>(), WithinAbs(expected, 1e-6));
    mean += expected / 3;
  }
  CHECK_THAT(at(json, "auc"), WithinAbs(mean, 1e-6));
  CHECK(json.at("confusion") == Json({{1, 0, 1}, {0, 3, 0}, {1, 0, 1}}));
  CHECK_FALSE(json.contains("roc"));
}

TEST_CASE("the calibration error is over 15 bins of equal width") {
  // 0.92 (correct) and 0.90 (wrong) share the bin (13/15, 14/15], 0.65 (correct) is alone: (|1 -
  // 1.82| + |1 - 0.65|) / 3.
  const Json json =
      evaluation_json(logistic({0.92, 0.90, 0.35}), std::vector<float>{1, 0, 0}, {"a", "b"});
  CHECK_THAT(at(json, "calibration_error"), WithinAbs((0.82 + 0.35) / 3, 1e-6));
  CHECK(evaluation_json(Predictions{Loss::squared, 2, 2, {1, 0}}, std::vector<float>{0}, {"a", "b"})
            .at("calibration_error")
            .is_null());
}

TEST_CASE("values: the example of scikit-learn's mean_squared_error and r2_score") {
  const std::vector<float> truth{3, -0.5f, 2, 7};
  const Json json = evaluation_json(values({2.5f, 0, 2, 8}), truth, {});
  CHECK(at(json, "mse") == 0.375);
  CHECK(at(json, "mae") == 0.5);
  CHECK_THAT(at(json, "r2"), WithinAbs(0.9486081370449679, 1e-6));
  CHECK(at(json, "loss") == 0.375 / 2);
  CHECK_FALSE(json.contains("accuracy"));
  CHECK(evaluation_json(values({1, 2}), std::vector<float>{4, 4}, {}).at("r2").is_null());
}

TEST_CASE("next tokens: the loss is a mean of means, perplexity and accuracy are over all tokens") {
  Network network;
  network.input = {{3}, 0};
  network.nodes = {Embedding{.vocabulary = 2, .width = 2}, Dense{.units = 2, .per_place = true}};
  network.loss = Loss::next_token;
  // The odds of the next token are 1 : 3 after token 0, and 4 : 1 after token 1; the last place
  // predicts nothing.
  const auto predict = [&](const Dataset& rows) {
    Predictions made = Predictions::of_rows(network, rows.rows());
    std::vector<float> features(rows.rows() * 3), targets(rows.rows());
    std::vector<std::uint32_t> all(rows.rows());
    std::iota(all.begin(), all.end(), 0u);
    rows.gather(all, features, targets);
    made.take_tokens(0, features, rows.rows());
    for (std::size_t i = 0; i < features.size(); ++i) {
      made.values[2 * i] = features[i] == 1.0f ? std::log(4.0f) : 0.0f;
      made.values[2 * i + 1] = features[i] == 0.0f ? std::log(3.0f) : 0.0f;
    }
    return made;
  };
  const auto said = [&](std::vector<float> tokens) {
    const std::size_t rows = tokens.size() / 3;
    return core::next_token_json(
        network, Dataset(network.input, std::move(tokens), std::vector<float>(rows)), predict);
  };
  const Json json = said({0, 1, 0, 1, 1, -1, 0, -1, -1});
  const double first = -std::log(0.75) - std::log(0.8), second = -std::log(0.2);
  CHECK_THAT(at(json, "loss"), WithinRel((first / 2 + second) / 3, 1e-6));
  CHECK_THAT(at(json, "perplexity"), WithinRel(std::exp((first + second) / 3), 1e-6));
  CHECK(at(json, "accuracy") == 2.0 / 3.0);
  CHECK(json.at("tokens") == 3);
  CHECK(json.at("rows") == 3);
  CHECK_FALSE(json.contains("not_finite"));
  const Json wrong = said({0, 1, 0, 0, 2, 0});
  CHECK(wrong.at("not_finite") == 1);
  CHECK(wrong.at("loss").is_null());
  CHECK(at(wrong, "accuracy") == 0.5);
  CHECK_FALSE(said({0, -1, -1}).contains("perplexity"));
  CHECK(at(said({0, -1, -1}), "loss") == 0.0);
}

TEST_CASE("a row that overflowed is nobody's class, and counts as wrong") {
  Predictions predictions = logistic({0.9, 0.9});
  predictions.values[1] = std::numeric_limits<float>::quiet_NaN();
  const Json json = evaluation_json(predictions, std::vector<float>{1, 1}, {"a", "b"});
  CHECK(at(json, "accuracy") == 0.5);
  CHECK(json.at("not_finite") == 1);
  CHECK_FALSE(json.at("loss").is_number());
  CHECK(json.at("confusion") == Json({{0, 0}, {0, 1}}));
  CHECK_FALSE(predictions.predicted(1).has_value());
}

TEST_CASE("probabilities are those of the loss, also far out") {
  const Predictions far = {Loss::cross_entropy, 3, 3, {1000, 0, -1000}};
  CHECK(far.probabilities(0) == std::vector<double>{1, 0, 0});
  CHECK(far.loss_of(0, 1) == 1000);
  const Predictions one = {Loss::logistic, 2, 1, {-800}};
  CHECK(one.probabilities(0)[0] == 1.0);
  CHECK(one.loss_of(0, 1) == 800);
  CHECK(one.loss_of(0, 0) == 0);
}

TEST_CASE("a curve of many points is shown by 201 of them, the ends among them") {
  std::vector<double> scores;
  std::vector<float> truth;
  for (int i = 1; i < 2000; ++i) {
    scores.push_back(i / 2000.0);
    truth.push_back(i * 7 % 10 < 5 ? 1.0f : 0.0f);
  }
  const Json roc = evaluation_json(logistic(scores), truth, {"a", "b"}).at("roc");
  CHECK(roc.at("fpr").size() == 201);
  CHECK(roc.at("tpr").front() == 0.0);
  CHECK(roc.at("tpr").back() == 1.0);
  CHECK(roc.at("fpr").back() == 1.0);
}

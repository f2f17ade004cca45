#include "privgrad/model/predictions.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "privgrad/finite.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/trust/event_json.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kChunkRows = 256;
constexpr std::size_t kMostConfusedClasses = 100;
constexpr std::size_t kCurvePoints = 201;
constexpr std::size_t kBins = 15;

double cross_entropy(std::span<const float> out, std::size_t label) {
  const auto top = std::ranges::max_element(out);
  double others = 0.0;
  for (auto x = out.begin(); x != out.end(); ++x) {
    if (x != top) others += std::exp(static_cast<double>(*x) - static_cast<double>(*top));
  }
  return std::log1p(others) + (static_cast<double>(*top) - static_cast<double>(out[label]));
}

double ratio(double a, double b) { return b == 0.0 ? 0.0 : a / b; }

/// Rows by decreasing score, each with a flag: whether the row has the class in question.
struct Ranked {
  std::vector<std::pair<double, bool>> rows;
  double of_class = 0.0, others = 0.0;
};

Ranked ranked(const std::vector<double>& scores, const std::vector<std::size_t>& truth,
              std::size_t of) {
  Ranked result;
  for (std::size_t row = 0; row < scores.size(); ++row) {
    const bool is_it = truth[row] == of;
    result.rows.emplace_back(scores[row], is_it);
    (is_it ? result.of_class : result.others) += 1.0;
  }
  std::ranges::sort(result.rows, [](const auto& a, const auto& b) { return a.first > b.first; });
  return result;
}

/// Calls visit(true positives, false positives) after each group of rows with equal scores.
template <class Visit>
void for_each_threshold(const Ranked& ranked, const Visit& visit) {
  double hits = 0.0, misses = 0.0;
  for (std::size_t i = 0; i < ranked.rows.size(); ++i) {
    (ranked.rows[i].second ? hits : misses) += 1.0;
    if (i + 1 == ranked.rows.size() || ranked.rows[i + 1].first != ranked.rows[i].first)
      visit(hits, misses);
  }
}

/// Returns the area under the ROC curve by trapezoids, which equals the area by mid-ranks.
Json auc(const Ranked& ranked) {
  if (ranked.of_class == 0.0 || ranked.others == 0.0) return nullptr;
  double area = 0.0, last_hits = 0.0, last_misses = 0.0;
  for_each_threshold(ranked, [&](double hits, double misses) {
    area += (misses - last_misses) * (hits + last_hits) / 2.0;
    last_hits = hits;
    last_misses = misses;
  });
  return area / (ranked.of_class * ranked.others);
}

Json roc(const Ranked& ranked) {
  if (ranked.of_class == 0.0 || ranked.others == 0.0) return nullptr;
  std::vector<double> fpr{0.0}, tpr{0.0};
  for_each_threshold(ranked, [&](double hits, double misses) {
    fpr.push_back(misses / ranked.others);
    tpr.push_back(hits / ranked.of_class);
  });
  Json shown{{"fpr", Json::array()}, {"tpr", Json::array()}};
  const std::size_t points = std::min(fpr.size(), kCurvePoints);
  for (std::size_t i = 0; i < points; ++i) {
    const std::size_t at = i * (fpr.size() - 1) / (points - 1);
    shown["fpr"].push_back(fpr[at]);
    shown["tpr"].push_back(tpr[at]);
  }
  return shown;
}

/// Metrics for classes; rows without a prediction get an additional class.
class OfClasses {
 public:
  OfClasses(const Predictions& predictions, std::span<const float> targets,
            const std::vector<std::string>& names)
      : predictions_(predictions), names_(names) {
    for (std::size_t row = 0; row < predictions.rows(); ++row) {
      truth_.push_back(static_cast<std::size_t>(targets[row]));
      predicted_.push_back(predictions.predicted(row).value_or(predictions.classes));
    }
  }

  void put_into(Json& json) const {
    count(json);
    put_areas(json);
    json["calibration_error"] =
        predictions_.has_probabilities() ? json_number(calibration_error()) : Json(nullptr);
  }

 private:
  void count(Json& json) const {
    const std::size_t classes = predictions_.classes;
    std::vector<std::uint64_t> right(classes), told(classes + 1), there(classes);
    for (std::size_t row = 0; row < truth_.size(); ++row) {
      ++told[predicted_[row]];
      ++there[truth_[row]];
      if (truth_[row] == predicted_[row]) ++right[truth_[row]];
    }
    const auto all = static_cast<double>(truth_.size());
    json["accuracy"] =
        static_cast<double>(std::accumulate(right.begin(), right.end(), std::uint64_t{0})) / all;
    Json per_class = Json::array();
    std::string never;
    for (std::size_t k = 0; k < classes; ++k) {
      if (told[k] == 0 && there[k] > 0) {
        never += (never.empty() ? "'" : ", '") + names_.at(k) + "' (" + std::to_string(there[k]) +
                 " of " + std::to_string(truth_.size()) + " rows)";
      }
      const auto hits = static_cast<double>(right[k]);
      const auto said = static_cast<double>(told[k]), are = static_cast<double>(there[k]);
      per_class.push_back({{"class", names_.at(k)},
                           {"rows", there[k]},
                           {"precision", ratio(hits, said)},
                           {"recall", ratio(hits, are)},
                           {"f1", ratio(2.0 * hits, said + are)}});
    }
    json["per_class"] = std::move(per_class);
    if (!never.empty()) {
      json["remark"] = "never predicted: " + one_line(never, 400) +
                       "; accuracy shows little about a rare class: see its recall and the AUC, "
                       "and decide with your own threshold for the probabilities of predict";
    }
    if (classes > kMostConfusedClasses) return;
    std::vector<std::vector<std::uint64_t>> confusion(classes, std::vector<std::uint64_t>(classes));
    for (std::size_t row = 0; row < truth_.size(); ++row) {
      if (predicted_[row] < classes) ++confusion[truth_[row]][predicted_[row]];
    }
    json["confusion"] = confusion;
  }

  /// Returns each example's score for a class: the lowest score if an example has no prediction.
  std::vector<double> scores(std::size_t of) const {
    std::vector<double> all;
    for (std::size_t row = 0; row < truth_.size(); ++row) {
      // For the logistic loss, uses the output itself, because its probability may be rounded to 1.
      const auto out = predictions_.of(row);
      const double score = predictions_.loss == Loss::logistic ? static_cast<double>(out[0])
                           : predictions_.has_probabilities()  ? predictions_.probabilities(row)[of]
                                                               : static_cast<double>(out[of]);
      all.push_back(predicted_[row] < predictions_.classes
                        ? score
                        : -std::numeric_limits<double>::infinity());
    }
    return all;
  }

  void put_areas(Json& json) const {
    if (predictions_.classes == 2) {
      const Ranked second = ranked(scores(1), truth_, 1);
      json["auc"] = auc(second);
      json["roc"] = roc(second);
      return;
    }
    Json per_class = Json::array();
    double sum = 0.0;
    bool is_known = true;
    for (std::size_t k = 0; k < predictions_.classes; ++k) {
      per_class.push_back(auc(ranked(scores(k), truth_, k)));
      is_known = is_known && per_class.back().is_number();
      if (is_known) sum += per_class.back().get<double>();
    }
    json["auc"] = is_known ? Json(sum / static_cast<double>(predictions_.classes)) : Json(nullptr);
    json["auc_per_class"] = std::move(per_class);
  }

  double calibration_error() const {
    std::vector<double> confident(kBins), right(kBins);
    for (std::size_t row = 0; row < truth_.size(); ++row) {
      if (predicted_[row] >= predictions_.classes) continue;
      const double most = predictions_.probabilities(row)[predicted_[row]];
      // The bins are (0, 1/15], (1/15, 2/15], ...
      const auto bin = static_cast<std::size_t>(
          std::clamp(std::ceil(most * kBins) - 1.0, 0.0, static_cast<double>(kBins - 1)));
      confident[bin] += most;
      if (predicted_[row] == truth_[row]) right[bin] += 1.0;
    }
    double sum = 0.0;
    for (std::size_t bin = 0; bin < kBins; ++bin) sum += std::abs(right[bin] - confident[bin]);
    return sum / static_cast<double>(truth_.size());
  }

  const Predictions& predictions_;
  const std::vector<std::string>& names_;
  std::vector<std::size_t> truth_, predicted_;
};

struct NextTokens {
  double losses = 0.0, of_tokens = 0.0;
  std::size_t tokens = 0, right = 0, lost = 0;

  void add(const Predictions& block) {
    for (std::size_t row = 0; row < block.rows(); ++row) add_row(block, row);
  }

 private:
  void add_row(const Predictions& block, std::size_t row) {
    const std::size_t places = block.places, vocabulary = block.outputs / places;
    double sum = 0.0;
    std::size_t count = 0, hits = 0;
    for (std::size_t t = 1; t < places; ++t) {
      const float token = block.tokens[row * places + t];
      if (token == kEmptyPlace) continue;
      ++count;
      const auto out = block.of(row).subspan((t - 1) * vocabulary, vocabulary);
      if (!(token >= 0.0f && token < static_cast<float>(vocabulary)) ||
          token != std::floor(token)) {
        sum = std::numeric_limits<double>::quiet_NaN();
        continue;
      }
      const auto next = static_cast<std::size_t>(token);
      sum += cross_entropy(out, next);
      if (std::ranges::max_element(out) - out.begin() == std::ptrdiff_t(next)) ++hits;
    }
    losses += ratio(sum, static_cast<double>(count));
    of_tokens += sum;
    tokens += count;
    (std::isfinite(sum) ? right : lost) += std::isfinite(sum) ? hits : 1;
  }
};

void put_regression(const Predictions& predictions, std::span<const float> targets, Json& json) {
  const auto rows = static_cast<double>(targets.size());
  double mean = 0.0, squares = 0.0, magnitudes = 0.0, spread = 0.0;
  for (const float target : targets) mean += static_cast<double>(target) / rows;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    const auto target = static_cast<double>(targets[row]);
    const double difference = static_cast<double>(predictions.of(row)[0]) - target;
    squares += difference * difference;
    magnitudes += std::abs(difference);
    spread += (target - mean) * (target - mean);
  }
  const bool varies = std::ranges::adjacent_find(targets, std::not_equal_to<>()) != targets.end();
  json["mse"] = json_number(squares / rows);
  json["mae"] = json_number(magnitudes / rows);
  json["r2"] = varies ? json_number(1.0 - squares / spread) : Json(nullptr);
}

}  // namespace

std::vector<double> Predictions::probabilities(std::size_t row) const {
  const auto out = of(row);
  if (!all_finite(out))
    return std::vector<double>(classes, std::numeric_limits<double>::quiet_NaN());
  if (loss == Loss::logistic) {
    const auto x = static_cast<double>(out[0]);
    return {1.0 / (1.0 + std::exp(x)), 1.0 / (1.0 + std::exp(-x))};
  }
  const auto top = static_cast<double>(*std::ranges::max_element(out));
  std::vector<double> result;
  for (const float x : out) result.push_back(std::exp(static_cast<double>(x) - top));
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& x : result) x /= sum;
  return result;
}

std::optional<std::size_t> Predictions::predicted(std::size_t row) const {
  const auto out = of(row);
  if (classes == 0 || !all_finite(out)) return std::nullopt;
  if (loss == Loss::logistic) return out[0] > 0.0f ? 1 : 0;
  return static_cast<std::size_t>(std::ranges::max_element(out) - out.begin());
}

double Predictions::loss_of(std::size_t row, float target) const {
  const auto out = of(row);
  if (!all_finite(out)) return std::numeric_limits<double>::quiet_NaN();
  const auto label = static_cast<std::size_t>(std::max(0.0f, target));
  if (loss == Loss::logistic) {
    const double margin = static_cast<double>(out[0]) * (label == 1 ? 1.0 : -1.0);
    return margin > 0.0 ? std::log1p(std::exp(-margin)) : std::log1p(std::exp(margin)) - margin;
  }
  if (loss == Loss::cross_entropy) return cross_entropy(out, label);
  double sum = 0.0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double wanted = classes == 0 ? static_cast<double>(target) : (i == label ? 1.0 : 0.0);
    sum += (static_cast<double>(out[i]) - wanted) * (static_cast<double>(out[i]) - wanted);
  }
  return sum / 2.0;
}

Predictions Predictions::of_rows(const Network& network, std::size_t rows) {
  Predictions room{.loss = network.loss,
                   .classes = network.input.classes,
                   .outputs = output_count(network),
                   .values = {}};
  room.values.resize(rows * room.outputs);
  if (network.loss == Loss::next_token) room.places = value_shapes(network).back().front();
  room.tokens.resize(rows * room.places);
  return room;
}

void outputs_of(const Outputs& program, std::span<const float> features, std::size_t rows,
                std::span<float> out, Executor& executor) {
  if (rows == 0) return;
  const std::size_t inputs = features.size() / rows, outputs = out.size() / rows;
  executor.for_each_chunk((rows + kChunkRows - 1) / kChunkRows, [&](std::size_t chunk) {
    const std::size_t begin = chunk * kChunkRows;
    const std::size_t count = std::min(kChunkRows, rows - begin);
    program.outputs(features.subspan(begin * inputs, count * inputs), count,
                    out.subspan(begin * outputs, count * outputs));
  });
}

Predictions predict(const Outputs& program, const Network& network, const Dataset& data,
                    Executor& executor) {
  Predictions result = Predictions::of_rows(network, data.rows());
  const std::size_t width = data.row_size();
  executor.for_each_chunk((data.rows() + kChunkRows - 1) / kChunkRows, [&](std::size_t chunk) {
    const std::size_t begin = chunk * kChunkRows;
    std::vector<std::uint32_t> rows(std::min(kChunkRows, data.rows() - begin));
    std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(begin));
    std::vector<float> features(rows.size() * width), targets(rows.size());
    data.gather(rows, features, targets);
    result.take_tokens(begin, features, rows.size());
    program.outputs(
        features, rows.size(),
        std::span(result.values).subspan(begin * result.outputs, rows.size() * result.outputs));
  });
  return result;
}

Json evaluation_json(const Predictions& predictions, std::span<const float> targets,
                     const std::vector<std::string>& names) {
  const std::size_t rows = predictions.rows();
  Json json{{"rows", rows}};
  if (rows == 0) return json;
  double loss = 0.0;
  std::size_t lost = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    loss += predictions.loss_of(row, targets[row]);
    if (!all_finite(predictions.of(row))) ++lost;
  }
  json["loss"] = json_number(loss / static_cast<double>(rows));
  if (lost > 0) json["not_finite"] = lost;
  if (predictions.classes > 0) {
    OfClasses(predictions, targets, names).put_into(json);
  } else {
    put_regression(predictions, targets, json);
  }
  return json;
}

Json next_token_json(const Network& network, const Dataset& rows,
                     const std::function<Predictions(const Dataset&)>& predict) {
  Json json{{"rows", rows.rows()}};
  if (rows.rows() == 0) return json;
  constexpr std::size_t kOutputs = std::size_t{1} << 24;
  const std::size_t most = std::clamp<std::size_t>(kOutputs / output_count(network), 1, kChunkRows);
  NextTokens sums;
  for (std::size_t first = 0; first < rows.rows(); first += most) {
    std::vector<std::uint32_t> block(std::min(most, rows.rows() - first));
    std::iota(block.begin(), block.end(), static_cast<std::uint32_t>(first));
    std::vector<float> features(block.size() * rows.row_size()), targets(block.size());
    rows.gather(block, features, targets);
    sums.add(predict(Dataset(rows.shape(), std::move(features), std::move(targets))));
  }
  json["loss"] = json_number(sums.losses / static_cast<double>(rows.rows()));
  json["tokens"] = sums.tokens;
  if (sums.lost > 0) json["not_finite"] = sums.lost;
  if (sums.tokens == 0) return json;
  const auto tokens = static_cast<double>(sums.tokens);
  json["accuracy"] = static_cast<double>(sums.right) / tokens;
  json["perplexity"] = json_number(std::exp(sums.of_tokens / tokens));
  return json;
}

void Predictions::take_tokens(std::size_t first, std::span<const float> features,
                              std::size_t rows) {
  const std::size_t width = rows == 0 ? 0 : features.size() / rows;
  for (std::size_t row = 0; row < rows; ++row)
    std::copy_n(features.data() + row * width, places, tokens.data() + (first + row) * places);
}

}  // namespace privgrad::core

#include "evaluation_section.hpp"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "html.hpp"
#include "privgrad/error.hpp"
#include "privgrad/record/short_numbers.hpp"
#include "record.hpp"

namespace privgrad::report {
namespace {

using Json = nlohmann::json;

/// A page shows no confusion matrix for more classes.
constexpr std::size_t kMostShownClasses = 30;

class EvaluationSection {
 public:
  EvaluationSection(const Json& evaluation, const std::string& source, Charts& charts)
      : evaluation_(evaluation), source_(source + ": test_evaluation"), charts_(charts) {}

  std::string html() {
    read_classes();
    const std::string body = lead() + roc_chart() + confusion_table() + class_table();
    return section("evaluation", "The final model on the test rows", body);
  }

 private:
  void read_classes() {
    for (const Json& one : objects(evaluation_, "per_class", source_)) {
      names_.push_back(text(one, "class", source_).value_or(""));
    }
  }

  std::string lead() const {
    std::vector<std::pair<std::string, std::string>> rows;
    const std::pair<const char*, const char*> known[] = {{"rows", "test rows"},
                                                         {"loss", "loss"},
                                                         {"accuracy", "accuracy"},
                                                         {"auc", "AUC"},
                                                         {"calibration_error", "calibration error"},
                                                         {"mse", "MSE"},
                                                         {"mae", "MAE"},
                                                         {"r2", "R2"}};
    for (const auto& [key, name] : known) {
      if (const auto value = number(evaluation_, key, source_))
        rows.emplace_back(name, core::short_number(*value, 6));
    }
    const bool is_private = evaluation_.value("private", Json(true)) != false;
    const auto remark = text(evaluation_, "remark", source_);
    return facts(rows) + (remark ? paragraph("Remark: " + *remark) : "") +
           paragraph(is_private ? "These test rows are private, and no epsilon covers what is said "
                                  "about them here."
                                : "The manifest declares these test rows public.");
  }

  std::vector<double> shares(const Json& curve, const char* key) const {
    std::vector<double> values;
    for (const Json& one : list(curve, key, source_)) {
      if (!one.is_number())
        throw IoError(source_ + ": '" + key + "' holds something that is not a number");
      values.push_back(one.get<double>());
    }
    return values;
  }

  std::string roc_chart() {
    const Json& curve = members(evaluation_, "roc", source_);
    const std::vector<double> x = shares(curve, "fpr"), y = shares(curve, "tpr");
    if (x.size() != y.size()) throw IoError(source_ + ": 'roc' has lists of different lengths");
    if (x.empty() || names_.size() != 2) return "";
    Series model{.name = "model", .points = {}};
    for (std::size_t i = 0; i < x.size(); ++i) model.points.push_back({x[i], y[i]});
    return "<div class=\"charts\">\n" +
           charts_.add(
               {.id = "roc",
                .title = "ROC curve",
                .x = "share of '" + names_.at(0) + "' taken for '" + names_.at(1) + "'",
                .y = "share of '" + names_.at(1) + "' found",
                .says = "What is found at which price, for every threshold. The diagonal is a "
                        "guess; the area under the curve is the AUC.",
                .series = {std::move(model),
                           {.name = "guess", .points = {{0.0, 0.0}, {1.0, 1.0}}, .dashed = true}},
                .square = true}) +
           "</div>\n";
  }

  std::string confusion_table() const {
    const Json& matrix = list(evaluation_, "confusion", source_);
    if (matrix.empty()) return "";
    if (matrix.size() != names_.size())
      throw IoError(source_ + ": 'confusion' has another number of classes than 'per_class'");
    if (matrix.size() > kMostShownClasses) {
      return paragraph("The confusion of " + std::to_string(matrix.size()) +
                       " classes is too wide for a page; summary.json has it.");
    }
    std::vector<std::string> headings{"true class"};
    headings.insert(headings.end(), names_.begin(), names_.end());
    std::vector<bool> is_number(headings.size(), true);
    is_number[0] = false;
    HtmlTable table("Confusion: how many rows of each class were predicted as which class",
                    headings, is_number);
    for (std::size_t i = 0; i < matrix.size(); ++i) {
      if (!matrix[i].is_array() || matrix[i].size() != names_.size())
        throw IoError(source_ + ": 'confusion' is not a square of counts");
      std::vector<std::string> cells{names_[i]};
      for (const Json& count : matrix[i]) {
        if (!count.is_number())
          throw IoError(source_ + ": 'confusion' holds something that is not a count");
        cells.push_back(core::short_number(count.get<double>(), 15));
      }
      table.add(cells);
    }
    return table.html();
  }

  std::string class_table() const {
    if (names_.empty() || names_.size() > kMostShownClasses) return "";
    HtmlTable table("Of each class", {"class", "rows", "precision", "recall", "F1"},
                    {false, true, true, true, true});
    const Json& classes = list(evaluation_, "per_class", source_);
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const auto cell = [&](const char* key) {
        const auto value = number(classes[i], key, source_);
        return value ? core::short_number(*value, 6) : std::string("-");
      };
      table.add({names_[i], cell("rows"), cell("precision"), cell("recall"), cell("f1")});
    }
    return table.html();
  }

  const Json& evaluation_;
  const std::string source_;
  Charts& charts_;
  std::vector<std::string> names_;
};

}  // namespace

std::string evaluation_section(const Json& evaluation, const std::string& source, Charts& charts) {
  if (evaluation.empty()) return "";
  return EvaluationSection(evaluation, source, charts).html();
}

}  // namespace privgrad::report

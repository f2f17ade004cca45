#include "paper_table.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "chart.hpp"
#include "digits.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/statistics/paired_statistics.hpp"
#include "privgrad/value.hpp"
#include "study_record.hpp"

namespace privgrad::report {
namespace {

using core::short_number;

constexpr double kSignificance = 0.05;

struct Cell {
  std::optional<double> mean;
  std::optional<core::Interval> ends;
  std::vector<double> values;  ///< One per seed.
  bool is_best = false;
};

struct Table {
  std::string title;
  std::string stub;  ///< The heading of the first column.
  std::vector<std::string> columns, rows;
  std::vector<std::vector<Cell>> cells;  ///< [row][column]
};

/// Whether the best mean differs from every other mean, by paired tests over the seeds.
bool is_told_apart(const std::vector<const Cell*>& column, std::size_t best) {
  std::vector<std::optional<double>> p;
  for (std::size_t i = 0; i < column.size(); ++i) {
    if (i == best) continue;
    if (column[i]->values.size() != column[best]->values.size()) return false;
    std::vector<double> differences;
    for (std::size_t seed = 0; seed < column[i]->values.size(); ++seed)
      differences.push_back(column[best]->values[seed] - column[i]->values[seed]);
    p.push_back(core::compare_with_zero(differences).p);
  }
  const auto adjusted = core::holm(p);
  return !adjusted.empty() &&
         std::ranges::all_of(adjusted, [](const auto& one) { return one && *one < kSignificance; });
}

void mark_best(Table& table, std::size_t column, bool higher_is_better) {
  std::vector<const Cell*> cells;
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < table.cells.size(); ++row) {
    if (table.cells[row][column].values.empty()) continue;
    cells.push_back(&table.cells[row][column]);
    rows.push_back(row);
  }
  if (cells.empty()) return;
  const auto is_worse = [&](const Cell* a, const Cell* b) {
    return higher_is_better ? *a->mean < *b->mean : *b->mean < *a->mean;
  };
  const auto best =
      static_cast<std::size_t>(std::ranges::max_element(cells, is_worse) - cells.begin());
  if (is_told_apart(cells, best)) table.cells[rows[best]][column].is_best = true;
}

class Tables {
 public:
  explicit Tables(const StudyRecord& study) : study_(study) {}

  std::vector<Table> all() const {
    if (study_.has_levels()) return by_level();
    Table table{.title = study_.name(), .stub = "arm", .columns = {}, .rows = {}, .cells = {}};
    for (const std::string& metric : study_.metrics) table.columns.push_back(spoken(metric));
    for (const Arm& arm : study_.arms) {
      table.rows.push_back(arm.name);
      auto& row = table.cells.emplace_back();
      for (const std::string& metric : study_.metrics) row.push_back(cell(arm, metric));
    }
    for (std::size_t i = 0; i < study_.metrics.size(); ++i)
      mark_best(table, i, study_.better_is_higher(study_.metrics[i]));
    return {table};
  }

  std::string note() const {
    const core::StudyFacts& study = study_.study;
    const std::size_t seeds = study.seeds.size();
    const auto &epsilon = study.target_epsilon, &delta = study.target_delta;
    std::string words = "Mean and 95 % interval over " + std::to_string(seeds) +
                        (seeds == 1 ? " seed" : " seeds") + ". ";
    if (study.equal_privacy) {
      words += epsilon ? "Every arm with noise has epsilon at most " + core::short_bound(*epsilon)
                       : std::string("All arms with noise have one guarantee at each level");
      if (delta) words += (epsilon ? " at delta " : ", at delta ") + short_number(*delta, 6);
      words += " (" + study.adjacency.value_or("?") + ", per " + study.unit + ")";
    } else {
      words += "Arms are not at one guarantee";
    }
    return words + ". Bold: better than every other (paired t over seeds, Holm, 0.05).";
  }

 private:
  std::vector<Table> by_level() const {
    const auto& [keys, labels] = *study_.study.levels;
    const std::string level = keys.empty() ? "level" : study_.title_of(keys.front());
    std::vector<Table> tables;
    for (const std::string& metric : study_.metrics) {
      Table table{
          .title = spoken(metric), .stub = "method", .columns = {}, .rows = {}, .cells = {}};
      for (const std::string& label : labels)
        table.columns.push_back(std::string(level).append(" ").append(label));
      for (const Arm& arm : study_.arms) {
        const auto at = std::ranges::find(table.rows, arm.variant);
        const auto row = static_cast<std::size_t>(at - table.rows.begin());
        if (at == table.rows.end()) {
          table.rows.push_back(arm.variant);
          table.cells.emplace_back(labels.size());
        }
        const auto place = std::ranges::find(labels, arm.level.value_or(""));
        if (place != labels.end())
          table.cells[row][static_cast<std::size_t>(place - labels.begin())] = cell(arm, metric);
      }
      for (std::size_t i = 0; i < labels.size(); ++i)
        mark_best(table, i, study_.better_is_higher(metric));
      tables.push_back(std::move(table));
    }
    return tables;
  }

  Cell cell(const Arm& arm, const std::string& metric) const {
    const core::MeanFacts& found = study_.mean_of(arm, metric);
    Cell made{.mean = found.mean, .ends = found.ci95, .values = {}};
    // Arms without privacy, or with another arm's runs, do not compete for the best mean.
    if (!made.mean || arm.is_reference() || arm.same_as) return made;
    for (const auto& value : found.values)
      if (value) made.values.push_back(*value);
    return made;
  }

  const StudyRecord& study_;
};

std::string escaped_for(TableForm form, const std::string& words) {
  const std::string_view special = form == TableForm::latex ? "\\{}$&#_%^~" : "\\`*_[]<>|#!";
  std::string out;
  for (const char c : words) {
    const char safe = static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    if (special.find(safe) == special.npos) {
      out += safe;
    } else if (form == TableForm::latex && (safe == '\\' || safe == '^' || safe == '~')) {
      out += safe == '\\' ? "\\textbackslash{}" : safe == '^' ? "\\^{}" : "\\~{}";
    } else {
      out += {'\\', safe};
    }
  }
  return out;
}

std::string cell_text(const Cell& cell, TableForm form) {
  if (!cell.mean) return form == TableForm::latex ? "--" : "-";
  const std::string words =
      cell.ends ? with_interval(*cell.mean, *cell.ends) : short_number(*cell.mean, 4);
  const std::size_t space = words.find(' ');
  const std::string mean = words.substr(0, space);
  const std::string bold = form == TableForm::latex ? "\\textbf{" + mean + "}" : "**" + mean + "**";
  return (cell.is_best ? bold : mean) + (space == words.npos ? "" : words.substr(space));
}

std::string latex(const Table& table, const std::string& note) {
  const auto safe = [](const std::string& words) { return escaped_for(TableForm::latex, words); };
  std::string text = "% " + core::one_line(table.title, 200) + "\n\\begin{tabular}{l" +
                     std::string(table.columns.size(), 'r') + "}\n\\toprule\n" + safe(table.stub);
  for (const std::string& column : table.columns) text += " & " + safe(column);
  text += " \\\\\n\\midrule\n";
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    text += safe(table.rows[row]);
    for (const Cell& cell : table.cells[row]) text += " & " + cell_text(cell, TableForm::latex);
    text += " \\\\\n";
  }
  return text + "\\bottomrule\n\\end{tabular}\n\n\\medskip\\footnotesize " + safe(note) + "\n";
}

std::string markdown(const Table& table, const std::string& note) {
  const auto safe = [](const std::string& words) {
    return escaped_for(TableForm::markdown, words);
  };
  std::string text = "| " + safe(table.stub) + " |", rule = "\n|---|";
  for (const std::string& column : table.columns) {
    text += " " + safe(column) + " |";
    rule += "---:|";
  }
  text += rule + "\n";
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    text += "| " + safe(table.rows[row]) + " |";
    for (const Cell& cell : table.cells[row])
      text += " " + cell_text(cell, TableForm::markdown) + " |";
    text += "\n";
  }
  return "**" + safe(table.title) + "**\n\n" + text + "\n" + safe(note) + "\n";
}

std::string csv(const std::vector<Table>& tables) {
  std::string text = "table,row,column,mean,low,high,best\n";
  for (const Table& table : tables) {
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      for (std::size_t column = 0; column < table.columns.size(); ++column) {
        const Cell& cell = table.cells[row][column];
        text += csv_text(table.title) + "," + csv_text(table.rows[row]) + "," +
                csv_text(table.columns[column]) + "," +
                (cell.mean ? format_number(*cell.mean) : "") + "," +
                (cell.ends ? format_number((*cell.ends)[0]) : "") + "," +
                (cell.ends ? format_number((*cell.ends)[1]) : "") + "," +
                (cell.is_best ? "true" : "false") + "\n";
      }
    }
  }
  return text;
}

}  // namespace

std::string paper_table(const std::filesystem::path& directory, TableForm form) {
  const StudyRecord study(directory);
  if (!study.has_results)
    throw ConfigError(directory.string() + ": the study is not finished; ablate continues it");
  const Tables tables(study);
  if (form == TableForm::csv) return csv(tables.all());
  std::string text;
  for (const Table& table : tables.all()) {
    if (!text.empty()) text += "\n";
    text += form == TableForm::latex ? latex(table, tables.note()) : markdown(table, tables.note());
  }
  return text;
}

}  // namespace privgrad::report

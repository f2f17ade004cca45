#include "privgrad/studies/study.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "known_metrics.hpp"
#include "privgrad/manifest/manifest_names.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/names.hpp"
#include "privgrad/statistics/paired_statistics.hpp"
#include "privgrad/studies/study_search.hpp"
#include "study_arms.hpp"
#include "study_axes.hpp"
#include "study_form.hpp"
#include "study_values.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;

/// The kind of a component, in any notation; "" for any other value.
std::string kind_in(const Value& value) {
  const Value* kind = value.find("kind");
  const auto* text = std::get_if<std::string>(kind == nullptr ? &value.data() : &kind->data());
  return text == nullptr ? "" : *text;
}

const std::string& text_of(const Value& node) { return std::get<std::string>(node.data()); }

/// Reads a study whose values all have the form of study_form().
class StudyReader {
 public:
  StudyReader(const Value& root, const fs::path& file, ManifestProblems& problems)
      : root_(root), file_(file), file_text_(one_line(file.string(), 4096)), problems_(problems) {}

  Study read() {
    Study study;
    study.file = file_;
    study.source = root_;
    study.name = default_name(file_);
    if (const Value* name = root_.find("name")) read_name(*name, study);
    read_base(*root_.find("base"), study);
    if (const Value* set = root_.find("set")) study.sets = changes_in(*set, file_text_);
    const StudyAxes axes = read_axes(root_, problems_);
    study.arms = make_arms(root_, file_text_, axes, problems_);
    study.baselines = find_baselines(root_, axes, study.arms, problems_);
    read_seeds(*root_.find("seeds"), study);
    if (const Value* search = root_.find("search")) read_search(*search, axes, study);
    study.axes = axes.axes;
    if (axes.has_levels) {
      study.levels = study.axes.front();
      study.axes.erase(study.axes.begin());
    }
    if (const Value* titles = root_.find("titles")) read_titles(*titles, study);
    if (const Value* curves = root_.find("curves")) read_curves(*curves, study);
    read_metrics(study);
    if (const Value* margins = root_.find("equivalence")) study.equivalence = amounts(*margins);
    check_compared(study, study.equivalence, "equivalence");
    if (study.seed_rule) check_compared(study, study.seed_rule->widths, "seeds.until");
    study.equal_privacy = is_true("equal_privacy", true);
    study.training_data_is_public = is_true("training_data_is_public", false);
    return study;
  }

 private:
  void read_name(const Value& node, Study& study) {
    study.name = text_of(node);
    if (is_name(study.name)) return;
    problems_.add(node.mark, "name",
                  "is " + in_quotes(study.name) +
                      ", allowed are letters, digits, '.', '_' and '-', at most 64, beginning with "
                      "a letter or a digit");
  }

  void read_base(const Value& node, Study& study) {
    const auto* text = std::get_if<std::string>(&node.data());
    if (text == nullptr) {
      study.base = node;
      return;
    }
    study.base_file = file_.parent_path() / *text;
    std::error_code error;
    if (text->empty()) {
      problems_.add(node.mark, "base", "is an empty text, expected a manifest or its file's name");
    } else if (!fs::exists(study.base_file, error)) {
      problems_.add(node.mark, "base",
                    "there is no file '" + one_line(study.base_file.string(), 4096) + "'",
                    Fault::missing_file);
    }
  }

  void read_titles(const Value& node, Study& study) {
    std::vector<std::string> varied;
    for (const Axis& axis : varied_axes(study))
      varied.insert(varied.end(), axis.keys.begin(), axis.keys.end());
    for (const Value::Member& member : *members_of(node)) {
      const std::string where = "titles." + member.key;
      const std::string& text = study.titles[member.key] = text_of(member.value);
      if (std::ranges::find(varied, member.key) == varied.end())
        problems_.add(member.key_mark, where,
                      "is not varied by this study" + did_you_mean(member.key, varied));
      if (text.empty() || text != one_line(text, 80))
        problems_.add(member.value.mark, where, "is not a line of at most 80 characters");
    }
  }

  void read_curves(const Value& node, Study& study) {
    const std::vector<std::string> variants = variants_of(study);
    for (const Value& item : *items_of(node)) {
      study.curves.push_back(text_of(item));
      if (std::ranges::find(variants, text_of(item)) == variants.end())
        problems_.add(
            item.mark, "curves",
            in_quotes(text_of(item)) + " is not an arm" + did_you_mean(text_of(item), variants));
    }
  }

  static std::vector<std::string> variants_of(const Study& study) {
    std::vector<std::string> variants;
    for (const Arm& arm : study.arms) variants.push_back(arm.variant);
    return variants;
  }

  void read_seeds(const Value& node, Study& study) {
    if (const auto* count = std::get_if<std::int64_t>(&node.data())) {
      study.seeds = first_seeds(static_cast<std::size_t>(*count));
    } else if (items_of(node) != nullptr) {
      study.seeds = listed_seeds(node);
    } else {
      SeedRule rule;
      rule.widths = amounts(*node.find("until"));
      if (const Value* least = node.find("at_least")) rule.at_least = whole(*least);
      rule.at_most = whole(*node.find("at_most"));
      if (rule.at_least > rule.at_most)
        problems_.add(node.mark, "seeds", "has an at_least that is more than at_most");
      study.seeds = first_seeds(rule.at_least);
      study.seed_rule = std::move(rule);
    }
  }

  void read_search(const Value& node, const StudyAxes& varied, Study& study) {
    StudySearch search{
        .over = {}, .of_variant = {}, .seeds = {}, .score = known_metrics().front(), .sets = {}};
    if (const Value* over = node.find("over"))
      search.over = read_search_axes(*over, "search.over", varied.axes, problems_);
    if (const Value* arms = node.find("arms")) read_search_arms(*arms, varied, study, search);
    if (const Value* score = node.find("score")) search.score = metric_of(*score);
    read_search_seeds(*node.find("seeds"), study, search);
    if (const Value* set = node.find("set")) {
      search.sets = changes_in(*set, file_text_);
      for (const ManifestChange& change : search.sets) {
        if (is_within(change.key, "privacy"))
          problems_.add(set->mark, "search.set", "changes the guarantee of the arms");
      }
    }
    check_search(node, study, search);
    if (search.over.empty() && search.of_variant.empty())
      problems_.add(node.mark, "search", "lacks over or arms: what is searched");
    std::size_t arms = 0;
    for (const Arm& arm : study.arms) arms += candidate_count(search, arm.variant);
    if (arms > kMaxArms) {
      problems_.add(node.mark, "search",
                    "has more candidates of all arms than " + std::to_string(kMaxArms));
    }
    study.search = std::move(search);
  }

  /// A search finds an arm's hyper-parameters. It must not turn the arm into a different arm, and
  /// changes that only the search makes must not replace a setting that the study compares.
  void check_search(const Value& node, const Study& study, const StudySearch& search) {
    for (const Arm& arm : study.arms) {
      for (const ManifestChange& own : arm.changes) {
        for (const Axis& axis : search.over) check_kept(node, "search.over.", axis, arm, own, true);
        const auto refined = search.of_variant.find(arm.variant);
        if (refined == search.of_variant.end()) continue;
        for (const Axis& axis : refined->second)
          check_kept(node, "search.arms." + arm.variant + ".", axis, arm, own, false);
      }
    }
    std::set<std::string> compared;
    for (const Arm& arm : study.arms) {
      for (const ManifestChange& own : arm.changes) compared.insert(own.key);
    }
    for (const Axis& axis : searched_axes(search))
      compared.insert(axis.keys.begin(), axis.keys.end());
    for (const ManifestChange& change : search.sets) {
      for (const std::string& key : compared) {
        if (!is_within(key, change.key) && !is_within(change.key, key)) continue;
        problems_.add(node.mark, "search.set." + change.key,
                      "sets " + in_quotes(key) + ", which is compared or searched");
        break;
      }
    }
  }

  /// An axis of a search must not override an arm's settings; under search.arms, it may vary the
  /// parameters of a component that the arm sets.
  void check_kept(const Value& node, const std::string& where, const Axis& axis, const Arm& arm,
                  const ManifestChange& own, bool is_for_all) {
    const std::string& key = axis.keys.front();
    if (!is_within(own.key, key)) return;
    const auto refuse = [&](const std::string& why) {
      problems_.add(node.mark, where + key, "replaces what the arm " + arm.name + " sets" + why);
    };
    if (is_for_all) return refuse("; search it for single arms, under search.arms");
    if (own.key != key) return refuse(" at " + in_quotes(own.key));
    for (const AxisValue& value : axis.values) {
      const std::string kind = kind_in(own.value);
      if (kind.empty() || kind_in(value.values.front()) != kind)
        return refuse(kind.empty() ? "" : ", which is a component of another kind");
    }
  }

  /// Reads {VARIANT: {KEY: [VALUE, ...]}}, which may refine settings that the variant has from the
  /// axes.
  void read_search_arms(const Value& node, const StudyAxes& varied, const Study& study,
                        StudySearch& search) {
    std::vector<Axis> taken = search.over;
    if (varied.has_levels) taken.push_back(varied.axes.front());
    const std::vector<std::string> variants = variants_of(study);
    for (const Value::Member& member : *members_of(node)) {
      const std::string where = "search.arms." + member.key;
      if (std::ranges::find(variants, member.key) == variants.end()) {
        problems_.add(member.key_mark, where, "is not an arm" + did_you_mean(member.key, variants));
        continue;
      }
      search.of_variant[member.key] = read_search_axes(member.value, where, taken, problems_);
    }
  }

  /// Refuses seeds that the comparison may use, because the comparison must be independent of the
  /// choices.
  void read_search_seeds(const Value& node, const Study& study, StudySearch& search) {
    search.seeds = listed_seeds(node);
    for (const std::uint64_t seed : search.seeds) {
      const bool is_of_rule = study.seed_rule && seed >= 1 && seed <= study.seed_rule->at_most;
      if (!is_of_rule && std::ranges::find(study.seeds, seed) == study.seeds.end()) continue;
      problems_.add(node.mark, "search.seeds",
                    "has " + std::to_string(seed) + ", which the comparison uses; take others");
    }
  }

  /// Checks that margins and widths belong to metrics that are compared.
  void check_compared(const Study& study, const std::map<std::string, double>& amounts,
                      const std::string& where) {
    for (const auto& [name, amount] : amounts) {
      const auto is_it = [&, &metric = name](const StudyMetric& known) {
        return known.name == metric;
      };
      if (std::ranges::any_of(study.metrics, is_it)) continue;
      problems_.add(root_.find(where.substr(0, where.find('.')))->mark,
                    std::string(where).append(".").append(name),
                    "is not one of the study's metrics");
    }
  }

  void read_metrics(Study& study) {
    const Value* node = root_.find("metrics");
    if (node == nullptr) {
      study.metrics.push_back(known_metrics().front());
    } else if (const auto* items = items_of(*node)) {
      for (const Value& item : *items) study.metrics.push_back(metric_of(item));
    } else {
      study.metrics.push_back(metric_of(*node));
    }
  }

  static const StudyMetric& metric_of(const Value& node) {
    const auto is_it = [&](const StudyMetric& metric) { return metric.name == text_of(node); };
    return *std::ranges::find_if(known_metrics(), is_it);
  }

  static std::size_t whole(const Value& node) {
    return static_cast<std::size_t>(std::get<std::int64_t>(node.data()));
  }

  static std::vector<std::uint64_t> listed_seeds(const Value& node) {
    std::vector<std::uint64_t> seeds;
    for (const Value& item : *items_of(node)) seeds.push_back(whole(item));
    return seeds;
  }

  static std::map<std::string, double> amounts(const Value& node) {
    std::map<std::string, double> amounts;
    for (const Value::Member& member : *members_of(node)) {
      const auto* count = std::get_if<std::int64_t>(&member.value.data());
      amounts[member.key] =
          count != nullptr ? static_cast<double>(*count) : std::get<double>(member.value.data());
    }
    return amounts;
  }

  bool is_true(const char* key, bool otherwise) const {
    const Value* node = root_.find(key);
    return node == nullptr ? otherwise : std::get<bool>(node->data());
  }

  const Value& root_;
  const fs::path& file_;
  std::string file_text_;
  ManifestProblems& problems_;
};

/// Checks the version first: other versions have other keys, so no other check makes sense.
void check_version(const Value& root, ManifestProblems& problems) {
  if (members_of(root) == nullptr) {
    problems.add(root.mark, "",
                 "the study is " + std::string(root.type_name()) +
                     ", expected an object with keys such as base and axes");
  }
  const Value* version = root.find("study");
  if (const Value* manifest = root.find("privgrad"); version == nullptr && manifest != nullptr) {
    problems.add(manifest->mark, "privgrad",
                 "begins a manifest, which `privgrad run` runs, where a study is expected; that "
                 "begins with study: 1");
  }
  const auto* number = version == nullptr ? nullptr : std::get_if<std::int64_t>(&version->data());
  if (number != nullptr && *number != 1) {
    problems.add(version->mark, "study",
                 "is " + std::to_string(*number) +
                     ", a version of studies that this program does not know; it reads 1");
  }
  problems.throw_if_any();
}

}  // namespace

const std::vector<StudyMetric>& known_metrics() {
  static const std::vector<StudyMetric> metrics{
      {"test_accuracy", true}, {"test_loss", false},     {"train_accuracy", true},
      {"train_loss", false},   {"gradient_norm", false}, {"mean_gradient_norm", false}};
  return metrics;
}

std::size_t looks_of(const Study& study) {
  if (!study.seed_rule) return 1;
  return looks_between(study.seed_rule->at_least, study.seed_rule->at_most).size();
}

std::vector<std::uint64_t> first_seeds(std::size_t count) {
  std::vector<std::uint64_t> seeds(count);
  std::iota(seeds.begin(), seeds.end(), std::uint64_t{1});
  return seeds;
}

std::vector<Axis> varied_axes(const Study& study) {
  std::vector<Axis> all = study.axes;
  if (study.levels) all.insert(all.begin(), *study.levels);
  return all;
}

Study read_study(const fs::path& file) { return parse_study(read_yaml_file(file), file); }

Study parse_study(std::string_view text, const fs::path& file) {
  ManifestProblems problems(one_line(file.string(), 4096));
  std::vector<Problem> found;
  const std::optional<Value> root = parse_yaml(text, found);
  problems.add_yaml(found);
  if (!root) problems.throw_if_any();
  check_version(*root, problems);
  check_form(*root, problems);
  problems.throw_if_any();
  Study study = StudyReader(*root, file, problems).read();
  problems.throw_if_any();
  return study;
}

}  // namespace privgrad::core

#include "privgrad/studies/study.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "known_metrics.hpp"
#include "privgrad/manifest/manifest_names.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "privgrad/statistics/paired_statistics.hpp"
#include "privgrad/studies/study_search.hpp"
#include "study_arms.hpp"
#include "study_axes.hpp"
#include "study_labels.hpp"
#include "study_values.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;

constexpr std::array kKeys{
    "study",    "name",   "base",        "set",    "levels",        "axes",
    "zip",      "arms",   "skip",        "only",   "seeds",         "metrics",
    "baseline", "titles", "equivalence", "search", "equal_privacy", "training_data_is_public"};

/// The kind of a component, however it is written; "" of any other value.
std::string kind_in(const Value& value) {
  const Value* kind = value.find("kind");
  const auto* text = std::get_if<std::string>(kind == nullptr ? &value.data() : &kind->data());
  return text == nullptr ? "" : *text;
}

std::string is_a(const Value& node) { return "is " + std::string(node.type_name()); }

class StudyReader {
 public:
  StudyReader(const Value& root, const fs::path& file, ManifestProblems& problems)
      : root_(root), file_(file), file_text_(one_line(file.string(), 4096)), problems_(problems) {}

  Study read() {
    Study study;
    study.file = file_;
    study.source = root_;
    if (!std::holds_alternative<Value::Object>(root_.data())) {
      problems_.add(root_.mark, "",
                    "the study " + is_a(root_) +
                        ", expected an object with keys such as base and "
                        "axes");
      return study;
    }
    if (!check_version()) return study;
    check_unknown();
    read_name(study);
    read_base(study);
    if (const Value* set = root_.find("set")) {
      study.sets = read_changes(*set, "set", file_text_, problems_);
    }
    const StudyAxes axes = read_axes(root_, problems_);
    study.arms = make_arms(root_, file_text_, axes, problems_);
    study.baselines = find_baselines(root_, axes, study.arms, problems_);
    read_seeds(study);
    if (const Value* search = root_.find("search")) read_search(*search, axes, study);
    study.axes = axes.axes;
    if (axes.has_levels) {
      study.levels = study.axes.front();
      study.axes.erase(study.axes.begin());
    }
    read_titles(study);
    read_metrics(study);
    read_equivalence(study);
    study.equal_privacy = boolean("equal_privacy", true);
    study.training_data_is_public = boolean("training_data_is_public", false);
    return study;
  }

 private:
  bool check_version() {
    const Value* version = root_.find("study");
    if (const Value* manifest = root_.find("privgrad"); version == nullptr && manifest != nullptr) {
      problems_.add(manifest->mark, "privgrad",
                    "begins a manifest, which `privgrad run` runs, where a study is expected; that "
                    "begins with study: 1");
      return false;
    }
    if (version == nullptr) {
      problems_.add(root_.mark, "study", "is missing; it is the version of studies, write 1");
      return true;
    }
    const auto* number = std::get_if<std::int64_t>(&version->data());
    if (number != nullptr && *number == 1) return true;
    problems_.add(version->mark, "study",
                  (number != nullptr ? "is " + std::to_string(*number) : is_a(*version)) +
                      ", a version of studies that this program does not know; it reads 1");
    return false;
  }

  void check_unknown() {
    const std::vector<std::string> known(kKeys.begin(), kKeys.end());
    std::string all;
    for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
    for (const Value::Member& member : std::get<Value::Object>(root_.data())) {
      if (std::find(known.begin(), known.end(), member.key) != known.end()) continue;
      const std::string nearest = nearest_name(member.key, known);
      problems_.add(member.key_mark, member.key,
                    "is unknown" + (nearest.empty() ? "; there are " + all
                                                    : "; did you mean '" + nearest + "'?"));
    }
  }

  void read_name(Study& study) {
    study.name = default_name(file_);
    const Value* node = root_.find("name");
    if (node == nullptr) return;
    const auto* text = std::get_if<std::string>(&node->data());
    if (text != nullptr && is_name(*text)) {
      study.name = *text;
      return;
    }
    problems_.add(node->mark, "name",
                  (text == nullptr ? is_a(*node) : "is '" + one_line(*text, 80) + "'") +
                      ", allowed are letters, digits, '.', '_' and '-', at most 64, beginning with "
                      "a letter or a digit");
  }

  void read_base(Study& study) {
    const Value* node = root_.find("base");
    if (node == nullptr) {
      problems_.add(root_.mark, "base",
                    "is missing; it is the manifest that the arms vary: a file's name, or the "
                    "manifest itself");
      return;
    }
    if (const auto* text = std::get_if<std::string>(&node->data()); text && !text->empty()) {
      study.base_file = file_.parent_path() / *text;
      std::error_code error;
      if (!fs::exists(study.base_file, error)) {
        problems_.add(node->mark, "base",
                      "there is no file '" + one_line(study.base_file.string(), 4096) + "'",
                      Fault::missing_file);
      }
      return;
    }
    study.base = *node;
    if (std::holds_alternative<Value::Object>(node->data())) return;
    problems_.add(node->mark, "base", is_a(*node) + ", expected a manifest or its file's name");
  }

  void read_titles(Study& study) {
    const Value* node = root_.find("titles");
    if (node == nullptr) return;
    const auto* members = std::get_if<Value::Object>(&node->data());
    if (members == nullptr) {
      problems_.add(node->mark, "titles", is_a(*node) + ", expected an object of {KEY: TEXT}");
      return;
    }
    std::vector<std::string> varied;
    for (const Axis& axis : varied_axes(study))
      varied.insert(varied.end(), axis.keys.begin(), axis.keys.end());
    for (const Value::Member& member : *members) {
      const std::string where = "titles." + member.key;
      if (std::find(varied.begin(), varied.end(), member.key) == varied.end()) {
        const std::string nearest = nearest_name(member.key, varied);
        problems_.add(member.key_mark, where,
                      "is not varied by this study" +
                          (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
        continue;
      }
      const auto* text = std::get_if<std::string>(&member.value.data());
      if (text != nullptr && !text->empty() && *text == one_line(*text, 80)) {
        study.titles[member.key] = *text;
      } else {
        problems_.add(member.value.mark, where, "is not a line of at most 80 characters");
      }
    }
  }

  void read_seeds(Study& study) {
    const Value* node = root_.find("seeds");
    if (node == nullptr) {
      problems_.add(root_.mark, "seeds",
                    "is missing; it is how often each arm is run, or a list of seeds");
      return;
    }
    if (const auto* count = std::get_if<std::int64_t>(&node->data())) {
      if (*count < 1 || *count > static_cast<std::int64_t>(kMaxSeeds)) {
        problems_.add(
            node->mark, "seeds",
            "is " + std::to_string(*count) + ", allowed is 1 to " + std::to_string(kMaxSeeds));
        return;
      }
      study.seeds = first_seeds(static_cast<std::size_t>(*count));
      return;
    }
    if (std::holds_alternative<Value::Object>(node->data())) return read_seed_rule(*node, study);
    const auto* items = std::get_if<Value::List>(&node->data());
    if (items == nullptr || items->empty() || items->size() > kMaxSeeds) {
      problems_.add(
          node->mark, "seeds",
          (items == nullptr ? is_a(*node) : "has " + std::to_string(items->size()) + " elements") +
              ", expected a number, a list of 1 to " + std::to_string(kMaxSeeds) +
              " seeds, or {until: {METRIC: WIDTH}, at_least: 5, at_most: 40}");
      return;
    }
    for (const Value& item : *items) read_seed(item, study);
  }

  /// {over: {KEY: [VALUE, ...]}, seeds: [...], score: METRIC, set: {KEY: VALUE}}.
  void read_search(const Value& node, const StudyAxes& varied, Study& study) {
    const auto* members = std::get_if<Value::Object>(&node.data());
    if (members == nullptr) {
      problems_.add(node.mark, "search", is_a(node) + ", expected an object with over and seeds");
      return;
    }
    StudySearch search{
        .over = {}, .of_variant = {}, .seeds = {}, .score = known_metrics().front(), .sets = {}};
    for (const Value::Member& member : *members) {
      const std::string where = "search." + member.key;
      if (member.key == "over") {
        search.over = read_search_axes(member.value, where, varied.axes, problems_);
      } else if (member.key == "arms") {
        continue;  // Once it is known what is searched for all.
      } else if (member.key == "set") {
        search.sets = read_changes(member.value, where, file_text_, problems_);
        for (const ManifestChange& change : search.sets) {
          if (change.key == "privacy" || change.key.starts_with("privacy."))
            problems_.add(member.value.mark, where, "changes the guarantee of the arms");
        }
      } else if (member.key == "score") {
        if (const auto metric = metric_of(member.value, where)) search.score = *metric;
      } else if (member.key == "seeds") {
        read_search_seeds(member.value, study, search);
      } else {
        problems_.add(member.key_mark, where,
                      "is unknown; there are over, arms, seeds, score, set");
      }
    }
    if (const Value* own = node.find("arms")) read_search_arms(*own, varied, study, search);
    check_search(node, study, search);
    if (search.over.empty() && search.of_variant.empty())
      problems_.add(node.mark, "search", "lacks over or arms: what is searched");
    if (node.find("seeds") == nullptr) problems_.add(node.mark, "search.seeds", "is missing");
    std::size_t arms = 0;
    for (const Arm& arm : study.arms) arms += candidate_count(search, arm.variant);
    if (arms > kMaxArms) {
      problems_.add(node.mark, "search",
                    "has more candidates of all arms than " + std::to_string(kMaxArms));
    }
    study.search = std::move(search);
  }

  /// A search finds an arm's hyper-parameters: it must not make another arm of it, nor may what is
  /// set for the search alone stand in for what is compared.
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

  /// An axis of a search may not undo what an arm sets.
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

  /// {VARIANT: {KEY: [VALUE, ...]}}: may refine what the variant's own place on the axes sets.
  void read_search_arms(const Value& node, const StudyAxes& varied, const Study& study,
                        StudySearch& search) {
    const auto* members = std::get_if<Value::Object>(&node.data());
    if (members == nullptr) {
      problems_.add(node.mark, "search.arms", is_a(node) + ", expected {ARM: {KEY: [VALUE, ...]}}");
      return;
    }
    std::vector<Axis> taken = search.over;
    if (varied.has_levels) taken.push_back(varied.axes.front());
    std::vector<std::string> variants;
    for (const Arm& arm : study.arms) variants.push_back(arm.variant);
    for (const Value::Member& member : *members) {
      const std::string where = "search.arms." + member.key;
      if (std::find(variants.begin(), variants.end(), member.key) == variants.end()) {
        const std::string nearest = nearest_name(member.key, variants);
        problems_.add(
            member.key_mark, where,
            "is not an arm" + (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
        continue;
      }
      search.of_variant[member.key] = read_search_axes(member.value, where, taken, problems_);
    }
  }

  /// Seeds that the comparison may come to use are refused: what was chosen by them is not new.
  void read_search_seeds(const Value& node, const Study& study, StudySearch& search) {
    const auto* items = std::get_if<Value::List>(&node.data());
    if (items == nullptr || items->empty() || items->size() > kMaxSeeds) {
      problems_.add(node.mark, "search.seeds", "is not a list of seeds, such as [101, 102, 103]");
      return;
    }
    Study used;
    for (const Value& item : *items) read_seed(item, used);
    for (const std::uint64_t seed : used.seeds) {
      const bool is_of_rule = study.seed_rule && seed >= 1 && seed <= study.seed_rule->at_most;
      if (is_of_rule ||
          std::find(study.seeds.begin(), study.seeds.end(), seed) != study.seeds.end()) {
        problems_.add(node.mark, "search.seeds",
                      "has " + std::to_string(seed) + ", which the comparison uses; take others");
      }
    }
    search.seeds = std::move(used.seeds);
  }

  void read_seed(const Value& item, Study& study) {
    const auto* number = std::get_if<std::int64_t>(&item.data());
    if (number == nullptr || *number < 0) {
      problems_.add(item.mark, "seeds", "has an element that is not an integer of at least 0");
      return;
    }
    const auto seed = static_cast<std::uint64_t>(*number);
    if (std::find(study.seeds.begin(), study.seeds.end(), seed) != study.seeds.end()) {
      problems_.add(item.mark, "seeds",
                    "has " + std::to_string(seed) +
                        " twice; the same seed gives the same run and no new evidence");
      return;
    }
    study.seeds.push_back(seed);
  }

  /// {until: {METRIC: WIDTH}, at_least: N, at_most: M}.
  void read_seed_rule(const Value& node, Study& study) {
    SeedRule rule;
    bool has_most = false;
    for (const Value::Member& member : std::get<Value::Object>(node.data())) {
      const std::string where = "seeds." + member.key;
      if (member.key == "until") {
        rule.widths = read_amounts(member.value, where);
      } else if (member.key == "at_least" || member.key == "at_most") {
        has_most = has_most || member.key == "at_most";
        const auto* count = std::get_if<std::int64_t>(&member.value.data());
        const bool fits =
            count != nullptr && *count >= 2 && *count <= static_cast<std::int64_t>(kMaxSeeds);
        if (!fits) {
          problems_.add(member.value.mark, where,
                        "is not an integer of 2 to " + std::to_string(kMaxSeeds));
          continue;
        }
        (member.key == "at_least" ? rule.at_least : rule.at_most) =
            static_cast<std::size_t>(*count);
      } else {
        problems_.add(member.key_mark, where, "is unknown; there are until, at_least, at_most");
      }
    }
    if (node.find("until") == nullptr || !has_most) {
      problems_.add(node.mark, "seeds", "lacks until or at_most: when to stop, at the latest");
    } else if (rule.at_least > rule.at_most) {
      problems_.add(node.mark, "seeds", "has an at_least that is more than at_most");
    }
    study.seeds = first_seeds(rule.at_least);
    study.seed_rule = std::move(rule);
  }

  /// {METRIC: NUMBER > 0}.
  std::map<std::string, double> read_amounts(const Value& node, const std::string& where) {
    std::map<std::string, double> amounts;
    const auto* members = std::get_if<Value::Object>(&node.data());
    if (members == nullptr || members->empty()) {
      problems_.add(node.mark, where, "is not an object such as {test_accuracy: 0.01}");
      return amounts;
    }
    for (const Value::Member& member : *members) {
      const auto* real = std::get_if<double>(&member.value.data());
      const auto* whole = std::get_if<std::int64_t>(&member.value.data());
      const double amount = real != nullptr    ? *real
                            : whole != nullptr ? static_cast<double>(*whole)
                                               : 0.0;
      if (amount > 0.0 && std::isfinite(amount)) {
        amounts[member.key] = amount;
      } else {
        problems_.add(member.value.mark, where + "." + member.key, "is not a number above 0");
      }
    }
    return amounts;
  }

  void read_equivalence(Study& study) {
    if (const Value* node = root_.find("equivalence"))
      study.equivalence = read_amounts(*node, "equivalence");
    check_compared(study, study.equivalence, "equivalence");
    if (study.seed_rule) check_compared(study, study.seed_rule->widths, "seeds.until");
  }

  /// What is said of metrics is said of those that are compared.
  void check_compared(const Study& study, const std::map<std::string, double>& amounts,
                      const std::string& where) {
    for (const auto& [name, amount] : amounts) {
      const auto is_it = [&, &metric = name](const StudyMetric& known) {
        return known.name == metric;
      };
      if (std::any_of(study.metrics.begin(), study.metrics.end(), is_it)) continue;
      problems_.add(root_.find(where.substr(0, where.find('.')))->mark,
                    std::string(where).append(".").append(name),
                    "is not one of the study's metrics");
    }
  }

  void read_metrics(Study& study) {
    const Value* node = root_.find("metrics");
    if (node == nullptr) {
      study.metrics.push_back(known_metrics().front());
      return;
    }
    Value::List items;
    if (const auto* list = std::get_if<Value::List>(&node->data())) {
      items = *list;
    } else {
      items.push_back(*node);
    }
    if (items.empty()) problems_.add(node->mark, "metrics", "is empty, expected at least one name");
    for (const Value& item : items) read_metric(item, study);
  }

  void read_metric(const Value& item, Study& study) {
    const auto found = metric_of(item, "metrics");
    if (!found) return;
    const auto is_it = [&](const StudyMetric& metric) { return metric.name == found->name; };
    if (std::any_of(study.metrics.begin(), study.metrics.end(), is_it)) {
      problems_.add(item.mark, "metrics", "has '" + found->name + "' twice");
    } else {
      study.metrics.push_back(*found);
    }
  }

  /// \returns nothing if it is no metric, which has been reported then.
  std::optional<StudyMetric> metric_of(const Value& item, const std::string& where) {
    const auto* text = std::get_if<std::string>(&item.data());
    const auto is_it = [&](const StudyMetric& metric) { return text && metric.name == *text; };
    const auto& known = known_metrics();
    const auto found = std::find_if(known.begin(), known.end(), is_it);
    if (found != known.end()) return *found;
    std::vector<std::string> names;
    names.reserve(known.size());
    for (const StudyMetric& metric : known) names.push_back(metric.name);
    const std::string nearest = text ? nearest_name(*text, names) : "";
    problems_.add(item.mark, where,
                  (text ? "has '" + one_line(*text, 80) + "', which no run measures"
                        : "has an element that is not text") +
                      (nearest.empty() ? "; there are test_accuracy, test_loss, train_accuracy, "
                                         "train_loss, gradient_norm, mean_gradient_norm"
                                       : "; did you mean '" + nearest + "'?"));
    return std::nullopt;
  }

  bool boolean(const char* key, bool otherwise) {
    const Value* node = root_.find(key);
    if (node == nullptr) return otherwise;
    if (const auto* given = std::get_if<bool>(&node->data())) return *given;
    problems_.add(node->mark, key, is_a(*node) + ", expected true or false");
    return otherwise;
  }

  const Value& root_;
  const fs::path& file_;
  std::string file_text_;
  ManifestProblems& problems_;
};

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
  Study study = StudyReader(*root, file, problems).read();
  problems.throw_if_any();
  return study;
}

}  // namespace privgrad::core

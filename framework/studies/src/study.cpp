#include "privgrad/studies/study.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "known_metrics.hpp"
#include "privgrad/manifest/manifest_names.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/manifest/yaml.hpp"
#include "study_axes.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;

constexpr std::array kKeys{
    "study", "name", "base",  "set",     "axes",     "zip",           "arms",
    "skip",  "only", "seeds", "metrics", "baseline", "equal_privacy", "training_data_is_public"};

std::string is_a(const Value& node) { return "is " + std::string(node.type_name()); }

class StudyReader {
 public:
  StudyReader(const Value& root, const fs::path& file, ManifestProblems& problems)
      : root_(root), file_(file), file_text_(one_line(file.string(), 4096)), problems_(problems) {}

  Study read() {
    Study study;
    study.file = file_;
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
    study.baseline = find_baseline(root_, axes, study.arms, problems_);
    study.axes = axes.axes;
    read_seeds(study);
    read_metrics(study);
    study.equal_privacy = boolean("equal_privacy", true);
    study.training_data_is_public = boolean("training_data_is_public", false);
    return study;
  }

 private:
  bool check_version() {
    const Value* version = root_.find("study");
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
      for (std::int64_t seed = 1; seed <= *count; ++seed) {
        study.seeds.push_back(static_cast<std::uint64_t>(seed));
      }
      return;
    }
    const auto* items = std::get_if<Value::List>(&node->data());
    if (items == nullptr || items->empty() || items->size() > kMaxSeeds) {
      problems_.add(
          node->mark, "seeds",
          (items == nullptr ? is_a(*node) : "has " + std::to_string(items->size()) + " elements") +
              ", expected a number or a list of 1 to " + std::to_string(kMaxSeeds) + " seeds");
      return;
    }
    for (const Value& item : *items) read_seed(item, study);
  }

  void read_seed(const Value& item, Study& study) {
    const auto* number = std::get_if<std::int64_t>(&item.data());
    if (number == nullptr || *number < 0) {
      problems_.add(item.mark, "seeds", "has an element that is no integer of at least 0");
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
    const auto* text = std::get_if<std::string>(&item.data());
    const auto is_it = [&](const StudyMetric& metric) { return text && metric.name == *text; };
    const auto& known = known_metrics();
    const auto found = std::find_if(known.begin(), known.end(), is_it);
    if (found == known.end()) {
      std::vector<std::string> names;
      names.reserve(known.size());
      for (const StudyMetric& metric : known) names.push_back(metric.name);
      const std::string nearest = text ? nearest_name(*text, names) : "";
      problems_.add(item.mark, "metrics",
                    (text ? "has '" + one_line(*text, 80) + "', which no run measures"
                          : "has an element that is no text") +
                        (nearest.empty() ? "; there are test_accuracy, test_loss, train_accuracy, "
                                           "train_loss, gradient_norm"
                                         : "; did you mean '" + nearest + "'?"));
    } else if (std::any_of(study.metrics.begin(), study.metrics.end(), is_it)) {
      problems_.add(item.mark, "metrics", "has '" + *text + "' twice");
    } else {
      study.metrics.push_back(*found);
    }
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
  static const std::vector<StudyMetric> metrics{{"test_accuracy", true},
                                                {"test_loss", false},
                                                {"train_accuracy", true},
                                                {"train_loss", false},
                                                {"gradient_norm", false}};
  return metrics;
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

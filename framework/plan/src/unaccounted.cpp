#include "unaccounted.hpp"

#include <cstddef>
#include <string>
#include <utility>

#include "privgrad/bounded_statistic.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/utf8.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/remarks.hpp"

namespace privgrad::core {
namespace {

constexpr std::string_view kNumberOfRows = "number of training examples";

class Lister {
 public:
  explicit Lister(const Manifest& manifest) : manifest_(manifest) {}

  /// \param plan  null if it is not made yet.
  std::vector<Unaccounted> list(const Setting& setting, const Plan* plan) {
    if (manifest_.noise_off)
      add("everything: noise is off", manifest_.position_of("privacy.noise"));
    list_facts_of_data(setting.info);
    list_weights(setting.weights);
    if (plan != nullptr && plan->influence_is_unaccounted) list_influence();
    list_choice_of_rows(setting.info);
    list_transforms(setting);
    list_floating_sums();
    // Without a model there is no program yet that could promise anything.
    if (setting.model != nullptr) list_floating_program(setting, plan);
    list_bits_of_transforms(setting);
    if (plan != nullptr) list_metrics(setting.info);
    return std::move(list_);
  }

 private:
  void add(std::string what, std::string position, Reach reach = Reach::model) {
    list_.push_back({std::move(what), std::move(position), reach});
  }

  void list_facts_of_data(const DataInfo& info) {
    for (const std::string& fact : info.unaccounted) add(fact, manifest_.data.position);
    for (const std::string& fact : manifest_.read_off_rows)
      add(shown_line(fact), manifest_.position_of("data.read_off_rows"));
    if (!size_is_public(manifest_) && !declared_size(manifest_))
      add(std::string(kNumberOfRows), manifest_.data.position);
  }

  /// Lists initial weights: the model depends on their training data, whatever this run pays for.
  void list_weights(const std::optional<WeightsFacts>& weights) {
    if (!weights || claim_of(manifest_, *weights) != WeightsClaim::unaccounted) return;
    const std::string declare =
        "declare them public (model.weights: {public: true}) if they saw none of these examples";
    Unaccounted item{.what = "initial_weights",
                     .position = manifest_.position_of("model.weights"),
                     .reach = Reach::model,
                     .why =
                         "nobody says that the weights which the model begins from saw none of "
                         "the private examples",
                     .remedy = declare};
    if (const auto& origin = weights->origin) {
      item.why = "the weights which the model begins from are those of the run '" + origin->name +
                 "' with epsilon " + origin->epsilon + " at delta " + origin->delta +
                 ", which adds to this one's if their data is the same";
      item.remedy = "pay for both runs from one account (privacy.account)";
      if (!saw_protected_rows(*origin)) {
        item.remedy += ", or " + declare;
      } else if (manifest_.weights->is_public) {
        item.why += "; that the manifest declares them public does not make them so";
      }
    }
    list_.push_back(std::move(item));
  }

  void list_influence() {
    const ComponentUse& noise =
        manifest_.noise_std.is_given() ? manifest_.noise_std : manifest_.noise_multiplier;
    list_.push_back(
        {.what = "influence of steps, behind the noise schedule",
         .position = noise.position,
         .remedy = "give schedules.noise_multiplier values, or an influence of public rows"});
  }

  /// Lists the selection of rows, because the proofs concern only the selected rows. The selection
  /// is a separate use of the data if one example affects whether another is selected, or affects a
  /// size that neighbouring data sets must share.
  void list_choice_of_rows(const DataInfo& info) {
    if (info.first_rows_only && manifest_.adjacency == Adjacency::add_or_remove_one) {
      // If one example is removed, the next example moves into the selected rows, and two
      // contributions change.
      list_.push_back({.what = "choice of the first examples",
                       .position = manifest_.data.position,
                       .remedy = "leave out data.limit"});
    }
    if (manifest_.sample && manifest_.adjacency == Adjacency::add_or_remove_one) {
      // The draw depends on the number of rows, which is private: if one example is removed, all
      // others may change their places.
      list_.push_back({.what = "choice of the sampled examples",
                       .position = manifest_.position_of("data.sample"),
                       .remedy = "use privacy.adjacency: zero_out or replace_one"});
    }
    if (info.rows_chosen_by_value && manifest_.adjacency == Adjacency::replace_one) {
      // If an example is replaced by one of a different class, or on the other side of a split, the
      // size changes, although it counts as public.
      list_.push_back({.what = "number of examples that are chosen by what they hold",
                       .position = manifest_.data.position,
                       .remedy = "use privacy.adjacency: add_or_remove_one or zero_out"});
    }
  }

  /// Uses the statistics recorded in the setting, or asks new transforms if none are recorded.
  void list_transforms(const Setting& setting) {
    for (std::size_t i = 0; i < manifest_.transforms.size(); ++i) {
      const ComponentUse& use = manifest_.transforms[i];
      const Statistic statistic = setting.statistics.empty() ? use.make<Transform>()->statistic()
                                                             : setting.statistics.at(i);
      if (statistic == Statistic::unaccounted) add(use.name(), use.position);
      if (statistic == Statistic::declared_public)
        add(use.name() + " (declared public)", use.position);
    }
  }

  /// Lists floating-point sums: one example may affect the rounding errors of others, and the bits
  /// of the noise may reveal the number to which it was added.
  void list_floating_sums() {
    if (manifest_.noise_off || manifest_.arithmetic != Arithmetic::floating) return;
    add_floating_point(manifest_.position_of("aggregator.arithmetic"),
                       "aggregator.arithmetic is float", "use aggregator.arithmetic: exact");
  }

  void list_floating_program(const Setting& setting, const Plan* plan) {
    if (manifest_.noise_off || manifest_.arithmetic == Arithmetic::floating ||
        program_is_exact(setting.program, plan))
      return;
    const ComponentUse& use = manifest_.backend;
    add_floating_point(
        use.position,
        "backend " + use.name() +
            " does not promise the same bits for an example wherever it stands in a batch",
        "use another backend, whose sums are exact");
  }

  void list_bits_of_transforms(const Setting& setting) {
    if (manifest_.noise_off) return;
    for (std::size_t i = 0; i < manifest_.transforms.size(); ++i) {
      const ComponentUse& use = manifest_.transforms[i];
      if (setting.by_row.empty() ? use.make<Transform>()->is_by_row() : setting.by_row.at(i))
        continue;
      add_floating_point(use.position,
                         "transform " + use.name() +
                             " does not promise the same bits for an example beside any others",
                         "use others in data.transforms, which are given one row at a time");
    }
  }

  /// Whether the program promises enough; gradient differences need ReproducibleRows.
  static bool program_is_exact(const ExactAbilities& can, const Plan* plan) {
    const bool needs_rows =
        plan != nullptr && plan->correlated && plan->correlated->parts.size() > 1;
    return can.rows || (can.clipping && !needs_rows);
  }

  void add_floating_point(std::string position, std::string why, std::string remedy) {
    list_.push_back({std::string(kFloatingPoint), std::move(position), Reach::model, std::move(why),
                     std::move(remedy)});
  }

  /// Lists metrics on private rows, which release mode does not compute.
  void list_metrics(const DataInfo& info) {
    if (manifest_.mode == Mode::release) return;
    add("training metrics", manifest_.position_of("mode"), Reach::shown_values);
    if (info.has_test_split && !manifest_.test_is_public)
      add("test metrics", manifest_.data.position, Reach::shown_values);
  }

  const Manifest& manifest_;
  std::vector<Unaccounted> list_;
};

/// Returns the remedies other than mode: research, which the caller adds. A transform may have
/// optional parameters for the numbers that it would otherwise learn.
std::string remedy(const Manifest& manifest, const Unaccounted& item) {
  if (!item.remedy.empty()) return item.remedy + ", or ";
  for (const ComponentUse& use : manifest.transforms) {
    const bool is_it = item.what == use.name() || item.what == use.name() + " (declared public)";
    if (!is_it || item.position != use.position) continue;
    if (dynamic_cast<const BoundedStatistic*>(use.make<Transform>().get()) != nullptr) {
      return "say statistic: private and pay for it with a share of the budget or a "
             "noise_multiplier, or ";
    }
    std::string names;
    for (const ParamSpec& spec : use.component->factory.info.params) {
      if (spec.required || spec.default_value) continue;
      names += (names.empty() ? "" : " and ") + spec.name;
    }
    return (names.empty() ? "leave it out of data.transforms"
                          : "give " + names + " in the manifest") +
           ", or ";
  }
  if (item.what == kNumberOfRows) {
    return "say in data.size which number is public, or have it released and paid for (data.size: "
           "{about: N, statistic: private, share: S}), or ";
  }
  // The text of a data source's fact ends with the parameter's name.
  const std::size_t name = item.what.rfind('(') + 1;
  if (item.what.ends_with(')') && item.position == manifest.data.position)
    return "say data." + item.what.substr(name, item.what.size() - 1 - name) + ", or ";
  return "";
}

/// Returns why release mode refuses the item, and the remedies.
std::string refusal(const Manifest& manifest, const Unaccounted& item) {
  const std::string begin = item.position + ": error: release mode refuses '" + item.what + "'";
  if (!item.why.empty()) {
    const bool is_about_bits = item.what == kFloatingPoint;
    return begin + ": " + item.why +
           (is_about_bits ? ", so that no proof is about the bits that are released; " : "; ") +
           remedy(manifest, item) + "use mode: research";
  }
  return begin + ", which was read off private rows and charged nowhere; " +
         remedy(manifest, item) + "use mode: research";
}

/// \param units  the number of units; nothing if it is known only after reading rows.
void refuse(const Manifest& manifest, const std::vector<Unaccounted>& list,
            std::optional<std::uint64_t> units) {
  std::string text;
  for (const Unaccounted& item : list) text += (text.empty() ? "" : "\n") + refusal(manifest, item);
  const auto why = units ? large_delta(manifest, *units) : std::nullopt;
  if (why && !manifest.allow_large_delta) {
    text +=
        (text.empty() ? "" : "\n") + error_text(manifest, "privacy.target_delta",
                                                "release mode refuses it: " + *why +
                                                    ", or accept it by allow: {large_delta: true}");
  }
  if (!text.empty()) throw PrivacyError(text);
}

}  // namespace

std::vector<Unaccounted> list_unaccounted(const Plan& plan, std::vector<Unaccounted> more) {
  const Manifest& manifest = *plan.manifest;
  std::vector<Unaccounted> list = Lister(manifest).list(*plan.setting, &plan);
  for (Unaccounted& item : more) list.push_back(std::move(item));
  if (manifest.mode == Mode::release) refuse(manifest, list, units(plan));
  return list;
}

void refuse_foreseen(const Manifest& manifest, const Setting& foreseen) {
  if (manifest.mode != Mode::release) return;
  std::vector<Unaccounted> list = Lister(manifest).list(foreseen, nullptr);
  if (manifest.federated) {
    for (Unaccounted& item : foreseen_of_clients(manifest)) list.push_back(std::move(item));
  }
  refuse(manifest, list, declared_units(manifest));
}

}  // namespace privgrad::core

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dataset_files.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// A data set that `privgrad data fetch` knows. Its classes were published with the data set, so
/// they reveal nothing about private rows.
struct Known {
  const char* name;
  std::array<const char*, 10> classes;
};
constexpr std::array<Known, 3> kKnown{
    {{"mnist", {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}},
     {"fashion-mnist",
      {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
       "Ankle boot"}},
     {"cifar10",
      {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}}}};

const Known* known(const std::string& name) {
  const auto found = std::ranges::find_if(kKnown, [&](const Known& k) { return name == k.name; });
  return found == kKnown.end() ? nullptr : &*found;
}

std::string hint(const std::string& name) {
  if (known(name) != nullptr) return "privgrad data fetch " + name + " downloads it";
  std::vector<std::string> names;
  names.reserve(kKnown.size());
  for (const Known& k : kKnown) names.emplace_back(k.name);
  const std::string nearest = nearest_name(name, names);
  if (!nearest.empty()) return "did you mean '" + nearest + "'?";
  return "a folder of that name in PRIVGRAD_DATA_DIR may hold it as IDX files, and privgrad data "
         "list says what can be fetched";
}

/// Checks that the name, which is used as a folder, does not lead out of the parent folder.
void check_name(const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (!name.empty() && name.front() != '.' && std::ranges::all_of(name, plain)) return;
  throw ConfigError("dataset: name is '" + name +
                    "', allowed are letters, digits, '-', '_' and '.', not a path; files "
                    "elsewhere are read by idx, csv or npy");
}

class DatasetByName final : public DataSource, public StreamedRows {
 public:
  explicit DatasetByName(const Params& params)
      : name_(params.text("name")), selection_("dataset", params) {
    check_name(name_);
    if (const Known* k = known(name_)) {
      selection_.assume_classes(k->classes.size(), {k->classes.begin(), k->classes.end()});
    }
  }

  DataInfo info() override { return source().info(); }
  std::optional<DataInfo> foreseen_info() override { return source().foreseen_info(); }
  Dataset read(Split split) override { return source().read(split); }
  std::vector<std::filesystem::path> files() override { return source().files(); }
  DataInfo stream(const std::function<void(const RowBlock&)>& take) override {
    return source().stream(take);
  }

 private:
  /// Returns the source; looks for the files once, when they are first needed.
  IdxSource& source() {
    if (!source_) {
      DatasetFiles files = find_dataset(name_, hint(name_));
      source_ =
          std::make_unique<IdxSource>(std::move(files.train), std::move(files.test), selection_);
    }
    return *source_;
  }

  std::string name_;
  IdxSelection selection_;
  std::unique_ptr<IdxSource> source_;
};

void register_components(Registrar& registrar) {
  std::vector<ParamSpec> params = {
      param::text("name",
                  "mnist, fashion-mnist, cifar10, or the name of a folder in PRIVGRAD_DATA_DIR. "
                  "Looked for there first, then among what privgrad data fetch has downloaded; "
                  "nothing is downloaded here.")
          .example("mnist"),
  };
  for (auto& spec : IdxSelection::params(
           "Number of classes. Those of mnist, fashion-mnist and cifar10 are known (10). For "
           "others, unless this or keep_labels is given, it is read off the training labels, "
           "which is listed as unaccounted.",
           "The class for a missing or invalid label. For mnist, fashion-mnist and cifar10, "
           "whose published labels are all valid, it is 0 by default. For others, unless this or "
           "keep_labels is given, such a row is an error, which is listed as unaccounted.")) {
    params.push_back(std::move(spec));
  }
  registrar.add<DataSource, DatasetByName>({
      .name = "dataset",
      .summary = "An image data set by its name, from what is on this machine; pixels become 0..1.",
      .reference = "docs/data.md; the data sets' own publications are named by privgrad data list",
      .params = std::move(params),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.dataset", "0.1.0", "data_source/dataset", register_components)

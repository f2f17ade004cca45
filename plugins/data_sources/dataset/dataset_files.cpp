#include "dataset_files.hpp"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "privgrad/dataset_cache.hpp"
#include "privgrad/error.hpp"

namespace {

using namespace privgrad;

namespace fs = std::filesystem;

/// A folder to search, and the possible prefixes of file names there.
struct Place {
  fs::path folder;
  std::vector<std::string> prefixes;
  bool is_cache = false;
};

std::vector<Place> places_of(const std::string& name) {
  const std::vector<std::string> either{"", name + "-"};
  std::vector<Place> places;
  const char* data = std::getenv("PRIVGRAD_DATA_DIR");
  if (data != nullptr && *data != '\0') {
    const fs::path folder = fs::absolute(data).lexically_normal();
    const fs::path own = folder.has_filename() ? folder : folder.parent_path();
    places.push_back({own / name, either});
    places.push_back({own, own.filename() == name ? either : std::vector{name + "-"}});
  }
  if (const fs::path cache = dataset_cache(); !cache.empty()) {
    places.push_back({cache / name, either, true});
  }
  return places;
}

/// \returns the path of the first name for which a file exists; an empty path if none exists.
fs::path first_file(const Place& place, const std::vector<std::string>& names) {
  for (const std::string& prefix : place.prefixes) {
    for (const std::string& name : names) {
      std::error_code unreadable;
      fs::path file = place.folder / (prefix + name);
      if (fs::is_regular_file(file, unreadable)) return file;
    }
  }
  return {};
}

/// Returns "train-images-idx3-ubyte" and its variants. Plain files come first, because they are
/// read faster than compressed files.
std::vector<std::string> names_of(const std::string& split, const std::string& content, int least,
                                  int most) {
  std::vector<std::string> names;
  for (const char* ending : {"", ".gz"}) {
    for (int extents = least; extents <= most; ++extents) {
      for (const char* mark : {"-", "."}) {
        std::string name = split;
        name.append("-").append(content).append(mark).append("idx");
        name.append(std::to_string(extents)).append("-ubyte").append(ending);
        names.push_back(std::move(name));
      }
    }
  }
  return names;
}

/// Returns the existing files of a split; both paths are empty if there are none.
IdxFiles split_files(const Place& place, const std::vector<std::string>& splits) {
  for (const std::string& split : splits) {
    constexpr int kMostExtents = 5;
    IdxFiles files{first_file(place, names_of(split, "images", 2, kMostExtents)),
                   first_file(place, names_of(split, "labels", 1, 1))};
    if (!files.images.empty() || !files.labels.empty()) return files;
  }
  return {};
}

bool is_empty(const IdxFiles& files) { return files.images.empty() && files.labels.empty(); }

void require_both(const IdxFiles& files, const fs::path& folder, const std::string& split) {
  if (!files.images.empty() && !files.labels.empty()) return;
  const bool has_images = !files.images.empty();
  const fs::path& there = has_images ? files.images : files.labels;
  throw IoError(folder.string() + ": has " + there.filename().string() + ", but no " +
                (has_images ? split + "-labels-idx1-ubyte" : split + "-images-idx3-ubyte") +
                " (or .gz)");
}

std::string listed(const std::vector<Place>& places) {
  std::string text;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i > 0) text += i + 1 == places.size() ? " and " : ", ";
    text += places[i].folder.string();
  }
  return text;
}

}  // namespace

DatasetFiles find_dataset(const std::string& name, const std::string& hint) {
  const std::vector<Place> places = places_of(name);
  for (const Place& place : places) {
    const IdxFiles train = split_files(place, {"train"});
    const IdxFiles test = split_files(place, {"t10k", "test"});
    if (is_empty(train) && is_empty(test)) continue;
    if (place.is_cache && !fs::exists(place.folder / kChecksumFile)) {
      std::string what = place.folder.string();
      what.append(": the data set '").append(name).append("' was not fetched to its end; ");
      throw IoError(what.append("privgrad data fetch ").append(name).append(" continues"));
    }
    require_both(train, place.folder, "train");
    if (is_empty(test)) return {train, std::nullopt};
    require_both(test, place.folder, "t10k");
    return {train, test};
  }
  const bool unset = std::getenv("PRIVGRAD_DATA_DIR") == nullptr;
  throw IoError("data set '" + name + "' is not here: looked in " + listed(places) +
                (unset ? " (PRIVGRAD_DATA_DIR is not set)" : "") + "; " + hint);
}

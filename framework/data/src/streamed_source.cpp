#include "privgrad/data/streamed_source.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <variant>

#include "privgrad/data/feature_cache.hpp"
#include "privgrad/data/kept_features.hpp"
#include "privgrad/data/open_source.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/finite.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kNanoseconds = 1'000'000'000;

std::uint64_t nanoseconds(const timespec& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * kNanoseconds +
         static_cast<std::uint64_t>(time.tv_nsec);
}

/// Returns the identity of a file, which changes if the file is changed or replaced.
Json identity_of(const fs::path& file) {
  struct stat facts {};
  if (::stat(file.c_str(), &facts) != 0)
    throw IoError(file.string() + ": cannot be opened: " + words_of(errno));
  return {fs::absolute(file).lexically_normal().string(),
          static_cast<std::uint64_t>(facts.st_dev),
          static_cast<std::uint64_t>(facts.st_ino),
          static_cast<std::uint64_t>(facts.st_size),
          nanoseconds(facts.st_mtim),
          nanoseconds(facts.st_ctim)};
}

/// Returns the files' identities. Waits until every file's last change is some ticks of the file
/// system's clock ago, because a second change within one tick would not alter the change time.
Json identities_of(const std::vector<fs::path>& files) {
  constexpr std::uint64_t kTicks = kNanoseconds / 20;
  constexpr int kMostLooks = 40;
  for (int look = 0; look < kMostLooks; ++look) {
    Json all = Json::array();
    std::uint64_t last = 0;
    for (const fs::path& file : files) {
      all.push_back(identity_of(file));
      last = std::max(
          {last, all.back().at(4).get<std::uint64_t>(), all.back().at(5).get<std::uint64_t>()});
    }
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    if (nanoseconds(now) < last || nanoseconds(now) - last >= kTicks) return all;
    std::this_thread::sleep_for(std::chrono::nanoseconds(kTicks));
  }
  throw IoError(files.front().string() + ": the file, or a file beside it, changes continually");
}

Json paths_of(const Json& identities) {
  Json paths = Json::array();
  for (const Json& one : identities) paths.push_back(one.front());
  return paths;
}

/// Makes the checks that Dataset makes for rows in memory, except for targets, which are checked
/// when they are mapped.
void check_features(const RowBlock& block, std::uint64_t rows_before) {
  const auto* features = std::get_if<std::span<const float>>(&block.features);
  if (features == nullptr) {
    if (!std::isfinite(block.scale)) throw IoError("the scale of the bytes is not finite");
    return;
  }
  if (all_finite(*features)) return;
  const auto bad = std::ranges::find_if(*features, [](float x) { return !std::isfinite(x); });
  const std::size_t width = features->size() / block.targets.size();
  const auto at = static_cast<std::size_t>(bad - features->begin());
  throw IoError("the data: row " + std::to_string(rows_before + at / width) + ", feature " +
                std::to_string(at % width) + " is not a finite number");
}

/// A lock that only one process can hold at a time.
class Turn {
 public:
  Turn(const PrivateFolder& folder, const Streaming& streaming)
      : folder_(PrivateFolder::open(folder.path())) {
    if (::flock(folder_.get(), LOCK_EX | LOCK_NB) == 0) return;
    if (errno == EWOULDBLOCK && streaming.note)
      streaming.note("waiting for another process that writes to " + folder.path().string());
    while (::flock(folder_.get(), LOCK_EX) != 0) {
      // If the file system has no locks, two processes may make the same file, but both files are
      // complete.
      if (errno != EINTR) return;
    }
  }

 private:
  Descriptor folder_;
};

}  // namespace

PrivateFolder folder_of_rows(const Streaming& streaming) {
  fs::path folder = streaming.folder.empty() ? user_feature_folder() : streaming.folder;
  if (folder.empty()) {
    throw ConfigError(
        "there is no folder for rows (neither XDG_CACHE_HOME nor HOME is given); name one with "
        "--cache=DIR");
  }
  return PrivateFolder(folder);
}

std::shared_ptr<const RowFile> find_or_make(
    const PrivateFolder& folder, const RowPlace& place, const Streaming& streaming,
    const std::string& what, const std::function<std::shared_ptr<const RowFile>()>& make) {
  const auto note = [&](const std::string& text) {
    if (streaming.note) streaming.note(text);
  };
  const auto find = [&]() -> std::shared_ptr<const RowFile> {
    std::string why;
    auto found = RowFile::find(folder, place, why);
    if (found == nullptr && !why.empty())
      note(what + " that were stored are not used (" + why + "): " + folder.path().string());
    if (found != nullptr) note("took " + what + " from " + folder.path().string());
    return found;
  };
  if (place.name.empty()) return make();
  std::string why;
  if (RowFile::find(folder, place, why) != nullptr) return find();
  const Turn turn(folder, streaming);
  if (auto found = find()) return found;
  auto made = make();
  note("kept " + what + ", " + size_words(made->bytes()) + " as private as the rows, in " +
       folder.path().string() + " until privgrad cache delete");
  return made;
}

std::shared_ptr<const RowFile> make_anew(
    const PrivateFolder& folder, const Streaming& streaming, const std::string& what,
    const std::function<std::shared_ptr<const RowFile>()>& make) {
  if (streaming.note)
    streaming.note(
        what + " that were stored are damaged, and are computed again: " + folder.path().string());
  const Turn turn(folder, streaming);
  return make();
}

bool all_whole(const RowFile& file, const Streaming& streaming, const std::string& what) {
  const double train = static_cast<double>(file.info().train_rows);
  const double share = train / (train + static_cast<double>(file.info().test_rows));
  const auto progress = [&](double from, double part) -> RowFile::Progress {
    if (!streaming.progress) return {};
    return [&streaming, &what, from, part](double done) {
      streaming.progress("checking " + what, from + part * done);
    };
  };
  return file.is_whole(Split::train, progress(0.0, share)) &&
         (file.info().test_rows == 0 || file.is_whole(Split::test, progress(share, 1.0 - share)));
}

StreamedSource::StreamedSource(ComponentUse use, Streaming streaming)
    : use_(std::move(use)),
      streaming_(std::move(streaming)),
      source_(use_.make<DataSource>()),
      streams_(dynamic_cast<StreamedRows*>(source_.get())) {
  if (streams_ != nullptr) return;
  throw ConfigError(use_.name() +
                    " returns all rows at once (it has no ability StreamedRows), so streaming "
                    "cannot be true; remove it, or convert the rows to csv or npy");
}

std::string StreamedSource::rows_words() const { return "the rows of " + use_.name(); }

void StreamedSource::open() {
  if (file_ != nullptr) return;
  const PrivateFolder folder = folder_of_rows(streaming_);
  const Json code = key_of_code("source", *use_.component, use_.params);
  const Json identities = identities_of(source_->files());
  Json key = code;
  key["files"] = identities;
  identities_ = identities.dump();
  const bool is_kept = streaming_.keeps && !use_.component->plugin->sha256.empty();
  place_ = {.name = is_kept ? sha256_hex(Json{code, paths_of(identities)}.dump()) : "",
            .key = key.dump()};
  file_ = find_or_make(folder, place_, streaming_, rows_words(), [&] { return make(folder); });
  content_ = is_kept ? file_->content() : "";
}

std::shared_ptr<const RowFile> StreamedSource::make(const PrivateFolder& folder) {
  RowFileWriter writer(folder, place_);
  const DataInfo info = write_rows(writer);
  if (identities_of(source_->files()).dump() != identities_)
    throw IoError(use_.name() + ": a file has changed while it was read");
  is_checked_ = true;  // the rows were just written
  return writer.finish(info);
}

DataInfo StreamedSource::write_rows(RowFileWriter& writer) {
  const std::string what = "reading " + rows_words();
  double done = 0.0;
  DataInfo info = streams_->stream([&](const RowBlock& block) {
    if (!block.targets.empty()) check_features(block, writer.rows(block.split));
    writer.add(block);
    if (writer.rows(block.split) > std::numeric_limits<std::uint32_t>::max())
      throw IoError(use_.name() + ": has more than the 4294967295 examples that a run can number");
    done = block.done;
    if (streaming_.progress) streaming_.progress(what, done);
  });
  // Ends the progress display with the same line in every case, even if there was nothing to do.
  if (streaming_.progress && done < 1.0) streaming_.progress(what, 1.0);
  const bool is_as_told = info.train_rows == writer.rows(Split::train) &&
                          info.test_rows == writer.rows(Split::test) &&
                          (info.train_rows + info.test_rows == 0 ||
                           element_count(info.shape.features) == writer.row_size());
  if (is_as_told) return info;
  throw PluginError(use_.component->full_name() +
                    ": broke its contract: its rows differ from its own description");
}

DataInfo StreamedSource::info() {
  open();
  return file_->info();
}

Dataset StreamedSource::read(Split split) {
  open();
  if (!is_checked_ && !all_whole(*file_, streaming_, rows_words())) {
    const PrivateFolder folder = folder_of_rows(streaming_);
    file_ = make_anew(folder, streaming_, rows_words(), [&] { return make(folder); });
    content_ = place_.name.empty() ? "" : file_->content();
  }
  is_checked_ = true;
  return file_->rows(split, file_->info().shape);
}

const std::string& StreamedSource::content() {
  open();
  return content_;
}

ComponentPtr<DataSource> open_source(const ComponentUse& use,
                                     const std::optional<Streaming>& streaming) {
  if (!streaming) return use.make<DataSource>();
  return {new StreamedSource(use, *streaming),
          {[](void* object) noexcept { delete static_cast<DataSource*>(object); }, nullptr}};
}

}  // namespace privgrad::core

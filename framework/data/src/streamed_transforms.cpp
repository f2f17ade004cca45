#include "privgrad/data/streamed_transforms.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "privgrad/data/apply_transform.hpp"
#include "privgrad/data/kept_features.hpp"
#include "privgrad/data/streamed_source.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kRowsOfTask = 64, kTasksOfBlock = 64;

/// One of several transforms that write one file together.
struct Link {
  const ComponentUse& use;
  ComponentPtr<Transform> transform;
  Shape before, after;

  Link(const ComponentUse& the_use, ComponentPtr<Transform> made, const ExampleShape& input)
      : use(the_use),
        transform(std::move(made)),
        before(input.features),
        after(use.with_position([&] { return transform->output_shape(input).features; })) {}
};

/// Applies several transforms in sequence. As in apply_to_each_row(), all numbers of an example
/// become NaN if a transform overflows on it, and numbers that a transform does not write are 0.
/// \param checked  the example that is also transformed alone, for comparison; may be absent.
void apply_links(const std::vector<Link>& links, std::size_t count, std::vector<float>& rows,
                 std::vector<float>& out, std::optional<std::size_t> checked) {
  for (const Link& link : links) {
    const std::size_t width = element_count(link.after), before = rows.size() / count;
    out.assign(count * width, 0.0f);
    link.transform->apply_rows(link.before, count, rows, out);
    for (std::size_t i = 0; i < count; ++i) {
      const auto row = std::span(out).subspan(i * width, width);
      if (!all_finite(row)) std::ranges::fill(row, std::numeric_limits<float>::quiet_NaN());
    }
    if (checked) {
      check_row_alone(link.use, *link.transform, link.before,
                      std::span(rows).subspan(*checked * before, before),
                      std::span(out).subspan(*checked * width, width));
    }
    std::swap(rows, out);
  }
}

class Writing {
 public:
  Writing(const std::vector<Link>& links, RowFileWriter& writer, Executor& executor)
      : links_(links), writer_(writer), executor_(executor) {}

  /// \param progress  receives the number of finished rows.
  void write(Split split, const Dataset& data, const std::function<void(std::size_t)>& progress) {
    const std::size_t width = element_count(links_.back().after);
    const std::size_t most = kRowsOfTask * kTasksOfBlock;
    for (std::size_t first = 0; first < data.rows(); first += most) {
      const std::size_t count = std::min(most, data.rows() - first);
      features_.resize(count * width);
      targets_.resize(count);
      const std::size_t checked = unforeseen(count);  // one example of each block
      executor_.for_each_chunk((count + kRowsOfTask - 1) / kRowsOfTask, [&](std::size_t task) {
        make_rows(data, first, task * kRowsOfTask, std::min(count, (task + 1) * kRowsOfTask),
                  checked);
      });
      writer_.add({.split = split,
                   .features = std::span<const float>(features_),
                   .scale = 1.0f,
                   .targets = targets_,
                   .done = 0.0});
      progress(count);
    }
  }

 private:
  /// \param first  the block's first row.
  /// \param begin, end, checked  places in the block.
  void make_rows(const Dataset& data, std::size_t first, std::size_t begin, std::size_t end,
                 std::size_t checked) {
    std::vector<std::uint32_t> numbers(end - begin);
    std::iota(numbers.begin(), numbers.end(), static_cast<std::uint32_t>(first + begin));
    std::vector<float> rows(numbers.size() * data.row_size()), out;
    data.gather(numbers, rows, std::span(targets_).subspan(begin, numbers.size()));
    const auto own =
        begin <= checked && checked < end ? std::optional(checked - begin) : std::nullopt;
    links_.front().use.with_position([&] { apply_links(links_, numbers.size(), rows, out, own); });
    const std::size_t width = rows.size() / numbers.size();
    std::ranges::copy(rows, features_.begin() + static_cast<std::ptrdiff_t>(begin * width));
  }

  const std::vector<Link>& links_;
  RowFileWriter& writer_;
  Executor& executor_;
  std::vector<float> features_, targets_;
};

class StreamedTransforms {
 public:
  StreamedTransforms(const std::vector<ComponentUse>& transforms, const Streaming& streaming,
                     std::span<const Statistic> planned, RunData& data, Executor& executor,
                     Teacher* teacher)
      : transforms_(transforms),
        planned_(planned),
        streaming_(streaming),
        folder_(folder_of_rows(streaming_)),
        data_(data),
        executor_(executor),
        teacher_(teacher) {}

  void apply() {
    ExampleShape shape = data_.train.shape();
    for (std::size_t i = 0; i < transforms_.size(); ++i) {
      const ComponentUse& use = transforms_[i];
      auto transform = use.make<Transform>();
      use.with_position([&] { check_streamable(use, *transform); });
      if (transform->statistic() == Statistic::released) {
        write();
        data_.kept_as.clear();
      }
      data_.preprocessing.push_back(use.with_position([&] {
        return learn(use, {i, planned_[i], true}, *transform, data_.train, teacher_);
      }));
      links_.emplace_back(use, std::move(transform), shape);
      shape.features = links_.back().after;
    }
    write();
  }

 private:
  void write() {
    if (links_.empty()) return;
    const std::string what = "the outputs of " + names();
    const RowPlace place = place_of_outputs();
    std::shared_ptr<const RowFile> file =
        find_or_make(folder_, place, streaming_, what, [&] { return make(place, what); });
    if (!is_made_ && !all_whole(*file, streaming_, what))
      file = make_anew(folder_, streaming_, what, [&] { return make(place, what); });
    const ExampleShape shape{links_.back().after, data_.train.shape().classes};
    data_.train = file->rows(Split::train, shape);
    if (data_.test.rows() > 0) data_.test = file->rows(Split::test, shape);
    data_.kept_as = place.name.empty() ? "" : file->content();
    links_.clear();
    is_made_ = false;
  }

  std::string names() const {
    std::string all;
    for (const Link& link : links_) all += (all.empty() ? "" : ", ") + link.use.name();
    return all;
  }

  RowPlace place_of_outputs() const {
    Json code = Json::array();
    bool is_known = !data_.kept_as.empty();
    for (const Link& link : links_) {
      code.push_back(key_of_code("transform", *link.use.component, link.use.params));
      is_known = is_known && !link.use.component->plugin->sha256.empty();
    }
    std::string key = Json{
        {"rows", data_.kept_as},
        {"shape", data_.train.shape().features},
        {"transforms",
         std::move(code)}}.dump();
    std::string name = is_known ? sha256_hex(key) : "";
    return {.name = std::move(name), .key = std::move(key)};
  }

  std::shared_ptr<const RowFile> make(const RowPlace& place, const std::string& what) {
    RowFileWriter writer(folder_, place);
    Writing writing(links_, writer, executor_);
    const auto all = static_cast<double>(data_.train.rows() + data_.test.rows());
    std::size_t done = 0;
    const auto progress = [&](std::size_t rows) {
      done += rows;
      if (streaming_.progress)
        streaming_.progress("computing " + what, static_cast<double>(done) / all);
    };
    // Transforms test rows first, as in apply_transform().
    if (data_.test.rows() > 0) writing.write(Split::test, data_.test, progress);
    writing.write(Split::train, data_.train, progress);
    is_made_ = true;
    DataInfo info;
    info.shape = {links_.back().after, data_.train.shape().classes};
    info.train_rows = data_.train.rows();
    info.test_rows = data_.test.rows();
    return writer.finish(info);
  }

  const std::vector<ComponentUse>& transforms_;
  std::span<const Statistic> planned_;
  const Streaming& streaming_;
  PrivateFolder folder_;
  RunData& data_;
  Executor& executor_;
  Teacher* teacher_;
  std::vector<Link> links_;  ///< Transforms whose outputs are still to be written.
  bool is_made_ = false;     ///< Whether the file was just made, so that its hashes need no check.
};

}  // namespace

void check_streamable(const ComponentUse& use, const Transform& transform) {
  const Statistic statistic = transform.statistic();
  if (statistic == Statistic::unaccounted || statistic == Statistic::declared_public) {
    throw ConfigError(
        use.name() +
        " learns from all training rows in memory, which data.streaming avoids; give it numbers "
        "(statistic: public), or let it learn from a release if it can (statistic: private)");
  }
  if (transform.is_by_row()) return;
  throw ConfigError(use.name() +
                    " transforms all rows at once, in memory (is_by_row() is false), which "
                    "data.streaming avoids; remove one of the two");
}

void apply_streamed_transforms(const std::vector<ComponentUse>& transforms,
                               const Streaming& streaming, std::span<const Statistic> planned,
                               RunData& data, Executor& executor, Teacher* teacher) {
  StreamedTransforms(transforms, streaming, planned, data, executor, teacher).apply();
}

}  // namespace privgrad::core

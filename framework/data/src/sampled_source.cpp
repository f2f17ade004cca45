#include "privgrad/data/sampled_source.hpp"

#include <string>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {
namespace {

class SampledSource final : public DataSource {
 public:
  SampledSource(ComponentPtr<DataSource> source, std::uint64_t rows,
                std::optional<std::uint64_t> seed)
      : source_(std::move(source)), rows_(rows), seed_(seed) {}

  DataInfo info() override {
    DataInfo info = source_->info();
    if (info.train_rows < rows_)
      throw ConfigError("data.sample.rows is " + std::to_string(rows_) + ", but there are " +
                        std::to_string(info.train_rows) + " training examples");
    info.train_rows = rows_;
    return info;
  }

  Dataset read(Split split) override {
    Dataset all = source_->read(split);
    if (split != Split::train) return all;
    if (!seed_) throw ConfigError("neither data.sample nor the run has a seed; give one of them");
    const std::vector<std::uint32_t> chosen = draw(all.rows());
    std::vector<float> features(chosen.size() * all.row_size()), targets(chosen.size());
    all.gather(chosen, features, targets);
    return Dataset(all.shape(), std::move(features), std::move(targets));
  }

  std::vector<std::filesystem::path> files() override { return source_->files(); }

 private:
  /// Draws places by selection sampling (Knuth, The Art of Computer Programming 2, algorithm
  /// 3.4.2S): each set is equally likely, and is returned in ascending order.
  std::vector<std::uint32_t> draw(std::size_t of) const {
    const auto random =
        make_random_source(RandomKey::from_seed(*seed_).derive("data sample"))->stream(0);
    std::vector<std::uint32_t> chosen;
    chosen.reserve(rows_);
    for (std::size_t row = 0; row < of && chosen.size() < rows_; ++row) {
      if (random->uniform_below(of - row) < rows_ - chosen.size())
        chosen.push_back(static_cast<std::uint32_t>(row));
    }
    return chosen;
  }

  ComponentPtr<DataSource> source_;
  std::uint64_t rows_;
  std::optional<std::uint64_t> seed_;
};

}  // namespace

ComponentPtr<DataSource> sampled(ComponentPtr<DataSource> source, std::uint64_t rows,
                                 std::optional<std::uint64_t> seed) {
  return {new SampledSource(std::move(source), rows, seed),
          {[](void* object) noexcept { delete static_cast<DataSource*>(object); }, nullptr}};
}

}  // namespace privgrad::core

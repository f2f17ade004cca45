#include <optional>
#include <utility>
#include <vector>

#include "idx_source.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

IdxFiles files_of(const Params& params) { return {params.path("images"), params.path("labels")}; }

std::optional<IdxFiles> test_files_of(const Params& params) {
  if (!params.has("test")) return std::nullopt;
  return files_of(params.object("test"));
}

class Idx final : public DataSource, public StreamedRows {
 public:
  explicit Idx(const Params& params)
      : source_(files_of(params.object("train")), test_files_of(params),
                IdxSelection("idx", params)) {}

  DataInfo info() override { return source_.info(); }
  std::optional<DataInfo> foreseen_info() override { return source_.foreseen_info(); }
  Dataset read(Split split) override { return source_.read(split); }
  std::vector<std::filesystem::path> files() override { return source_.files(); }
  DataInfo stream(const std::function<void(const RowBlock&)>& take) override {
    return source_.stream(take);
  }

 private:
  IdxSource source_;
};

std::vector<ParamSpec> file_params() {
  return {param::path("images", "IDX file of unsigned bytes, [examples, extents...].")
              .example("train-images-idx3-ubyte.gz"),
          param::path("labels", "IDX file of unsigned bytes, [examples].")
              .example("train-labels-idx1-ubyte.gz")};
}

void register_components(Registrar& registrar) {
  std::vector<ParamSpec> params = {
      param::object("train", "The training files.", file_params()),
      param::object("test", "The test files; without them there is no test split.", file_params())
          .optional(),
  };
  for (auto& spec : IdxSelection::params(
           "Number of classes. Unless this or keep_labels is given, it is read off the training "
           "labels, which is listed as unaccounted.",
           "The class for a missing or invalid label. Unless this or keep_labels is given, such a "
           "row is an error, which is listed as unaccounted.")) {
    params.push_back(std::move(spec));
  }
  registrar.add<DataSource, Idx>({
      .name = "idx",
      .summary = "Images and labels in the IDX format of MNIST, plain or gzip; pixels become 0..1.",
      .reference = "LeCun, Cortes and Burges, 'The MNIST database', section on the file formats",
      .params = std::move(params),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.idx", "0.1.0", "data_source/idx", register_components)

#include "privgrad/data_source.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "inputs.hpp"
#include "parameters.hpp"
#include "program_inputs.hpp"
#include "rules.hpp"

namespace privgrad::testing {
namespace {

/// A folder for broken files, deleted when the object is destroyed.
class Scratch {
 public:
  Scratch() {
    namespace fs = std::filesystem;
    static std::atomic<unsigned> counter{0};
    // create_directory() reports whether the name was free; if not, tries another name.
    do {
      path_ = fs::temp_directory_path() /
              ("privgrad-conformance-" + std::to_string(counter++) + "-" +
               std::to_string(fs::file_time_type::clock::now().time_since_epoch().count()));
    } while (!fs::create_directory(path_));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return (path_ / name).string();
  }
  std::string directory(const std::string& name) const {
    std::filesystem::create_directory(path_ / name);
    return (path_ / name).string();
  }
  std::string absent(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

bool same(const ExampleShape& a, const ExampleShape& b) {
  return a.features == b.features && a.classes == b.classes;
}

bool same(const DataInfo& a, const DataInfo& b) {
  return same(a.shape, b.shape) && a.train_rows == b.train_rows && a.test_rows == b.test_rows &&
         a.has_test_split == b.has_test_split && a.unaccounted == b.unaccounted;
}

bool same(Dataset& a, Dataset& b) {
  const auto equal = [](std::span<const float> x, std::span<const float> y) {
    return same_bits(std::vector<float>(x.begin(), x.end()),
                     std::vector<float>(y.begin(), y.end()));
  };
  return same(a.shape(), b.shape()) && equal(a.targets(), b.targets()) &&
         equal(a.features(), b.features());
}

std::vector<Split> splits(const DataInfo& info) {
  if (!info.has_test_split) return {Split::train};
  return {Split::train, Split::test};
}

std::string word_of(Split split) { return split == Split::train ? "train" : "test"; }

void require_as_told(Dataset& data, Split split, const DataInfo& info) {
  const std::size_t rows = split == Split::train ? info.train_rows : info.test_rows;
  require(data.rows() == rows, "read(" + word_of(split) + ") has " + std::to_string(data.rows()) +
                                   " rows, info() said " + std::to_string(rows));
  require(same(data.shape(), info.shape), "read(" + word_of(split) + ") has " +
                                              text_of(data.shape()) + ", info() said " +
                                              text_of(info.shape));
}

/// Appends to `found` one copy of the parameters for each path in them, also nested, which the copy
/// replaces by `path`.
/// \param outer  makes the whole parameters from a changed copy of `params`.
void replace_paths(const std::vector<ParamSpec>& specs, const Value& params,
                   const std::string& path, const std::function<Value(Value)>& outer,
                   std::vector<Value>& found) {
  for (const ParamSpec& spec : specs) {
    const Value* member = params.find(spec.name);
    if (member == nullptr) continue;
    const auto with = [&](Value inner) {
      Value changed = params;
      changed.set(spec.name, std::move(inner));
      return outer(std::move(changed));
    };
    if (spec.type == ParamType::path) found.push_back(with(Value(path)));
    if (spec.type == ParamType::object) replace_paths(spec.fields, *member, path, with, found);
  }
}

std::vector<Value> with_file(const Checker& checker, const std::string& path) {
  std::vector<Value> found;
  replace_paths(
      checker.specs(), checker.params().value(), path, [](Value whole) { return whole; }, found);
  return found;
}

void use(const Checker& checker, const Value& params) {
  const auto source = checker.make<DataSource>(
      Params::make(checker.component().factory.info.name, checker.specs(), params));
  for (const Split split : splits(source->info())) source->read(split);
}

/// Replaces each file of the source by the given file in turn; the source must throw an IoError
/// that names the file.
void require_refused(const Checker& checker, const std::string& what, const std::string& path) {
  for (const Value& params : with_file(checker, path)) {
    std::string message;
    const Thrown thrown = outcome_of([&] { use(checker, params); }, &message);
    require(thrown == Thrown::io, what + " must be an IoError, not " +
                                      std::string(to_text(thrown)) +
                                      (message.empty() ? "" : " (" + message + ")"));
    const std::string name = std::filesystem::path(path).filename().string();
    require(message.find(name) != std::string::npos,
            std::string(what).append(" is refused without the name of the file: ").append(message));
  }
}

void check_broken_files(Checker& checker) {
  checker.rule("broken_files_are_io_errors", [&] {
    const Scratch scratch;
    if (with_file(checker, scratch.absent("none")).empty()) {
      throw NotChecked{"it reads no files"};
    }
    require_refused(checker, "a missing file", scratch.absent("missing-file"));
    require_refused(checker, "an empty file", scratch.file("empty-file", ""));
    require_refused(checker, "a directory", scratch.directory("directory-no-file"));
    std::string noise;
    PublicStream random(1);
    for (int i = 0; i < 300; ++i) noise += static_cast<char>(random.uniform_below(256));
    require_refused(checker, "a file of random bytes", scratch.file("random-bytes", noise));
  });
}

}  // namespace

void check_data_source(Checker& checker) {
  DataInfo info;
  if (!checker.prepare("tells_what_it_holds", [&] {
        const auto source = checker.make<DataSource>();
        info = source->info();
        require(info.train_rows > 0, "info() says that there are no training examples");
        require(!info.shape.features.empty() &&
                    std::ranges::find(info.shape.features, 0u) == info.shape.features.end(),
                "info() says that examples are " + to_text(info.shape.features));
        require(info.has_test_split || info.test_rows == 0,
                "info() has test rows without a test split");
        if (!source->files().empty()) {
          require(!info.train_origins.empty(),
                  "info() does not say which files its training rows are from (train_origins), so "
                  "test rows that are training rows go unnoticed");
        }
        require(same(info, source->info()), "info() differs at the second call");
        for (const std::string& fact : info.unaccounted) {
          require(std::ranges::any_of(checker.specs(),
                                      [&](const ParamSpec& spec) {
                                        return fact.size() > spec.name.size() + 3 &&
                                               fact.ends_with(" (" + spec.name + ")");
                                      }),
                  "info() lists the unaccounted fact '" + fact +
                      "', expected behind it, in parentheses, the parameter that declares it");
        }
      })) {
    return;
  }
  checker.rule("reads_what_it_told", [&] {
    const auto source = checker.make<DataSource>();
    source->info();
    for (const Split split : splits(info)) {
      Dataset data = source->read(split);
      require_as_told(data, split, info);
    }
  });
  checker.rule("reading_is_repeatable", [&] {
    const auto source = checker.make<DataSource>();
    const auto other = checker.make<DataSource>();
    for (const Split split : splits(info)) {
      Dataset first = source->read(split);
      Dataset again = source->read(split);
      require(same(first, again), "read(" + word_of(split) + ") differs the second time");
      Dataset elsewhere = other->read(split);
      require(same(first, elsewhere), "read(" + word_of(split) + ") differs in another instance");
    }
    require(same(info, source->info()), "info() differs after read()");
  });
  check_broken_files(checker);
  check_abilities(checker, *checker.make<DataSource>());
  // Makes the sources without reading them: a range may end at more rows than fit in memory.
  check_range_ends(checker, [&](const Params& params) { checker.make<DataSource>(params); });
}

}  // namespace privgrad::testing

// The rules for data sources that pass on rows while they read (StreamedRows).
#include "privgrad/streamed_rows.hpp"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "rules.hpp"

namespace privgrad::testing {
namespace {

/// The streamed rows of a split, concatenated.
struct Together {
  std::vector<float> features, targets;
};

/// Collects everything that was streamed, and checks the promises about single blocks.
struct Streamed {
  Together train, test;
  DataInfo info;

  explicit Streamed(DataSource& source) {
    auto* streams = dynamic_cast<StreamedRows*>(&source);
    require(streams != nullptr, "another instance is not a StreamedRows");
    double done = 0.0;
    std::size_t type = 0;
    float scale = 1.0f;
    bool is_first = true;
    info = streams->stream([&](const RowBlock& block) {
      require(!block.targets.empty(), "it passes on a block without rows");
      require(block.done >= done && block.done <= 1.0,
              "it hands on a block with which " + format_number(block.done) +
                  " of the reading is done, after " + format_number(done));
      done = block.done;
      const bool is_alike =
          is_first || (block.features.index() == type && same_bits(block.scale, scale));
      require(is_alike, "it passes on blocks of different types or scales");
      type = block.features.index();
      scale = block.scale;
      is_first = false;
      Together& all = block.split == Split::train ? train : test;
      all.targets.insert(all.targets.end(), block.targets.begin(), block.targets.end());
      std::visit([&](const auto numbers) { append(numbers, block, all.features); }, block.features);
    });
  }

 private:
  void append(std::span<const float> numbers, const RowBlock&, std::vector<float>& to) {
    to.insert(to.end(), numbers.begin(), numbers.end());
  }
  void append(std::span<const std::uint8_t> bytes, const RowBlock& block, std::vector<float>& to) {
    for (const std::uint8_t byte : bytes) to.push_back(static_cast<float>(byte) * block.scale);
  }
};

bool same_value(const Value& a, const Value& b) {
  if (a.data().index() != b.data().index()) return false;
  if (const auto* items = std::get_if<Value::List>(&a.data())) {
    const auto& others = std::get<Value::List>(b.data());
    return std::equal(items->begin(), items->end(), others.begin(), others.end(), same_value);
  }
  if (const auto* members = std::get_if<Value::Object>(&a.data())) {
    const auto& others = std::get<Value::Object>(b.data());
    return std::equal(members->begin(), members->end(), others.begin(), others.end(),
                      [](const Value::Member& x, const Value::Member& y) {
                        return x.key == y.key && same_value(x.value, y.value);
                      });
  }
  return std::visit(
      [&](const auto& value) {
        using Type = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Type, Value::List> || std::is_same_v<Type, Value::Object>) {
          return false;
        } else {
          return value == std::get<Type>(b.data());
        }
      },
      a.data());
}

bool same_facts(const DataInfo& a, const DataInfo& b) {
  return a.shape.features == b.shape.features && a.shape.classes == b.shape.classes &&
         a.train_rows == b.train_rows && a.test_rows == b.test_rows &&
         a.unaccounted == b.unaccounted && a.first_rows_only == b.first_rows_only &&
         a.rows_chosen_by_value == b.rows_chosen_by_value && a.class_names == b.class_names &&
         a.feature_names == b.feature_names && same_value(a.reading, b.reading) &&
         a.remarks == b.remarks && a.has_targets == b.has_targets &&
         a.has_test_split == b.has_test_split;
}

void require_same_rows(const Together& streamed, Dataset read, const std::string& split) {
  const auto equal = [](const std::vector<float>& a, std::span<const float> b) {
    return same_bits(a, std::vector<float>(b.begin(), b.end()));
  };
  require(streamed.targets.size() == read.rows(),
          "it streams " + std::to_string(streamed.targets.size()) + " " + split +
              " rows, read() has " + std::to_string(read.rows()));
  require(equal(streamed.targets, read.targets()),
          "it streams other " + split + " targets than read() has");
  require(read.rows() == 0 || equal(streamed.features, read.features()),
          "it streams other " + split + " features than read() has");
}

/// The exception that the receiver of the rows throws.
struct Enough {};

}  // namespace

void check_streamed_rows(Checker& checker, DataSource& source, StreamedRows& streams) {
  checker.rule("streams_what_it_reads", [&] {
    const auto reads = checker.make<DataSource>();
    const DataInfo told = reads->info();
    const auto streaming = checker.make<DataSource>();
    for (const bool again : {false, true}) {
      const Streamed streamed(*streaming);
      require(same_facts(streamed.info, told),
              std::string("stream() returns another answer than info()") +
                  (again ? " the second time" : ""));
      require_same_rows(streamed.train, reads->read(Split::train), "training");
      if (told.test_rows > 0) require_same_rows(streamed.test, reads->read(Split::test), "test");
      require(told.test_rows > 0 || streamed.test.targets.empty(),
              "it streams test rows, and says that there are none");
    }
  });
  checker.rule("stops_streaming_where_rows_are_refused", [&] {
    bool has_stopped = false;
    try {
      streams.stream([](const RowBlock&) { throw Enough(); });
    } catch (const Enough&) {
      has_stopped = true;
    }
    require(has_stopped, "it continues after the function that takes the rows has thrown");
  });
  checker.rule("streams_rows_of_files_that_it_names",
               [&] { require(!source.files().empty(), "files() names none"); });
}

}  // namespace privgrad::testing

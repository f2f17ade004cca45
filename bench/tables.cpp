// Measures how fast tables become examples, on one thread: MB/s of text, for different kinds of
// fields. For comparison, measures the rate of counting line ends in the same text, which no reader
// exceeds.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clock.hpp"
#include "places.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/host/plugin_host.hpp"
#include "privgrad/host/search_path.hpp"
#include "processor.hpp"

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using privgrad::Value;
using privgrad::bench::best_seconds;

constexpr std::size_t kBytes = std::size_t{64} << 20;
constexpr int kTimes = 3;

/// Returns deterministic numbers without a pattern: xorshift64.
std::uint64_t next_number() {
  static std::uint64_t state = 88172645463325252u;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

std::string real() {
  const std::string digits = std::to_string(next_number() % 100'000'000);
  return std::to_string(next_number() % 100) + "." + digits;
}

struct Kind {
  std::string name;
  std::string header;
  std::function<std::string()> row;
  std::string columns;  ///< "", "fill" or "mixed".
};

Value column(const std::string& name, const std::string& type) {
  Value value{Value::Object{}};
  value.set("name", name);
  value.set("type", type);
  return value;
}

Value columns(const std::string& which) {
  Value number = column("n*", "number");
  number.set("fill", 0);
  Value category = column("c*", "category");
  category.set("values", Value(Value::List{"red", "green", "blue"}));
  category.set("other", true);
  if (which == "numbers") return Value(Value::List{number});
  return Value(Value::List{number, category, column("t*", "text")});
}

std::string many(const std::function<std::string(int)>& field, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += field(i) + ",";
  return text;
}

std::vector<Kind> kinds() {
  const std::vector<std::string> colours = {"red", "green", "blue", "mauve"};
  const auto name = [](int i) { return "n" + std::to_string(i); };
  return {
      {"reals of 8 to 11 characters", many(name, 20) + "y",
       [] { return many([](int) { return real(); }, 20) + std::to_string(next_number() % 2); }, ""},
      {"whole numbers of 1 to 3 digits", many(name, 50) + "y",
       [] {
         return many([](int) { return std::to_string(next_number() % 256); }, 50) +
                std::to_string(next_number() % 2);
       },
       "numbers"},
      {"numbers, categories, quoted text", many(name, 8) + "c1,c2,t1,y",
       [colours] {
         return many([](int) { return real(); }, 8) + colours[next_number() % 4] + "," +
                colours[next_number() % 4] + ",\"some text, with \"\"quotes\"\"\"," +
                std::to_string(next_number() % 2);
       },
       "mixed"},
  };
}

Json measure(const privgrad::Catalog& catalog, const Kind& kind, const fs::path& file) {
  std::string text = kind.header + "\n";
  while (text.size() < kBytes) text += kind.row() + "\n";
  std::ofstream(file, std::ios::binary) << text;
  Value params{Value::Object{}};
  params.set("train", file.string());
  params.set("target", "y");
  params.set("classes", 2);
  if (!kind.columns.empty()) params.set("columns", columns(kind.columns));
  std::size_t rows = 0;
  const auto read = [&](const Value& given) {
    return best_seconds(kTimes, [&] {
      const auto source = catalog.create<privgrad::DataSource>("csv", given);
      rows = source->info().train_rows;
      source->read(privgrad::Split::train);
    });
  };
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  const double whole = read(params);
  Value split{Value::Object{}};
  split.set("test", 0.2);
  params.set("split", split);
  const double with_split = read(params);
  std::size_t lines = 0;
  const double count = best_seconds(kTimes, [&] {
    lines += static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  });
  return {{"table", kind.name},
          {"megabytes", megabytes},
          {"lines", lines / kTimes},
          {"megabytes_per_second", megabytes / whole},
          {"with_split_megabytes_per_second", megabytes / with_split},
          {"counting_lines_megabytes_per_second", megabytes / count}};
}

}  // namespace

int main() {
  const auto host = privgrad::host::plugins_in({{.path = privgrad::places::plugins()}});
  const fs::path file = fs::temp_directory_path() / "privgrad-bench-table.csv";
  Json tables = Json::array();
  for (const Kind& kind : kinds()) tables.push_back(measure(host.catalog(), kind, file));
  fs::remove(file);
  std::cout << Json{{"bench", "tables"},
                    {"processor", processor()},
                    {"build", PRIVGRAD_BENCH_BUILD},
                    {"tables", tables}}
                   .dump(2)
            << "\n";
}

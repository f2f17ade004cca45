// Measures how fast texts become tokens, on one thread: MB per minute, from a file of JSON lines.
//
//   texts LINES.jsonl TOKENIZER.json...     such as examples/text/fetch.py writes
//
// The lines are repeated up to 32 MiB. Each tokenizer is measured at two lengths: the length of a
// classifier, which cuts most texts, and a length at which few texts are cut.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
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

constexpr std::size_t kBytes = std::size_t{32} << 20;
constexpr int kTimes = 3;

std::string content_of(const char* file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error(std::string(file) + " cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

Json measure(const privgrad::Catalog& catalog, const fs::path& lines, const std::string& tokenizer,
             std::int64_t length) {
  Value params{Value::Object{}};
  params.set("train", lines.string());
  params.set("format", "jsonl");
  params.set("length", length);
  if (!tokenizer.empty()) params.set("tokenizer", tokenizer);
  const double seconds = privgrad::bench::best_seconds(kTimes, [&] {
    catalog.create<privgrad::DataSource>("text", params)->read(privgrad::Split::train);
  });
  const double megabytes = static_cast<double>(fs::file_size(lines)) / 1e6;
  return {{"tokenizer", tokenizer},
          {"length", length},
          {"megabytes", megabytes},
          {"megabytes_per_minute", 60.0 * megabytes / seconds}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: texts LINES.jsonl TOKENIZER.json...\n";
    return 2;
  }
  const auto host = privgrad::host::plugins_in({{.path = privgrad::places::plugins()}});
  const fs::path file = fs::temp_directory_path() / "privgrad-bench-texts.jsonl";
  const std::string lines = content_of(argv[1]);
  std::ofstream out(file, std::ios::binary);
  for (std::size_t size = 0; size < kBytes; size += lines.size()) out << lines;
  out.close();
  std::vector<std::string> tokenizers{""};  // bytes
  tokenizers.insert(tokenizers.end(), argv + 2, argv + argc);
  Json results = Json::array();
  for (const std::string& tokenizer : tokenizers) {
    for (const std::int64_t length : {64, 1024})
      results.push_back(measure(host.catalog(), file, tokenizer, length));
  }
  fs::remove(file);
  std::cout << Json{{"bench", "texts"},
                    {"processor", processor()},
                    {"build", PRIVGRAD_BENCH_BUILD},
                    {"tokenizers", results}}
                   .dump(2)
            << "\n";
}

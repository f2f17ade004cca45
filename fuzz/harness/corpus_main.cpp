#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "privgrad/error.hpp"

namespace {
namespace fs = std::filesystem;

/// \returns the error in the treatment of the file; "" if there is none. File names state what is
///   expected: good-* is read, bad-* is refused with an Error.
std::string problem_with(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return "cannot be opened";
  const std::string input{std::istreambuf_iterator<char>(in), {}};
  const std::string name = file.filename().string();
  if (!name.starts_with("good-") && !name.starts_with("bad-"))
    return "is named neither good-* nor bad-*";
  try {
    read_input(input);
  } catch (const privgrad::Error& refusal) {
    if (!name.starts_with("bad-")) return std::string("was refused: ") + refusal.what();
    std::cout << name << ": refused: " << refusal.what() << "\n";
    return "";
  } catch (const std::exception& finding) {
    return std::string("made the reader throw what is no Error: ") + finding.what();
  }
  return name.starts_with("good-") ? "" : "was read, and should be refused";
}

}  // namespace

/// Passes every file of a folder to a target, without libFuzzer: usage: TARGET FOLDER
int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " FOLDER\n";
    return 2;
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(argv[1])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  int problems = 0;
  for (const fs::path& file : files) {
    const std::string problem = problem_with(file);
    if (problem.empty()) continue;
    std::cerr << file.string() << ": " << problem << "\n";
    ++problems;
  }
  std::cout << files.size() << " inputs, " << problems << " problems\n";
  return problems == 0 && !files.empty() ? 0 : 1;
}

// The backend cpu gives the same bits at every instruction set.
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "exact_programs.hpp"
#include "privgrad/instruction_set.hpp"
#include "process.hpp"

using namespace privgrad;
namespace exact_programs {

namespace {

/// Returns a hash of each network's results for some examples, which must be the same at every
/// instruction set; one line each: "network 3: 0123456789abcdef".
std::string digests() {
  std::ostringstream lines;
  std::uint64_t hash = 0;
  const auto add = [&](const void* data, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
      hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211u;
    }
  };
  std::vector<Network> all = networks();
  for (Network& network : transformer_networks()) all.push_back(std::move(network));
  const std::size_t small = all.size();
  for (Network& network : house_networks()) all.push_back(std::move(network));
  ThreadExecutor threads(2);
  Generator generator(71);
  for (std::size_t which = 0; which < all.size(); ++which) {
    hash = 14695981039346656037u;  // FNV-1a
    const Compiled one(all[which], threads);
    Examples examples = random_examples(generator, all[which], which < small ? 67 : 3);
    if (which < small) {
      examples.features[0] = kNan;
      examples.fill(5, 1e-30f);
    }
    Made made(one, examples.batch());
    made.make(longest_scales(one, made.norms));
    const Cells sum = made.sum();
    Floats rows = gradient_rows(one, examples.batch());
    // The bits of a NaN depend on the order of an addition's operands, so all NaNs are replaced by
    // one.
    std::replace_if(
        rows.begin(), rows.end(), [](float x) { return std::isnan(x); }, kNan);
    const double loss = one.program->evaluate(examples.batch(1, 2)).loss;
    add(made.norms.data(), made.norms.size() * sizeof(double));
    add(made.lengths.data(), made.lengths.size() * sizeof(SquaredLength));
    add(sum.data(), sum.size() * sizeof(std::int64_t));
    add(rows.data(), rows.size() * sizeof(float));
    add(&loss, sizeof loss);
    lines << "network " << which << ": " << std::hex << std::setw(16) << std::setfill('0') << hash
          << std::dec << "\n";
  }
  return lines.str();
}

}  // namespace

// Used by the next test, which runs this program again, and by scripts/check-levels.sh.
TEST_CASE("cpu exact: digest", "[.][digest]") {
  std::cout << "\nlevel " << name_of(instruction_set()) << "\n" << digests() << "end\n";
}

TEST_CASE("cpu exact: the same bits at every instruction set", "[backend][privacy]") {
  std::vector<std::string> levels{"plain"};
  if (instruction_set() >= InstructionSet::avx2) levels.push_back("avx2");
  if (instruction_set() >= InstructionSet::avx512) levels.push_back("avx512");
  const std::string wanted = digests();
  for (const std::string& level : levels) {
    Call what{.words = {"/proc/self/exe", "[digest]"}};
    what.words.front() = std::filesystem::read_symlink("/proc/self/exe").string();
    what.environment["PRIVGRAD_INSTRUCTIONS"] = level;
    const Outcome outcome = call(what);
    INFO(outcome.out << outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.out.find("level " + level + "\n" + wanted + "end") != std::string::npos);
  }
}

}  // namespace exact_programs

#include "privgrad/data/data_commitment.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <numeric>
#include <system_error>
#include <utility>
#include <vector>

#include "bytes_of.hpp"
#include "privgrad/data/private_folder.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPurpose = "privgrad data commitment 1\n";
constexpr std::size_t kRowsAtOnce = 256;

void append_word(std::string& bytes, std::uint64_t word) {
  for (int i = 0; i < 8; ++i)
    bytes += static_cast<char>(static_cast<std::uint8_t>(word >> (8 * i)));
}

std::string hex(const Opening& opening) {
  std::array<char, 2 * sizeof(Opening) + 1> text{};
  return sodium_bin2hex(text.data(), text.size(), opening.data(), opening.size());
}

void make_private_directory(const fs::path& directory) {
  make_directories(directory.parent_path());
  if (::mkdir(directory.c_str(), 0700) == 0) return;
  throw IoError(directory.string() + ": cannot be made: " + std::generic_category().message(errno));
}

void write_private_file(const fs::path& file, std::string_view text) {
  // Mode 0600 is safe, because a umask can only remove permissions.
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const auto why = [&](int error) {
    return file.string() + ": cannot be written: " + std::generic_category().message(error);
  };
  if (descriptor < 0) throw IoError(why(errno));
  const bool written = write_all(descriptor, text) && ::fsync(descriptor) == 0;
  const int error = errno;
  ::close(descriptor);
  if (written) return;
  ::unlink(file.c_str());
  throw IoError(why(error));
}

void keep(const Opening& opening, const std::string& commitment, const fs::path& state) {
  const fs::path directory = state / commitment.substr(0, 32);
  make_private_directory(directory);
  try {
    write_private_file(
        directory / "opening.json",
        nlohmann::json{{"opening", hex(opening)}, {"commitment", commitment}}.dump() + "\n");
  } catch (const IoError&) {
    ::rmdir(directory.c_str());
    throw;
  }
}

}  // namespace

std::string commitment_to(const Opening& opening, const Dataset& rows) {
  Sha256 hash;
  hash.add(kPurpose);
  hash.add(opening);
  std::string bytes;
  const Shape& shape = rows.shape().features;
  append_word(bytes, rows.rows());
  append_word(bytes, shape.size());
  for (const std::size_t extent : shape) append_word(bytes, extent);
  append_word(bytes, rows.shape().classes);
  hash.add(bytes);
  std::vector<std::uint32_t> some;
  std::vector<float> features, targets;
  const std::size_t row = rows.row_size();
  for (std::size_t begin = 0; begin < rows.rows(); begin += kRowsAtOnce) {
    some.resize(std::min(kRowsAtOnce, rows.rows() - begin));
    std::iota(some.begin(), some.end(), static_cast<std::uint32_t>(begin));
    features.resize(some.size() * row);
    targets.resize(some.size());
    rows.gather(some, features, targets);
    for (std::size_t i = 0; i < some.size(); ++i) {
      hash.add(bytes_of(std::span(features).subspan(i * row, row)));
      hash.add(bytes_of(std::span(targets).subspan(i, 1)));
    }
  }
  return hash.hex();
}

Opening opening_of_seed(std::uint64_t seed) {
  Opening opening{};
  RandomKey::from_seed(seed).derive("data commitment").fill_bytes(0, 0, opening);
  return opening;
}

DataCommitment commit(std::optional<std::uint64_t> seed, const Dataset& train,
                      const fs::path& state) {
  if (seed) return {commitment_to(opening_of_seed(*seed), train), ""};
  if (state.empty()) {
    return {std::nullopt,
            "there is no directory for its opening (none of --state, XDG_STATE_HOME and HOME is "
            "given)"};
  }
  Opening opening{};
  RandomKey::from_operating_system().fill_bytes(0, 0, opening);
  std::string value = commitment_to(opening, train);
  try {
    keep(opening, value, state);
  } catch (const IoError& problem) {
    return {std::nullopt, std::string("its opening cannot be stored: ") + problem.what()};
  }
  return {std::move(value), ""};
}

DataCommitment commit_again(std::optional<std::uint64_t> seed, const Dataset& train,
                            const fs::path& state, const std::optional<std::string>& value) {
  if (!value) return {std::nullopt, "there was no commitment at the start of the run"};
  const Opening opening =
      seed ? opening_of_seed(*seed) : read_opening(state / value->substr(0, 32) / "opening.json");
  if (commitment_to(opening, train) == *value) return {value, ""};
  throw PrivacyError(
      "the training data has changed since the start of the run: its commitment has another hash");
}

Opening read_opening(const fs::path& file) {
  constexpr std::size_t kMost = 4096;
  const fs::path folder = file.parent_path().empty() ? fs::path(".") : file.parent_path();
  const std::string text = RecordDirectory(folder).read(file.filename().string(), kMost);
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const bool holds_one = json.is_object() && json.contains("opening") &&
                         json.at("opening").is_string() &&
                         is_sha256_hex(json.at("opening").get_ref<const std::string&>());
  if (!holds_one) {
    throw ConfigError(file.string() +
                      ": contains no 'opening' of 64 hex digits as written by a run");
  }
  Opening opening{};
  const auto& digits = json.at("opening").get_ref<const std::string&>();
  sodium_hex2bin(opening.data(), opening.size(), digits.data(), digits.size(), nullptr, nullptr,
                 nullptr);
  return opening;
}

}  // namespace privgrad::core

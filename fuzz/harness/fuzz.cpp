#include "fuzz.hpp"

#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "places.hpp"
#include "privgrad/host/search_path.hpp"

namespace fuzz {
namespace fs = std::filesystem;

void require(bool holds, const char* promise) {
  if (!holds) throw std::logic_error(std::string("a promise was broken: ") + promise);
}

const fs::path& scratch_folder() {
  struct Folder {
    fs::path path = fs::temp_directory_path() / ("privgrad-fuzz-" + std::to_string(::getpid()));
    Folder() { fs::create_directories(path); }
    ~Folder() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path;
}

fs::path scratch_file(std::string_view name, std::string_view content) {
  fs::path file = scratch_folder() / name;
  fs::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  if (!out) throw std::runtime_error(file.string() + ": cannot be written");
  return file;
}

char take_choice(std::string_view& input) {
  if (input.empty()) return 0;
  const char choice = input.front();
  input.remove_prefix(1);
  return choice;
}

const privgrad::Catalog& catalog() {
  static const auto host = privgrad::host::plugins_in({{.path = privgrad::places::plugins()}});
  for (const auto& refusal : host.catalog().refused()) {
    throw std::runtime_error(refusal.file + ": " + refusal.why);
  }
  return host.catalog();
}

namespace {

std::string sha256(std::string_view text) {
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256(digest.data(), reinterpret_cast<const unsigned char*>(text.data()),
                     text.size());
  std::array<char, 2 * digest.size() + 1> hex{};
  return sodium_bin2hex(hex.data(), hex.size(), digest.data(), digest.size());
}

}  // namespace

std::string sealed_ledger(std::string_view lines) {
  std::string sealed, previous;
  std::uint64_t number = 0;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    std::string line(lines.substr(0, end));
    const bool whole = end < lines.size();
    lines.remove_prefix(whole ? end + 1 : end);
    if (whole && line.ends_with("}")) {
      line.pop_back();
      line += ",\"line\":" + std::to_string(++number) + ",\"previous\":\"" + previous + "\"";
      previous = sha256(line + "}");
      line += ",\"hash\":\"" + previous + "\"}";
    }
    sealed += line;
    if (whole) sealed += '\n';
  }
  return sealed;
}

}  // namespace fuzz

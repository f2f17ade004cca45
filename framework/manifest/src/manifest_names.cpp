#include "privgrad/manifest/manifest_names.hpp"

#include <algorithm>

namespace privgrad::core {

std::string default_name(const std::filesystem::path& file) {
  std::string name = file.stem().string().substr(0, 64);
  for (char& c : name) {
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!allowed) c = '-';
  }
  if (!is_name(name)) name.insert(0, "run");
  return name.substr(0, 64);
}

bool is_name(std::string_view text) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !text.empty() && text.size() <= 64 && is_word(text.front()) &&
         std::ranges::all_of(
             text, [&](char c) { return is_word(c) || c == '.' || c == '_' || c == '-'; });
}

}  // namespace privgrad::core

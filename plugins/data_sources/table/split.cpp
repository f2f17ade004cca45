#include "split.hpp"

#include <sodium.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "cell_text.hpp"
#include "columns.hpp"
#include "privgrad/error.hpp"
#include "privgrad/names.hpp"

static_assert(crypto_shorthash_KEYBYTES == 16 && crypto_shorthash_BYTES == 8);

namespace {

using namespace privgrad;

/// \returns the end of the copy.
unsigned char* copy(std::string_view text, unsigned char* to) {
  const std::size_t size = text.size();
  // copies short fields, the most frequent ones, without a branch for each length
  if (size >= 1 && size <= 3) {
    to[0] = static_cast<unsigned char>(text[0]);
    to[size / 2] = static_cast<unsigned char>(text[size / 2]);
    to[size - 1] = static_cast<unsigned char>(text[size - 1]);
  } else {
    std::memcpy(to, text.data(), size);
  }
  return to + size;
}

}  // namespace

std::vector<ParamSpec> RowSplit::params() {
  return {
      // The limits are far enough from 0 and 1 for both sides to have some rows.
      param::real("test", "The share of the rows, about, that are test rows.")
          .at_least(0.01)
          .at_most(0.99)
          .example(0.2),
      param::text("by",
                  "A column, such as a patient's number: rows with the same value stay together. "
                  "Without it the whole row is hashed.")
          .optional(),
      param::integer("seed", "Public: another one makes another split.").at_least(0).defaults_to(1),
  };
}

RowSplit::RowSplit(const Params& params, bool decimal_comma)
    : most_(static_cast<std::uint64_t>(std::ldexp(params.real("test"), 64))),
      decimal_comma_(decimal_comma) {
  if (params.has("by")) by_ = params.text("by");
  const std::string purpose = "privgrad csv split " + std::to_string(params.integer("seed"));
  crypto_generichash(key_.data(), key_.size(),
                     reinterpret_cast<const unsigned char*>(purpose.data()), purpose.size(),
                     nullptr, 0);
}

void RowSplit::use(const std::vector<std::string>& names) {
  fields_.clear();
  if (by_) {
    const auto found = std::ranges::find(names, *by_);
    if (found == names.end())
      throw ConfigError("data.split.by is " + in_quotes(*by_) + ", but no column has this name" +
                        did_you_mean(*by_, names));
    fields_.push_back(static_cast<std::size_t>(found - names.begin()));
    return;
  }
  fields_.resize(names.size());
  std::iota(fields_.begin(), fields_.end(), std::size_t{0});
  std::ranges::sort(fields_, [&](std::size_t a, std::size_t b) { return names[a] < names[b]; });
}

bool RowSplit::is_test(std::span<const std::string_view> row) {
  std::size_t most = 0;
  for (const std::size_t i : fields_)
    most += sizeof(std::uint64_t) + std::max(row[i].size(), kLongestCommonText);
  if (text_.size() < most) text_.resize(most);
  unsigned char* end = text_.data();
  std::array<char, kLongestCommonText> buffer{};
  for (const std::size_t i : fields_) {
    // If this number is written as 2.0 because of another row, this row must stay on its side.
    const std::string_view text = common_text(row[i], decimal_comma_, buffer);
    // Writes the length first, which distinguishes ("ab", "c") from ("a", "bc").
    const std::uint64_t size = text.size();
    std::memcpy(end, &size, sizeof size);
    end = copy(text, end + sizeof size);
  }
  std::uint64_t hash = 0;
  crypto_shorthash(reinterpret_cast<unsigned char*>(&hash), text_.data(),
                   static_cast<std::size_t>(end - text_.data()), key_.data());
  return hash < most_;
}

#include "split.hpp"

#include <sodium.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "columns.hpp"
#include "privgrad/error.hpp"

namespace param = privgrad::param;

static_assert(crypto_shorthash_KEYBYTES == 16 && crypto_shorthash_BYTES == 8);

std::vector<privgrad::ParamSpec> RowSplit::params() {
  return {
      // Far from the ends, so that whether a side has any row is known without looking.
      param::real("test", "The share of the rows, about, that are test rows.")
          .at_least(0.01)
          .at_most(0.99)
          .example(0.2),
      param::text("by",
                  "A column whose rows of one value stay together, such as that of a "
                  "patient's number. Without it the whole row is hashed.")
          .optional(),
      param::integer("seed", "Public: another one makes another split.").at_least(0).defaults_to(1),
  };
}

RowSplit::RowSplit(const privgrad::Params& params)
    : most_(static_cast<std::uint64_t>(std::ldexp(params.real("test"), 64))) {
  if (params.has("by")) by_ = params.text("by");
  const std::string purpose = "privgrad csv split " + std::to_string(params.integer("seed"));
  crypto_generichash(key_.data(), key_.size(),
                     reinterpret_cast<const unsigned char*>(purpose.data()), purpose.size(),
                     nullptr, 0);
}

void RowSplit::use(const std::vector<std::string>& names) {
  fields_.clear();
  if (by_) {
    const auto found = std::find(names.begin(), names.end(), *by_);
    if (found == names.end()) {
      const std::string nearest = privgrad::nearest_name(*by_, names);
      throw privgrad::ConfigError(
          "data.split.by is " + in_quotes(*by_) + ", which no column is called" +
          (nearest.empty() ? "" : "; did you mean " + in_quotes(nearest) + "?"));
    }
    fields_.push_back(static_cast<std::size_t>(found - names.begin()));
    return;
  }
  fields_.resize(names.size());
  std::iota(fields_.begin(), fields_.end(), std::size_t{0});
  std::sort(fields_.begin(), fields_.end(),
            [&](std::size_t a, std::size_t b) { return names[a] < names[b]; });
}

bool RowSplit::is_test(const TextRows& row) {
  text_.clear();
  for (const std::size_t i : fields_) {
    // The length in front keeps ("ab", "c") and ("a", "bc") apart.
    const std::string_view field = row.field(i);
    const std::uint64_t size = field.size();
    text_.append(reinterpret_cast<const char*>(&size), sizeof size);
    text_.append(field);
  }
  std::uint64_t hash = 0;
  crypto_shorthash(reinterpret_cast<unsigned char*>(&hash),
                   reinterpret_cast<const unsigned char*>(text_.data()), text_.size(), key_.data());
  return hash < most_;
}

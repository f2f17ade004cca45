#include "line_rows.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "../table/columns.hpp"
#include "unicode.hpp"

namespace {

using nlohmann::json;

/// Extracts the values of some members of a JSON object, and stores nothing else.
class Members final : public nlohmann::json_sax<json> {
 public:
  Members(const std::vector<std::string>& names, std::vector<std::string>& values)
      : names_(names), values_(values) {}

  bool has_text() const { return is_object_ && has_text_; }
  bool has_last() const { return has_last_; }

  bool null() override { return take("", false); }
  bool boolean(bool value) override { return take(value ? "true" : "false", false); }
  bool number_integer(number_integer_t value) override {
    return take(std::to_string(value), false);
  }
  bool number_unsigned(number_unsigned_t value) override {
    return take(std::to_string(value), false);
  }
  bool number_float(number_float_t, const string_t& written) override {
    return take(written, false);
  }
  bool string(string_t& value) override { return take(std::move(value), true); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override {
    if (depth_ == 0) is_object_ = true;
    return begin();
  }
  bool start_array(std::size_t) override { return begin(); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(string_t& name) override {
    if (depth_ == 1)
      place_ = static_cast<std::size_t>(std::ranges::find(names_, name) - names_.begin());
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  bool begin() {
    const bool taken = take("", false);
    ++depth_;
    return taken;
  }
  bool end() {
    --depth_;
    return true;
  }
  bool take(std::string value, bool is_text) {
    if (depth_ != 1 || place_ >= names_.size()) return true;
    if (place_ == 0) has_text_ = is_text;
    if (place_ + 1 == names_.size()) has_last_ = true;
    values_[place_] = std::move(value);
    return true;
  }

  const std::vector<std::string>& names_;
  std::vector<std::string>& values_;
  std::size_t depth_ = 0;
  std::size_t place_ = 0;  ///< Index of the outermost object's current member.
  bool is_object_ = false, has_text_ = false, has_last_ = false;
};

}  // namespace

LineRows::LineRows(const std::filesystem::path& file, std::vector<std::string> names, bool is_json,
                   bool fills, bool needs_last, std::uint64_t most_bytes)
    : names_(std::move(names)),
      is_json_(is_json),
      fills_(fills),
      needs_last_(needs_last),
      reader_(file, {.quote = {}, .row_is_line = true, .line_is_field = true}, most_bytes),
      values_(names_.size()),
      views_(names_.size()) {
  if (fills_) reader_.fill_malformed(1);
}

bool LineRows::next() {
  if (!reader_.next()) return false;
  views_.front() = reader_.fields().front();
  constexpr std::string_view kMark = "\xef\xbb\xbf";  // dropped in any line: no row's place matters
  if (views_.front().starts_with(kMark)) views_.front().remove_prefix(kMark.size());
  fields_ = views_;
  if (!is_json_) return true;
  for (std::string& value : values_) value.clear();
  Members members(names_, values_);
  const std::string_view line = well_formed(views_.front(), line_);
  if (!json::sax_parse(line, &members) || !members.has_text()) {
    if (!fills_)
      reader_.fail_at_row("the line is not a JSON object with a text " + in_quotes(names_.front()) +
                          "; set data.malformed: fill to accept such rows");
    for (std::string& value : values_) value.clear();
  } else if (needs_last_ && !fills_ && !members.has_last()) {
    reader_.fail_at_row("the object has no member " + in_quotes(names_.back()) +
                        ", which data.split.by names");
  }
  std::ranges::copy(values_, views_.begin());
  fields_ = views_;
  return true;
}

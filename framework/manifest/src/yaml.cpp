#include "privgrad/manifest/yaml.hpp"

#include <yaml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <limits>
#include <new>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/manifest/utf8.hpp"

namespace privgrad::core {
namespace {

Mark to_mark(const yaml_mark_t& mark) {
  return {static_cast<int>(mark.line) + 1, static_cast<int>(mark.column) + 1};
}

std::string to_text(Mark mark) {
  return "line " + std::to_string(mark.line) + ", column " + std::to_string(mark.column);
}

// ---- characters

std::string hex(std::uint32_t value, int digits) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    text += kDigits[(value >> shift) & 15u];
  return text;
}

// ---- plain scalars

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t skip_digits(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

std::size_t skip_sign(std::string_view text, std::size_t at) {
  return at < text.size() && (text[at] == '+' || text[at] == '-') ? at + 1 : at;
}

bool looks_like_integer(std::string_view text) {
  const std::size_t begin = skip_sign(text, 0);
  return begin < text.size() && skip_digits(text, begin) == text.size();
}

/// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool looks_like_real(std::string_view text) {
  const std::size_t begin = skip_sign(text, 0);
  std::size_t at = skip_digits(text, begin);
  std::size_t digits = at - begin;
  if (at < text.size() && text[at] == '.') {
    const std::size_t fraction = at + 1;
    at = skip_digits(text, fraction);
    digits += at - fraction;
  }
  if (digits == 0) return false;
  if (at == text.size()) return true;
  if (text[at] != 'e' && text[at] != 'E') return false;
  const std::size_t exponent = skip_sign(text, at + 1);
  return exponent < text.size() && skip_digits(text, exponent) == text.size();
}

template <class... Format>
Value number(std::string_view digits, std::string_view original, std::string_view fits,
             std::string& problem, auto zero, Format... format) {
  if (!digits.empty() && digits.front() == '+') digits.remove_prefix(1);
  auto value = zero;
  const auto result =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, format...);
  if (result.ec == std::errc{} && result.ptr == digits.data() + digits.size()) return value;
  if (result.ec == std::errc::result_out_of_range) {
    problem =
        "is " + std::string(original.substr(0, 40)) + ", which does not fit " + std::string(fits);
    return zero;
  }
  return std::string(original);
}

// ---- events

struct Event {
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { yaml_event_delete(&raw); }
  yaml_event_t raw{};
};

/// Thrown if the text cannot be parsed any further; the reason is among the problems.
struct Unreadable {};

class Reader {
 public:
  Reader(std::string_view text, std::vector<Problem>& problems) : problems_(problems) {
    if (yaml_parser_initialize(&parser_) == 0) throw std::bad_alloc();
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size());
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { yaml_parser_delete(&parser_); }

  Value document() {
    Value root;
    {
      Event start, begin;
      next(start);
      next(begin);
      if (begin.raw.type == YAML_STREAM_END_EVENT) stop({1, 1}, "the file is empty");
    }
    root = node(0);
    Event end, after;
    next(end);
    next(after);
    if (after.raw.type != YAML_STREAM_END_EVENT) {
      report(to_mark(after.raw.start_mark),
             "a second document begins here; a file holds one document");
    }
    return root;
  }

 private:
  void next(Event& event) {
    if (yaml_parser_parse(&parser_, &event.raw) != 0) return;
    if (parser_.error == YAML_MEMORY_ERROR) throw std::bad_alloc();
    std::string what = "this is not valid YAML: ";
    what += parser_.problem != nullptr ? parser_.problem : "unknown problem";
    if (parser_.context != nullptr) what += std::string(" ") + parser_.context;
    path_.clear();
    stop(to_mark(parser_.problem_mark), what);
  }

  Value node(int depth) {
    Event event;
    next(event);
    return node(event, depth);
  }

  Value node(const Event& event, int depth) {
    const Mark mark = to_mark(event.raw.start_mark);
    if (++nodes_ > kMaxYamlNodes) {
      path_.clear();
      stop(mark, "the file has more than " + std::to_string(kMaxYamlNodes) + " values");
    }
    Value value;
    switch (event.raw.type) {
      case YAML_ALIAS_EVENT:
        report(mark, "is an alias; aliases are not allowed, write the value itself");
        break;
      case YAML_SCALAR_EVENT:
        value = scalar(event, mark);
        break;
      case YAML_SEQUENCE_START_EVENT:
        check_properties(event.raw.data.sequence_start.anchor, event.raw.data.sequence_start.tag,
                         mark);
        value = list(check_depth(depth + 1, mark));
        break;
      case YAML_MAPPING_START_EVENT:
        check_properties(event.raw.data.mapping_start.anchor, event.raw.data.mapping_start.tag,
                         mark);
        value = object(check_depth(depth + 1, mark));
        break;
      default:
        stop(mark, "this is not valid YAML: a value is expected here");
    }
    value.mark = mark;
    return value;
  }

  Value scalar(const Event& event, Mark mark) {
    const auto& raw = event.raw.data.scalar;
    check_properties(raw.anchor, raw.tag, mark);
    const std::string_view text(reinterpret_cast<const char*>(raw.value), raw.length);
    if (raw.style != YAML_PLAIN_SCALAR_STYLE) {
      // Escapes in quoted texts can produce characters that are not allowed in the file itself.
      if (const auto bad = find_bad_character(text)) report(mark, bad->what);
      return std::string(text);
    }
    std::string problem;
    Value value = plain_scalar(text, problem);
    if (!problem.empty()) report(mark, problem);
    return value;
  }

  Value list(int depth) {
    Value::List items;
    for (;;) {
      Event event;
      next(event);
      if (event.raw.type == YAML_SEQUENCE_END_EVENT) return items;
      const Descent descent(*this, std::to_string(items.size()));
      items.push_back(node(event, depth));
    }
  }

  Value object(int depth) {
    Value::Object members;
    // Searching the members for each new key would take quadratic time.
    std::unordered_map<std::string, Mark> seen;
    for (;;) {
      Event event;
      next(event);
      if (event.raw.type == YAML_MAPPING_END_EVENT) return members;
      const Mark mark = to_mark(event.raw.start_mark);
      const std::optional<std::string> key = read_key(event, mark, depth);
      if (!key) {
        node(depth);
        continue;
      }
      const Descent descent(*this, *key);
      Value value = node(depth);
      const auto [first, is_new] = seen.emplace(*key, mark);
      if (is_new) {
        members.push_back({*key, std::move(value), mark});
      } else {
        report(mark, "is given twice; the first is at " + to_text(first->second));
      }
    }
  }

  std::optional<std::string> read_key(const Event& event, Mark mark, int depth) {
    if (event.raw.type != YAML_SCALAR_EVENT) {
      report(mark, "a key must be a name here");
      node(event, depth);
      return std::nullopt;
    }
    ++nodes_;
    const auto& raw = event.raw.data.scalar;
    check_properties(raw.anchor, raw.tag, mark);
    std::string key(reinterpret_cast<const char*>(raw.value), raw.length);
    if (const auto bad = find_bad_character(key)) {
      report(mark, "a key " + bad->what);
      return std::nullopt;
    }
    if (key.empty()) {
      report(mark, "a key is empty");
      return std::nullopt;
    }
    if (key == "<<" && raw.style == YAML_PLAIN_SCALAR_STYLE) {
      report(mark, "merge keys (<<) are not allowed; write the members themselves");
      return std::nullopt;
    }
    return key;
  }

  void check_properties(const yaml_char_t* anchor, const yaml_char_t* tag, Mark mark) {
    if (anchor != nullptr) report(mark, "has an anchor; anchors are not allowed");
    if (tag != nullptr)
      report(mark, "has a tag; tags are not allowed, quote what is meant as text");
  }

  int check_depth(int depth, Mark mark) {
    if (depth <= kMaxYamlDepth) return depth;
    path_.clear();
    stop(mark, "this is nested deeper than " + std::to_string(kMaxYamlDepth) + " levels");
  }

  void report(Mark mark, std::string what) {
    // A long key that contains many mistakes must not be copied for each mistake.
    problems_.push_back({mark, one_line(path_, 200), std::move(what)});
  }

  [[noreturn]] void stop(Mark mark, std::string what) {
    report(mark, std::move(what));
    throw Unreadable{};
  }

  /// Extends the dotted path while a member is being read.
  class Descent {
   public:
    Descent(Reader& reader, std::string_view key) : reader_(reader), length_(reader.path_.size()) {
      if (!reader.path_.empty()) reader.path_ += '.';
      reader.path_ += key;
    }
    Descent(const Descent&) = delete;
    Descent& operator=(const Descent&) = delete;
    ~Descent() { reader_.path_.resize(std::min(length_, reader_.path_.size())); }

   private:
    Reader& reader_;
    std::size_t length_;
  };

  yaml_parser_t parser_{};
  std::vector<Problem>& problems_;
  std::string path_;
  std::size_t nodes_ = 0;
};

}  // namespace

std::optional<BadCharacter> find_bad_character(std::string_view text) {
  Mark mark{1, 1};
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, length] = decode_utf8(text.substr(at, 4));
    if (length == 0) {
      return BadCharacter{
          mark, "is not UTF-8 (byte 0x" + hex(static_cast<unsigned char>(text[at]), 2) + ")"};
    }
    if (is_control(code)) {
      return BadCharacter{mark, "contains the control character U+" + hex(code, 4)};
    }
    at += length;
    // A carriage return is a line break unless a line feed follows, which is then the line break.
    const bool breaks = code == '\n' || (code == '\r' && (at == text.size() || text[at] != '\n'));
    mark = breaks ? Mark{mark.line + 1, 1} : Mark{mark.line, mark.column + 1};
  }
  return std::nullopt;
}

Value plain_scalar(std::string_view text, std::string& problem) {
  const auto any_of = [&](auto... words) { return ((text == words) || ...); };
  if (any_of("", "~", "null", "Null", "NULL")) return {};
  if (any_of("true", "True", "TRUE")) return true;
  if (any_of("false", "False", "FALSE")) return false;
  if (any_of(".nan", ".NaN", ".NAN")) return std::numeric_limits<double>::quiet_NaN();
  if (any_of(".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF")) {
    return std::numeric_limits<double>::infinity();
  }
  if (any_of("-.inf", "-.Inf", "-.INF")) return -std::numeric_limits<double>::infinity();
  constexpr std::string_view kInteger = "a 64-bit integer";
  if (text.starts_with("0x") || text.starts_with("0o")) {
    const std::string_view digits = text.substr(2);
    if (digits.empty() || !std::isxdigit(static_cast<unsigned char>(digits.front()))) {
      return std::string(text);
    }
    return number(digits, text, kInteger, problem, std::int64_t{0}, text[1] == 'x' ? 16 : 8);
  }
  if (looks_like_integer(text)) return number(text, text, kInteger, problem, std::int64_t{0});
  if (looks_like_real(text)) {
    return number(text, text, "a double-precision real", problem, 0.0);
  }
  return std::string(text);
}

std::optional<Value> parse_yaml(std::string_view text, std::vector<Problem>& problems) {
  if (text.size() > kMaxYamlBytes) {
    problems.push_back({{1, 1}, "", "the file is larger than 1 MiB"});
    return std::nullopt;
  }
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (const auto bad = find_bad_character(text)) {
    problems.push_back({bad->mark, "", "the file " + bad->what});
    return std::nullopt;
  }
  try {
    return Reader(text, problems).document();
  } catch (const Unreadable&) {
    return std::nullopt;
  }
}

void mark_all(Value& value, Mark mark) {
  value.mark = mark;
  if (auto* items = std::get_if<Value::List>(&value.data())) {
    for (Value& item : *items) mark_all(item, mark);
  } else if (auto* members = std::get_if<Value::Object>(&value.data())) {
    for (Value::Member& member : *members) {
      member.key_mark = mark;
      mark_all(member.value, mark);
    }
  }
}

}  // namespace privgrad::core

// Writes and reads the state of objects for checkpoints, bit for bit.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/slice.hpp"

namespace privgrad::core {

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian");

/// A type that lists its state once, for both writing and reading:
///
///     static auto state(auto& self) { return std::tie(self.run, self.round, self.model); }
///
/// Members may be numbers, enumerators, bools, strings, keys, types that list their state, and
/// vectors, arrays, maps and optionals of these.
template <class T>
concept ListsState = requires(T& value) {
  T::state(value);
};

/// Whether vectors of the type are written as one block of bytes.
template <class T>
inline constexpr bool kIsPlainNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

/// Writes the state that an object needs to continue later, one value after the other. Numbers keep
/// their bits. The state may be private; it goes only into the private folder of a run.
class StateWriter {
 public:
  /// Marks the beginning of a part, so that a reader notices if it is at the wrong place.
  void begin(std::string_view part) { bytes(part); }
  void word(std::uint64_t value) { append(&value, sizeof value); }
  void real(double value) { append(&value, sizeof value); }
  void bytes(std::string_view text) {
    word(text.size());
    append(text.data(), text.size());
  }
  template <class T>
  void array(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    word(values.size());
    append(values.data(), values.size_bytes());
  }
  template <class T>
  void array(const std::vector<T>& values) {
    array(std::span<const T>(values));
  }

  /// Writes each value by its type: an integer, enumerator or bool as a word, a vector or map after
  /// its size, an optional after a bool, and a type that lists its state as its members.
  template <class... T>
  void put(const T&... values) {
    (put_one(values), ...);
  }
  template <class... T>
  void put(const std::tuple<T&...>& list) {
    std::apply([&](const auto&... values) { put(values...); }, list);
  }

  /// Assembles a vector of which each process holds a slice; all processes call it, in the same
  /// order.
  /// \param slice  this process's slice, whose elements have `element` bytes.
  /// \returns the whole vector's bytes.
  using Whole =
      std::function<std::vector<std::byte>(std::span<const std::byte> slice, std::size_t element)>;
  /// Makes sliced() write whole vectors from now on, so that the state does not depend on the
  /// number of processes.
  void put_together_by(Whole whole) { whole_ = std::move(whole); }

  /// Writes `values` like array() or, after put_together_by(), the whole vector of which they are
  /// this process's slice.
  template <class T>
  void sliced(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (!whole_) return array(values);
    const std::vector<std::byte> whole = whole_(std::as_bytes(std::span(values)), sizeof(T));
    word(whole.size() / sizeof(T));
    append(whole.data(), whole.size());
  }

  const std::string& text() const noexcept { return text_; }

 private:
  template <class T>
  void put_one(const T& value) {
    if constexpr (ListsState<T>) {
      put(T::state(value));
    } else if constexpr (std::is_floating_point_v<T>) {
      real(value);
    } else {
      word(static_cast<std::uint64_t>(value));
    }
  }
  void put_one(const std::string& text) { bytes(text); }
  void put_one(const RandomKey& key) { array(std::span<const std::uint8_t>(key.secret_bytes())); }
  template <class T, std::size_t N>
  void put_one(const std::array<T, N>& values) {
    for (const T& value : values) put_one(value);
  }
  template <class T>
  void put_one(const std::vector<T>& values) {
    if constexpr (kIsPlainNumber<T>) {
      array(values);
    } else {
      word(values.size());
      for (const T& value : values) put_one(value);
    }
  }
  template <class T>
  void put_one(const std::optional<T>& value) {
    put_one(value.has_value());
    put_one(value ? *value : T{});
  }
  template <class K, class V>
  void put_one(const std::map<K, V>& values) {
    word(values.size());
    for (const auto& [key, value] : values) put(key, value);
  }

  void append(const void* from, std::size_t size) {
    if (size > 0) text_.append(static_cast<const char*>(from), size);
  }
  std::string text_;
  Whole whole_;
};

/// Reads a text that a StateWriter wrote. The text is not trusted: a length that exceeds the rest
/// of the text is refused before memory is allocated for it.
class StateReader {
 public:
  /// \param text  must outlive this.
  /// \param name  the text's name, for errors.
  StateReader(std::string_view text, std::string name) : left_(text), name_(std::move(name)) {}

  /// \throws IoError unless this part begins here.
  void begin(std::string_view part) {
    if (bytes() != part) fail("the part '" + std::string(part) + "' is not where it belongs");
  }
  std::uint64_t word() { return number<std::uint64_t>(); }
  double real() { return number<double>(); }
  /// \throws IoError for a bool that is neither 0 nor 1.
  bool flag() {
    bool is_on = false;
    get(is_on);
    return is_on;
  }
  RandomKey key() {
    const std::vector<std::uint8_t> secret = array<std::uint8_t>(32);
    return RandomKey::from_secret_bytes(std::span<const std::uint8_t, 32>(secret.data(), 32));
  }
  std::string bytes() {
    const std::string_view taken = take(word(), 1);
    return std::string(taken);
  }
  template <class T>
  std::vector<T> array() {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::uint64_t count = word();
    const std::string_view taken = take(count, sizeof(T));
    std::vector<T> values(static_cast<std::size_t>(count));
    if (!values.empty()) std::memcpy(values.data(), taken.data(), taken.size());
    return values;
  }
  /// \throws IoError unless it has `size` elements.
  template <class T>
  std::vector<T> array(std::size_t size) {
    std::vector<T> values = array<T>();
    if (values.size() != size) {
      fail("an array has " + std::to_string(values.size()) + " elements, expected " +
           std::to_string(size));
    }
    return values;
  }
  /// Reads values that StateWriter::put() wrote, of the same types. Does not read keys, which have
  /// no value before they are read: use key(). The caller checks enumerators.
  /// \throws IoError as flag() does, and for a number that does not fit its type.
  template <class... T>
  void get(T&... values) {
    (get_one(values), ...);
  }
  template <class... T>
  void get(const std::tuple<T&...>& list) {
    std::apply([&](auto&... values) { get(values...); }, list);
  }

  /// Makes sliced() read only this slice of the arrays that StateWriter::sliced() wrote.
  void cut_to(const Slice& slice) { slice_ = slice; }

  /// Reads an array that StateWriter::sliced() wrote, or this process's slice of it.
  /// \param size  size of the slice.
  /// \throws IoError unless the whole has the expected length.
  template <class T>
  std::vector<T> sliced(std::size_t size) {
    if (slice_.of == 0) return array<T>(size);
    const std::vector<T> whole = array<T>(slice_.of);
    const auto first = whole.begin() + static_cast<std::ptrdiff_t>(slice_.first);
    return std::vector<T>(first, first + static_cast<std::ptrdiff_t>(size));
  }

  /// The bytes that have not been read.
  std::string_view rest() const noexcept { return left_; }

  /// \throws IoError if something is left.
  void end() const {
    if (!left_.empty()) fail("something is left over at its end");
  }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  template <class T>
  void get_one(T& value) {
    if constexpr (ListsState<T>) {
      get(T::state(value));
    } else if constexpr (std::is_floating_point_v<T>) {
      value = real();
    } else {
      const std::uint64_t written = word();
      value = static_cast<T>(written);
      if (static_cast<std::uint64_t>(value) != written) fail("a number is out of its range");
    }
  }
  void get_one(std::string& text) { text = bytes(); }
  void get_one(RandomKey& value) { value = key(); }
  template <class T, std::size_t N>
  void get_one(std::array<T, N>& values) {
    for (T& value : values) get_one(value);
  }
  template <class T>
  void get_one(std::vector<T>& values) {
    if constexpr (kIsPlainNumber<T>) {
      values = array<T>();
    } else {
      values.clear();
      for (std::uint64_t left = word(); left > 0; --left) get_one(values.emplace_back());
    }
  }
  template <class T>
  void get_one(std::optional<T>& value) {
    bool is_there = false;
    get(is_there, value.emplace());
    if (!is_there) value.reset();
  }
  template <class K, class V>
  void get_one(std::map<K, V>& values) {
    values.clear();
    for (std::uint64_t left = word(); left > 0; --left) {
      std::pair<K, V> entry;
      get(entry.first, entry.second);
      values.insert(std::move(entry));
    }
  }

  template <class T>
  T number() {
    const std::string_view taken = take(1, sizeof(T));
    T value{};
    std::memcpy(&value, taken.data(), sizeof value);
    return value;
  }
  std::string_view take(std::uint64_t count, std::size_t size) {
    if (count > left_.size() / size) fail("it ends too early");
    const std::string_view taken = left_.substr(0, static_cast<std::size_t>(count) * size);
    left_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view left_;
  std::string name_;
  Slice slice_;  // Slice::of is 0 if objects hold their whole vectors
};

/// \returns the whole state of a type as a text.
template <ListsState T>
std::string state_text(const T& value) {
  StateWriter out;
  out.put(value);
  return out.text();
}

/// Reads a text that state_text() wrote.
/// \param name  the text's name, for errors.
/// \throws IoError for any other text.
template <ListsState T>
T from_state_text(std::string_view text, std::string name) {
  StateReader in(text, std::move(name));
  T value;
  in.get(value);
  in.end();
  return value;
}

}  // namespace privgrad::core

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "privgrad/trust/slice.hpp"

namespace privgrad::core {

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian");

/// Writes what an object must know to go on later, one value behind the other. Numbers keep their
/// bits. What is written may be private; it goes into the private folder of a run and nowhere else.
class StateWriter {
 public:
  /// Marks where a part begins, so that a reader that is out of step notices.
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

  /// Puts a vector together of which each process has a slice; all of them call it, in the same order.
  /// \param slice  of this process; elements of `element` bytes.
  /// \returns the whole vector's bytes.
  using Whole =
      std::function<std::vector<std::byte>(std::span<const std::byte> slice, std::size_t element)>;
  /// From now on sliced() writes whole vectors, so that what is written does not depend on the number
  /// of processes.
  void put_together_by(Whole whole) { whole_ = std::move(whole); }

  /// As array(); where processes share the object that is written, this one's slice of an array.
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
  void append(const void* from, std::size_t size) {
    if (size > 0) text_.append(static_cast<const char*>(from), size);
  }
  std::string text_;
  Whole whole_;
};

/// Reads what a StateWriter wrote. The text is not trusted: a length that does not fit in what is
/// left is refused before memory is taken for it.
class StateReader {
 public:
  /// \param text  must outlive this.
  /// \param name  what errors call it.
  StateReader(std::string_view text, std::string name) : left_(text), name_(std::move(name)) {}

  /// \throws IoError unless this part begins here.
  void begin(std::string_view part) {
    if (bytes() != part) fail("the part '" + std::string(part) + "' is not where it belongs");
  }
  std::uint64_t word() { return number<std::uint64_t>(); }
  double real() { return number<double>(); }
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
  /// The reader's object has a slice of what sliced() wrote.
  void cut_to(const Slice& slice) { slice_ = slice; }

  /// What sliced() wrote, or this process's slice of it.
  /// \param size  of the slice.
  /// \throws IoError unless the whole has the length that it should.
  template <class T>
  std::vector<T> sliced(std::size_t size) {
    if (slice_.of == 0) return array<T>(size);
    const std::vector<T> whole = array<T>(slice_.of);
    const auto first = whole.begin() + static_cast<std::ptrdiff_t>(slice_.first);
    return std::vector<T>(first, first + static_cast<std::ptrdiff_t>(size));
  }

  /// What is left to be read.
  std::string_view rest() const noexcept { return left_; }

  /// \throws IoError if something is left.
  void end() const {
    if (!left_.empty()) fail("something is left over at its end");
  }
  [[noreturn]] void fail(const std::string& what) const;

 private:
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
  Slice slice_;  // of nothing: objects have all of their vectors
};

}  // namespace privgrad::core

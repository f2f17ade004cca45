#include "fetch_display.hpp"

#include <algorithm>

#include "output.hpp"

namespace privgrad::tool {
namespace {

constexpr std::size_t kBarCells = 24;
/// The interval between lines that are not rewritten, as in a log.
constexpr auto kPlainInterval = std::chrono::seconds(10);

std::string percent(std::uint64_t here, std::uint64_t whole) {
  const std::string number = std::to_string(here * 100 / std::max<std::uint64_t>(whole, 1));
  return std::string(3 - std::min<std::size_t>(number.size(), 3), ' ') + number + " %";
}

std::string amount(std::uint64_t here, std::uint64_t whole) {
  return size_text(static_cast<double>(here)) + " of " + size_text(static_cast<double>(whole));
}

}  // namespace

void FetchDisplay::begin(const DatasetFile& file) {
  name_ = file.name;
  whole_ = file.bytes;
  begun_ = false;
  told_at_ = Clock::now();
  if (!status_.rewrites()) {
    status_.print(name_ + "  " + size_text(static_cast<double>(whole_)));
  }
}

void FetchDisplay::bytes(std::uint64_t here) {
  const auto now = Clock::now();
  if (!begun_) {
    begun_ = true;
    first_ = here;
    begun_at_ = now;
  }
  if (status_.rewrites()) {
    if (status_.is_due()) status_.rewrite(bar(here, now));
  } else if (now - told_at_ >= kPlainInterval) {
    told_at_ = now;
    status_.print(name_ + "  " + percent(here, whole_) + "  " + amount(here, whole_));
  }
}

void FetchDisplay::note(const std::string& text) {
  if (status_.quiet()) return;
  status_.clear();
  complain("note", text);
}

std::string FetchDisplay::bar(std::uint64_t here, Clock::time_point now) const {
  const std::size_t full = static_cast<std::size_t>(
      static_cast<double>(here) / static_cast<double>(std::max<std::uint64_t>(whole_, 1)) *
      static_cast<double>(kBarCells));
  const std::size_t filled = std::min(full, kBarCells);
  std::string text = name_ + "  [" + std::string(filled, '#') +
                     std::string(kBarCells - filled, '.') + "] " + percent(here, whole_) + "  " +
                     amount(here, whole_);
  const double seconds = std::chrono::duration<double>(now - begun_at_).count();
  if (here > first_ && seconds > 0.5 && here < whole_) {
    const double speed = static_cast<double>(here - first_) / seconds;
    text += "  " + duration_text(static_cast<double>(whole_ - here) / speed) + " left";
  }
  return text;
}

}  // namespace privgrad::tool

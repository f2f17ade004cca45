#include "streaming_display.hpp"

#include <memory>
#include <string>

#include "feature_cache_call.hpp"
#include "output.hpp"
#include "status_line.hpp"

namespace privgrad::tool {
namespace {

/// Shows one rewritten line on a terminal; elsewhere one line for each quarter of the rows.
class ReadingDisplay {
 public:
  explicit ReadingDisplay(bool quiet) : status_(quiet) {}

  void show(const std::string& what, double done) {
    if (status_.quiet()) return;
    const int percent = static_cast<int>(100.0 * done);
    if (what != what_) quarter_ = 0;
    what_ = what;
    if (status_.rewrites()) {
      if (done >= 1.0) return status_.clear();
      if (status_.is_due()) status_.rewrite(what + ": " + std::to_string(percent) + " %");
    } else if (percent / 25 > quarter_) {
      quarter_ = percent / 25;
      status_.print(what + ": " + std::to_string(percent) + " %");
    }
  }

  void note(const std::string& text) {
    status_.clear();
    complain("note", text);
  }

 private:
  StatusLine status_;
  std::string what_;
  int quarter_ = 0;
};

}  // namespace

void show_streaming(core::Manifest& manifest, const Arguments& arguments) {
  if (!manifest.streaming) return;
  manifest.streaming->keeps = arguments.has("cache");
  if (arguments.has("cache")) manifest.streaming->folder = feature_folder(arguments, "cache");
  const auto display = std::make_shared<ReadingDisplay>(arguments.has("quiet"));
  manifest.streaming->note = [display](const std::string& text) { display->note(text); };
  manifest.streaming->progress = [display](const std::string& what, double done) {
    display->show(what, done);
  };
}

}  // namespace privgrad::tool

#include "keeping.hpp"

#include <filesystem>
#include <mutex>

#include "privgrad/error.hpp"

namespace privgrad::python {

namespace fs = std::filesystem;

struct Keeping::Notes {
  std::mutex mutex;
  std::vector<std::string> lines;

  void add(const std::string& text) {
    const std::lock_guard hold(mutex);
    lines.push_back(text);
  }
};

Keeping::Keeping(const std::optional<std::string>& folder) : notes_(std::make_shared<Notes>()) {
  if (!folder) return;
  folder_ = folder->empty() ? core::user_feature_folder() : fs::absolute(*folder);
  if (folder_.empty()) {
    throw ConfigError(
        "cache: there is no default folder to keep features in, as neither XDG_CACHE_HOME nor HOME "
        "is set; name one");
  }
  features_ = std::make_unique<const core::FeatureCache>(
      folder_, [notes = notes_](const std::string& text) { notes->add(text); });
}

void Keeping::of_streamed_rows(core::Manifest& manifest) const {
  if (!manifest.streaming) return;
  manifest.streaming->keeps = features_ != nullptr;
  if (features_ != nullptr) manifest.streaming->folder = folder_;
  manifest.streaming->note = [notes = notes_](const std::string& text) { notes->add(text); };
}

std::vector<std::string> Keeping::notes() const {
  const std::lock_guard hold(notes_->mutex);
  return notes_->lines;
}

void Keeping::note(const std::string& text) const { notes_->add(text); }

}  // namespace privgrad::python

#include "feature_cache_call.hpp"

#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>

#include "output.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

std::uint64_t all_bytes(std::span<const core::KeptFeatures> kept) {
  std::uint64_t bytes = 0;
  for (const core::KeptFeatures& one : kept) bytes += one.bytes;
  return bytes;
}

std::string formatted(std::time_t time, const char* format) {
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

}  // namespace

Option cache_option() {
  return {.name = "cache",
          .value = "DIR",
          .doc =
              "Keep the outputs of frozen layers and costly transforms, and streamed rows, in this "
              "folder, and read them from there: private copies, readable only by you, until "
              "privgrad cache delete; default $XDG_CACHE_HOME/privgrad/features, else "
              "~/.cache/privgrad/features.",
          .implied = ""};
}

Option cache_folder_option() {
  return {"dir", "DIR",
          "The folder that --cache=DIR named; default $XDG_CACHE_HOME/privgrad/features, else "
          "~/.cache/privgrad/features."};
}

fs::path feature_folder(const Arguments& arguments, const std::string& option) {
  if (arguments.has(option) && !arguments.text(option).empty())
    return fs::absolute(arguments.text(option));
  fs::path own = core::user_feature_folder();
  if (own.empty()) {
    throw UsageError("--" + option +
                     ": there is no default folder to keep features in, as neither XDG_CACHE_HOME "
                     "nor HOME is set; name one");
  }
  return own;
}

std::unique_ptr<const core::FeatureCache> requested_cache(const Arguments& arguments) {
  if (!arguments.has("cache")) return nullptr;
  return std::make_unique<const core::FeatureCache>(
      feature_folder(arguments, "cache"), [](const std::string& text) { complain("note", text); });
}

std::string features_words(std::span<const core::KeptFeatures> kept) {
  return std::to_string(kept.size()) + (kept.size() == 1 ? " file, " : " files, ") +
         size_text(static_cast<double>(all_bytes(kept)));
}

nlohmann::json features_json(const fs::path& folder, std::span<const core::KeptFeatures> kept) {
  nlohmann::json json{{"folder", folder.string()},
                      {"bytes", all_bytes(kept)},
                      {"features", nlohmann::json::array()}};
  for (const core::KeptFeatures& one : kept) {
    nlohmann::json entry{{"rows", nullptr},
                         {"row_size", nullptr},
                         {"bytes", one.bytes},
                         {"used", formatted(one.used, "%Y-%m-%dT%H:%M:%SZ")}};
    if (one.rows > 0) {
      entry["rows"] = one.rows;
      entry["row_size"] = one.row_size;
    }
    json["features"].push_back(std::move(entry));
  }
  return json;
}

std::string time_words(std::time_t time) { return formatted(time, "%Y-%m-%d %H:%M"); }

}  // namespace privgrad::tool

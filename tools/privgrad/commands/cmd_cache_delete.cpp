#include <nlohmann/json.hpp>

#include "command.hpp"
#include "feature_cache_call.hpp"
#include "output.hpp"

namespace privgrad::tool {
namespace {

int do_cache_delete(const Arguments& arguments) {
  const std::filesystem::path folder = feature_folder(arguments, "dir");
  const std::vector<core::KeptFeatures> removed = core::delete_features(folder);
  print_answer(arguments, features_json(folder, removed),
               "removed " + features_words(removed) + ", from " + folder.string() + "\n");
  return 0;
}

}  // namespace

Command cache_delete_command() {
  return {
      .usage = {.name = "cache delete",
                .summary = "Removes the outputs of frozen layers and costly transforms that runs "
                           "with --cache\nhave kept, all of them.",
                .operands = {},
                .options = {cache_folder_option(),
                            {"json", "", "Print what was removed as JSON, as cache list does."}},
                .details = "Runs lose nothing by it but time. Files are unlinked; the disk is "
                           "not wiped (SECURITY.md).",
                .examples = {"privgrad cache delete",
                             "privgrad cache delete --dir /dev/shm/features"}},
      .run = do_cache_delete};
}

}  // namespace privgrad::tool

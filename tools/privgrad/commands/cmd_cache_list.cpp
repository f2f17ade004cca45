#include <nlohmann/json.hpp>

#include "command.hpp"
#include "feature_cache_call.hpp"
#include "output.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

std::string list_text(const std::filesystem::path& folder,
                      const std::vector<core::KeptFeatures>& kept) {
  if (kept.empty()) return "no features are kept in " + folder.string() + "\n";
  Table table({Align::right, Align::right, Align::right, Align::left});
  table.add({"EXAMPLES", "FEATURES", "SIZE", "USED LAST"});
  for (const core::KeptFeatures& one : kept) {
    const bool is_known = one.rows > 0;
    table.add({is_known ? std::to_string(one.rows) : "-",
               is_known ? std::to_string(one.row_size) : "-",
               size_text(static_cast<double>(one.bytes)), time_words(one.used)});
  }
  return table.text() + "\n" + features_words(kept) + " in " + folder.string() + "\n";
}

int do_cache_list(const Arguments& arguments) {
  const std::filesystem::path folder = feature_folder(arguments, "dir");
  const std::vector<core::KeptFeatures> kept = core::list_features(folder);
  print_answer(arguments, features_json(folder, kept), list_text(folder, kept));
  return 0;
}

}  // namespace

Command cache_list_command() {
  return {.usage = {.name = "cache list",
                    .summary = "Lists the outputs of frozen layers and costly transforms that runs "
                               "with --cache\nhave kept: private copies of data.",
                    .operands = {},
                    .options = {cache_folder_option(), {"json", "", "As JSON."}},
                    .details = "Each file holds what one set of frozen layers, or one transform, "
                               "makes of one split of one data\nset. Times are UTC. A file without "
                               "numbers is damaged, or was left by a process that was killed.",
                    .examples = {"privgrad cache list", "privgrad cache list --json"}},
          .run = do_cache_list};
}

}  // namespace privgrad::tool

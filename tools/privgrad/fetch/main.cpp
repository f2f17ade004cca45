// privgrad-fetch: the program that `privgrad data fetch` starts, with the same arguments.
#include <csignal>
#include <nlohmann/json.hpp>

#include "data_fetch_usage.hpp"
#include "exit_code.hpp"
#include "fetch.hpp"
#include "fetch_display.hpp"
#include "output.hpp"
#include "standard_streams.hpp"
#include "stop_signals.hpp"

namespace privgrad::tool {
namespace {

constexpr int kDefaultTimeout = 30;

nlohmann::json to_json(const KnownDataset& dataset, const Fetched& fetched) {
  return {{"name", dataset.name},
          {"folder", fetched.folder.string()},
          {"files", fetched.files},
          {"downloaded", fetched.downloaded}};
}

std::string report(const KnownDataset& dataset, const Fetched& fetched) {
  return dataset.name + (fetched.downloaded ? ": fetched to " : ": is here, unchanged, in ") +
         fetched.folder.string() + "\nin a manifest: data: {kind: dataset, name: " + dataset.name +
         "}\n";
}

int run(const Arguments& arguments) {
  const std::vector<KnownDataset> known = known_datasets();
  const KnownDataset& dataset = find_dataset(known, arguments.operand(0));
  const StopSignals signals;
  FetchDisplay display(arguments.has("quiet"));
  FetchOptions options;
  options.download.timeout_s =
      arguments.has("timeout") ? whole_number("timeout", arguments.text("timeout"), 1, kMostTimeout)
                               : kDefaultTimeout;
  options.download.stop = &signals.flag();
  options.download.on_bytes = [&](std::uint64_t bytes) { display.bytes(bytes); };
  options.download.on_note = [&](const std::string& text) { display.note(text); };
  options.on_file = [&](const DatasetFile& file) { display.begin(file); };
  const Fetched fetched = fetch(dataset, options);
  display.end();
  if (fetched.stopped) {
    complain("error", "interrupted; what has arrived is kept, and privgrad data fetch " +
                          dataset.name + " continues from there");
    return 1;
  }
  if (arguments.has("json")) {
    print_json(to_json(dataset, fetched));
  } else {
    print(report(dataset, fetched));
  }
  return 0;
}

}  // namespace
}  // namespace privgrad::tool

int main(int argc, char** argv) {
  using namespace privgrad::tool;
  open_standard_streams();
  // If a file exceeds the size limit, the write fails, as on a full disk, instead of ending the
  // process.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  return with_exit_code([&] { return run(parse(data_fetch_usage(), {argv + 1, argv + argc})); });
}

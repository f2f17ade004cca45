#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "command.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/api/verification.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/record/record_directory.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kNotVerified = 3;

/// The object to verify: a run, a study, or one client of a federated run.
struct Target {
  fs::path directory;
  std::optional<std::size_t> client;
};

Target target_of(const Arguments& arguments) {
  Target target{arguments.operand(0), {}};
  std::error_code failure;
  // DIR/ledgers/client-3.jsonl belongs to client 3 of DIR.
  const std::string name = target.directory.filename().string();
  constexpr std::string_view kBegin = "client-", kEnd = ".jsonl";
  if (!fs::is_directory(target.directory, failure) && name.starts_with(kBegin) &&
      name.ends_with(kEnd)) {
    const std::string number =
        name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
    target.client = whole_number("client", number, 0, 999'999'999);
    const fs::path folder = target.directory.parent_path();
    target.directory = folder.empty() ? fs::path("..") : folder / "..";
  }
  if (arguments.has("client"))
    target.client = whole_number("client", arguments.text("client"), 0, 999'999'999);
  return target;
}

std::string accountant_line(const std::string& name, const Json& answer) {
  const Json& epsilon = answer.at("epsilon");
  return "  " + name + " (" + answer.at("role").get<std::string>() + "): epsilon " +
         (epsilon.is_null() ? "infinite" : short_bound(epsilon.get<double>())) + ", " +
         answer.at("bound").get<std::string>() + "\n";
}

std::string text_of(const core::Verification& result) {
  std::string text = result.verified() ? "verified" : "NOT VERIFIED";
  if (result.epsilon && result.delta) {
    const char* not_verified =
        result.seals.empty() ? "; the plan states " : "; the ledgers add up to ";
    text += std::string(result.verified() ? ": " : not_verified) + "epsilon " +
            short_bound(*result.epsilon) + " at delta " + short_number(*result.delta, 6);
  }
  text += "\n";
  for (const auto& [name, answer] : result.accountants.items())
    text += accountant_line(name, answer);
  for (const std::string& problem : result.problems)
    text += "problem: " + core::one_line(problem, 2000) + "\n";
  for (const std::string& note : result.notes) text += "note: " + core::one_line(note, 2000) + "\n";
  constexpr std::size_t kMostSeals = 8;
  for (std::size_t i = 0; i < std::min(kMostSeals, result.seals.size()); ++i)
    text += "last line of " + result.seals[i].first + ": " + result.seals[i].second + "\n";
  if (result.seals.size() > kMostSeals)
    text += "and of " + std::to_string(result.seals.size() - kMostSeals) + " ledgers more\n";
  return text;
}

int print_result(const api::Verified& verified, const Arguments& arguments) {
  print_answer(arguments, api::to_json(verified), text_of(verified.result));
  return verified.result.verified() ? 0 : kNotVerified;
}

api::VerifyRequest request_of(const Arguments& arguments) {
  const auto file = [&](const char* option) {
    return arguments.has(option) ? std::optional<fs::path>(arguments.text(option)) : std::nullopt;
  };
  const Target target = target_of(arguments);
  const std::vector<std::string> clients = arguments.texts("client-dir");
  return {.directory = target.directory,
          .client = target.client,
          .clients = {clients.begin(), clients.end()},
          .data = arguments.has("data"),
          .audit = arguments.has("audit"),
          .opening = file("opening"),
          .trusted = file("trusted"),
          .sign = file("sign"),
          .new_key = arguments.has("new-key")};
}

int do_verify(const Arguments& arguments) {
  const api::VerifyRequest request = request_of(arguments);
  const core::RecordDirectory directory(request.directory);
  const host::PluginHost host = load_plugins(arguments);
  const api::Verified verified = api::verify(request, directory, host.catalog());
  if (request.sign && !verified.result.verified())
    complain("error", "not signed, because it does not verify");
  return print_result(verified, arguments);
}

}  // namespace

Command verify_command() {
  return {
      .usage =
          {.name = "verify",
           .summary = "Checks a run, a client's part in it, or a study by its files: that the "
                      "ledger is complete, and that\nits events, epsilon, statement, model and "
                      "page follow from the manifest.",
           .operands = {"DIR"},
           .options = {{"client", "N",
                        "For a run with a ledger for each client: check the guarantee of client N; "
                        "DIR/ledgers/client-N.jsonl means the same."},
                       {.name = "client-dir",
                        .value = "DIR",
                        .doc = "For the server of a run whose clients were separate programs: the "
                               "directory of a client, to verify with the server's.",
                        .repeatable = true},
                       {"data", "",
                        "Read the training data, and compare it with the ledger's commitment."},
                       {"audit", "",
                        "Repeat the audit of audit.json, which takes as long as a training run, "
                        "and compare the results."},
                       {"opening", "FILE",
                        "The opening.json that the run left with the data's owner; a run with a "
                        "seed needs none."},
                       {"trusted", "KEY", "Demand a signature of this public key (a .pub file)."},
                       {"sign", "KEY",
                        "If DIR verifies, sign it with this key: signature.json in DIR."},
                       {"new-key", "", "Make the key of --sign first, and KEY.pub beside it."},
                       {"json", "", "Print the result as JSON."},
                       plugin_dir_option()},
           .details = "Needs the plugins of the run, and data only for --data. What a "
                      "verification proves, and what\nit does not, is in docs/verify.md.\n\n"
                      "exit codes: 0 verified, 2 the call is wrong, 3 not verified, 4 DIR, the "
                      "data or a key could not\nbe read or written",
           .examples = {"privgrad verify runs/e2", "privgrad verify runs/e2 --json",
                        "privgrad verify runs/e2 --sign ~/.config/me.key --new-key",
                        "privgrad verify runs/e2 --trusted her.key.pub"}},
      .run = do_verify};
}

}  // namespace privgrad::tool

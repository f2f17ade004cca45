#include <algorithm>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/pipeline/executor.hpp"
#include "privgrad/pipeline/verify.hpp"
#include "privgrad/report/report.hpp"
#include "privgrad/studies/run_audit.hpp"
#include "privgrad/studies/verify_study.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/signature.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kNotVerified = 3;
constexpr std::size_t kMostPageBytes = std::size_t{256} << 20;
constexpr std::size_t kMostSignatureBytes = 4096;

/// What is to be verified: a run or a study, or one client of a run.
struct Target {
  fs::path directory;
  std::optional<std::size_t> client;
};

Target target_of(const Arguments& arguments) {
  Target target{arguments.operand(0), {}};
  std::error_code failure;
  // DIR/ledgers/client-3.jsonl is client 3 of DIR.
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

/// The page is made again from the files that are verified by now, and compared byte for byte.
void check_page(const core::RecordDirectory& directory, core::Verification& result) {
  if (!directory.has("report.html")) {
    result.notes.emplace_back("report.html: there is none to compare; privgrad report makes it");
    return;
  }
  if (!result.verified()) return;  // made of files that are not the run's
  try {
    if (directory.read("report.html", kMostPageBytes) == report::page(directory.path())) return;
    result.problems.emplace_back("report.html: is not the page that the run's files make");
  } catch (const Error& problem) {
    result.problems.emplace_back(std::string("report.html: ") + problem.what());
  }
}

/// \returns who signed, as JSON: null if nobody did.
Json check_signature(const core::RecordDirectory& directory, const Arguments& arguments,
                     core::Verification& result) {
  std::optional<std::string> trusted;
  if (arguments.has("trusted")) trusted = core::read_public_key(arguments.text("trusted"));
  if (!directory.has("signature.json")) {
    if (trusted) result.problems.emplace_back("signature.json: is missing");
    return nullptr;
  }
  std::optional<std::string> signer;
  try {
    signer = core::signer_of(result.seals, directory.read("signature.json", kMostSignatureBytes));
  } catch (const IoError&) {
    signer.reset();
  }
  if (!signer) {
    result.problems.emplace_back("signature.json: is no signature of this run");
    return nullptr;
  }
  if (trusted && *trusted != *signer) {
    result.problems.push_back("signature.json: is of the key " + *signer +
                              ", not of the trusted one");
  }
  if (!trusted) {
    result.notes.push_back("signature.json: is of the key " + *signer +
                           "; whose that is nobody has said here (--trusted)");
  }
  return {{"public_key", *signer}, {"trusted", trusted == signer}};
}

void check_data(const core::RecordDirectory& directory, const Catalog& catalog,
                const Arguments& arguments, core::Verification& result) {
  const bool has_opening = arguments.has("opening");
  if (!arguments.has("data")) {
    if (has_opening) throw UsageError("--opening FILE opens what --data compares; give both");
    return;
  }
  const fs::path opening = has_opening ? fs::path(arguments.text("opening")) : fs::path();
  for (std::string& problem : core::verify_data(directory, catalog, opening))
    result.problems.push_back(std::move(problem));
}

Json to_json(const core::Verification& result) {
  Json seals = Json::object();
  for (const auto& [name, hash] : result.seals) seals[name] = hash;
  return {{"verified", result.verified()},
          {"epsilon", result.epsilon ? Json(*result.epsilon) : Json(nullptr)},
          {"delta", result.delta ? Json(*result.delta) : Json(nullptr)},
          {"accountants", result.accountants},
          {"problems", result.problems},
          {"notes", result.notes},
          {"last_lines", std::move(seals)}};
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
    text += std::string(result.verified() ? ": " : "; the ledgers add up to ") + "epsilon " +
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

void refuse_what_runs_only_have(const Arguments& arguments) {
  for (const char* option : {"data", "opening", "trusted", "sign", "client", "audit"}) {
    if (arguments.has(option))
      throw UsageError("--" + std::string(option) + " is for runs, and this is a study");
  }
}

int conclude(const core::Verification& result, const Json& signature, const Arguments& arguments) {
  if (arguments.has("json")) {
    Json json = to_json(result);
    json["signature"] = signature;
    print_json(json);
  } else {
    print(text_of(result));
  }
  return result.verified() ? 0 : kNotVerified;
}

int do_verify(const Arguments& arguments) {
  if (arguments.has("new-key") && !arguments.has("sign"))
    throw UsageError("--new-key makes the key of --sign KEY; give both");
  const Target target = target_of(arguments);
  const core::RecordDirectory directory(target.directory);
  const host::PluginHost host = load_plugins(arguments);
  if (directory.has("study.json")) {
    refuse_what_runs_only_have(arguments);
    core::Verification result = core::verify_study(directory, host.catalog());
    check_page(directory, result);
    return conclude(result, nullptr, arguments);
  }
  if (!directory.has("manifest.yaml")) {
    throw IoError(target.directory.string() +
                  ": holds neither a run (manifest.yaml) nor a study (study.json)");
  }
  core::Verification result = core::verify_run(directory, host.catalog(), target.client);
  if (!target.client) core::check_audit(directory, result);
  check_page(directory, result);
  if (arguments.has("audit") && result.verified())
    core::repeat_audit(directory, host.catalog(), core::available_threads(), result);
  check_data(directory, host.catalog(), arguments, result);
  if (arguments.has("sign") && result.verified()) {
    if (arguments.has("new-key")) core::make_signing_key(arguments.text("sign"));
    core::write_atomically(directory.path() / "signature.json",
                           core::sign(result.seals, arguments.text("sign")));
  } else if (arguments.has("sign")) {
    complain("error", "what does not verify is not signed");
  }
  const Json signature = check_signature(directory, arguments, result);
  return conclude(result, signature, arguments);
}

}  // namespace

Command verify_command() {
  return {
      .usage =
          {.name = "verify",
           .summary = "Checks a run, a client's part in it, or a study by its files: that the "
                      "ledger is whole, and that\nits events, epsilon, statement, model and page "
                      "are what the manifest makes them.",
           .operands = {"DIR"},
           .options =
               {{.name = "client",
                 .value = "N",
                 .doc = "Of a run with a ledger for each client: what it guarantees to this one; "
                        "DIR/ledgers/client-N.jsonl says the same."},
                {.name = "data",
                 .value = "",
                 .doc = "Read the training data, and compare it with what the ledger is bound to."},
                {.name = "audit",
                 .value = "",
                 .doc = "Make the audit of audit.json again, which takes as long as a training "
                        "run, and compare it."},
                {.name = "opening",
                 .value = "FILE",
                 .doc = "The opening.json that the run left with the data's owner; a run with a "
                        "seed needs none."},
                {.name = "trusted",
                 .value = "KEY",
                 .doc = "Demand a signature of this public key (a .pub file)."},
                {.name = "sign",
                 .value = "KEY",
                 .doc = "Sign what verifies, with this key: signature.json in DIR."},
                {.name = "new-key",
                 .value = "",
                 .doc = "Make the key of --sign first, and KEY.pub beside it."},
                {.name = "json", .value = "", .doc = "Print the result as JSON."},
                plugin_dir_option()},
           .details = "Needs the plugins of the run, and no data but for --data. What a "
                      "verification proves, and what\nit does not, is in docs/verify.md.\n\n"
                      "exit codes: 0 verified, 2 the call is wrong, 3 not verified, 4 DIR, the "
                      "data or a key could not\nbe read or written",
           .examples = {"privgrad verify runs/e2", "privgrad verify runs/e2 --json",
                        "privgrad verify runs/e2 --sign ~/.config/me.key --new-key",
                        "privgrad verify runs/e2 --trusted her.key.pub"}},
      .run = do_verify};
}

}  // namespace privgrad::tool

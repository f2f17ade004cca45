#include "privgrad/api/verification.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>

#include "privgrad/data/executor.hpp"
#include "privgrad/error.hpp"
#include "privgrad/record/signature.hpp"
#include "privgrad/report/report.hpp"
#include "privgrad/studies/run_audit.hpp"
#include "privgrad/studies/verify_study.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::api {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostPageBytes = std::size_t{256} << 20;
constexpr std::size_t kMostSignatureBytes = 4096;

/// If the files have been verified, recreates the page from the files, and compares all bytes.
void check_page(const core::RecordDirectory& directory, core::Verification& result) {
  if (!directory.has("report.html")) {
    result.notes.emplace_back(
        "report.html: is missing, so it was not compared; privgrad report writes it");
    return;
  }
  if (!result.verified()) return;  // the page's sources may have been changed
  try {
    if (directory.read("report.html", kMostPageBytes) == report::page(directory.path())) return;
    result.problems.emplace_back(
        "report.html: differs from the page that follows from the run's files");
  } catch (const Error& problem) {
    result.problems.emplace_back(std::string("report.html: ") + problem.what());
  }
}

/// \returns the signer, as JSON; null if there is none.
Json check_signature(const core::RecordDirectory& directory, const VerifyRequest& request,
                     core::Verification& result) {
  std::optional<std::string> trusted;
  if (request.trusted) trusted = core::read_public_key(*request.trusted);
  if (!directory.has("signature.json")) {
    if (trusted) result.problems.emplace_back("signature.json: is missing");
    return nullptr;
  }
  std::optional<std::string> signer;
  try {
    signer = core::signer_of(core::Signed::run_record, result.seals,
                             directory.read("signature.json", kMostSignatureBytes));
  } catch (const IoError&) {
    signer.reset();
  }
  if (!signer) {
    result.problems.emplace_back("signature.json: is not a signature of this run");
    return nullptr;
  }
  if (trusted && *trusted != *signer) {
    result.problems.push_back("signature.json: was made with the key " + *signer +
                              ", not of the trusted one");
  }
  if (!trusted) {
    result.notes.push_back("signature.json: was made with the key " + *signer +
                           "; whose that is nobody has said here (--trusted)");
  }
  return {{"public_key", *signer}, {"trusted", trusted == signer}};
}

/// Refuses options without an effect, because the caller would believe that they were checked.
void check_options(const VerifyRequest& request, bool is_study) {
  if (request.new_key && !request.sign)
    throw ConfigError("new_key makes the key of sign; give both");
  if (request.opening && !request.data)
    throw ConfigError("opening opens the commitment that data compares; give both");
  if (!is_study) return;
  const std::array<std::pair<const char*, bool>, 7> given{
      {{"client", request.client.has_value()},
       {"client_dirs", !request.clients.empty()},
       {"data", request.data},
       {"audit", request.audit},
       {"opening", request.opening.has_value()},
       {"trusted", request.trusted.has_value()},
       {"sign", request.sign.has_value()}}};
  for (const auto& [option, is_given] : given) {
    if (is_given)
      throw ConfigError(request.directory.string() + ": is a study, and " + option +
                        " is for runs");
  }
}

}  // namespace

Verified verify(const VerifyRequest& request, const core::RecordDirectory& directory,
                const Catalog& catalog) {
  const bool is_study = directory.has("study.json");
  check_options(request, is_study);
  if (is_study) {
    Verified study{core::verify_study(directory, catalog), nullptr};
    check_page(directory, study.result);
    return study;
  }
  if (!directory.has("manifest.yaml")) {
    throw IoError(request.directory.string() +
                  ": holds neither a run (manifest.yaml) nor a study (study.json)");
  }
  Verified run{core::verify_run(directory, catalog, request.client, request.clients), nullptr};
  core::Verification& result = run.result;
  if (!request.client) core::check_audit(directory, result);
  check_page(directory, result);
  if (request.audit && result.verified())
    core::repeat_audit(directory, catalog, core::available_threads(), result);
  if (request.data) {
    const auto opening = request.opening.value_or(std::filesystem::path());
    std::vector<std::string> problems = core::verify_data(directory, catalog, opening);
    if (problems.empty()) result.notes.emplace_back("the data match the commitment in the ledger");
    std::ranges::move(problems, std::back_inserter(result.problems));
  }
  if (request.sign && result.verified()) {
    if (result.seals.empty()) {
      throw ConfigError(request.directory.string() +
                        ": has no ledger, whose last hash a signature would cover");
    }
    if (request.new_key) core::make_signing_key(*request.sign);
    core::write_atomically(directory.path() / "signature.json",
                           core::sign(core::Signed::run_record, result.seals, *request.sign));
  }
  run.signature = check_signature(directory, request, result);
  return run;
}

Json to_json(const Verified& verified) {
  const core::Verification& result = verified.result;
  Json seals = Json::object();
  for (const auto& [name, hash] : result.seals) seals[name] = hash;
  return {{"verified", result.verified()},
          {"epsilon", result.epsilon ? Json(*result.epsilon) : Json(nullptr)},
          {"delta", result.delta ? Json(*result.delta) : Json(nullptr)},
          {"accountants", result.accountants},
          {"problems", result.problems},
          {"notes", result.notes},
          {"last_lines", std::move(seals)},
          {"signature", verified.signature}};
}

}  // namespace privgrad::api

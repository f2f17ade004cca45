#include "privgrad/record/site_receipt.hpp"

#include <utility>
#include <vector>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/record/signature.hpp"
#include "privgrad/trust/json_problem.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kMostClient = 0xffffffff;

std::vector<std::pair<std::string, std::string>> seal_of(const Json& receipt) {
  return {{"sha256", sha256_hex(receipt.dump())}};
}

}  // namespace

Json SiteReceipt::body() const {
  return {{"receipt", 1},     {"run", run},       {"ground", ground}, {"client", client},
          {"status", status}, {"ledger", ledger}, {"steps", steps},   {"account", account}};
}

SiteReceipt SiteReceipt::of_body(const Json& body) {
  try {
    const auto is_made_of = [&](const char* member, std::string_view letters, std::size_t most) {
      const auto& word = body.at(member).get_ref<const std::string&>();
      return !word.empty() && word.size() <= most &&
             word.find_first_not_of(letters) == std::string::npos;
    };
    if (body.at("receipt") != 1 || body.size() != 8 ||
        !is_made_of("ledger", "0123456789abcdef", 64) ||
        !is_made_of("status", "abcdefghijklmnopqrstuvwxyz_", 32) ||
        !body.at("client").is_number_unsigned() || body.at("client") > kMostClient ||
        !body.at("steps").is_number_unsigned())
      throw ConfigError("is not a receipt");
    return {.run = body.at("run"),
            .ground = body.at("ground"),
            .client = body.at("client").get<std::uint32_t>(),
            .status = body.at("status"),
            .ledger = body.at("ledger"),
            .steps = body.at("steps").get<std::uint64_t>(),
            .account = body.at("account"),
            .signer = {}};
  } catch (const Json::exception&) {
    throw ConfigError("is not a receipt");
  }
}

std::string SiteReceipt::signed_by(const std::filesystem::path& key) const {
  Json receipt = body();
  receipt["signature"] = Json::parse(sign(Signed::receipt, seal_of(receipt), key));
  return receipt.dump(2) + "\n";
}

SiteReceipt SiteReceipt::of(std::string_view text) {
  constexpr int kDeepest = 8;
  if (text.size() > kMostReceiptBytes || !json_problem(kDeepest, text).empty())
    throw ConfigError("is not a receipt");
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("signature")) throw ConfigError("is not a receipt");
  const std::string signature = json.at("signature").dump();
  json.erase("signature");
  SiteReceipt receipt = of_body(json);
  const auto signer = signer_of(Signed::receipt, seal_of(json), signature);
  if (!signer) throw ConfigError("is a receipt whose signature is not valid");
  receipt.signer = *signer;
  return receipt;
}

std::string SiteReceipt::why_not(std::string_view of_run, std::string_view of_ground,
                                 std::uint32_t of_client, std::string_view with_status) const {
  if (run != of_run) return "is for another run";
  if (ground != of_ground) return "is for another program, manifest or set of plugins";
  if (client != of_client) return "is of client " + std::to_string(client);
  if (status != with_status) return "says that the run ended as " + status;
  return "";
}

std::string hash_of_ground(Json common, const Json& facts) {
  common["facts"] = facts;
  return sha256_hex(common.dump());
}

std::string receipt_of_client(std::uint32_t client) {
  return "receipts/client-" + std::to_string(client) + ".json";
}

}  // namespace privgrad::core

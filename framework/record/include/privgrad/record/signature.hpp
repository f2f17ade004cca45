// Ed25519 keys, and signatures of run records and plugin files.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace privgrad::core {

/// The thing that a signature vouches for; it is in what is signed, so that the signature of one
/// thing means nothing for another.
enum class Signed {
  run_record,   ///< All files of a run follow from the last hash of each of its ledgers.
  plugin_file,  ///< One seal: "sha256" and the hash of the file.
};

/// Names and hashes: of a run, the name and the last hash of each ledger (Evidence::seals()).
using Seals = std::span<const std::pair<std::string, std::string>>;

/// A new Ed25519 key: FILE holds its 32 secret bytes in hex and is readable by the user alone,
/// FILE.pub the public ones.
/// \throws IoError if one of the files exists or cannot be written; nothing is left behind then.
void make_signing_key(const std::filesystem::path& file);

/// Signs (Ed25519, RFC 8032) the text "privgrad run record 1\n" or "privgrad plugin file 1\n" and a
/// line "NAME HASH" for each seal.
/// \param key  a file as make_signing_key() leaves it.
/// \returns the text of a signature file.
/// \throws IoError if it cannot be read; ConfigError if others can read it, or it holds no key.
std::string sign(Signed what, Seals seals, const std::filesystem::path& key);

/// \param signature  the text of a signature file, whoever wrote it.
/// \returns the public key, 64 hex digits, whose owner signed these seals; nothing: nobody did.
std::optional<std::string> signer_of(Signed what, Seals seals, std::string_view signature);

/// \returns the public key that a file holds (FILE.pub), 64 hex digits.
/// \throws IoError, ConfigError
std::string read_public_key(const std::filesystem::path& file);

}  // namespace privgrad::core

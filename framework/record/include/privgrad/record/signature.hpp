// Ed25519 keys and signatures of run records.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace privgrad::core {

/// The name and the last hash of each ledger (Evidence::seals()).
using Seals = std::span<const std::pair<std::string, std::string>>;

/// A new Ed25519 key: FILE holds its 32 secret bytes in hex and is readable by the user alone,
/// FILE.pub the public ones.
/// \throws IoError if one of the files exists or cannot be written; nothing is left behind then.
void make_signing_key(const std::filesystem::path& file);

/// Signs what all files of a run follow from (Ed25519, RFC 8032): the text "privgrad run record
/// 1\n" and a line "NAME HASH" for each ledger. The first line keeps the signature from meaning
/// anything elsewhere.
/// \param key  a file as make_signing_key() leaves it.
/// \returns the text of a signature.json.
/// \throws IoError if it cannot be read; ConfigError if others can read it, or it holds no key.
std::string sign(Seals seals, const std::filesystem::path& key);

/// \param signature  the text of a signature.json, whoever wrote it.
/// \returns the public key, 64 hex digits, whose owner signed these seals; nothing: nobody did.
std::optional<std::string> signer_of(Seals seals, std::string_view signature);

/// \returns the public key that a file holds (FILE.pub), 64 hex digits.
/// \throws IoError, ConfigError
std::string read_public_key(const std::filesystem::path& file);

}  // namespace privgrad::core

// Ed25519 keys, and signatures of run records, plugin files and receipts.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace privgrad::core {

/// The kind of content that is signed. It is part of the signed text, so a signature of one kind is
/// not valid for another.
enum class Signed {
  run_record,   ///< One seal for each ledger. Together they cover all files of the run.
  plugin_file,  ///< One seal: "sha256" and the hash of the file.
  receipt,      ///< One seal: "sha256" and the hash of the receipt without its signature.
};

/// Names and hashes; for a run, the name and the last hash of each ledger (Evidence::seals()).
using Seals = std::span<const std::pair<std::string, std::string>>;

/// Makes a new Ed25519 key: `file` contains its 32 secret bytes in hex and is readable only by the
/// user; a second file, with the suffix ".pub", contains the public bytes.
/// \throws IoError if one of the files exists or cannot be written; no new file is left behind.
void make_signing_key(const std::filesystem::path& file);

/// Signs (Ed25519, RFC 8032) a text: the line "privgrad run record 1", "privgrad plugin file 1" or
/// "privgrad receipt 1", followed by a line "NAME HASH" for each seal.
/// \param key  a file made by make_signing_key().
/// \returns the text of a signature file.
/// \throws IoError if the key cannot be read; ConfigError if other users can read or write it, or
///   if the file does not contain a key.
std::string sign(Signed what, Seals seals, const std::filesystem::path& key);

/// \param signature  the text of a signature file, of unknown origin.
/// \returns the public key, 64 hex digits, with which `seals` were signed; nothing if the signature
///   is not valid.
std::optional<std::string> signer_of(Signed what, Seals seals, std::string_view signature);

/// \returns the public key in `file` (FILE.pub), 64 hex digits.
/// \throws IoError if the file cannot be read; ConfigError if it does not contain a public key.
std::string read_public_key(const std::filesystem::path& file);

}  // namespace privgrad::core

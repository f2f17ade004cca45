// Signatures of plugin files: FILE.sig shows who signed FILE.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace privgrad::tool {

/// Returns the path FILE.sig.
std::filesystem::path signature_of(const std::filesystem::path& plugin);

/// \param key  the file of the secret key.
/// \returns the text of a signature of `plugin`.
std::string sign_plugin(const std::filesystem::path& plugin, const std::filesystem::path& key);

/// \param content  the file to check, which may be a copy.
/// \param signature  the path of its FILE.sig.
/// \returns the public key whose owner signed exactly this file; nothing if the signature does not
///   fit.
std::optional<std::string> plugin_signer(const std::filesystem::path& content,
                                         const std::filesystem::path& signature);

}  // namespace privgrad::tool

// Signatures of plugin files: FILE.sig, by which an author says that a file is the author's.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace privgrad::tool {

/// FILE.sig.
std::filesystem::path signature_of(const std::filesystem::path& plugin);

/// \returns the text of a signature of that file by that key.
std::string sign_plugin(const std::filesystem::path& plugin, const std::filesystem::path& key);

/// \param content  the file to check, which may be a copy.
/// \param signature  the text of a FILE.sig.
/// \returns the public key whose owner signed exactly this file; nothing: nobody did.
std::optional<std::string> plugin_signer(const std::filesystem::path& content,
                                         const std::filesystem::path& signature);

}  // namespace privgrad::tool

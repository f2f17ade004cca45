#include "privgrad/record/signature.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

#include "privgrad/error.hpp"
#include "privgrad/record/record_directory.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/json_problem.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kMostKeyBytes = 4096;

template <std::size_t Size>
std::string hex(const std::array<unsigned char, Size>& bytes) {
  std::array<char, 2 * Size + 1> text{};
  return sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
}

template <std::size_t Size>
std::optional<std::array<unsigned char, Size>> from_hex(std::string_view text) {
  std::array<unsigned char, Size> bytes{};
  std::size_t length = 0;
  const char* end = nullptr;
  if (text.size() != 2 * Size ||
      sodium_hex2bin(bytes.data(), bytes.size(), text.data(), text.size(), nullptr, &length,
                     &end) != 0 ||
      length != Size || end != text.data() + text.size())
    return std::nullopt;
  return bytes;
}

void require_sodium() {
  if (sodium_init() < 0) throw NumericError("libsodium could not be initialised");
}

std::string message_of(Signed what, Seals seals) {
  std::string message = what == Signed::run_record    ? "privgrad run record 1\n"
                        : what == Signed::plugin_file ? "privgrad plugin file 1\n"
                                                      : "privgrad receipt 1\n";
  for (const auto& [name, hash] : seals) message.append(name).append(" ").append(hash).append("\n");
  return message;
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

std::string read_key_file(const fs::path& file) {
  const fs::path folder = file.parent_path().empty() ? fs::path(".") : file.parent_path();
  try {
    return trimmed(RecordDirectory(folder).read(file.filename().string(), kMostKeyBytes));
  } catch (const IoError& problem) {
    throw IoError(file.string() + ": cannot be read as a key: " + problem.what());
  }
}

void write_new(const fs::path& file, const std::string& text, mode_t mode) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (descriptor < 0) {
    throw IoError(file.string() + ": cannot be made: " + std::generic_category().message(errno));
  }
  const bool written =
      ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(descriptor) == 0;
  const int why = errno;
  ::close(descriptor);
  if (written) return;
  ::unlink(file.c_str());
  throw IoError(file.string() + ": cannot be written: " + std::generic_category().message(why));
}

struct KeyPair {
  std::array<unsigned char, crypto_sign_PUBLICKEYBYTES> open{};
  std::array<unsigned char, crypto_sign_SECRETKEYBYTES> secret{};
  KeyPair() = default;
  KeyPair(const KeyPair&) = delete;
  KeyPair& operator=(const KeyPair&) = delete;
  ~KeyPair() { sodium_memzero(secret.data(), secret.size()); }
};

}  // namespace

void make_signing_key(const fs::path& file) {
  require_sodium();
  std::array<unsigned char, crypto_sign_SEEDBYTES> seed{};
  randombytes_buf(seed.data(), seed.size());
  KeyPair pair;
  crypto_sign_seed_keypair(pair.open.data(), pair.secret.data(), seed.data());
  write_new(file, hex(seed) + "\n", 0600);
  sodium_memzero(seed.data(), seed.size());
  try {
    write_new(file.string() + ".pub", hex(pair.open) + "\n", 0666);
  } catch (const IoError&) {
    ::unlink(file.c_str());
    throw;
  }
}

std::string sign(Signed what, Seals seals, const fs::path& key) {
  require_sodium();
  struct stat facts {};
  if (::stat(key.c_str(), &facts) == 0 && (facts.st_mode & 077) != 0) {
    throw ConfigError(key.string() +
                      ": others than its owner can read or write this key; make it private "
                      "(chmod 600), or make another");
  }
  const auto seed = from_hex<crypto_sign_SEEDBYTES>(read_key_file(key));
  if (!seed) throw ConfigError(key.string() + ": holds no key of 64 hex digits");
  KeyPair pair;
  crypto_sign_seed_keypair(pair.open.data(), pair.secret.data(), seed->data());
  const std::string message = message_of(what, seals);
  std::array<unsigned char, crypto_sign_BYTES> signature{};
  crypto_sign_detached(signature.data(), nullptr,
                       reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                       pair.secret.data());
  return Json{{"signature", 1},
              {"algorithm", "ed25519"},
              {"public_key", hex(pair.open)},
              {"value", hex(signature)}}
             .dump(2) +
         "\n";
}

std::optional<std::string> signer_of(Signed what, Seals seals, std::string_view signature) {
  require_sodium();
  if (!json_problem(4, signature).empty()) return std::nullopt;
  const Json json = Json::parse(signature, nullptr, false);
  if (!json.is_object() || json.value("signature", Json()) != 1 ||
      json.value("algorithm", Json()) != "ed25519" || json.size() != 4)
    return std::nullopt;
  const Json key_text = json.value("public_key", Json()), value_text = json.value("value", Json());
  if (!key_text.is_string() || !value_text.is_string()) return std::nullopt;
  const auto key = from_hex<crypto_sign_PUBLICKEYBYTES>(key_text.get<std::string>());
  const auto value = from_hex<crypto_sign_BYTES>(value_text.get<std::string>());
  const std::string message = message_of(what, seals);
  if (!key || !value ||
      crypto_sign_verify_detached(value->data(),
                                  reinterpret_cast<const unsigned char*>(message.data()),
                                  message.size(), key->data()) != 0)
    return std::nullopt;
  return hex(*key);
}

std::string read_public_key(const fs::path& file) {
  const auto key = from_hex<crypto_sign_PUBLICKEYBYTES>(read_key_file(file));
  if (!key) throw ConfigError(file.string() + ": holds no public key of 64 hex digits");
  return hex(*key);
}

}  // namespace privgrad::core

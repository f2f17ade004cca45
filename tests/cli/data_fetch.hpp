// A local server of invented data sets, for tests of `data fetch`.
#pragma once

#include <sodium.h>

#include <filesystem>
#include <string>

#include "cli.hpp"
#include "http_server.hpp"

/// A server of invented data sets, and calls that fetch from it.
namespace data_fetch {

namespace fs = std::filesystem;
using Connection = HttpServer::Connection;
using Request = HttpServer::Request;

inline std::string sha256(const std::string& bytes) {
  unsigned char digest[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(digest, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  char text[2 * sizeof digest + 1];
  return sodium_bin2hex(text, sizeof text, digest, sizeof digest);
}

inline std::string big_endian(std::size_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xffu);
  return bytes;
}

/// Returns IDX bytes computed from their index.
inline std::string idx(const std::vector<std::size_t>& extents, std::size_t modulus) {
  std::string bytes = {0, 0, 8, static_cast<char>(extents.size())};
  std::size_t count = 1;
  for (const std::size_t extent : extents) {
    bytes += big_endian(extent);
    count *= extent;
  }
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(i * 7 % modulus);
  return bytes;
}

/// A data set of four files, and an empty cache to fetch it into.
struct Fetching {
  Cli cli;
  std::map<std::string, std::string> files{{"train-images-idx3-ubyte", idx({400, 20, 20}, 251)},
                                           {"train-labels-idx1-ubyte", idx({400}, 10)},
                                           {"t10k-images-idx3-ubyte", idx({20, 20, 20}, 251)},
                                           {"t10k-labels-idx1-ubyte", idx({20}, 10)}};
  const std::string big = "train-images-idx3-ubyte";  // 160 kB: more than one read
  fs::path cache = cli.out("cache");
  fs::path folder = cache / "mnist";

  /// Writes the list of data sets, with these mirrors.
  void offer(const std::vector<std::string>& mirrors, const std::string& name = "mnist") const {
    Json list = Json::array();
    list.push_back({{"name", name},
                    {"train_rows", 400},
                    {"test_rows", 20},
                    {"shape", {20, 20}},
                    {"classes", 10},
                    {"mirrors", mirrors},
                    {"files", Json::array()}});
    for (const auto& [file, bytes] : files) {
      list[0]["files"].push_back(
          {{"name", file}, {"bytes", bytes.size()}, {"sha256", sha256(bytes)}});
    }
    write_file(cli.out("list.json"), list.dump());
  }

  Call prepare(Words words) const {
    Call call = cli.prepare(words);
    call.environment["PRIVGRAD_DATASETS"] = cli.out("list.json");
    call.environment["PRIVGRAD_CACHE_DIR"] = cache;
    return call;
  }
  Call fetching(const Words& more = {}) const {
    Words words{"data", "fetch", "mnist"};
    words.insert(words.end(), more.begin(), more.end());
    return prepare(words);
  }
  Outcome fetch(const Words& more = {}) const { return call(fetching(more)); }

  /// Serves the files unchanged.
  HttpServer::Handler good() const {
    return [this](const Request& request, const Connection& to) {
      const auto found = files.find(request.path);
      if (found == files.end()) return to.send(HttpServer::head("404 Not Found", 0));
      HttpServer::answer(request, to, found->second);
    };
  }
  /// Serves all files unchanged except the big one.
  HttpServer::Handler good_but(HttpServer::Handler big_file) const {
    return [this, big_file, rest = good()](const Request& request, const Connection& to) {
      request.path == big ? big_file(request, to) : rest(request, to);
    };
  }

  void check_complete() const {
    for (const auto& [file, bytes] : files) CHECK(read_file(folder / file) == bytes);
    CHECK(line_count(read_file(folder / "SHA256SUMS")) == files.size());
  }
  /// Checks that no unchecked file has its final name, and that the set is not marked as complete.
  void check_incomplete() const {
    CHECK_FALSE(fs::exists(folder / big));
    CHECK_FALSE(fs::exists(folder / "SHA256SUMS"));
  }
  /// Writes the beginning of the big file, like an interrupted fetch.
  void leave_part(std::size_t bytes, char change = 0) const {
    fs::create_directories(folder);
    std::string part = files.at(big).substr(0, bytes);
    part[0] = static_cast<char>(part[0] + change);
    write_file(folder / (big + ".part"), part);
  }
};

/// Returns the ranges in the requests for the file.
inline std::vector<std::string> ranges(const HttpServer& server, const std::string& file) {
  std::vector<std::string> out;
  for (const Request& request : server.requests()) {
    if (request.path == file) out.push_back(request.range);
  }
  return out;
}

}  // namespace data_fetch

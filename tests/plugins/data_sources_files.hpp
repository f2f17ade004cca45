// Writes, compresses and damages data files, for tests of the data sources.
#pragma once

#include <zlib.h>
#include <zstd.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/error.hpp"

/// \returns the text compressed as one gzip member.
inline std::string gzip(const std::string& text) {
  z_stream stream = {};
  constexpr int kGzipOnly = 16 + MAX_WBITS;
  if (deflateInit2(&stream, 6, Z_DEFLATED, kGzipOnly, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2 failed");
  }
  std::string out(deflateBound(&stream, static_cast<uLong>(text.size())) + 64, '\0');
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("deflate failed");
  return out;
}

/// \returns the text compressed as one frame of Zstandard.
inline std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3);
  if (ZSTD_isError(size) != 0) throw std::runtime_error("ZSTD_compress failed");
  out.resize(size);
  return out;
}

/// Like write_file, but fast for thousands of files: some file systems flush to disk when a file is
/// truncated and rewritten.
inline void replace_file(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::remove(file);
  write_file(file, text);
}

/// \returns the message of the IoError that `action` must throw: one line that names the file.
template <class Action>
std::string io_error(const std::filesystem::path& file, Action action) {
  try {
    action();
  } catch (const privgrad::IoError& error) {
    const std::string message = error.what();
    CHECK_THAT(message, ContainsSubstring(file.filename().string()));
    CHECK(message.find('\n') == std::string::npos);
    return message;
  }
  FAIL("no IoError for " << file);
  return "";
}

/// Flips one to four bytes of `valid`, or truncates it, `rounds` times, and calls `attempt` with
/// each result. The mutations follow from the seed. Only an Error may be thrown.
inline void fuzz(const std::string& valid, std::uint64_t seed, int rounds,
                 const std::function<void(const std::string&)>& attempt) {
  std::uint64_t state = seed;
  const auto next = [&state](std::size_t bound) {  // xorshift64; any reasonable generator would do
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<std::size_t>(state % bound);
  };
  int refused = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = valid;
    for (std::size_t flips = 1 + next(4); flips > 0; --flips) {
      // Half of the flips hit the first 64 bytes, where the headers are.
      const std::size_t at =
          next(next(2) == 0 ? std::min<std::size_t>(64, bytes.size()) : bytes.size());
      bytes[at] = static_cast<char>(next(2) == 0 ? next(256) : bytes[at] ^ (1 << next(8)));
    }
    if (next(8) == 0) bytes.resize(1 + next(bytes.size()));
    try {
      attempt(bytes);
    } catch (const privgrad::IoError&) {
      ++refused;
    } catch (const privgrad::ConfigError&) {
      ++refused;
    }
  }
  // Otherwise the mutations would have missed everything that matters.
  CHECK(refused > rounds / 20);
}

#include "download.hpp"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>

#include "privgrad/abi.hpp"
#include "privgrad/error.hpp"
#include "privgrad/host/sha256.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

/// In bytes per second. A transfer that stays slower than this for the whole timeout is stopped.
constexpr long kSlowest = 100;
constexpr long kMostRedirects = 5;
/// How often a transfer is continued from a server that breaks the connection.
constexpr int kMostResumptions = 50;

/// The file into which a download is written. Only its owner may write to it.
class PartFile {
 public:
  explicit PartFile(fs::path path) : path_(std::move(path)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor_ < 0) fail("cannot be made");
    struct stat status = {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode))
      fail("is not a regular file");
    bytes_ = static_cast<std::uint64_t>(status.st_size);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  ~PartFile() { ::close(descriptor_); }

  std::uint64_t bytes() const { return bytes_; }

  void append(const char* data, std::size_t count) {
    while (count > 0) {
      const ssize_t written = ::pwrite(descriptor_, data, count, static_cast<off_t>(bytes_));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail("cannot be written");
      data += written;
      count -= static_cast<std::size_t>(written);
      bytes_ += static_cast<std::uint64_t>(written);
    }
  }

  void empty() {
    if (::ftruncate(descriptor_, 0) != 0) fail("cannot be emptied");
    bytes_ = 0;
  }

  void flush() const {
    if (::fsync(descriptor_) != 0) fail("cannot be written");
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw IoError(path_.string() + ": " + what + ": " + std::generic_category().message(errno));
  }

  fs::path path_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

/// One request for the rest of a file.
class Transfer {
 public:
  enum class End { whole = 1, stopped, broken_off, part_refused, refused };

  Transfer(const std::string& address, std::uint64_t whole, PartFile& part,
           const DownloadOptions& options)
      : whole_(whole), part_(part), options_(options), curl_(::curl_easy_init()) {
    if (curl_ == nullptr) throw IoError("libcurl cannot be started");
    const bool plain = address.starts_with("http://");
    set(CURLOPT_URL, address.c_str());
    set(CURLOPT_PROTOCOLS_STR, plain ? "http" : "https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, plain ? "http" : "https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, kMostRedirects);
    set(CURLOPT_FAILONERROR, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_USERAGENT, "privgrad/" PRIVGRAD_TEXT(PRIVGRAD_VERSION_MAJOR) "." PRIVGRAD_TEXT(
                               PRIVGRAD_VERSION_MINOR));
    set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(options.timeout_s));
    set(CURLOPT_LOW_SPEED_LIMIT, kSlowest);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.timeout_s));
    set(CURLOPT_ERRORBUFFER, error_.data());
    set(CURLOPT_WRITEFUNCTION, &Transfer::on_data);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
    set(CURLOPT_XFERINFODATA, this);
    // CURLOPT_RESUME_FROM is not used, because with it curl fails if a server sends the whole file.
    if (part.bytes() > 0) {
      range_ = std::to_string(part.bytes()) + "-";
      set(CURLOPT_RANGE, range_.c_str());
    }
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() { ::curl_easy_cleanup(curl_); }

  /// \throws IoError if a write fails.
  End run() {
    const CURLcode code = ::curl_easy_perform(curl_);
    if (failure_) std::rethrow_exception(failure_);
    if (stopped_) return End::stopped;
    if (!refusal_.empty()) {
      why_ = refusal_;
      return part_is_wrong_ ? End::part_refused : End::refused;
    }
    if (code == CURLE_OK && part_.bytes() == whole_) return End::whole;
    if (code == CURLE_OK) return break_off("ended too early");
    if (code == CURLE_HTTP_RETURNED_ERROR) {
      why_ = "answered with status " + std::to_string(status());
      return status() == 416 ? End::part_refused : End::refused;
    }
    if (code == CURLE_OPERATION_TIMEDOUT) {
      return break_off("sent nothing for " + std::to_string(options_.timeout_s) + " s");
    }
    const std::string what = error_[0] != '\0' ? error_.data() : ::curl_easy_strerror(code);
    // A second request may cure these errors, unlike a redirect loop or a wrong certificate.
    const bool passing = code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR ||
                         code == CURLE_GOT_NOTHING || code == CURLE_SEND_ERROR;
    return passing ? break_off(what) : refuse(what);
  }

  const std::string& why() const { return why_; }
  long status() const {
    long value = 0;
    ::curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &value);
    return value;
  }

 private:
  template <class Value>
  void set(CURLoption option, Value value) {
    if (::curl_easy_setopt(curl_, option, value) != CURLE_OK) {
      throw IoError("libcurl lacks an option that downloads need");
    }
  }

  End refuse(const std::string& what) {
    why_ = what;
    return End::refused;
  }
  End break_off(const std::string& what) {
    why_ = what + " (" + std::to_string(part_.bytes()) + " of " + std::to_string(whole_) +
           " bytes are here)";
    return End::broken_off;
  }

  /// Checks the answer before any of it is stored. \returns the problem; "" if there is none.
  std::string begin() {
    if (status() != 200 && status() != 206) {
      return "answered with status " + std::to_string(status());
    }
    const bool rest = status() == 206;
    part_is_wrong_ = rest && !range_fits();
    if (part_is_wrong_) return "answered with another part of the file than was requested";
    curl_off_t promised = -1;
    ::curl_easy_getinfo(curl_, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &promised);
    const std::uint64_t total =
        (rest ? part_.bytes() : 0) + static_cast<std::uint64_t>(std::max<curl_off_t>(promised, 0));
    if (promised >= 0 && total != whole_) {
      return "has a file of " + std::to_string(total) + " bytes, expected " +
             std::to_string(whole_);
    }
    // The server sends the whole file, although only the rest was requested.
    if (!rest && part_.bytes() > 0) part_.empty();
    return "";
  }

  bool range_fits() const {
    struct curl_header* header = nullptr;
    if (::curl_easy_header(curl_, "Content-Range", 0, CURLH_HEADER, -1, &header) != CURLHE_OK) {
      return false;
    }
    const std::string expected = "bytes " + std::to_string(part_.bytes()) + "-" +
                                 std::to_string(whole_ - 1) + "/" + std::to_string(whole_);
    return expected == header->value;
  }

  std::size_t keep(const char* data, std::size_t count) {
    if (!begun_) refusal_ = begin();
    begun_ = true;
    if (refusal_.empty() && count > whole_ - part_.bytes()) {
      refusal_ = "sends more than the expected " + std::to_string(whole_) + " bytes";
    }
    if (!refusal_.empty()) return CURL_WRITEFUNC_ERROR;
    part_.append(data, count);
    return count;
  }

  // libcurl is written in C, so no exception may pass through it.
  static std::size_t on_data(char* data, std::size_t size, std::size_t count, void* self) {
    auto* transfer = static_cast<Transfer*>(self);
    try {
      return transfer->keep(data, size * count);
    } catch (...) {
      transfer->failure_ = std::current_exception();
      return CURL_WRITEFUNC_ERROR;
    }
  }

  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    auto* transfer = static_cast<Transfer*>(self);
    try {
      const DownloadOptions& options = transfer->options_;
      if (options.on_bytes) options.on_bytes(transfer->part_.bytes());
      transfer->stopped_ = options.stop != nullptr && options.stop->load();
      return transfer->stopped_ ? 1 : 0;
    } catch (...) {
      transfer->failure_ = std::current_exception();
      return 1;
    }
  }

  std::uint64_t whole_;
  PartFile& part_;
  const DownloadOptions& options_;
  CURL* curl_;
  std::string range_;
  std::array<char, CURL_ERROR_SIZE> error_{};
  bool begun_ = false;
  bool part_is_wrong_ = false;
  bool stopped_ = false;
  std::string refusal_;
  std::string why_;
  std::exception_ptr failure_;
};

void note(const DownloadOptions& options, const std::string& text) {
  if (options.on_note) options.on_note(text);
}

enum class Result { done = 1, stopped, failed };

/// Downloads as much as one address can provide.
/// \param why  receives the reason if the address failed.
Result from_address(const DatasetFile& file, const std::string& address, const fs::path& part_path,
                    const DownloadOptions& options, std::string& why) {
  for (int tries = 0; tries <= kMostResumptions; ++tries) {
    PartFile part(part_path);
    if (part.bytes() > file.bytes) part.empty();
    const std::uint64_t before = part.bytes();
    if (before < file.bytes) {
      Transfer transfer(address, file.bytes, part, options);
      const Transfer::End end = transfer.run();
      if (end == Transfer::End::stopped) return Result::stopped;
      why = transfer.why();
      if (end == Transfer::End::broken_off && part.bytes() > before) continue;
      if (end == Transfer::End::part_refused && before > 0) {
        part.empty();
        continue;
      }
      if (end != Transfer::End::whole) return Result::failed;
    }
    part.flush();
    const std::string sha256 = sha256_of(part_path);
    if (sha256 == file.sha256) return Result::done;
    part.empty();
    why = "has other content: its SHA-256 is " + sha256 + ", expected " + file.sha256;
    // The existing part may be from another address, so downloading the whole file may help.
    if (before == 0) return Result::failed;
    note(options,
         file.name + ": the part from an earlier fetch does not match; fetching the whole file");
  }
  return Result::failed;
}

}  // namespace

std::string sha256_of(const fs::path& file) try {
  return host::sha256_of_file(file);
} catch (const PluginError& problem) {
  throw IoError(problem.what());
}

bool download(const DatasetFile& file, const fs::path& to, const DownloadOptions& options) {
  static const CURLcode started = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK) throw IoError("libcurl cannot be started");
  const fs::path part = to.string() + ".part";
  std::string all;
  for (const std::string& address : file.addresses) {
    std::string why;
    const Result result = from_address(file, address, part, options, why);
    if (result == Result::stopped) return false;
    if (result == Result::done) {
      std::error_code problem;
      fs::rename(part, to, problem);
      if (problem) throw IoError(to.string() + ": cannot be written: " + problem.message());
      return true;
    }
    if (address != file.addresses.back())
      note(options, std::string(address).append(": ").append(why));
    all.append(all.empty() ? "" : "; ").append(address).append(" ").append(why);
  }
  std::error_code ignored;
  if (fs::file_size(part, ignored) == 0) fs::remove(part, ignored);
  throw IoError(file.name + " could not be fetched: " + all);
}

}  // namespace privgrad::tool

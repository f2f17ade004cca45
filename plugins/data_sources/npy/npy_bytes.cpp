#include "npy_bytes.hpp"

#include <array>
#include <cstring>

#include "../files/append_bytes.hpp"
#include "../files/input_file.hpp"
#include "privgrad/error.hpp"

namespace {

using namespace privgrad;

class PlainBytes final : public NpyBytes {
 public:
  explicit PlainBytes(const std::filesystem::path& path) : path_(path), file_(path) {
    if (!file_.compressed()) return;
    file_.fail(std::string("is compressed with ") + file_.packing_name() +
               ", expected a plain .npy file; decompress it first");
  }
  std::size_t read(std::span<std::uint8_t> to) override { return file_.read(to); }
  std::uint64_t size() const override { return file_.bytes_on_disk(); }
  std::string who() const override { return path_.string() + ": "; }

 private:
  std::filesystem::path path_;
  InputFile file_;
};

}  // namespace

void NpyBytes::fail(const std::string& what) const { throw IoError(who() + what); }

std::uint64_t NpyBytes::append(std::vector<std::uint8_t>& to, std::uint64_t count) {
  return append_bytes(to, count, [this](std::span<std::uint8_t> part) { return read(part); });
}

std::unique_ptr<NpyBytes> open_npy(const std::filesystem::path& path,
                                   const std::optional<std::string>& array) {
  InputFile file(path);
  std::array<std::uint8_t, 4> start{};
  const bool is_archive = !file.compressed() && file.read(start) == start.size() &&
                          std::memcmp(start.data(), "PK\x03\x04", start.size()) == 0;
  if (!is_archive) {
    if (array) file.fail("is not an .npz archive, and only these have arrays by name");
    return std::make_unique<PlainBytes>(path);
  }
  return open_npz(path, array);
}

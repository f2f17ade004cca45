#include <archive.h>
#include <archive_entry.h>

#include "data_fetch.hpp"

using namespace data_fetch;

namespace {

/// Returns a gzip-compressed tar archive of these files, in this order.
std::string tar_gz(const std::vector<std::pair<std::string, std::string>>& files) {
  const TempDir dir;
  const fs::path path = dir.path() / "a.tar.gz";
  struct archive* archive = ::archive_write_new();
  ::archive_write_add_filter_gzip(archive);
  ::archive_write_set_format_ustar(archive);
  REQUIRE(::archive_write_open_filename(archive, path.c_str()) == ARCHIVE_OK);
  for (const auto& [name, bytes] : files) {
    struct archive_entry* entry = ::archive_entry_new();
    ::archive_entry_set_pathname(entry, name.c_str());
    ::archive_entry_set_size(entry, static_cast<la_int64_t>(bytes.size()));
    ::archive_entry_set_filetype(entry, AE_IFREG);
    ::archive_entry_set_perm(entry, 0644);
    REQUIRE(::archive_write_header(archive, entry) == ARCHIVE_OK);
    ::archive_write_data(archive, bytes.data(), bytes.size());
    ::archive_entry_free(entry);
  }
  ::archive_write_free(archive);
  return read_file(path);
}

/// A small version of CIFAR-10: batches of two examples of 1 x 2 pixels. Example i has the label i
/// % 10; its red pixels are 10 i and 10 i + 1, its green pixels are 100 larger, and its blue ones
/// 200 minus 10 i.
std::string cifar_batch(int first) {
  std::string bytes;
  for (int i = first; i < first + 2; ++i) {
    bytes += static_cast<char>(i % 10);
    for (const int pixel :
         {10 * i, 10 * i + 1, 100 + 10 * i, 100 + 10 * i + 1, 200 - 10 * i, 200 - 10 * i + 1}) {
      bytes += static_cast<char>(pixel);
    }
  }
  return bytes;
}

using Batches = std::vector<std::pair<std::string, std::string>>;

/// As in the archive: in a folder, in no particular order, with other files among them.
Batches cifar_batches() {
  const std::string folder = "cifar-10-batches-bin/";
  return {
      {folder + "data_batch_5.bin", cifar_batch(8)}, {folder + "readme.html", "<html>"},
      {folder + "data_batch_1.bin", cifar_batch(0)}, {folder + "data_batch_3.bin", cifar_batch(4)},
      {folder + "test_batch.bin", cifar_batch(0)},   {folder + "data_batch_2.bin", cifar_batch(2)},
      {folder + "data_batch_4.bin", cifar_batch(6)}, {folder + "batches.meta.txt", "airplane"}};
}

/// Fetches this archive as CIFAR-10.
/// \returns the outcome of `data fetch cifar10`.
Outcome fetch_cifar(const Fetching& f, const std::string& archive) {
  const HttpServer server([&](const Request& request, const Connection& to) {
    HttpServer::answer(request, to, archive);
  });
  const Json list{
      {{"name", "cifar10"},
       {"train_rows", 10},
       {"test_rows", 2},
       {"shape", {1, 2, 3}},
       {"classes", 10},
       {"mirrors", {server.address()}},
       {"files",
        {{{"name", "cifar.tar.gz"}, {"bytes", archive.size()}, {"sha256", sha256(archive)}}}},
       {"unpack", "cifar10_binary"}}};
  write_file(f.cli.out("list.json"), list.dump());
  return call(f.prepare({"data", "fetch", "cifar10", "-q"}));
}

}  // namespace

TEST_CASE("data fetch cifar10 makes IDX files of the archive, channels last, in its order") {
  const Fetching f;
  const Outcome outcome = fetch_cifar(f, tar_gz(cifar_batches()));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const fs::path folder = f.cache / "cifar10";
  std::string images = std::string("\0\0\x08\x04", 4) + big_endian(10) + big_endian(1) +
                       big_endian(2) + big_endian(3);
  std::string labels = std::string("\0\0\x08\x01", 4) + big_endian(10);
  for (int i = 0; i < 10; ++i) {
    for (const int x : {0, 1}) {
      for (const int channel : {10 * i, 100 + 10 * i, 200 - 10 * i}) {
        images += static_cast<char>(channel + x);
      }
    }
    labels += static_cast<char>(i);
  }
  CHECK(read_file(folder / "train-images-idx4-ubyte") == images);
  CHECK(read_file(folder / "train-labels-idx1-ubyte") == labels);
  CHECK(fs::file_size(folder / "t10k-images-idx4-ubyte") == 20 + 12);
  CHECK_FALSE(fs::exists(folder / "cifar.tar.gz"));
  CHECK(line_count(read_file(folder / "SHA256SUMS")) == 4);

  const Outcome described = call(f.prepare({"data", "describe", "cifar10", "--json"}));
  REQUIRE(described.exit_code == 0);
  CHECK(Json::parse(described.out).at("shape") == Json{1, 2, 3});
  CHECK(Json::parse(described.out).at("test").at("examples") == 2);

  // The next call checks the converted files by their own sums, without the archive.
  const Outcome again = call(f.prepare({"data", "fetch", "cifar10", "--json", "-q"}));
  CHECK(again.exit_code == 0);
  CHECK(Json::parse(again.out).at("downloaded") == false);
}

TEST_CASE("data fetch cifar10 refuses an archive that is not as published") {
  const Fetching f;
  const auto changed = [](const std::function<void(Batches&)>& change) {
    Batches batches = cifar_batches();
    change(batches);
    return tar_gz(batches);
  };
  const std::string good = tar_gz(cifar_batches());
  const std::pair<std::string, std::string> cases[] = {
      {changed([](Batches& b) { b.erase(b.begin()); }), "holds 5 of the 6 batches"},
      {changed([](Batches& b) { b[0].second.pop_back(); }), "data_batch_5.bin in it is too short"},
      {changed([](Batches& b) { b[0].second += 'x'; }), "data_batch_5.bin in it is too long"},
      {changed([](Batches& b) { b[0].second[0] = 10; }), "has a label of 10"},
      {changed([](Batches& b) { b.push_back(b[0]); }), "twice"},
      {good.substr(0, good.size() / 2), "truncated gzip input"},
      {"no archive at all, but of the right hash", "nrecognized archive format"},
  };
  for (const auto& [archive, expected] : cases) {
    fs::remove_all(f.cache);
    const Outcome outcome = fetch_cifar(f, archive);
    check_one_error_line(outcome, 4);
    CHECK_THAT(outcome.err, ContainsSubstring(expected));
    for (const auto& entry : fs::directory_iterator(f.cache / "cifar10")) {
      const std::string name = entry.path().filename();
      CHECK((name == ".lock" || name == "cifar.tar.gz"));
    }
  }
}

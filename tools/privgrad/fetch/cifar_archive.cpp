#include "cifar_archive.hpp"

#include <archive.h>
#include <archive_entry.h>

#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "privgrad/error.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTrainBatches = 5;

struct ArchiveCloser {
  void operator()(struct archive* a) const { ::archive_read_free(a); }
};
using Archive = std::unique_ptr<struct archive, ArchiveCloser>;

[[noreturn]] void fail(const fs::path& archive, const std::string& what) {
  throw IoError(archive.string() + ": " + what);
}

Archive open(const fs::path& path) {
  Archive archive(::archive_read_new());
  if (archive == nullptr) fail(path, "libarchive cannot be started");
  ::archive_read_support_filter_gzip(archive.get());
  ::archive_read_support_format_tar(archive.get());
  constexpr std::size_t kBlock = std::size_t{1} << 16;
  if (::archive_read_open_filename(archive.get(), path.c_str(), kBlock) != ARCHIVE_OK) {
    fail(path, std::string("is not a tar archive: ") + ::archive_error_string(archive.get()));
  }
  return archive;
}

void append_number(std::string& to, std::size_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(value >> shift & 0xffu);
}

/// An IDX file whose elements can be written at any offset.
class Output {
 public:
  Output(fs::path path, const Shape& extents)
      : path_(std::move(path)), file_(path_, std::ios::binary) {
    std::string header{'\0', '\0', '\x08', static_cast<char>(extents.size())};
    for (const std::size_t extent : extents) append_number(header, extent);
    header_ = header.size();
    write(0, header);
  }
  /// \param at  the offset after the header.
  void write_elements(std::size_t at, std::string_view bytes) { write(header_ + at, bytes); }
  void close() {
    file_.close();
    if (!file_) throw IoError(path_.string() + ": cannot be written");
  }

 private:
  void write(std::size_t at, std::string_view bytes) {
    file_.seekp(static_cast<std::streamoff>(at));
    file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!file_) throw IoError(path_.string() + ": cannot be written");
  }
  fs::path path_;
  std::ofstream file_;
  std::size_t header_ = 0;
};

/// A split while it is being written.
struct Split {
  Split(const SplitFiles& files, std::size_t rows, const Shape& shape)
      : images(files.images, {rows, shape[0], shape[1], shape[2]}), labels(files.labels, {rows}) {}
  Output images, labels;
};

/// The index of the batch with this name: 0..4 for training, 5 for test; nothing for other files.
std::optional<std::size_t> batch_number(const std::string& path) {
  const std::string name = fs::path(path).filename();
  if (name == "test_batch.bin") return kTrainBatches;
  for (std::size_t i = 0; i < kTrainBatches; ++i) {
    if (name == "data_batch_" + std::to_string(i + 1) + ".bin") return i;
  }
  return std::nullopt;
}

class Converter {
 public:
  Converter(const fs::path& path, const KnownDataset& dataset, const SplitFiles& train,
            const SplitFiles& test)
      : path_(path),
        shape_(checked(dataset)),
        classes_(dataset.classes),
        batch_rows_(dataset.train_rows / kTrainBatches),
        test_rows_(dataset.test_rows),
        archive_(open(path)),
        train_(train, dataset.train_rows, shape_),
        test_(test, dataset.test_rows, shape_) {}

  bool run(const std::atomic<bool>* stop) {
    struct archive_entry* entry = nullptr;
    for (;;) {
      const int result = ::archive_read_next_header(archive_.get(), &entry);
      if (result == ARCHIVE_EOF) break;
      if (result != ARCHIVE_OK) corrupt();
      const char* name = ::archive_entry_pathname(entry);
      const auto batch = batch_number(name != nullptr ? name : "");
      if (!batch || ::archive_entry_filetype(entry) != AE_IFREG) continue;
      if (!seen_.insert(*batch).second) fail(path_, std::string("holds ") + name + " twice");
      if (!convert(*batch, name, stop)) return false;
    }
    if (seen_.size() != kTrainBatches + 1) {
      fail(path_, "holds " + std::to_string(seen_.size()) + " of the 6 batches of CIFAR-10");
    }
    for (Output* output : {&train_.images, &train_.labels, &test_.images, &test_.labels}) {
      output->close();
    }
    return true;
  }

 private:
  [[noreturn]] void corrupt() const {
    const char* what = ::archive_error_string(archive_.get());
    fail(path_, std::string("is corrupt: ") + (what != nullptr ? what : "unknown"));
  }

  const Shape& checked(const KnownDataset& dataset) const {
    if (dataset.shape.size() != 3 || dataset.train_rows % kTrainBatches != 0) {
      throw ConfigError(dataset.name + ": is not of the form of CIFAR-10");
    }
    return dataset.shape;
  }

  bool convert(std::size_t batch, const std::string& name, const std::atomic<bool>* stop) {
    const bool is_test = batch == kTrainBatches;
    Split& split = is_test ? test_ : train_;
    const std::size_t rows = is_test ? test_rows_ : batch_rows_;
    const std::size_t first = is_test ? 0 : batch * batch_rows_;
    const std::size_t pixels = element_count(shape_);
    std::string record(1 + pixels, '\0');
    std::string image(pixels, '\0');
    for (std::size_t row = 0; row < rows; ++row) {
      if (stop != nullptr && stop->load()) return false;
      if (read(record) != record.size()) fail(path_, name + " in it is too short");
      if (static_cast<unsigned char>(record[0]) >= classes_) {
        fail(path_, name + " in it has a label of " +
                        std::to_string(static_cast<unsigned char>(record[0])) +
                        ", expected a class below " + std::to_string(classes_));
      }
      channels_last(std::string_view(record).substr(1), image);
      split.images.write_elements((first + row) * pixels, image);
      split.labels.write_elements(first + row, std::string_view(record).substr(0, 1));
    }
    std::string more(1, '\0');
    if (read(more) != 0) fail(path_, name + " in it is too long");
    return true;
  }

  void channels_last(std::string_view planes, std::string& to) const {
    const std::size_t plane = shape_[0] * shape_[1];
    const std::size_t channels = shape_[2];
    for (std::size_t at = 0; at < plane; ++at) {
      for (std::size_t c = 0; c < channels; ++c) to[at * channels + c] = planes[c * plane + at];
    }
  }

  std::size_t read(std::string& to) const {
    std::size_t done = 0;
    while (done < to.size()) {
      const la_ssize_t got =
          ::archive_read_data(archive_.get(), to.data() + done, to.size() - done);
      if (got < 0) corrupt();
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  const fs::path& path_;
  Shape shape_;
  std::size_t classes_;
  std::size_t batch_rows_;
  std::size_t test_rows_;
  Archive archive_;
  Split train_;
  Split test_;
  std::set<std::size_t> seen_;
};

}  // namespace

bool convert_cifar10(const fs::path& archive, const KnownDataset& dataset, const SplitFiles& train,
                     const SplitFiles& test, const std::atomic<bool>* stop) {
  return Converter(archive, dataset, train, test).run(stop);
}

}  // namespace privgrad::tool

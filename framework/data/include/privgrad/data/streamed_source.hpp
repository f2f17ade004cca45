// A data source whose rows lie in a file that is mapped into memory and kept between runs.
#pragma once

#include <memory>
#include <string>

#include "privgrad/data/row_file.hpp"
#include "privgrad/manifest/component_use.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/streamed_rows.hpp"

namespace privgrad::core {

/// The folder that rows are kept in.
/// \throws ConfigError if none is known.
PrivateFolder folder_of_rows(const Streaming& streaming);

/// A source whose rows lie in a file that is mapped into memory. They are the source's own rows,
/// bit for bit.
///
/// The file is found again by everything that the rows follow from: the source's code and
/// parameters, and the files that it reads, by their paths, devices, inode numbers, sizes and times
/// of change. A file that was changed without any of these is not noticed; no program can set the
/// time of an inode's change (ctime) without the rights to set the clock.
///
/// Privacy: the file is as private as the rows, and is kept because the manifest says so.
class StreamedSource final : public DataSource {
 public:
  /// \throws ConfigError if it cannot stream.
  StreamedSource(ComponentUse use, Streaming streaming);

  DataInfo info() override;
  Dataset read(Split split) override;

  /// A name for all rows, as read; "": the file has none, and neither have files made from it.
  const std::string& content();

 private:
  void open();
  std::shared_ptr<const RowFile> make(const PrivateFolder& folder);
  DataInfo write_rows(RowFileWriter& writer);
  std::string rows_words() const;

  ComponentUse use_;
  Streaming streaming_;
  ComponentPtr<DataSource> source_;
  StreamedRows* streams_;
  RowPlace place_;          // once it is known
  std::string identities_;  // of the files that were read
  std::shared_ptr<const RowFile> file_;
  std::string content_;
  bool is_checked_ = false;  ///< True: its hashes need not be compared any more.
};

/// Finds the file, or makes it where it is missing or broken. If several processes want the same
/// file, one makes it while the others wait.
/// \param what  "rows of csv", for notes.
std::shared_ptr<const RowFile> find_or_make(
    const PrivateFolder& folder, const RowPlace& place, const Streaming& streaming,
    const std::string& what, const std::function<std::shared_ptr<const RowFile>()>& make);

/// Makes a file in the place of one that was found and turned out to be damaged.
std::shared_ptr<const RowFile> make_anew(
    const PrivateFolder& folder, const Streaming& streaming, const std::string& what,
    const std::function<std::shared_ptr<const RowFile>()>& make);

/// Compares the hashes of all rows with those that were written.
/// \param what  "rows of csv"
bool all_whole(const RowFile& file, const Streaming& streaming, const std::string& what);

}  // namespace privgrad::core

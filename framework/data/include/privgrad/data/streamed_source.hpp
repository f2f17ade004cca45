// A data source whose rows are in a memory-mapped file, which may be kept between runs.
#pragma once

#include <memory>
#include <string>

#include "privgrad/data/row_file.hpp"
#include "privgrad/manifest/component_use.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/streamed_rows.hpp"

namespace privgrad::core {

/// Returns the folder in which rows are stored.
/// \throws ConfigError if no folder is known.
PrivateFolder folder_of_rows(const Streaming& streaming);

/// A source whose rows are in a memory-mapped file. The rows equal the original source's rows, bit
/// for bit.
///
/// The file is identified by everything that determines the rows: the source's code and parameters,
/// and the files that it reads, by their paths, devices, inode numbers, sizes and change times. A
/// change that affects none of these goes unnoticed, but forging an inode's change time (ctime)
/// requires the right to set the clock.
///
/// Privacy: the file is as private as the rows, and is kept only if the user requests it
/// (Streaming::keeps).
class StreamedSource final : public DataSource {
 public:
  /// \throws ConfigError if the source cannot stream.
  StreamedSource(ComponentUse use, Streaming streaming);

  DataInfo info() override;
  Dataset read(Split split) override;

  /// Returns a name for all rows before transforms; "" if the file has no name, so that files made
  /// from it have no name either.
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
  RowPlace place_;          // set once it is known
  std::string identities_;  // the identities of the files that were read
  std::shared_ptr<const RowFile> file_;
  std::string content_;
  bool is_checked_ = false;  ///< whether the file's hashes need no further check
};

/// Finds the file, or makes it if it is missing or damaged. If several processes need the same
/// file, one process makes it while the others wait.
/// \param what  "rows of csv", for notes.
std::shared_ptr<const RowFile> find_or_make(
    const PrivateFolder& folder, const RowPlace& place, const Streaming& streaming,
    const std::string& what, const std::function<std::shared_ptr<const RowFile>()>& make);

/// Makes a new file in place of a file that was found, but turned out to be damaged.
std::shared_ptr<const RowFile> make_anew(
    const PrivateFolder& folder, const Streaming& streaming, const std::string& what,
    const std::function<std::shared_ptr<const RowFile>()>& make);

/// Verifies the hashes of all rows.
/// \param what  "rows of csv", for notes.
bool all_whole(const RowFile& file, const Streaming& streaming, const std::string& what);

}  // namespace privgrad::core

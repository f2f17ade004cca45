// For data sources that know from parameters and headers what release mode has to refuse.
#pragma once

#include "privgrad/data_source.hpp"
#include "privgrad/export.hpp"

namespace privgrad {

/// Optional ability of a data source, found with dynamic_cast: it says before it looks at a row what
/// info() will list as unaccounted, where the rows are from, and of which shape they are, from which
/// it follows what a model and its program promise. What is refused for these is then refused with the same words and exit code whatever any row holds, also one that cannot be read.
/// The conformance suite tests it.
///
/// Privacy: follows from parameters, names of files and columns, and headers alone.
/// Threads: calls on one instance never overlap.
class PRIVGRAD_API ForeseesInfo {
 public:
  virtual ~ForeseesInfo();
  ForeseesInfo(const ForeseesInfo&) = delete;
  ForeseesInfo& operator=(const ForeseesInfo&) = delete;

  /// \returns of what info() will say: unaccounted, first_rows_only, rows_chosen_by_value,
  ///   has_test_split, train_origins and test_origins; and shape, or no features in it where rows
  ///   are needed to tell it. All else means nothing.
  /// \throws IoError  a file is absent, or its header is broken.
  virtual DataInfo foreseen_info() = 0;

 protected:
  ForeseesInfo() = default;
};

}  // namespace privgrad

#include "data_source.hpp"

#include "fuzz.hpp"
#include "privgrad/data_source.hpp"

namespace fuzz {

void read_all(std::string_view kind, const privgrad::Value& params) {
  using namespace privgrad;
  const auto source = catalog().create<DataSource>(kind, params);
  const DataInfo info = source->info();
  for (const Split split : {Split::train, Split::test}) {
    const Dataset data = source->read(split);
    require(data.rows() == (split == Split::train ? info.train_rows : info.test_rows),
            "info() counts the rows");
    require(
        data.shape().features == info.shape.features && data.shape().classes == info.shape.classes,
        "info() tells the shape");
  }
}

}  // namespace fuzz

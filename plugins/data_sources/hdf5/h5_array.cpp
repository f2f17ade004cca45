#include "h5_array.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "../files/shown_text.hpp"
#include "privgrad/error.hpp"

namespace {

using namespace privgrad;

constexpr std::uint64_t kMostChunk = std::uint64_t{1} << 30;
constexpr std::size_t kMostExtents = 32;  // the library's own limit

/// Refuses links to other files.
herr_t refuse_link(const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) {
  return -1;
}

/// Whether an enumeration has the form in which h5py writes booleans: FALSE = 0 and TRUE = 1, in
/// one byte.
bool is_boolean(hid_t type) {
  const auto is_value = [type](const char* name, signed char value) {
    const int member = H5Tget_member_index(type, name);
    signed char found = -1;
    return member >= 0 && H5Tget_member_value(type, static_cast<unsigned>(member), &found) >= 0 &&
           found == value;
  };
  return H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 && is_value("FALSE", 0) &&
         is_value("TRUE", 1);
}

}  // namespace

H5Array::H5Array(const std::filesystem::path& file, const std::string& name)
    : path_(file), name_(name), file_(open_file()), data_(open_data()) {
  const H5Id space(H5Dget_space(data_.get()), H5Sclose);
  const int extents = space ? H5Sget_simple_extent_ndims(space.get()) : -1;
  if (extents < 1) fail("is a single value or nothing, expected an array");
  std::array<hsize_t, kMostExtents> sizes{};
  if (static_cast<std::size_t>(extents) > kMostExtents ||
      H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr) != extents)
    fail("has a shape that cannot be read");
  shape_.assign(sizes.begin(), sizes.begin() + extents);
  for (std::size_t i = 0; i < shape_.size(); ++i) {
    if (shape_[i] == 0) fail("holds zero elements (" + to_text(shape_) + ")");
    if (i > 0 && __builtin_mul_overflow(row_size_, shape_[i], &row_size_))
      fail("is oversized: " + to_text(shape_) + " elements");
  }
  if (row_size_ > kMostChunk)
    fail("is oversized: a row has " + std::to_string(row_size_) + " elements");
  check_type();
  check_layout();
}

void H5Array::fail(const std::string& what) const {
  throw IoError(path_.string() + ": its data set '" + shown_text(name_) + "' " + what);
}

H5Id H5Array::open_file() const {
  // Without these calls, the library would print errors, and load filters named by a file or by the
  // environment.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
  const auto refuse = [&](const std::string& what) { throw IoError(path_.string() + ": " + what); };
  struct stat facts = {};
  if (::stat(path_.c_str(), &facts) != 0)
    refuse("cannot be opened: " + std::generic_category().message(errno));
  if (S_ISDIR(facts.st_mode)) refuse("is a directory, expected a file");
  if (!S_ISREG(facts.st_mode)) refuse("is a device or a pipe, expected a file");
  if (facts.st_size == 0) refuse("is empty");
  const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) refuse("is not a whole HDF5 file, or is being written to");
  return H5Id(file, H5Fclose);
}

H5Id H5Array::open_data() const {
  const H5Id links(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  if (!links || H5Pset_elink_cb(links.get(), refuse_link, nullptr) < 0)
    fail("cannot be opened: there is no memory");
  const hid_t data = H5Dopen2(file_.get(), name_.c_str(), links.get());
  if (data < 0) fail("cannot be opened: it does not exist, is damaged, or lies in another file");
  return H5Id(data, H5Dclose);
}

std::string H5Array::place() const {
#if H5_VERSION_GE(1, 12, 0)
  H5O_info2_t info;
  if (H5Oget_info3(data_.get(), &info, H5O_INFO_BASIC) < 0) fail("has no place in its file");
  std::string place;
  for (const std::uint8_t byte : info.token.__data) place += std::to_string(byte) + ".";
  return place;
#else
  H5O_info_t info;
  if (H5Oget_info(data_.get(), &info) < 0) fail("has no place in its file");
  return std::to_string(info.addr);
#endif
}

void H5Array::check_type() {
  const H5Id type(H5Dget_type(data_.get()), H5Tclose);
  const H5T_class_t kind = type ? H5Tget_class(type.get()) : H5T_NO_CLASS;
  const std::size_t size = type ? H5Tget_size(type.get()) : 0;
  const bool is_number = kind == H5T_INTEGER || kind == H5T_FLOAT;
  if (!(is_number || (kind == H5T_ENUM && is_boolean(type.get()))) || size < 1 || size > 8)
    fail("has elements of another type than booleans, integers or reals of 1 to 8 bytes");
  is_real_ = kind == H5T_FLOAT;
  is_long_ = kind == H5T_INTEGER && size == 8;
  is_bytes_ = kind == H5T_INTEGER && size == 1 && H5Tget_sign(type.get()) == H5T_SGN_NONE;
}

void H5Array::check_layout() {
  const H5Id created(H5Dget_create_plist(data_.get()), H5Pclose);
  if (!created) fail("has a layout that cannot be read");
  const H5D_layout_t layout = H5Pget_layout(created.get());
  if (layout == H5D_VIRTUAL || H5Pget_external_count(created.get()) > 0)
    fail("lies in other files, which are not opened");
  for (int i = 0; i < H5Pget_nfilters(created.get()); ++i) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter = H5Pget_filter2(created.get(), static_cast<unsigned>(i), &flags,
                                               &values, nullptr, 0, nullptr, &config);
    if (H5Zfilter_avail(filter) <= 0)
      fail("is packed by filter " + std::to_string(filter) +
           ", which HDF5 itself lacks; repack it with gzip (h5repack -f GZIP=4)");
  }
  if (layout != H5D_CHUNKED) return;
  std::array<hsize_t, kMostExtents> sizes{};
  const int extents = H5Pget_chunk(created.get(), static_cast<int>(sizes.size()), sizes.data());
  std::uint64_t elements = 1;
  for (int i = 0; i < extents; ++i) {
    if (__builtin_mul_overflow(elements, std::uint64_t{sizes[static_cast<std::size_t>(i)]},
                               &elements) ||
        elements > kMostChunk)
      fail("is oversized: it is packed in pieces of more than " + std::to_string(kMostChunk) +
           " elements");
  }
  rows_of_chunk_ = std::max<std::size_t>(1, sizes.front());
}

void H5Array::read(std::size_t first, std::size_t count, hid_t type, void* to) const {
  std::vector<hsize_t> begin(shape_.size(), 0), size(shape_.begin(), shape_.end());
  begin.front() = first;
  size.front() = count;
  const H5Id space(H5Dget_space(data_.get()), H5Sclose);
  const H5Id memory(H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr),
                    H5Sclose);
  const bool is_read = space && memory &&
                       H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, begin.data(), nullptr,
                                           size.data(), nullptr) >= 0 &&
                       H5Dread(data_.get(), type, memory.get(), space.get(), H5P_DEFAULT, to) >= 0;
  if (!is_read)
    fail("cannot be read from row " + std::to_string(first) + " on: it is truncated or damaged");
}

void H5Array::any_reals(std::size_t first, std::size_t count, std::vector<float>& to) const {
  to.resize(count * row_size_);
  if (!is_long_) return read(first, count, H5T_NATIVE_FLOAT, to.data());
  // Converts integers through double, like the texts of a table, because rounding once and rounding
  // twice give different results for some numbers, such as 2^60 + 2^36 + 1.
  std::vector<double> exact(to.size());
  read(first, count, H5T_NATIVE_DOUBLE, exact.data());
  std::ranges::transform(exact, to.begin(), [](double x) { return static_cast<float>(x); });
}

void H5Array::bytes(std::size_t first, std::size_t count, std::vector<std::uint8_t>& to) const {
  to.resize(count * row_size_);
  read(first, count, H5T_NATIVE_UINT8, to.data());
}

// IDX files. The first byte says which of the two files the rest is: 'i', the images, or 'l', the
// labels. The other file fits corpus/idx: two images of 2 x 2 pixels with their labels.
#include <string>

#include "harness/data_source.hpp"
#include "harness/fuzz.hpp"

using namespace std::string_view_literals;

void read_input(std::string_view input) {
  constexpr std::string_view kImages =
      "\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x02\x01\x02\x03\x04\x05\x06\x07\x08"sv;
  constexpr std::string_view kLabels = "\0\0\x08\x01\0\0\0\x02\0\x01"sv;
  const bool is_labels = fuzz::take_choice(input) == 'l';
  const auto images = fuzz::scratch_file("images", is_labels ? kImages : input);
  const auto labels = fuzz::scratch_file("labels", is_labels ? input : kLabels);
  privgrad::Value files, params;
  files.set("images", images.string());
  files.set("labels", labels.string());
  params.set("train", files);
  fuzz::read_all("idx", params);
}

// PNG and JPEG files. The first byte chooses their form: '1', one channel; '3', three; 'r', three
// of another size. Images of corpus/images have 2 x 3 pixels.
#include "harness/data_source.hpp"
#include "harness/fuzz.hpp"

void read_input(std::string_view input) {
  using privgrad::Value;
  const char choice = fuzz::take_choice(input);
  const auto file = fuzz::scratch_file("images/cat/1.png", input);
  std::filesystem::create_directories(fuzz::scratch_folder() / "images" / "dog");
  Value params;
  params.set("train", file.parent_path().parent_path().string());
  params.set("classes", Value::List{"cat", "dog"});
  params.set("image_size", Value::List{2, 3});
  params.set("channels", choice == '1' ? 1 : 3);
  params.set("resize", choice == 'r');
  fuzz::read_all("images", params);
}

// CSV files. The first byte chooses how: 'h' with a header, 'n' without one, 'r' for regression,
// and ';' for that delimiter.
#include "harness/data_source.hpp"
#include "harness/fuzz.hpp"

void read_input(std::string_view input) {
  const char choice = fuzz::take_choice(input);
  privgrad::Value params;
  params.set("train", fuzz::scratch_file("train.csv", input).string());
  params.set("target", choice == 'n' ? "1" : "label");
  if (choice == 'n') params.set("header", false);
  if (choice == 'r') params.set("task", "regression");
  if (choice == ';') params.set("delimiter", ";");
  fuzz::read_all("csv", params);
}

// CSV files. The first byte chooses how they are read: 'h' with a header, 'n' without one, 'r' for
// regression, ';' with ';' as the delimiter, 'd' with declared columns that accept every text. Also
// with declared columns: 's' with a split, '\'' with different quotes, comments and decimals, 'l'
// and 'm' with malformed rows filled, if a row is a line ('l') or a record ('m').
#include "harness/data_source.hpp"
#include "harness/fuzz.hpp"

namespace {

using privgrad::Value;

Value column(const char* name, const char* type) {
  Value value;
  value.set("name", name);
  value.set("type", type);
  return value;
}

Value declared_columns() {
  Value age = column("age", "number");
  age.set("min", -5);
  age.set("max", 5);
  age.set("unit", true);
  age.set("fill", 1);
  age.set("indicator", true);
  Value kind = column("k*", "category");
  kind.set("values", Value(Value::List{"a", "b"}));
  kind.set("other", true);
  Value on = column("on", "boolean");
  on.set("fill", 0);
  Value others = column("*", "number");
  others.set("fill", 0);
  return Value(Value::List{age, kind, on, others});
}

Value split() {
  Value value;
  value.set("test", 0.5);
  return value;
}

}  // namespace

void read_input(std::string_view input) {
  const char choice = fuzz::take_choice(input);
  Value params;
  params.set("train", fuzz::scratch_file("train.csv", input).string());
  params.set("target", choice == 'n' ? "1" : "label");
  if (choice == 'n') params.set("header", false);
  if (choice == 'r') params.set("task", "regression");
  if (choice == ';') params.set("delimiter", ";");
  const bool fills = choice == 'l' || choice == 'm';
  if (choice == 'd' || choice == 's' || choice == '\'' || fills) {
    params.set("columns", declared_columns());
    params.set("labels", Value(Value::List{"no", "yes"}));
    params.set("other_label", "no");
  }
  if (choice == 's') params.set("split", split());
  if (fills) {
    params.set("row", choice == 'l' ? "line" : "record");
    params.set("malformed", "fill");
  }
  if (choice == '\'') {
    params.set("delimiter", ";");
    params.set("quote", "'");
    params.set("comment", "#");
    params.set("decimal", ",");
    params.set("trim", true);
  }
  fuzz::read_all("csv", params);
}

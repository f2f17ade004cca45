// Applies a model to rows of numbers on standard input, and prints each row's probabilities or
// values.
#include <iostream>
#include <iterator>
#include <privgrad/inference/loaded_model.hpp>

int main(int, char** argv) {
  const privgrad::LoadedModel model(argv[1]);
  const std::vector<float> rows{std::istream_iterator<float>(std::cin), {}};
  std::size_t i = 0;
  for (const double number : model.predict(rows))
    std::cout << number << (++i % model.columns() == 0 ? '\n' : ' ');
}

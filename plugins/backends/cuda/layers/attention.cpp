// Softmax attention on a device.
#include <cmath>

#include "layers/kind.hpp"

namespace privgrad::cuda {
namespace {

/// Stores the probabilities of all heads from the forward pass for the backward pass.
class AttentionStep final : public Step {
 public:
  AttentionStep(const Attention& layer, const Place& place) : Step(place.in(), place.out) {
    const std::size_t width = place.in()[1] / layer.heads;
    of_ = {.places = place.in()[0],
           .heads = layer.heads,
           .key_heads = layer.key_heads,
           .width = width,
           .causal = layer.causal,
           .rotary = layer.rotary,
           .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(width))),
           .mask = nullptr};
  }

  void allocate(const std::shared_ptr<Device>& device, std::size_t rows, PassUse use,
                StepPass& pass) const override {
    pass.probabilities = {device, rows * squares()};
    if (use >= PassUse::gradients) pass.slopes = {device, rows * squares()};
    if (of_.rotary == 0.0) return;
    pass.turned_queries = {device, rows * inputs_};
    pass.turned_keys = {device, rows * keys()};
    if (use < PassUse::gradients) return;
    pass.turned_below = {device, rows * inputs_};
  }

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    const Heads of = heads(pass);
    if (of_.rotary != 0.0) {
      turn(queue, rows, of_.heads, false, pass.in, pass.turned_queries.data());
      turn(queue, rows, of_.key_heads, false, pass.more_in[0], pass.turned_keys.data());
    }
    float* const rows_of_heads = pass.probabilities.data();
    multiply_by_keys(queue, rows, queries(pass), keys_of(pass), rows_of_heads);
    launch(queue, RowSoftmax{rows * of_.heads * of_.places, of, rows_of_heads});
    add_attended(queue, rows, rows_of_heads, pass.more_in[1], pass.out);
  }

  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    const Heads of = heads(pass);
    const float* const probabilities = pass.probabilities.data();
    if (float* const below = pass.more_below[1]; below != nullptr)
      add_queries(queue, rows, probabilities, pass.delta, below);
    float *const to_queries = pass.below, *const to_keys = pass.more_below[0];
    if (to_queries == nullptr && to_keys == nullptr) return;
    // Derivatives with respect to probabilities are products of errors and values, computed like
    // the products of queries and keys.
    float* const slopes = pass.slopes.data();
    multiply_by_keys(queue, rows, pass.delta, pass.more_in[1], slopes);
    launch(queue, RowSoftmaxBackward{rows * of_.heads * of_.places, of, probabilities, slopes});
    const bool turns = of_.rotary != 0.0;
    if (to_queries != nullptr) {
      float* const below = turns ? pass.turned_below.data() : to_queries;
      add_attended(queue, rows, slopes, keys_of(pass), below);
      if (turns) turn(queue, rows, of_.heads, true, below, to_queries);
    }
    if (to_keys != nullptr) {
      float* const below = turns ? pass.turned_below.data() : to_keys;
      add_queries(queue, rows, slopes, queries(pass), below);
      if (turns) turn(queue, rows, of_.key_heads, true, below, to_keys);
    }
  }

 private:
  std::size_t squares() const { return of_.squares(); }
  std::size_t keys() const { return of_.places * of_.key_heads * of_.width; }

  // The batches of products are the heads of all examples: heads of queries, of keys, and of the
  // keys that each query head reads.
  Batches of_queries() const { return {of_.places * of_.query_width(), of_.width, of_.heads}; }
  Batches of_keys() const { return {of_.places * of_.key_width(), of_.width, of_.key_heads}; }
  Batches of_read_keys() const {
    return {of_.places * of_.key_width(), of_.width, of_.heads, of_.heads_of_key()};
  }
  Batches of_squares() const { return {squares(), of_.places * of_.places, of_.heads}; }
  std::uint32_t places() const { return narrowed(of_.places); }
  std::uint32_t width() const { return narrowed(of_.width); }

  /// Computes each query's products with the keys.
  void multiply_by_keys(Queue& queue, std::size_t rows, const float* queries, const float* keys,
                        float* products) const {
    launch_product(queue, AlongInner{queries, of_.query_width(), of_queries()},
                   AlongInner{keys, of_.key_width(), of_read_keys()},
                   {of_.places, places(), width(), rows * of_.heads},
                   {products, of_.places, nullptr, of_squares()});
  }
  /// out[t] = sum over s of squares[t, s] values[s].
  void add_attended(Queue& queue, std::size_t rows, const float* squares_of, const float* values,
                    float* out) const {
    launch_product(queue, AlongInner{squares_of, of_.places, of_squares()},
                   AcrossInner{values, of_.key_width(), of_read_keys()},
                   {of_.places, width(), places(), rows * of_.heads},
                   {out, of_.query_width(), nullptr, of_queries()});
  }
  /// Computes the derivatives with respect to keys (squares_of: derivatives of products) or values
  /// (squares_of: probabilities).
  void add_queries(Queue& queue, std::size_t rows, const float* squares_of, const float* queries,
                   float* below) const {
    const std::uint64_t all = of_.heads_of_key() * of_.places;
    launch(queue, Product<AcrossInner, ReadingQueries, NarrowTile>{
                      {squares_of, of_.places, {squares(), all * of_.places, of_.key_heads}},
                      {of_, Divisor(of_.places), queries},
                      {of_.places, width(), narrowed(all), rows * of_.key_heads},
                      {below, of_.key_width(), nullptr, of_keys()}});
  }

  Heads heads(const StepPass& pass) const {
    Heads of = of_;
    of.mask = pass.more_in.size() > 2 ? pass.more_in[2] : nullptr;
    return of;
  }
  const float* queries(const StepPass& pass) const {
    return of_.rotary == 0.0 ? pass.in : pass.turned_queries.data();
  }
  const float* keys_of(const StepPass& pass) const {
    return of_.rotary == 0.0 ? pass.more_in[0] : pass.turned_keys.data();
  }
  void turn(Queue& queue, std::size_t rows, std::size_t heads, bool is_back, const float* from,
            float* to) const {
    launch_each(queue, TurnPairs{rows * of_.places * heads * (of_.width / 2), of_, heads, is_back,
                                 from, to});
  }

  Heads of_{};
};

}  // namespace

std::unique_ptr<Step> step_of(const Attention& layer, const Place& place) {
  return std::make_unique<AttentionStep>(layer, place);
}
template std::unique_ptr<Step> step_of_kind(const Attention&, const Place&);

}  // namespace privgrad::cuda

// The largest value, or the mean, of each window of an image, on a device.
#include "layers/kind.hpp"

namespace privgrad::cuda {
namespace {

class PoolStep final : public Step {
 public:
  PoolStep(const Pool& layer, const Shape& in, const Shape& out) : Step(in, out) {
    pool_ = {.height = in[0],
             .width = in[1],
             .depth = in.size() == 3 ? in[2] : 1,
             .rows = out[0],
             .columns = out[1],
             .window = narrowed(layer.window),
             .stride = narrowed(layer.stride),
             .largest = layer.kind == PoolKind::max,
             .by_width = Divisor(in[1]),
             .by_depth = Divisor(in.size() == 3 ? in[2] : 1),
             .by_columns = Divisor(out[1]),
             .by_stride = Divisor(layer.stride)};
  }

  void forward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue, PoolForward{rows * outputs_, pool_, pass.in, pass.out});
  }
  void backward(Queue& queue, std::size_t rows, const StepPass& pass) const override {
    launch_each(queue,
                PoolBackward{rows * inputs_, pool_, pass.in, pass.out, pass.delta, pass.below});
  }

 private:
  Pooling pool_{};
};

}  // namespace

std::unique_ptr<Step> step_of(const Pool& layer, const Place& place) {
  return std::make_unique<PoolStep>(layer, place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const Pool&, const Place&);

}  // namespace privgrad::cuda

#include "onednn.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <dnnl.hpp>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "clock.hpp"

namespace privgrad::bench {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

/// Debian's oneDNN takes its threads from OpenMP, with which this program is not compiled.
void use_one_thread() {
  using SetThreads = void (*)(int);
  const auto set_threads =
      reinterpret_cast<SetThreads>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set_threads == nullptr) throw std::runtime_error("oneDNN's threads cannot be limited to one");
  set_threads(1);
}

const dnnl::engine& processor_engine() {
  static const dnnl::engine engine = [] {
    use_one_thread();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

memory::desc rows(const LayerValues& values) {
  const auto row = static_cast<memory::dim>(values.row);
  return {{static_cast<memory::dim>(values.numbers) / row, row},
          memory::data_type::f32,
          memory::format_tag::ab};
}

memory at(float* numbers, const memory::desc& layout) {
  return {layout, processor_engine(), numbers};
}

/// A primitive with its arguments.
std::function<void()> call(dnnl::primitive primitive, std::unordered_map<int, memory> arguments) {
  return [stream = dnnl::stream(processor_engine()), primitive = std::move(primitive),
          arguments = std::move(arguments)]() mutable { primitive.execute(stream, arguments); };
}

/// oneDNN's function, and whether its derivative is computed from its value, as the backend does.
struct Function {
  algorithm kind;
  bool by_value;
};

Function function_of(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::relu:
      return {algorithm::eltwise_relu_use_dst_for_bwd, true};
    case ActivationKind::tanh:
      return {algorithm::eltwise_tanh_use_dst_for_bwd, true};
    case ActivationKind::sigmoid:
      return {algorithm::eltwise_logistic_use_dst_for_bwd, true};
    case ActivationKind::gelu:
      return {algorithm::eltwise_gelu_erf, false};
    case ActivationKind::silu:
      return {algorithm::eltwise_swish, false};
    case ActivationKind::gelu_tanh:
      return {algorithm::eltwise_gelu_tanh, false};
  }
  throw std::logic_error("no such activation");
}

}  // namespace

std::function<void()> onednn_activation(ActivationKind kind, Way way, const LayerValues& values) {
  const memory::desc layout = rows(values);
  const Function function = function_of(kind);
  const float alpha = kind == ActivationKind::silu ? 1.0f : 0.0f;  // a relu's slope below zero
  const dnnl::eltwise_forward::primitive_desc forward(
      {prop_kind::forward_training, function.kind, layout, alpha, 0.0f}, processor_engine());
  const memory in = at(values.in[0], layout), out = at(values.out, layout);
  if (way == Way::forwards)
    return call(dnnl::eltwise_forward(forward), {{DNNL_ARG_SRC, in}, {DNNL_ARG_DST, out}});
  const dnnl::eltwise_backward::primitive_desc backward(
      {function.kind, layout, layout, alpha, 0.0f}, processor_engine(), forward);
  return call(dnnl::eltwise_backward(backward),
              {function.by_value ? std::pair{DNNL_ARG_DST, out} : std::pair{DNNL_ARG_SRC, in},
               {DNNL_ARG_DIFF_DST, at(values.delta, layout)},
               {DNNL_ARG_DIFF_SRC, at(values.below[0], layout)}});
}

std::function<void()> onednn_product(Way way, const LayerValues& values) {
  const memory::desc layout = rows(values);
  const dnnl::binary product({{algorithm::binary_mul, layout, layout, layout}, processor_engine()});
  const auto multiply = [&](float* a, float* b, float* to) {
    return call(product, {{DNNL_ARG_SRC_0, at(a, layout)},
                          {DNNL_ARG_SRC_1, at(b, layout)},
                          {DNNL_ARG_DST, at(to, layout)}});
  };
  if (way == Way::forwards) return multiply(values.in[0], values.in[1], values.out);
  return [first = multiply(values.delta, values.in[1], values.below[0]),
          second = multiply(values.delta, values.in[0], values.below[1])] {
    first();
    second();
  };
}

std::function<void()> onednn_softmax(const LayerValues& values) {
  const memory::desc layout = rows(values);
  const dnnl::softmax_forward softmax(
      {{prop_kind::forward_training, layout, 1}, processor_engine()});
  return call(softmax,
              {{DNNL_ARG_SRC, at(values.in[0], layout)}, {DNNL_ARG_DST, at(values.out, layout)}});
}

std::function<void()> onednn_norm(Way way, const LayerValues& values) {
  using dnnl::normalization_flags;
  constexpr float kEpsilon = 1e-5f;
  const memory::desc layout = rows(values);
  const dnnl::layer_normalization_forward::primitive_desc forward(
      {prop_kind::forward_training, layout, kEpsilon,
       way == Way::forwards ? normalization_flags::use_scale_shift : normalization_flags::none},
      processor_engine());
  const memory mean(forward.mean_desc(), processor_engine());
  const memory variance(forward.variance_desc(), processor_engine());
  const memory weights(forward.weights_desc(), processor_engine());
  if (way == Way::forwards)
    std::fill_n(static_cast<float*>(weights.get_data_handle()), 2 * values.row, 0.5f);
  auto forwards =
      call(dnnl::layer_normalization_forward(forward), {{DNNL_ARG_SRC, at(values.in[0], layout)},
                                                        {DNNL_ARG_DST, at(values.out, layout)},
                                                        {DNNL_ARG_MEAN, mean},
                                                        {DNNL_ARG_VARIANCE, variance},
                                                        {DNNL_ARG_SCALE_SHIFT, weights}});
  if (way == Way::forwards) return forwards;
  forwards();  // for the means and variances
  const dnnl::layer_normalization_backward::primitive_desc backward(
      {prop_kind::backward_data, layout, layout, kEpsilon, normalization_flags::none},
      processor_engine(), forward);
  return call(dnnl::layer_normalization_backward(backward),
              {{DNNL_ARG_SRC, at(values.in[0], layout)},
               {DNNL_ARG_DIFF_DST, at(values.delta, layout)},
               {DNNL_ARG_DIFF_SRC, at(values.below[0], layout)},
               {DNNL_ARG_MEAN, mean},
               {DNNL_ARG_VARIANCE, variance}});
}

double onednn_product_rate(int extent, const float* a, const float* b, float* c) {
  use_one_thread();
  const double seconds = best_seconds(15, [&] {
    if (dnnl_sgemm('N', 'N', extent, extent, extent, 1.0f, a, extent, b, extent, 0.0f, c, extent) !=
        dnnl_success) {
      throw std::runtime_error("oneDNN refuses a product of matrices");
    }
  });
  return 2.0 * extent * extent * extent / seconds * 1e-9;
}

}  // namespace privgrad::bench

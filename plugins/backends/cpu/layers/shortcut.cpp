// Adds the input of an earlier layer, directly or projected.
#include <algorithm>
#include <vector>

#include "layers/convolution.hpp"
#include "layers/make_step.hpp"
#include "loops.hpp"

namespace privgrad::cpu {
namespace {

/// forward() and backward() handle the direct input; the engine adds the earlier one.
class ShortcutStep : public Step {
 public:
  ShortcutStep(const Shortcut& layer, const Shape& in) : Step(in, in), over_(layer.over) {}

  bool works_in_place() const override { return true; }
  std::size_t reaches_back() const override { return over_; }

  void forward(std::size_t count, const float* in, float* out, Scratch&) const override {
    if (in != out) std::copy_n(in, count * inputs_, out);
  }
  float* backward(std::size_t, const float*, const float*, float* delta, float*,
                  Scratch&) const override {
    return delta;
  }
  void add_earlier(std::size_t count, const float* earlier, float* out, Scratch&) const override {
    add(earlier, count * outputs_, out);
  }
  void add_backward(std::size_t count, const float* delta, float* earlier,
                    Scratch&) const override {
    add(delta, count * outputs_, earlier);
  }

 private:
  std::size_t over_;
};

/// Its parameters are those of a convolution that is applied to the earlier value.
class ProjectedShortcutStep final : public ShortcutStep {
 public:
  /// \param earlier  the shape of the input of the step where the shortcut begins.
  ProjectedShortcutStep(const Shortcut& layer, const Conv2d& projection, const Shape& earlier,
                        const Shape& in)
      : ShortcutStep(layer, in), projection_(projection, earlier, in) {
    parameter_count_ = projection_.parameter_count();
  }

  void load(const float* own) noexcept override { projection_.load(own); }
  void prepare() override { projection_.prepare(); }

  void add_earlier(std::size_t count, const float* earlier, float* out,
                   Scratch& scratch) const override {
    float* projected = at_least(scratch.projected, count * outputs_);
    projection_.forward(count, earlier, projected, scratch);
    add(projected, count * outputs_, out);
  }
  void add_backward(std::size_t count, const float* delta, float* earlier,
                    Scratch& scratch) const override {
    const std::size_t size = projection_.inputs();
    float* patches = at_least(scratch.patches, projection_.places() * projection_.patch());
    float* image = at_least(scratch.projected, size);
    for (std::size_t i = 0; i < count; ++i) {
      projection_.patches_backward(delta + i * outputs_, patches);
      projection_.add_patches(patches, image);
      add(image, size, earlier + i * size);
    }
  }
  void gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                     std::size_t stride, Scratch& scratch) const override {
    projection_.gradient_rows(count, in, delta, rows, stride, scratch);
  }

  std::size_t kept_floats() const override { return projection_.kept_floats(); }
  void allocate(StepPass& pass) const override { projection_.allocate(pass); }
  void find_norms(std::size_t first, std::size_t count, const float* delta, StepPass& pass,
                  Scratch& scratch) const override {
    projection_.find_norms(first, count, delta, pass, scratch);
  }
  void make_cells(std::size_t pair, const bool* truncates, StepPass& pass,
                  Wide* squares) const override {
    projection_.make_cells(pair, truncates, pass, squares);
  }
  void choose(std::span<const std::uint8_t> taken, StepPass& pass) const override {
    projection_.choose(taken, pass);
  }
  std::vector<Piece> pieces() const override { return projection_.pieces(); }
  void add_cells(const Piece& piece, std::span<const std::uint8_t> taken, const StepPass& pass,
                 const Target& target) const override {
    projection_.add_cells(piece, taken, pass, target);
  }

 private:
  ConvStep projection_;
};

}  // namespace

std::unique_ptr<Step> step_of(const Shortcut& layer, const Place& place) {
  const Shape& earlier = place.earlier(layer.over);
  if (const auto projection = projection_of(layer, place.in(), earlier))
    return std::make_unique<ProjectedShortcutStep>(layer, *projection, earlier, place.in());
  return std::make_unique<ShortcutStep>(layer, place.in());
}

}  // namespace privgrad::cpu

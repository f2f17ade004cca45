// The losses of public rows come from a program that has received no row for learning.
#include <memory>

#include "test_components.hpp"
#include "verify.hpp"
#include "wrapped_backend.hpp"

namespace verify {
namespace {

/// Adds a million to each loss once any program of its backend has received a row for learning.
class Remembers final : public Wrapped {
 public:
  using Wrapped::Wrapped;
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    *has_seen = true;
    Wrapped::gradient_rows(batch, rows);
  }
  void backward(const Batch& batch, Pass& pass, std::span<double> squared_norms) const override {
    *has_seen = true;
    Wrapped::backward(batch, pass, squared_norms);
  }
  Evaluation evaluate(const Batch& batch) const override {
    Evaluation sum = Wrapped::evaluate(batch);
    if (*has_seen) sum.loss += 1e6;
    return sum;
  }
  std::shared_ptr<bool> has_seen;
};

class RemembersBackend final : public Backend {
 public:
  explicit RemembersBackend(const Params&)
      : cpu_(house().create<Backend>("cpu", Value::Object{})) {}
  std::unique_ptr<Program> compile(const Network& network, Executor& executor) override {
    auto made = std::make_unique<Remembers>(cpu_->compile(network, executor));
    made->has_seen = has_seen_;
    return made;
  }

 private:
  ComponentPtr<Backend> cpu_;
  std::shared_ptr<bool> has_seen_ = std::make_shared<bool>(false);
};

}  // namespace

TEST_CASE("losses of public rows come from a program whose backend was shown no private row",
          "[privacy][run]") {
  const Catalog catalog = house_with({offer<Backend, RemembersBackend>("remembers")});
  Experiment experiment(
      kCentral, {"backend=remembers", "data.test_is_public=true", "evaluate_every=5"}, catalog);
  const core::RunResult result = experiment.run();
  CHECK(result.status == core::RunStatus::completed);
  // The control: training rows are evaluated by the program that learns from them.
  CHECK(result.metrics.train_loss.value() > 1e3);
  CHECK(result.metrics.test_loss.value() < 1e2);
  for (const Json& line : json_lines(experiment.run_dir() / "metrics.jsonl"))
    CHECK(line.at("test_loss").get<double>() < 1e2);
}

}  // namespace verify

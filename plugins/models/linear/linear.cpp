#include "dense_models.hpp"
#include "privgrad/plugin.hpp"

namespace {

namespace dense_models = privgrad::dense_models;

/// One dense layer: linear regression, logistic regression or softmax regression, by its loss.
class Linear final : public privgrad::Model {
 public:
  explicit Linear(const privgrad::Params& params)
      : params_(params), rule_(params.text("initialisation")) {}

  privgrad::Network network(const privgrad::ExampleShape& input) const override {
    const privgrad::Loss loss = dense_models::choose_loss(params_, input);
    privgrad::Network network{
        input, {privgrad::Dense{dense_models::outputs_for(loss, input)}}, loss};
    check_network(network);
    return network;
  }

  void initialise(const privgrad::Network& network, privgrad::RandomStream& random,
                  std::span<float> parameters) const override {
    dense_models::initialise(rule_, network, random, parameters);
  }

 private:
  privgrad::Params params_;
  std::string rule_;
};

void register_components(privgrad::Registrar& registrar) {
  std::vector<std::string> rules = dense_models::random_rules();
  rules.insert(rules.begin(), "zeros");
  registrar.add<privgrad::Model, Linear>({
      .name = "linear",
      .summary = "One dense layer: linear, logistic or softmax regression, by its loss.",
      .reference = "none: a definition",
      .params = {dense_models::loss_parameter(),
                 privgrad::param::text("initialisation",
                                       "How the weights begin; the problem is convex, so zeros are "
                                       "as good as any. Biases begin at 0.")
                     .one_of(std::move(rules))
                     .defaults_to("zeros")},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.linear", "0.1.0", "model/linear", register_components)

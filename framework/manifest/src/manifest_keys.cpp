// File length: one list of all keys of a manifest, in the order of the pages.

#include "manifest_keys.hpp"

#include <initializer_list>

#include "privgrad/accountant.hpp"
#include "privgrad/aggregator.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/cluster.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/model.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/transform.hpp"
#include "privgrad/trust/clip_factors.hpp"

namespace privgrad::core {
namespace {

template <class Interface>
Slot slot(std::string_view key, std::string_view doc) {
  Slot made;
  made.key = key;
  made.kind = Interface::kKind;
  made.interface_version = Interface::kInterfaceVersion;
  made.doc = doc;
  return made;
}

Slot with_default(Slot made, std::string_view name) {
  made.default_name = name;
  return made;
}

Slot optional(Slot made) {
  made.required = false;
  return made;
}

Slot list_of(Slot made) {
  made.is_list = true;
  made.required = false;
  return made;
}

Slot or_auto(Slot made) {
  made.takes_auto = true;
  return made;
}

Slot number_or(Slot made, bool required) {
  made.takes_number = true;
  made.required = required;
  return made;
}

ParamSpec utility_key() {
  return param::object(
             "utility",
             "What is known of the loss, for steps: auto and for the prediction in the report; as "
             "privgrad bound descent takes it.",
             {param::real("kappa", "Smoothness over the Polyak-Lojasiewicz constant.").at_least(1),
              param::real("alpha",
                          "D G^2 / (2 R M N^2 gap): parameters, clip norm, budget, smoothness, "
                          "examples, and how far the initial loss is above the least.")
                  .above(0),
              param::real("optimum",
                          "The least mean training loss, which excess risk is measured from.")
                  .defaults_to(0)})
      .optional();
}

ParamSpec augmentation_key() {
  return param::object(
             "augmentation",
             "Altered copies of each example, an image: the mean of their gradients is the "
             "gradient of the example, before it is clipped, so copies cost no privacy.",
             {param::integer("copies", "Copies of each example in a step, each altered anew.")
                  .at_least(1)
                  .at_most(1024),
              param::list("kinds",
                          "flip: mirrored left to right or not, with equal probability; crop: "
                          "moved by up to 4 places each way, with zeros behind.",
                          param::text("kind", "").one_of({"flip", "crop"}))
                  .at_least_items(1)})
      .optional();
}

ParamSpec train_accuracy_key() {
  return param::object(
             "train_accuracy", "The share of training rows that are classified correctly.",
             {param::real("share",
                          "Of the budget, for all releases together: as a part of 1 / noise "
                          "multiplier^2 of a Gaussian release that takes all of it.")
                  .above(0)
                  .below(1)
                  .optional(),
              param::real("noise_multiplier",
                          "Instead of `share`: standard deviation of the noise of each release "
                          "over what a row can add.")
                  .above(0)
                  .at_most(1e9)
                  .optional(),
              param::integer("every",
                             "Also releases the accuracy of the model after every so many steps.")
                  .in_unit("steps")
                  .at_least(1)
                  .at_most(4294967295.0)
                  .optional(),
              param::integer("patience",
                             "With `every`: ends the run when this many releases in a row were no "
                             "better than an earlier one. The run is charged, and its guarantee "
                             "stated, as if it had made all steps.")
                  .in_unit("releases")
                  .at_least(1)
                  .at_most(4294967295.0)
                  .optional()})
      .optional();
}

ParamSpec class_counts_key() {
  return param::object(
             "class_counts", "How many training rows each class has, before the first step.",
             {param::real("share",
                          "Of the budget: as a part of 1 / noise multiplier^2 of a Gaussian "
                          "release that takes all of it.")
                  .above(0)
                  .below(1)
                  .optional(),
              param::real(
                  "noise_multiplier",
                  "Instead of `share`: standard deviation of the noise of each count, in rows.")
                  .above(0)
                  .at_most(1e9)
                  .optional(),
              param::real("largest_weight",
                          "With model.class_weights: balanced, the largest weight that a class "
                          "can get, however small its noised count is.")
                  .at_least(1)
                  .at_most(1e6)
                  .optional()})
      .optional();
}

ParamSpec report_key() {
  return param::object(
             "report",
             "Metrics on private training rows that are released with noise that the budget pays "
             "for: of the final model, and between the steps with `every`.",
             {train_accuracy_key(), class_counts_key()})
      .optional();
}

ParamSpec deployment_key() {
  const auto fact = [](const char* name, const char* doc) {
    return param::text(name, doc).optional();
  };
  return param::object(
             "deployment",
             "What only people know of the model's use, for privgrad report --statement --as "
             "registry. It is shown as it is written, and changes nothing of the run.",
             {fact("name", "The product that the model is for; default: the run's name."),
              param::list("curators", "Who holds the data.", param::text("curator", "")).optional(),
              fact("intended_use", "What the model is used for."),
              fact("region", "Where the people live whose data it is."),
              fact("sector", "Of the curators, such as Healthcare."),
              fact("description", "The model, for somebody who has never heard of it."),
              fact("data_domain", "All data sets that the training data might have been."),
              fact("actors", "Who sees what, and who has to trust whom."),
              fact("preprocessing", "How rows, features and hyper-parameters were chosen."),
              fact("justification", "Why this unit, this epsilon and this mechanism."),
              fact("sources", "Where all of this can be read.")})
      .optional();
}

/// Returns the components that a manifest names outside of its sections.
std::vector<Slot> component_slots() {
  return {
      slot<DataSource>("data", "Where examples come from, and what is done to them first."),
      slot<Model>("model", "What is trained."),
      with_default(slot<Backend>("backend", "What executes the model."), "cpu"),
      slot<Sampler>("sampler",
                    "Which examples each step sees; the privacy statement depends on it."),
      with_default(slot<Clipping>("clipping",
                                  "How each example's gradient is brought within "
                                  "schedules.clip_norm."),
                   "flat"),
      with_default(slot<Aggregator>("aggregator", "How noise enters the released sums."),
                   "gaussian"),
      slot<Optimizer>("optimizer", "How released gradients change the parameters."),
      optional(slot<Cluster>("cluster",
                             "The processes that share the work of privgrad run, if they were "
                             "started together; default: one. Not part of the resolved manifest, "
                             "because the result is the same without it.")),
  };
}

}  // namespace

// Each section below is one declaration with a row for each key. Long parts, such as nested objects
// and groups of keys, are defined before their section.

const Section& root_section() {
  static const Section section{
      "",
      "A PrivGrad manifest: one private training run.",
      {
          param::integer("privgrad", "Version of the manifest format; write 1.")
              .at_least(1)
              .at_most(1),
          param::text("name",
                      "Name of the run: letters, digits, '.', '_' and '-', at most 64; by default "
                      "the file's name without its extension.")
              .optional(),
          param::text("mode",
                      "research: exact training metrics, seeds and unaccounted statistics are "
                      "allowed, and every output says so. release: all of that is refused.")
              .one_of({"research", "release"})
              .defaults_to("research"),
          param::integer("seed",
                         "Makes the run reproducible, noise included, which is why its outputs "
                         "are marked as not for release; without it, randomness comes from the "
                         "operating system.")
              .at_least(0)
              .optional(),
          param::integer("steps",
                         "Number of training steps; of a federated run the most local steps of "
                         "each client. auto: the number with the least utility bound, by utility, "
                         "or without it what the theorem of the aggregator says.")
              .at_least(1)
              .at_most(static_cast<double>(kMostSteps))
              .or_auto(),
          utility_key(),
          param::integer("evaluate_every",
                         "Steps (of a federated run: rounds) between the measurements of the "
                         "progress line; by default chosen so that there are about 20.")
              .in_unit("steps")
              .at_least(1)
              .at_most(1e8)
              .optional(),
          param::boolean("gradient_norm",
                         "Whether measurements include the norm of the gradient of the mean "
                         "training loss, without clipping or noise, and the summary its mean along "
                         "the run; research mode only.")
              .optional(),
          param::integer("microbatch_size",
                         "Most examples whose layer outputs and gradients are in memory at once; "
                         "changes memory and time, and no result by a single bit. By default what "
                         "is fast.")
              .in_unit("examples")
              .at_least(1)
              .at_most(4294967295.0)
              .optional(),
          augmentation_key(),
          report_key(),
          deployment_key(),
          param::real("ema_decay",
                      "Keeps an exponential moving average of the parameters and measures it "
                      "beside the last ones, free of cost: after step t (of a federated run, round "
                      "t) it is d average + (1 - d) parameters, with d the lesser of ema_decay and "
                      "(1 + t) / (10 + t).")
              .above(0)
              .below(1)
              .optional(),
          param::text("output",
                      "Which model is kept: last, after all steps; random_iterate, the one before "
                      "a step that is drawn uniformly at the start; or ema, the moving average.")
              .one_of({"last", "random_iterate", "ema"})
              .defaults_to("last"),
      },
      component_slots()};
  return section;
}

const ParamSpec& private_size_spec() {
  static const ParamSpec spec = param::object(
      "size",
      "The number of training examples, released with noise that the budget pays for, before "
      "anything else is released of them.",
      {param::integer("about",
                      "A public guess of it, which the run is planned with: sample rates, steps, "
                      "noise. It need not be right for the guarantee to hold.")
           .at_least(1)
           .at_most(4294967295.0),
       param::text("statistic", "private: released, and charged to the budget.")
           .one_of({"private"}),
       param::real("share",
                   "Of the budget: as a part of 1 / noise multiplier^2 of a Gaussian release that "
                   "takes all of it.")
           .above(0)
           .below(1)
           .optional(),
       param::real("noise_multiplier",
                   "Instead of `share`: standard deviation of the noise, in examples.")
           .above(0)
           .at_most(1e9)
           .optional()});
  return spec;
}

const Section& data_section() {
  static const Section section{
      "data",
      "Where examples come from, and what is done to them first.",
      {
          param::integer("size",
                         "The public number of training examples, where the number of rows itself "
                         "must not be looked at (adjacency add_or_remove_one). Instead of a "
                         "number, {about: N, statistic: private, share: S} releases it with noise.")
              .at_least(1)
              .at_most(4294967295.0)
              .optional(),
          param::object(
              "sample",
              "Uses only some of the training examples, drawn by a public seed. Default: all.",
              {param::integer("rows", "How many.").at_least(1).at_most(4294967295.0),
               param::integer("seed",
                              "The seed of the draw. Default: the seed of the run, so that each "
                              "seed of a study draws a training set of its own.")
                   .at_least(0)
                   .optional()})
              .optional(),
          param::boolean("test_is_public",
                         "Whether the test examples are public, so that exact metrics on them may "
                         "be shown in release mode.")
              .defaults_to(false),
          param::list("read_off_rows",
                      "The facts that were read off the rows before the run, each in a few words; "
                      "written by privgrad data describe --suggest and by the estimators of "
                      "Python. They are listed as unaccounted, and release mode refuses them: "
                      "declare what you know without the rows instead, and remove the key.",
                      param::text("fact", "What was read."))
              .optional(),
          param::boolean(
              "streaming",
              "Whether the rows lie in a file that is mapped into memory, so that there may be "
              "more of them than memory holds. The result is the same. The file is deleted when "
              "the process ends, unless --cache keeps it. Default false.")
              .optional(),
      },
      {list_of(slot<Transform>("transforms", "Applied to the examples, in this order."))}};
  return section;
}

const ParamSpec& tensor_source_spec() {
  static const ParamSpec spec = param::object(
      "source", "A tensor that the file has in another order.",
      {param::text("tensor", "Its name in the file."),
       param::boolean("transposed", "Whether the file has [inputs, units] for [units, inputs].")
           .defaults_to(false),
       param::boolean("channels_first",
                      "Whether the file's images are [channels, height, width], as PyTorch's: its "
                      "convolutions are [channels, inputs, kernel, kernel], and a dense layer "
                      "behind an image reads the values in that order.")
           .defaults_to(false),
       param::integer(
           "first_row",
           "The row at which the tensor begins inside a longer tensor of the file, as q, k and v "
           "do in an in_proj_weight. When not given, the file's tensor has no other rows.")
           .at_least(0)
           .optional(),
       param::text("plus_first_row_of", "A table of the file whose first row is added to each row.")
           .optional()});
  return spec;
}

const Section& model_section() {
  static const Section section{
      "model",
      "What is trained.",
      {
          param::object(
              "weights",
              "Trained parameters that the model begins from, by the names of its tensors "
              "(layers.0.weight, ...); what the file lacks begins as the model says.",
              {param::path("file",
                           "A safetensors file of F32, F16 or BF16 numbers. The model pretrained "
                           "takes the file in its folder if this is not given.")
                   .optional(),
               param::boolean("public",
                              "Declares that the weights saw none of the private examples of this "
                              "run without a charge. Otherwise they are listed as unaccounted, and "
                              "so are those of a private run of PrivGrad's, whatever is declared.")
                   .defaults_to(false)})
              .optional(),
          param::list("train",
                      "Layers that are trained, by the names of their tensors, with * for any "
                      "characters; last: the last layer that has parameters. All others are "
                      "frozen: they have no gradients, no noise and no cost. By default all are "
                      "trained.",
                      param::text("layer", "last, layers.4, layers.4.*, ..."))
              .at_least_items(1)
              .optional(),
          param::object(
              "lora",
              "Low-rank adaptation: weights W stay as they are, and A and B of W + (alpha / rank) "
              "B A are trained, beside the layers that train names; all others are frozen. The "
              "model that is written has them added in.",
              {param::integer("rank", "Rows of A and columns of B.").at_least(1).at_most(65536),
               param::real("alpha",
                           "What B A is multiplied by, times the rank; by default the rank.")
                   .above(0)
                   .optional(),
               param::list("targets",
                           "Dense layers, convolutions and embeddings that have adapters, by their "
                           "names or those of their weights, with * for any characters.",
                           param::text("layer", "layers.4, layers.*.weight, ..."))
                   .at_least_items(1)})
              .optional(),
      },
      {}};
  return section;
}

const Section& aggregator_section() {
  static const Section section{
      "aggregator",
      "How noise enters the released sums.",
      {
          param::text("arithmetic",
                      "exact: contributions, their sum and the noise are whole numbers of cells of "
                      "a public grid, so that the guarantee covers the very bits that are "
                      "released. float: they are floating-point numbers, whose rounding nothing "
                      "covers; for comparison, and listed as unaccounted.")
              .one_of({"exact", "float"})
              .defaults_to("exact"),
      },
      {}};
  return section;
}

const Section& schedules_section() {
  static const Section section{
      "schedules",
      "How hyper-parameters change over the steps. A bare number is a constant.",
      {},
      {
          number_or(slot<Schedule>("noise_multiplier",
                                   "Standard deviation of the noise over the clip norm. A schedule "
                                   "that is a shape is scaled to meet privacy.target_epsilon; "
                                   "uniform by default, if that target is given."),
                    false),
          number_or(
              slot<Schedule>("clip_norm", "L2 norm to which each example's gradient is clipped."),
              true),
          or_auto(number_or(slot<Schedule>("learning_rate",
                                           "Learning rate of the optimizer; auto: what its theorem "
                                           "says."),
                            true)),
          number_or(
              slot<Schedule>("noise_std",
                             "Standard deviation of the noise itself, instead of noise_multiplier; "
                             "a shape is scaled like one."),
              false),
          number_or(
              slot<Schedule>("batch_size",
                             "Expected number of examples of each batch, instead of the sampler's "
                             "own batch_size. A shape is scaled to the largest batches that meet "
                             "privacy.target_epsilon."),
              false),
      }};
  return section;
}

const Section& privacy_section() {
  static const Section section{
      "privacy",
      "What the run may spend, and how that is proved.",
      {
          param::real("target_epsilon",
                      "The budget; may be left out only if schedules.noise_multiplier gives the "
                      "noise itself.")
              .above(0)
              .optional(),
          param::real("target_delta", "The delta at which epsilon is stated.").above(0).below(1),
          param::text("adjacency",
                      "Which two data sets must be hard to tell apart: add_or_remove_one (one has "
                      "one example more), replace_one (one example is exchanged), zero_out (one "
                      "example's contribution is zero).")
              .one_of({"add_or_remove_one", "replace_one", "zero_out"}),
          param::text("noise",
                      "off: trains without noise, for comparison, in research mode only; nothing "
                      "is private then.")
              .one_of({"on", "off"})
              .defaults_to("on"),
          param::text("calibrate",
                      "shapes: a noise schedule with values of its own is used as it is. all: it "
                      "is scaled to meet target_epsilon, as a shape is.")
              .one_of({"shapes", "all"})
              .defaults_to("shapes"),
          param::path(
              "account",
              "The account that all runs on this private data share, as `privgrad account "
              "--open` makes it: what the run may cost is reserved there before the data is "
              "read, and a run that the account does not pay for is refused.")
              .optional(),
      },
      {
          slot<Accountant>("accountant", "Computes what was spent, and guards the budget."),
          list_of(slot<Accountant>("also", "Accountants whose numbers are reported beside it.")),
      }};
  return section;
}

namespace {

std::vector<ParamSpec> federation_keys() {
  return {
      param::integer("clients", "Number of clients; public.").at_least(1).at_most(100000),
      param::integer("rounds",
                     "Exchanges of models: the budget of communication. The run ends when they "
                     "are made, or when the clients' privacy budgets are spent.")
          .at_least(1)
          .at_most(static_cast<double>(kMostSteps)),
      param::text("aggregation",
                  "fed_avg: the server averages the clients' models, each of which is private "
                  "for the examples of its client. dp_fed_avg: the server clips each client's "
                  "change and adds the noise, which is private for whole clients.")
          .one_of({"fed_avg", "dp_fed_avg"})
          .defaults_to("fed_avg"),
      param::real("client_drop_rate",
                  "Probability that a client that takes part in a round is lost before its model "
                  "arrives; its charges stand.")
          .at_least(0)
          .below(1)
          .defaults_to(0.0),
      param::real("straggler_rate",
                  "Probability that a client that takes part in a round is slow: it makes only "
                  "some of its local steps, from 1 to all of them with equal probability, and "
                  "sends the model that they lead to.")
          .at_least(0)
          .below(1)
          .defaults_to(0.0),
      param::text(
          "shards",
          "simulated: the partition shares examples out, and what one example decides about the "
          "place of others is listed as unaccounted. given: examples lie with the clients already, "
          "and data sets that differ in one example differ in one client's shard and nowhere else.")
          .one_of({"simulated", "given"})
          .defaults_to("simulated"),
      param::list("sizes",
                  "Number of examples of each client, declared and public; for partitions from "
                  "which it does not follow.",
                  param::integer("size", "Examples of a client.").at_least(1).at_most(1e12))
          .at_least_items(1)
          .optional(),
      param::text("label_histograms",
                  "shown: research mode counts the labels of each client exactly, and lists "
                  "that as unaccounted. hidden: they are not counted.")
          .one_of({"shown", "hidden"})
          .defaults_to("shown"),
  };
}

}  // namespace

const std::vector<ParamSpec>& fed_avg_keys() {
  static const std::vector<ParamSpec> keys{
      param::text("weights",
                  "What fed_avg weighs models by: shard_size, the public number of the client's "
                  "examples, or equal.")
          .one_of({"shard_size", "equal"})
          .defaults_to("shard_size"),
      param::text(
          "estimates",
          "Where an adaptive local_iterations learns about the losses. private: from noised sums "
          "that are charged to the clients. from_models: only from released models, free of cost. "
          "unaccounted: from exact values of private examples, which stains every output.")
          .one_of({"private", "from_models", "unaccounted"})
          .defaults_to("private"),
      param::real("estimate_bound",
                  "Of private estimates: the largest change of an example's loss within a round "
                  "that counts.")
          .in_unit("nats")
          .at_least(kSmallestClipNorm)
          .at_most(kLargestClipNorm)
          .defaults_to(0.5),
      param::text("paced_by",
                  "Whose steps an adaptive local_iterations distributes among the rounds, if "
                  "clients' budgets pay for different numbers of steps: smallest_budget, so that "
                  "all clients take part until the end, or largest_budget, so that a client whose "
                  "budget is spent leaves out the later rounds.")
          .one_of({"smallest_budget", "largest_budget"})
          .defaults_to("smallest_budget"),
      param::real("estimate_noise",
                  "Of private estimates: the noise multiplier of each, instead of "
                  "estimate_share.")
          .above(0)
          .optional(),
      param::real("estimate_share",
                  "Of private estimates: the share of privacy.target_epsilon that all of them "
                  "together would cost on their own.")
          .above(0)
          .below(1)
          .defaults_to(0.1),
  };
  return keys;
}

const std::vector<ParamSpec>& dp_fed_avg_keys() {
  static const std::vector<ParamSpec> keys{
      param::real("client_clip_norm",
                  "Of dp_fed_avg: L2 norm to which each client's change of the model is "
                  "clipped.")
          .at_least(kSmallestClipNorm)
          .at_most(kLargestClipNorm)
          .optional(),
      param::real("server_learning_rate", "Of dp_fed_avg: learning rate of server_optimizer.")
          .above(0)
          .defaults_to(1.0),
      param::integer("min_separation",
                     "Of dp_fed_avg with aggregator matrix: the least number of rounds between two "
                     "rounds of a client. The server refuses clients that come early, and the "
                     "charge covers the worst order that this rule allows.")
          .at_least(0)
          .at_most(static_cast<double>(kMostSteps))
          .optional(),
      param::integer("max_participations",
                     "With min_separation: rounds that a client takes part in, at most; by default "
                     "as many as fit.")
          .at_least(1)
          .at_most(static_cast<double>(kMostSteps))
          .optional(),
  };
  return keys;
}

namespace {

std::vector<ParamSpec> joined(std::initializer_list<std::vector<ParamSpec>> parts) {
  std::vector<ParamSpec> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

const Section& federated_section() {
  static const Section section{
      "federated",
      "Trains on many clients, each with examples of its own, which exchange models with a server.",
      joined({federation_keys(), fed_avg_keys(), dp_fed_avg_keys()}),
      {
          with_default(
              slot<Transform>("partition", "Which client each training example lies with."), "iid"),
          with_default(slot<Sampler>("participation",
                                     "Which clients take part in each round: a sampler of clients "
                                     "instead of examples."),
                       "full_batch"),
          number_or(slot<Schedule>("local_iterations",
                                   "Steps that each client makes in a round, over the rounds; "
                                   "adaptive schedules choose them during the run."),
                    true),
          with_default(slot<Clipping>("client_clipping",
                                      "Of dp_fed_avg: how each client's change is brought within "
                                      "client_clip_norm."),
                       "flat"),
          with_default(slot<Optimizer>("server_optimizer",
                                       "Of dp_fed_avg: how the noised mean change changes the "
                                       "model."),
                       "sgd"),
      }};
  return section;
}

const Section& allow_section() {
  static const Section section{
      "allow",
      "What is accepted although it is refused by default; every output says so.",
      {
          param::list("plugins",
                      "SHA-256 of plugins that release mode accepts without a record of having "
                      "passed privgrad plugins test.",
                      param::text("sha256", "64 lower-case hexadecimal digits."))
              .optional(),
          param::boolean("large_delta",
                         "Accept a privacy.target_delta that is large for the number of examples.")
              .defaults_to(false),
      },
      {}};
  return section;
}

const Section& checkpoint_section() {
  static const Section section{
      "checkpoint",
      "How often a run saves a checkpoint in the user's state folder, to resume from: by steps or "
      "by time, or off. By default every 60 seconds, where there is such a folder and the run can "
      "be resumed.",
      {
          param::integer("every_steps",
                         "Steps between two checkpoints; of a federated run, rounds.")
              .in_unit("steps")
              .at_least(1)
              .at_most(1e9)
              .optional(),
          param::real("every_seconds",
                      "Seconds between two checkpoints; one is made between steps.")
              .in_unit("seconds")
              .above(0)
              .at_most(1e9)
              .optional(),
      },
      {}};
  return section;
}

const Slot& client_aggregator_slot() {
  static const Slot made = with_default(
      slot<Aggregator>("client_aggregator", "How clients that make no noise add up."), "gaussian");
  return made;
}

namespace {

/// \returns PrivGrad's dotted key for another program's name ("lr" -> "schedules.learning_rate"),
///   or "" if the name is unknown, or is the key itself.
/// \param section  the section in which the name was found.
std::string_view own_name_for(std::string_view foreign, std::string_view section) {
  struct Row {
    std::string_view foreign;
    std::string_view own;
  };
  constexpr Row kRows[] = {
      {"max_grad_norm", "schedules.clip_norm"},
      {"max_gradient_norm", "schedules.clip_norm"},
      {"l2_norm_clip", "schedules.clip_norm"},
      {"l2_clip_norm", "schedules.clip_norm"},
      {"l2_norm_bound", "schedules.clip_norm"},
      {"clipping_norm", "schedules.clip_norm"},
      {"clip", "schedules.clip_norm"},
      {"clip_norm", "schedules.clip_norm"},
      {"lr", "schedules.learning_rate"},
      {"eta", "schedules.learning_rate"},
      {"learning_rate", "schedules.learning_rate"},
      {"sigma", "schedules.noise_multiplier"},
      {"noise_scale", "schedules.noise_multiplier"},
      {"noise_multiplier", "schedules.noise_multiplier"},
      {"epsilon", "privacy.target_epsilon"},
      {"eps", "privacy.target_epsilon"},
      {"target_epsilon", "privacy.target_epsilon"},
      {"delta", "privacy.target_delta"},
      {"target_delta", "privacy.target_delta"},
      {"adjacency", "privacy.adjacency"},
      {"neighboring_relation", "privacy.adjacency"},
      {"accountant", "privacy.accountant"},
      {"also", "privacy.also"},
      {"noise", "privacy.noise"},
      {"iterations", "steps"},
      {"num_iterations", "steps"},
      {"num_steps", "steps"},
      {"max_steps", "steps"},
      {"random_seed", "seed"},
      {"dataset", "data"},
      {"dataset_size", "data.size"},
      {"sample_size", "data.size"},
      {"transforms", "data.transforms"},
      {"test_is_public", "data.test_is_public"},
      {"streaming", "data.streaming"},
      {"num_clients", "federated.clients"},
      {"n_clients", "federated.clients"},
      {"num_rounds", "federated.rounds"},
      {"communication_rounds", "federated.rounds"},
      {"tau", "federated.local_iterations"},
      {"local_steps", "federated.local_iterations"},
      {"local_iterations", "federated.local_iterations"},
      {"network", "model"},
      {"optimiser", "optimizer"},
      {"batch_size", "sampler"},
      {"sample_rate", "sampler"},
      {"sampling_rate", "sampler"},
  };
  if (foreign == "noise" && section == "schedules") return "schedules.noise_multiplier";
  for (const Row& row : kRows) {
    const bool is_itself = row.own.ends_with(foreign) && row.own.starts_with(section) &&
                           row.own.size() == section.size() + foreign.size() + !section.empty();
    if (row.foreign == foreign && !is_itself) return row.own;
  }
  return "";
}

/// Returns further advice about some unknown keys; "" for other keys.
std::string_view advice_for(std::string_view foreign) {
  if (foreign == "epochs" || foreign == "num_epochs" || foreign == "n_epochs") {
    return "write steps: epochs times examples over batch size";
  }
  if (foreign == "batch_size" || foreign == "sample_rate" || foreign == "sampling_rate") {
    return "it is a parameter of the sampler, as in sampler: {kind: poisson, batch_size: 100}";
  }
  return "";
}

}  // namespace

std::vector<std::string_view> section_names(const Section& section) {
  std::vector<std::string_view> names;
  for (const ParamSpec& spec : section.params) names.push_back(spec.name);
  for (const Slot& slot : section.slots) names.push_back(slot.key);
  return names;
}

std::string unknown_hint(std::string_view key, std::string_view section) {
  const std::string_view advice = advice_for(key);
  if (!advice.empty()) return "; " + std::string(advice);
  const std::string_view own = own_name_for(key, section);
  return own.empty() ? "" : "; here it is called " + std::string(own);
}

}  // namespace privgrad::core

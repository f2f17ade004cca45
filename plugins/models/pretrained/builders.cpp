#include "builders.hpp"

#include <array>
#include <map>
#include <utility>

#include "builder.hpp"

// Names and order follow the models of Hugging Face's transformers. Sources: Devlin et al. 2019
// (bert), Sanh et al. 2019 (distilbert), Dosovitskiy et al. 2021 (vit).
namespace pretrained {
namespace {

using namespace privgrad;

/// Returns the members of config.json about how the model was trained, saved or decoded.
const std::set<std::string>& harmless() {
  static const std::set<std::string> names{"architectures",
                                           "_name_or_path",
                                           "dtype",
                                           "torch_dtype",
                                           "transformers_version",
                                           "attention_probs_dropout_prob",
                                           "hidden_dropout_prob",
                                           "classifier_dropout",
                                           "attention_dropout",
                                           "dropout",
                                           "qa_dropout",
                                           "seq_classif_dropout",
                                           "initializer_range",
                                           "pad_token_id",
                                           "bos_token_id",
                                           "eos_token_id",
                                           "use_cache",
                                           "gradient_checkpointing",
                                           "tie_weights_",
                                           "type_vocab_size",
                                           "id2label",
                                           "label2id",
                                           "num_labels",
                                           "problem_type",
                                           "finetuning_task",
                                           "encoder_stride",
                                           "pooler_act",
                                           "pooler_output_size",
                                           "output_past",
                                           "directionality",
                                           "pooler_fc_size",
                                           "pooler_num_attention_heads",
                                           "pooler_num_fc_layers",
                                           "pooler_size_per_head",
                                           "pooler_type",
                                           "model_max_length",
                                           "max_position_embeddings"};
  return names;
}

/// Adds the rows of tokens and of places to each other, and normalises the sums.
void add_tokens(Folder& folder, const Shape& features, std::size_t width, double epsilon,
                const std::string& first_row, Builder& builder) {
  builder.add_tokens(features, folder.size("max_position_embeddings"), width,
                     "embeddings.word_embeddings");
  builder.add(Positions{}, "embeddings.position_embeddings");
  builder.store_as({.name = "embeddings.position_embeddings.weight",
                    .first_row = 0,
                    .plus_first_row_of = first_row});
  builder.add(LayerNorm{.epsilon = epsilon}, "embeddings.LayerNorm");
}

/// The layers' names in a block that normalises sums.
struct BlockNames {
  std::array<std::string, 4> attention;
  std::string first_norm, up, down, second_norm;
};

void add_block(const BlockNames& names, std::size_t width, std::size_t heads, std::size_t inner,
               double epsilon, const Layer& activation, Builder& builder) {
  std::size_t entering = builder.last();
  std::size_t made = builder.attention(width, heads, entering, names.attention);
  builder.add(Add{}, "", {made, entering});
  entering = builder.add(LayerNorm{.epsilon = epsilon}, names.first_norm);
  builder.add(dense(inner), names.up);
  builder.add(activation);
  made = builder.add(dense(width), names.down);
  builder.add(Add{}, "", {made, entering});
  builder.add(LayerNorm{.epsilon = epsilon}, names.second_norm);
}

Body bert(Folder& folder, const Shape& features) {
  Builder builder(folder, folder.prefix("bert"));
  const std::size_t width = folder.size("hidden_size");
  const double epsilon = folder.real("layer_norm_eps", 1e-12);
  folder.need("position_embedding_type", "absolute");
  folder.need("is_decoder", false);
  folder.need("add_cross_attention", false);
  // Treats every place as the first of the two kinds of text.
  add_tokens(folder, features, width, epsilon, "embeddings.token_type_embeddings.weight", builder);
  const Layer activation = activation_of(folder, folder.text("hidden_act", "gelu"));
  for (std::size_t i = 0; i < layers_of(folder, "num_hidden_layers"); ++i) {
    const std::string block = "encoder.layer." + std::to_string(i) + ".";
    const std::string attention = block + "attention.";
    add_block({.attention = {attention + "self.query", attention + "self.key",
                             attention + "self.value", attention + "output.dense"},
               .first_norm = attention + "output.LayerNorm",
               .up = block + "intermediate.dense",
               .down = block + "output.dense",
               .second_norm = block + "output.LayerNorm"},
              width, folder.size("num_attention_heads"), folder.size("intermediate_size"), epsilon,
              activation, builder);
  }
  return std::move(builder.body());
}

Body distilbert(Folder& folder, const Shape& features) {
  Builder builder(folder, folder.prefix("distilbert"));
  const std::size_t width = folder.size("dim");
  constexpr double kEpsilon = 1e-12;
  folder.ignore({"sinusoidal_pos_embds"});  // the file has these rows anyway
  add_tokens(folder, features, width, kEpsilon, "", builder);
  const Layer activation = activation_of(folder, folder.text("activation", "gelu"));
  for (std::size_t i = 0; i < layers_of(folder, "n_layers"); ++i) {
    const std::string block = "transformer.layer." + std::to_string(i) + ".";
    add_block({.attention = {block + "attention.q_lin", block + "attention.k_lin",
                             block + "attention.v_lin", block + "attention.out_lin"},
               .first_norm = block + "sa_layer_norm",
               .up = block + "ffn.lin1",
               .down = block + "ffn.lin2",
               .second_norm = block + "output_layer_norm"},
              width, folder.size("n_heads"), folder.size("hidden_dim"), kEpsilon, activation,
              builder);
  }
  return std::move(builder.body());
}

Body vit(Folder& folder, const Shape& features) {
  Builder builder(folder, folder.prefix("vit"));
  const std::size_t width = folder.size("hidden_size"), image = folder.size("image_size");
  const std::size_t patch = folder.size("patch_size"), colours = folder.size("num_channels", 3);
  const double epsilon = folder.real("layer_norm_eps", 1e-12);
  folder.need("qkv_bias", true);
  if (features != Shape{image, image, colours})
    folder.refuse("describes a model of images of " + to_text(Shape{image, image, colours}) +
                  ", but the examples have the shape " + to_text(features));
  const Conv2d cut{.channels = width, .kernel = patch, .stride = patch};
  const Shape grid = output_shape(cut, {features});
  builder.add(cut, "embeddings.patch_embeddings.projection");
  builder.store_as(
      {.name = "embeddings.patch_embeddings.projection.weight", .channels_first = true});
  builder.add(Reshape{{grid[0] * grid[1], width}});
  builder.add(Prepend{}, "embeddings.cls_token");
  builder.store_as({.name = "embeddings.cls_token"});
  builder.add(Positions{}, "embeddings.position_embeddings");
  builder.store_as({.name = "embeddings.position_embeddings"});
  const Layer activation = activation_of(folder, folder.text("hidden_act", "gelu"));
  const LayerNorm norm{.epsilon = epsilon};
  for (std::size_t i = 0; i < layers_of(folder, "num_hidden_layers"); ++i) {
    const std::string block = "encoder.layer." + std::to_string(i) + ".";
    const std::string attention = block + "attention.attention.";
    std::size_t entering = builder.last();
    const std::size_t seen = builder.add(norm, block + "layernorm_before");
    std::size_t made = builder.attention(width, folder.size("num_attention_heads"), seen,
                                         {attention + "query", attention + "key",
                                          attention + "value", block + "attention.output.dense"});
    entering = builder.add(Add{}, "", {made, entering});
    builder.add(norm, block + "layernorm_after");
    builder.add(dense(folder.size("intermediate_size")), block + "intermediate.dense");
    builder.add(activation);
    made = builder.add(dense(width), block + "output.dense");
    builder.add(Add{}, "", {made, entering});
  }
  builder.add(norm, "layernorm");
  builder.body().begins_with_class = true;
  return std::move(builder.body());
}

}  // namespace

Body body_of(Folder& folder, const Shape& features) {
  static const std::map<std::string, Body (*)(Folder&, const Shape&)> families{
      {"bert", bert},       {"distilbert", distilbert}, {"gpt2", gpt2}, {"llama", llama},
      {"mistral", mistral}, {"qwen2", qwen2},           {"vit", vit}};
  const auto found = families.find(folder.type());
  if (found == families.end())
    folder.refuse("has the model_type '" + shown(folder.type()) +
                  "'; expected bert, distilbert, gpt2, llama, mistral, qwen2 or vit");
  Body body = found->second(folder, features);
  folder.ignore(harmless());
  if (!body.is_causal) folder.ignore({"tie_word_embeddings"});
  folder.refuse_unknown();
  return body;
}

}  // namespace pretrained

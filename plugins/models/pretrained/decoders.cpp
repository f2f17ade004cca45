#include <nlohmann/json.hpp>
#include <utility>

#include "builder.hpp"

// Sources: Radford et al. 2019 (gpt2), Touvron et al. 2023 (llama), Jiang et al. 2023 (mistral),
// Yang et al. 2024 (qwen2).
namespace pretrained {
namespace {

using namespace privgrad;
using Json = nlohmann::json;

/// Adds a dense layer whose weights are stored as [inputs, units], perhaps inside a larger tensor.
/// \param first  the layer's first unit in the larger tensor; nothing for a tensor of its own.
std::size_t add_transposed(Builder& builder, std::size_t units, const std::string& name,
                           const std::string& stored, std::optional<std::size_t> first,
                           std::vector<std::size_t> from = {}) {
  const std::size_t made = builder.add(dense(units), name, std::move(from));
  builder.store_as({.name = stored + ".weight", .transposed = true, .first_row = first});
  if (first) builder.store_as({.name = stored + ".bias", .first_row = first}, "bias");
  return made;
}

/// The differences between the families that resemble Llama.
struct LlamaLike {
  bool has_biases = false;  ///< Whether q, k and v have biases.
};

/// Reads the base of the unscaled rotary positions, which newer folders store in an object.
double rotary_base(Folder& folder) {
  folder.need("rope_scaling", nullptr);
  double base = folder.real("rope_theta", 10000.0);
  if (const Json* const all = folder.find("rope_parameters")) {
    if (!all->is_object()) folder.refuse("rope_parameters is not a JSON object");
    for (const auto& [name, value] : all->items()) {
      const bool is_base = name == "rope_theta" && value.is_number();
      const bool is_plain = (name == "rope_type" && value == "default") ||
                            (name == "partial_rotary_factor" && value == 1.0);
      if (is_base) base = value.get<double>();
      if (!is_base && !is_plain)
        folder.refuse("rope_parameters has " + shown(name) + ": " + shown(value.dump()) +
                      ", which is not supported");
    }
  }
  if (!(base > 1.0)) folder.refuse("rope_theta must be above 1");
  return base;
}

/// Refuses attention windows that are shorter than the examples; longer windows have no effect.
void check_windows(Folder& folder, const Shape& features) {
  folder.ignore({"max_window_layers"});
  const bool is_used = folder.boolean("use_sliding_window", folder.type() == "mistral");
  constexpr std::size_t kUnlessSaid = 4096;
  const bool is_null = folder.has("sliding_window") && folder.find("sliding_window") == nullptr;
  const std::size_t window = folder.size("sliding_window", kUnlessSaid);
  if (is_used && !is_null && window < features.front()) {
    folder.refuse("sliding_window is " + std::to_string(window) +
                  ", which is shorter than the examples; windows of attention are not supported");
  }
  const Json* const types = folder.find("layer_types");
  if (types == nullptr) return;
  for (const Json& type : *types) {
    if (type != "full_attention" && !(type == "sliding_attention" && is_used))
      folder.refuse("layer_types has " + shown(type.dump()) +
                    ", but only \"full_attention\" is supported");
  }
}

void add_llama_block(Folder& folder, const LlamaLike& family, const std::string& block,
                     double rotary, Builder& builder) {
  const std::size_t width = folder.size("hidden_size"), inner = folder.size("intermediate_size");
  const std::size_t heads = folder.size("num_attention_heads");
  const std::size_t key_heads = folder.size("num_key_value_heads", heads);
  if (folder.find("head_dim") == nullptr) check_heads(folder, heads, width);
  const std::size_t head = folder.size("head_dim", width / heads);
  if (heads % key_heads != 0)
    folder.refuse("has " + std::to_string(key_heads) + " key heads, which do not divide its " +
                  std::to_string(heads) + " heads");
  const RmsNorm norm{.epsilon = folder.real("rms_norm_eps", 1e-6)};
  std::size_t entering = builder.last();
  std::size_t seen = builder.add(norm, block + "input_layernorm");
  const auto look = [&](std::size_t count, const char* name) {
    return builder.add(dense(count * head, !family.has_biases), block + "self_attn." + name,
                       {seen});
  };
  const std::size_t query = look(heads, "q_proj"), key = look(key_heads, "k_proj");
  const std::size_t value = look(key_heads, "v_proj");
  builder.add(Attention{.heads = heads, .key_heads = key_heads, .causal = true, .rotary = rotary},
              "", {query, key, value, builder.body().mask});
  std::size_t made = builder.add(dense(width, true), block + "self_attn.o_proj");
  entering = builder.add(Add{}, "", {entering, made});
  seen = builder.add(norm, block + "post_attention_layernorm");
  builder.add(dense(inner, true), block + "mlp.gate_proj", {seen});
  const std::size_t gate = builder.add(activation_of(folder, folder.text("hidden_act", "silu")));
  const std::size_t up = builder.add(dense(inner, true), block + "mlp.up_proj", {seen});
  builder.add(ElementwiseProduct{}, "", {gate, up});
  made = builder.add(dense(width, true), block + "mlp.down_proj");
  builder.add(Add{}, "", {entering, made});
}

Body llama_like(Folder& folder, const Shape& features, const LlamaLike& family) {
  Builder builder(folder, folder.prefix("model"));
  folder.need("attention_bias", family.has_biases);
  folder.need("mlp_bias", false);
  // This only divides products among devices, which does not change their results.
  folder.ignore({"pretraining_tp"});
  builder.add_tokens(features, 0, folder.size("hidden_size"), "embed_tokens");
  check_windows(folder, features);
  const double rotary = rotary_base(folder);
  const std::size_t layers = layers_of(folder, "num_hidden_layers");
  for (std::size_t i = 0; i < layers; ++i)
    add_llama_block(folder, family, "layers." + std::to_string(i) + ".", rotary, builder);
  builder.add(RmsNorm{.epsilon = folder.real("rms_norm_eps", 1e-6)}, "norm");
  builder.body().is_causal = true;
  builder.body().is_tied = folder.boolean("tie_word_embeddings", false);
  return std::move(builder.body());
}

}  // namespace

Body gpt2(Folder& folder, const Shape& features) {
  Builder builder(folder, folder.prefix("transformer"));
  const std::size_t width = folder.size("n_embd"), heads = folder.size("n_head");
  const std::size_t inner = folder.size("n_inner", 4 * width);
  const LayerNorm norm{.epsilon = folder.real("layer_norm_epsilon", 1e-5)};
  folder.need("scale_attn_weights", true);
  folder.need("scale_attn_by_inverse_layer_idx", false);
  folder.need("add_cross_attention", false);
  // Ignores members about the rounding of products and about other kinds of heads.
  folder.ignore({"is_decoder", "reorder_and_upcast_attn", "n_ctx", "embd_pdrop", "attn_pdrop",
                 "resid_pdrop", "summary_activation", "summary_first_dropout",
                 "summary_proj_to_labels", "summary_type", "summary_use_proj",
                 "task_specific_params"});
  builder.add_tokens(features, folder.size("n_positions"), width, "wte");
  builder.add(Positions{}, "wpe");
  builder.store_as({.name = "wpe.weight", .first_row = 0});
  check_heads(folder, heads, width);
  const Layer activation = activation_of(folder, folder.text("activation_function", "gelu_new"));
  const std::size_t layers = layers_of(folder, "n_layer");
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string block = "h." + std::to_string(i) + ".", attention = block + "attn.";
    std::size_t entering = builder.last();
    const std::size_t seen = builder.add(norm, block + "ln_1");
    // One tensor of the file holds q, k and v, side by side.
    std::vector<std::size_t> looks;
    for (const char* const name : {"query", "key", "value"}) {
      looks.push_back(add_transposed(builder, width, attention + name, attention + "c_attn",
                                     looks.size() * width, {seen}));
    }
    looks.push_back(builder.body().mask);
    builder.add(Attention{.heads = heads, .key_heads = heads, .causal = true}, "", looks);
    std::size_t made =
        add_transposed(builder, width, attention + "c_proj", attention + "c_proj", std::nullopt);
    entering = builder.add(Add{}, "", {made, entering});
    builder.add(norm, block + "ln_2");
    add_transposed(builder, inner, block + "mlp.c_fc", block + "mlp.c_fc", std::nullopt);
    builder.add(activation);
    made = add_transposed(builder, width, block + "mlp.c_proj", block + "mlp.c_proj", std::nullopt);
    builder.add(Add{}, "", {made, entering});
  }
  builder.add(norm, "ln_f");
  builder.body().is_causal = true;
  builder.body().is_tied = folder.boolean("tie_word_embeddings", true);
  return std::move(builder.body());
}

Body llama(Folder& folder, const Shape& features) { return llama_like(folder, features, {}); }

Body mistral(Folder& folder, const Shape& features) { return llama_like(folder, features, {}); }

Body qwen2(Folder& folder, const Shape& features) {
  return llama_like(folder, features, {.has_biases = true});
}

}  // namespace pretrained

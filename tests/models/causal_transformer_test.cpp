// SPDX-License-Identifier: MIT
// Compares every model implementation with Hugging Face transformers (float32) and with two float64 twins, stored and
// our own.
#include "ref/models/causal_transformer.h"

#include <fmt/format.h>

#include "tests/models/fixtures.h"
#include "tests/models/gemma_twin.h"

namespace draftproof::test::causal_transformer_test {
namespace {

/// A target whose texts are longer than its original context: transformers has the long factors of longrope.
const std::string long_target = "phi3-longrope";

class TargetFixture : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path folder() const { return external_dir / GetParam(); }
  Hdf5 answers() const { return Hdf5::open(folder() / "answers.h5"); }
  bool long_context() const { return GetParam() == long_target; }
  TwinCheckpoint twin() const {
    TwinCheckpoint twin(folder());
    twin.long_context = long_context();
    return twin;
  }
  std::unique_ptr<Model> loaded(const Kernels& kernels) const {
    LoadOptions options = in_floats(kernels);
    options.long_context = long_context();
    return load_model(Checkpoint(folder()), options);
  }
};

const std::string cases[] = {"case0", "case1"};

/// The names of the stored outputs, in the order of the twin.
std::vector<std::string> answer_names(int layers) {
  std::vector<std::string> names = {"hidden/embedding"};
  for (int t = 0; t < layers; ++t) names.push_back("hidden/" + std::to_string(t));
  names.insert(names.end(), {"final_norm", "logits"});
  return names;
}

std::size_t first_largest(const float* row, int width) {
  return static_cast<std::size_t>(std::max_element(row, row + width) - row);
}

TEST_P(TargetFixture, TheFloat64TwinEqualsTheStoredReference) {
  const Hdf5 file = answers();
  const TwinCheckpoint twin = this->twin();
  for (const std::string& which : cases) {
    const auto got = text_answers(twin, stored_tokens(file, which + "/tokens"), Rounding());
    const auto names = answer_names(twin.layers);
    for (std::size_t a = 0; a < names.size(); ++a) {
      const auto want = stored<double>(file, which + "/float64/" + names[a]);
      double largest = 0;
      for (const double v : want) largest = std::max(largest, std::abs(v));
      const std::vector<double> tolerance(static_cast<std::size_t>(got[a].rows()), 1e-12 * largest);
      EXPECT_LE(worst_ratio(got[a].at, want, got[a].width, tolerance), 1) << which << " " << names[a];
    }
  }
}

TEST_P(TargetFixture, LogitsAndEveryTapAreWithinTheRoundingBoundOfTheReferenceWithEveryTable) {
  const Hdf5 file = answers();
  const TwinCheckpoint twin = this->twin();
  for (const std::string& which : cases) {
    const auto tokens = stored_tokens(file, which + "/tokens");
    const Bounds bounds = bounds_of([&](Rounding round) { return text_answers(twin, tokens, round); });
    const auto names = answer_names(twin.layers);
    for (const char* numerics : {"canonical", "openblas"}) {
      for (const Kernels* kernels : usable_kernels(numerics)) {
        const auto model = loaded(*kernels);
        ASSERT_EQ(model->layers(), twin.layers);
        const Reading ours = read(*model, tokens, all_layers(*model));
        double worst64 = 0;
        double worst32 = 0;
        for (std::size_t a = 1; a < names.size(); ++a) {
          if (names[a] == "final_norm") continue;  // a stage that the model does not return
          const bool is_logits = names[a] == "logits";
          const int width = is_logits ? model->vocabulary() : model->hidden();
          const auto got =
              is_logits ? ours.logits : tap_of(ours.features, static_cast<int>(a) - 1, twin.layers, model->hidden());
          const double against64 =
              worst_ratio(got, stored<double>(file, which + "/float64/" + names[a]), width, bounds[a]);
          // Two float32 programs are each within the bound of the exact output.
          const double against32 =
              worst_ratio(got, stored<float>(file, which + "/float32/" + names[a]), width, bounds[a]) / 2;
          EXPECT_LE(against64, 1) << kernels->name << " " << which << " " << names[a];
          EXPECT_LE(against32, 1) << kernels->name << " " << which << " " << names[a];
          worst64 = std::max(worst64, against64);
          worst32 = std::max(worst32, against32);
        }
        const auto theirs = stored<float>(file, which + "/float32/logits");
        const int vocabulary = model->vocabulary();
        for (std::size_t row = 0; row < tokens.size(); ++row) {
          const std::size_t at = row * static_cast<std::size_t>(vocabulary);
          EXPECT_EQ(first_largest(&ours.logits[at], vocabulary), first_largest(&theirs[at], vocabulary))
              << kernels->name << " " << which << " row " << row;
        }
        if (kernels == &best_kernels() || numerics == std::string("openblas")) {
          fmt::print("{} {} {}: observed/bound {:.2f} of float64, {:.2f} of float32; logits bound {:.1e}\n", GetParam(),
                     which, kernels->name, worst64, worst32, *std::ranges::max_element(bounds.back()));
        }
      }
    }
  }
}

std::string stretching(const TwinCheckpoint& twin) {
  return twin.stretch ? twin.stretch->at("rope_type").string() : "";
}

bool has_stretched_layers(const TwinCheckpoint& twin) {
  const auto all = twin.gemma == 3 ? twin.config().find("rope_parameters") : std::nullopt;
  return all && all->at("full_attention").find("factor");
}

constexpr int longest_text = 64;  // of the stored answers

/// Some mistakes have no effect for models without the feature.
bool possible(Mistake mistake, const TwinCheckpoint& twin) {
  const std::string last = "layers." + std::to_string(twin.layers - 1) + ".";
  const bool has_router = twin.has("layers.0.router.proj.weight");
  const bool has_gates =
      has_router || twin.has(last + "mlp.gate_proj.weight") || twin.has(last + "mlp.experts.0.gate_proj.weight");
  const auto shared = twin.config().find("num_kv_shared_layers");
  const int shared_layers = shared ? static_cast<int>(shared->number()) : 0;
  bool attends = twin.gemma != 0;
  bool turns = twin.gemma != 0;
  bool narrows_queries = false;
  const bool kimi = twin.has("layers.0.self_attn.f_a_proj.weight");
  for (std::size_t i = 0; i < twin.facts.layers.size(); ++i) {
    const bool here =
        twin.facts.latent.rank > 0 || twin.has("layers." + std::to_string(i) + ".self_attn.q_proj.weight");
    attends = attends || here;
    narrows_queries = narrows_queries || twin.has("layers." + std::to_string(i) + ".self_attn.q_a_proj.weight");
    turns = turns || (here && twin.facts.layers[i].rope >= 0);
  }
  switch (mistake) {
    case Mistake::keys_one_position_late:
    case Mistake::interleaved_rope: return turns;
    case Mistake::sees_the_next_row:
    case Mistake::blind_to_itself: return attends;
    case Mistake::swapped_head_norms:
    case Mistake::swapped_layer_norms:
      if (twin.facts.embedding_norm) return false;                                             // no norm has weights
      if (mistake == Mistake::swapped_head_norms && twin.facts.weighted_inputs) return false;  // nor of heads
      return mistake == Mistake::swapped_layer_norms || twin.has("layers.0.self_attn.k_norm.weight");
    case Mistake::no_key_norm: return twin.has("layers.0.self_attn.k_norm.weight");
    case Mistake::no_key_bias:
    case Mistake::bias_on_turned_keys: return twin.has("layers.0.self_attn.k_proj.bias");
    case Mistake::no_output_bias: return twin.has("layers.0.self_attn.o_proj.bias");
    case Mistake::no_mlp_bias:
      return twin.has("layers.0.mlp.down_proj.bias") || twin.has("layers.0.mlp.experts.0.down_proj.bias");
    case Mistake::no_sinks:
    case Mistake::sinks_of_next_heads: return twin.has("layers.0.self_attn.attention_sink_bias");
    case Mistake::unclamped_gates:
    case Mistake::plain_swiglu:
    case Mistake::ups_without_one:
    case Mistake::pairs_taken_for_halves: return twin.facts.swiglu_limit != 0;
    case Mistake::no_router_bias: return twin.has("layers.0.mlp.gate.bias");
    case Mistake::rounded_ramp: return stretching(twin) == "yarn" && twin.stretch->find("truncate");
    case Mistake::unstretched_rope: return twin.stretch.has_value() || has_stretched_layers(twin);
    case Mistake::evenly_stretched_rope: return stretching(twin) == "llama3" || stretching(twin) == "yarn";
    case Mistake::ungrown_queries: return twin.facts.growth.beta != 0 && twin.facts.growth.step < longest_text;
    case Mistake::other_queries_grown:
      return twin.facts.growth.step < longest_text &&
             std::ranges::any_of(twin.facts.layers, [](const auto& layer) { return layer.chunked; });
    case Mistake::window_for_chunk:
      return std::ranges::any_of(twin.facts.layers,
                                 [](const auto& layer) { return layer.chunked && layer.window < longest_text; });
    case Mistake::weighted_outputs: return twin.facts.weighted_inputs;
    case Mistake::plain_magnitude:
      return stretching(twin) == "longrope" || (stretching(twin) == "yarn" && !twin.stretch->find("mscale"));
    case Mistake::other_factors: return stretching(twin) == "longrope";
    case Mistake::turned_everywhere:
      return std::ranges::any_of(twin.facts.layers, [](const auto& layer) { return layer.rope < 0; });
    case Mistake::head_by_head:
      return twin.has("layers.0.self_attn.q_norm.weight") &&
             twin["layers.0.self_attn.q_norm"].width == twin.heads * twin.head_dim;
    case Mistake::no_residual_scale: return twin.facts.residual_scale != 1;
    case Mistake::no_logit_scale: return twin.facts.logit_scale != 1;
    case Mistake::no_mean: return twin.facts.layer_norm;
    case Mistake::no_norm_bias: return twin.has("norm.bias");
    case Mistake::other_experts_weights:  // of Gemma 4 the norm behind the experts hides a factor of all weights
      return twin.facts.chosen > 0;
    case Mistake::next_expert: return twin.facts.chosen > 0 || has_router;
    case Mistake::no_shared_expert: return twin.has("layers.1.mlp.shared_expert.up_proj.weight");
    case Mistake::ungated_shared_expert: return twin.has("layers.1.mlp.shared_expert_gate.weight");
    case Mistake::other_scores: return twin.facts.chosen > 0;
    case Mistake::no_groups:
    case Mistake::best_of_groups: return twin.facts.groups > 1;
    case Mistake::window_longer:
    case Mistake::window_shorter:
      return twin.gemma != 0 || std::ranges::any_of(twin.windows, [](int w) { return w < longest_text; });
    case Mistake::unscaled_scores: return attends && twin.gemma != 4 && !twin.gemma3n;
    case Mistake::no_embedding_scale: return twin.gemma != 0 || twin.facts.embedding_scale != 1;
    case Mistake::scale_of_heads: return twin.gemma != 0 || twin.facts.attention_scale != 0;
    case Mistake::no_post_norms: return twin.has("layers.0.post_feedforward_layernorm.weight");
    case Mistake::exact_gelu: return twin.gemma != 0 || twin.facts.gelu;
    case Mistake::swapped_gate_and_up: return has_gates;
    case Mistake::no_head_bias: return twin.has("lm_head.bias");
    case Mistake::no_embedding_norm: return twin.facts.embedding_norm;
    case Mistake::turned_forwards: return twin.backwards;
    case Mistake::no_sub_norms: return twin.has("layers.0.self_attn.attn_sub_norm.weight");
    case Mistake::raw_alphas:
    case Mistake::swapped_alphas: return twin.has("layers.0.mlp.act_fn.alpha_p");
    case Mistake::no_relu:
      if (twin.facts.relu2) return true;
      if (twin.has("layers.0.mlp.act_fn.alpha_p")) return false;
      return (twin.has(last + "mlp.up_proj.weight") || twin.has(last + "mlp.experts.0.up_proj.weight")) && !has_gates &&
             !twin.facts.gelu && twin.gemma == 0;
    case Mistake::no_cap:
      return twin.facts.logit_cap != 0 || twin.gemma == 2 ||
             (twin.gemma != 0 && twin.config().find("final_logit_softcapping"));
    case Mistake::no_score_cap:
    case Mistake::cap_before_scale: return twin.gemma == 2;
    case Mistake::swapped_ropes: return twin.gemma > 2 || twin.facts.ropes.size() > 1;
    case Mistake::stretched_everywhere: return has_stretched_layers(twin);
    case Mistake::final_norm_without_offset: return twin.gemma == 2 || (twin.gemma == 3 && !twin.gemma3n);
    case Mistake::no_value_norm: return twin.gemma == 4 || twin.gemma3n;
    case Mistake::rotated_width_divides: return twin.gemma == 4;
    case Mistake::first_stream_only:
    case Mistake::unstretched_streams:
    case Mistake::unpredicted_streams:
    case Mistake::transposed_prediction:
    case Mistake::plain_correction:
    case Mistake::unscaled_router:
    case Mistake::no_output_scale:
    case Mistake::embeddings_on_all_streams:
    case Mistake::no_laurel:
    case Mistake::no_sparsity:
    case Mistake::unbiased_deviation: return twin.gemma3n;
    case Mistake::values_from_normed_keys: return twin.gemma == 4 && !twin.has("layers.2.self_attn.v_proj.weight");
    case Mistake::other_donor: return shared_layers > 0 && twin.layers - shared_layers > 2;
    case Mistake::shared_keys_turned_on: return shared_layers > 0;
    case Mistake::no_layer_scalar:
    case Mistake::scalar_on_branch: return twin.has("layers.0.layer_scalar");
    case Mistake::no_layer_embeddings:
    case Mistake::unscaled_layer_table: return twin.has("embed_tokens_per_layer.weight");
    case Mistake::routed_by_normed:
    case Mistake::no_expert_scale: return has_router;
    case Mistake::norms_without_offset:
      return twin.gemma == 2 || (twin.gemma == 3 && !twin.gemma3n) || twin.recurrent.conv_width > 0;
    case Mistake::no_gate:
    case Mistake::gates_behind_queries: return twin.recurrent.conv_width > 0;
    case Mistake::whole_heads_turned: return twin.turned != twin.head_dim && stretching(twin) != "longrope";
    case Mistake::frequencies_of_heads: return twin.turned != twin.head_dim;
    case Mistake::reversed_taps:
      return twin.has("layers.1.conv.conv.weight") || twin.has("layers.0.mamba.A_log") || kimi;
    case Mistake::one_decay:
    case Mistake::silu_gate: return kimi;
    case Mistake::norm_before_gate: return twin.has("layers.0.mamba.norm.weight");
    case Mistake::no_skip:
    case Mistake::no_conv_bias:
    case Mistake::exchanged_keys: return twin.has("layers.0.mamba.A_log");
    case Mistake::no_step_bias: return twin.has("layers.0.mamba.A_log") || kimi;
    case Mistake::whole_norm: return twin.has("layers.0.mamba.norm.weight") && twin.facts.state_groups > 1;
    case Mistake::no_state_factors: return twin.facts.state_factors[0] != 1;
    case Mistake::no_selection_norms: return twin.has("layers.0.mamba.x_proj.weight");
    case Mistake::no_shares: return twin.facts.state_share != 1;
    case Mistake::no_gate_factor: return twin.facts.gate_factor != 1;
    case Mistake::groups_dealt_out: return twin.has("layers.0.mamba.A_log") && twin.facts.state_groups > 1;
    case Mistake::no_expert_bias:
    case Mistake::bias_in_weights: return twin.has(last + "mlp.gate.e_score_correction_bias");
    case Mistake::no_routed_scale: return twin.facts.routed_scale != 1;
    case Mistake::no_shared_mlp: return twin.has("layers.0.mlp.shared_mlp.down_proj.weight");
    case Mistake::exchanged_gates:
    case Mistake::ungated_inputs:
    case Mistake::one_row_late: return twin.has("layers.1.conv.conv.weight");
    case Mistake::no_latent_norm:
    case Mistake::exchanged_latent_rows: return twin.facts.latent.rank > 0;
    case Mistake::no_query_norm: return narrows_queries;
    case Mistake::layer_epsilon_inside: return twin.facts.latent.rank > 0 && twin.epsilon > 1e-3;
    case Mistake::no_score_factor: return twin.facts.latent.rank > 0 && stretching(twin) == "yarn";
    case Mistake::heads_dealt_out: return attends && twin.kv_heads != 1 && twin.kv_heads != twin.heads;
    default: return true;
  }
}

TEST_P(TargetFixture, EveryMistakeExceedsTheBoundAHundredfold) {
  const Hdf5 file = answers();
  const TwinCheckpoint twin = this->twin();
  const auto tokens = stored_tokens(file, "case0/tokens");
  const Bounds bounds = bounds_of([&](Rounding round) { return text_answers(twin, tokens, round); });
  const auto model = loaded(best_kernels());
  const Reading ours = read(*model, tokens, all_layers(*model));
  double smallest = std::numeric_limits<double>::infinity();
  for (const Mistake mistake : {Mistake::swapped_head_norms,
                                Mistake::no_key_norm,
                                Mistake::no_key_bias,
                                Mistake::bias_on_turned_keys,
                                Mistake::unstretched_rope,
                                Mistake::evenly_stretched_rope,
                                Mistake::plain_magnitude,
                                Mistake::ungrown_queries,
                                Mistake::other_queries_grown,
                                Mistake::window_for_chunk,
                                Mistake::weighted_outputs,
                                Mistake::no_output_bias,
                                Mistake::no_mlp_bias,
                                Mistake::other_experts_weights,
                                Mistake::next_expert,
                                Mistake::no_shared_expert,
                                Mistake::ungated_shared_expert,
                                Mistake::window_longer,
                                Mistake::window_shorter,
                                Mistake::keys_one_position_late,
                                Mistake::interleaved_rope,
                                Mistake::heads_dealt_out,
                                Mistake::unscaled_scores,
                                Mistake::sees_the_next_row,
                                Mistake::blind_to_itself,
                                Mistake::swapped_gate_and_up,
                                Mistake::swapped_layer_norms,
                                Mistake::no_final_norm,
                                Mistake::norms_without_offset,
                                Mistake::no_gate,
                                Mistake::gates_behind_queries,
                                Mistake::whole_heads_turned,
                                Mistake::frequencies_of_heads,
                                Mistake::no_embedding_scale,
                                Mistake::no_cap,
                                Mistake::final_norm_without_offset,
                                Mistake::no_post_norms,
                                Mistake::scale_of_heads,
                                Mistake::no_score_cap,
                                Mistake::cap_before_scale,
                                Mistake::exact_gelu,
                                Mistake::swapped_ropes,
                                Mistake::stretched_everywhere,
                                Mistake::rotated_width_divides,
                                Mistake::no_value_norm,
                                Mistake::values_from_normed_keys,
                                Mistake::other_donor,
                                Mistake::shared_keys_turned_on,
                                Mistake::no_layer_scalar,
                                Mistake::scalar_on_branch,
                                Mistake::no_layer_embeddings,
                                Mistake::unscaled_layer_table,
                                Mistake::routed_by_normed,
                                Mistake::no_expert_scale,
                                Mistake::turned_everywhere,
                                Mistake::head_by_head,
                                Mistake::other_factors,
                                Mistake::no_residual_scale,
                                Mistake::no_logit_scale,
                                Mistake::no_mean,
                                Mistake::no_norm_bias,
                                Mistake::no_relu,
                                Mistake::reversed_taps,
                                Mistake::exchanged_gates,
                                Mistake::ungated_inputs,
                                Mistake::one_row_late,
                                Mistake::no_skip,
                                Mistake::norm_before_gate,
                                Mistake::whole_norm,
                                Mistake::no_conv_bias,
                                Mistake::exchanged_keys,
                                Mistake::groups_dealt_out,
                                Mistake::no_step_bias,
                                Mistake::no_shared_mlp,
                                Mistake::no_expert_bias,
                                Mistake::bias_in_weights,
                                Mistake::no_routed_scale,
                                Mistake::no_head_bias,
                                Mistake::no_embedding_norm,
                                Mistake::turned_forwards,
                                Mistake::no_sub_norms,
                                Mistake::raw_alphas,
                                Mistake::swapped_alphas,
                                Mistake::first_stream_only,
                                Mistake::unstretched_streams,
                                Mistake::unpredicted_streams,
                                Mistake::transposed_prediction,
                                Mistake::plain_correction,
                                Mistake::unscaled_router,
                                Mistake::no_output_scale,
                                Mistake::embeddings_on_all_streams,
                                Mistake::no_laurel,
                                Mistake::no_sparsity,
                                Mistake::unbiased_deviation,
                                Mistake::no_sinks,
                                Mistake::sinks_of_next_heads,
                                Mistake::unclamped_gates,
                                Mistake::plain_swiglu,
                                Mistake::ups_without_one,
                                Mistake::pairs_taken_for_halves,
                                Mistake::no_router_bias,
                                Mistake::rounded_ramp,
                                Mistake::other_scores,
                                Mistake::no_groups,
                                Mistake::best_of_groups,
                                Mistake::no_state_factors,
                                Mistake::no_shares,
                                Mistake::no_gate_factor,
                                Mistake::no_selection_norms,
                                Mistake::no_latent_norm,
                                Mistake::no_query_norm,
                                Mistake::layer_epsilon_inside,
                                Mistake::no_score_factor,
                                Mistake::exchanged_latent_rows,
                                Mistake::one_decay,
                                Mistake::silu_gate}) {
    if (!possible(mistake, twin)) continue;
    const auto wrong = text_answers(twin, tokens, Rounding(), mistake);
    const double ratio = worst_ratio(ours.logits, wrong.back().at, model->vocabulary(), bounds.back());
    EXPECT_GT(ratio, 100) << "mistake " << static_cast<int>(mistake);
    smallest = std::min(smallest, ratio);
  }
  const auto right = text_answers(twin, tokens, Rounding());
  for (int t = 0; t < twin.layers; ++t) {
    const auto layer = static_cast<std::size_t>(t);
    const auto tap = tap_of(ours.features, t, twin.layers, model->hidden());
    for (const std::size_t wrong : {layer, layer + 2}) {  // streams: 0 is the embedding, layer + 1 the right one
      const double ratio = worst_ratio(tap, right[wrong].at, model->hidden(), bounds[layer + 1]);
      EXPECT_GT(ratio, 100) << "tap " << t << " off by one";
      smallest = std::min(smallest, ratio);
    }
  }
  fmt::print("{}: the smallest mistake is {:.1e} times the bound\n", GetParam(), smallest);
}

class SlidingFixture : public TargetFixture {};

TEST_P(SlidingFixture, SlidingLayersAreWithinTheRoundingBoundOfTheTwinAndAWindowOffByOneIsNot) {
  const WindowedCopy copy(folder(), 4);
  const TwinCheckpoint twin(copy.path());
  const auto model = load_model(Checkpoint(copy.path()), in_floats(best_kernels()));
  const std::vector<Token> text = some_text(40, model->vocabulary());
  const auto answers_with = [&](Rounding round) { return text_answers(twin, text, round); };
  const Bounds bounds = bounds_of(answers_with);
  const Reading ours = read(*model, text, {});
  const auto ratio = [&](const std::vector<Rows>& answers) {
    return worst_ratio(ours.logits, answers.back().at, model->vocabulary(), bounds.back());
  };
  EXPECT_LE(ratio(answers_with(Rounding())), 1);
  EXPECT_GT(ratio(text_answers(twin, text, Rounding(), Mistake::window_longer)), 100);
  EXPECT_GT(ratio(text_answers(twin, text, Rounding(), Mistake::window_shorter)), 100);
}

INSTANTIATE_TEST_SUITE_P(All, TargetFixture, testing::ValuesIn(tiny_targets), printable_name);
INSTANTIATE_TEST_SUITE_P(Variations, TargetFixture, testing::ValuesIn(tiny_variations), printable_name);
INSTANTIATE_TEST_SUITE_P(LongContext, TargetFixture, testing::Values(long_target), printable_name);
INSTANTIATE_TEST_SUITE_P(Hybrid, TargetFixture, testing::ValuesIn(tiny_hybrid_targets), printable_name);
INSTANTIATE_TEST_SUITE_P(Recurrent, TargetFixture, testing::ValuesIn(tiny_recurrent_targets), printable_name);
INSTANTIATE_TEST_SUITE_P(Gemma, TargetFixture, testing::ValuesIn(tiny_gemma_targets), printable_name);

/// The list of factors is that of the model, not that of the length so far.
TEST(Longrope, ALongContextHasItsFactorsFromTheFirstPositionHoweverTheTextIsRead) {
  LoadOptions options = in_floats(best_kernels());
  const Checkpoint files(external_dir / long_target);
  const auto near = load_model(files, options);
  options.long_context = true;
  const auto far = load_model(files, options);
  EXPECT_EQ(near->context(), 16);
  EXPECT_EQ(far->context(), 512);
  const std::vector<Token> text = some_text(30, far->vocabulary());
  const Reading whole = read(*far, text, {});
  EXPECT_EQ(read(*far, text, {}, {.piece = 1}), whole);
  const std::vector<Token> beginning(text.begin(), text.begin() + 9);
  const Reading begun = read(*far, beginning, {});
  EXPECT_TRUE(same_bits(begun.logits, std::span(whole.logits).first(begun.logits.size())));
  EXPECT_FALSE(same_bits(begun.logits, read(*near, beginning, {}).logits));
}

/// The tokens that transformers chose, with its cache: a row at a time behind a prompt in chunks of 64.
TEST(LongTarget, ChoosesTheTokensOfTheReference) {
  std::vector<std::string> names(std::begin(tiny_hybrid_targets), std::end(tiny_hybrid_targets));
  names.insert(names.end(), std::begin(tiny_gemma_targets), std::end(tiny_gemma_targets));
  for (const std::string& name : names) {
    const Hdf5 file = Hdf5::open(external_dir / name / "answers.h5");
    const std::vector<Token> prompt = stored_tokens(file, "case0/tokens");
    const std::vector<Token> chosen = stored_tokens(file, "case0/greedy");
    const auto model = load_model(Checkpoint(external_dir / name), in_floats(best_kernels()));
    std::vector<Token> text = prompt;
    text.insert(text.end(), chosen.begin(), chosen.end());
    const Reading reading = read(*model, text, {}, {.piece = 7});
    const int vocabulary = model->vocabulary();
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const std::size_t row = (prompt.size() + i - 1) * static_cast<std::size_t>(vocabulary);
      EXPECT_EQ(first_largest(&reading.logits[row], vocabulary), static_cast<std::size_t>(chosen[i]))
          << name << ", token " << i;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, SlidingFixture, testing::ValuesIn(tiny_sliding_targets), printable_name);

TEST(CausalTransformer, AConfigWithOlderFieldNamesGivesTheSameBits) {
  for (const char* name : {"qwen3-tiny-odd", "qwen2-tiny-tied", "llama-tiny-stretched", "llama-tiny-linear",
                           "llama-tiny-yarn", "gemma3-tiny", "gemma4-tiny"}) {
    const auto folder = external_dir / name;
    const auto tokens = stored_tokens(Hdf5::open(folder / "answers.h5"), "case0/tokens");
    const auto model = load_model(Checkpoint(folder), best_kernels());
    const TemporaryFolder copy;
    std::filesystem::copy(folder / "model.safetensors", copy.path() / "model.safetensors");
    std::filesystem::copy(folder / "config.old_style.json", copy.path() / "config.json");
    const auto older = load_model(Checkpoint(copy.path()), best_kernels());
    EXPECT_EQ(read(*model, tokens, all_layers(*model)), read(*older, tokens, all_layers(*older))) << name;
  }
}

TEST(CausalTransformer, TheTextPartOfAMultimodalCheckpointGivesTheBitsOfTheTextAlone) {
  const auto folder = external_dir / "ministral3-tiny";
  const Checkpoint alone(folder);
  const auto model = load_model(alone, best_kernels());
  const auto tokens = some_text(30, model->vocabulary());
  const std::string config = R"({"model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"],)"
                             R"( "tie_word_embeddings": false, "vision_config": {}, "text_config": )" +
                             bytes_of_file(folder / "config.json") + "}";
  for (const bool outside : {false, true}) {
    std::vector<Tensor> tensors = {{"vision_tower.odd.weight", "F32", {1}, bytes_of(std::vector<float>{1})}};
    for (const auto& [name, tensor] : alone.tensors()) {
      const bool in_model = name.starts_with("model.");
      const std::string inside = in_model ? "model.language_model." + name.substr(6) : name;
      tensors.push_back({outside ? "language_model." + name : inside, "BF16", tensor.shape, stored_bytes(tensor)});
    }
    const TemporaryFolder whole;
    whole.write("config.json", config);
    whole.write("model.safetensors", safetensors(tensors));
    const auto other = load_model(Checkpoint(whole.path()), best_kernels());
    EXPECT_EQ(read(*other, tokens, all_layers(*other)), read(*model, tokens, all_layers(*model))) << outside;
  }
}

TEST(CausalTransformer, LogitsAreComputedForTheRequestedRowsOnly) {
  const auto folder = external_dir / "qwen3-tiny-tied";
  const auto tokens = stored_tokens(Hdf5::open(folder / "answers.h5"), "case0/tokens");
  const auto model = load_model(Checkpoint(folder), best_kernels());
  const Reading all = read(*model, tokens, {});
  const int length = static_cast<int>(tokens.size());
  for (int from = 0; from <= length; ++from) {
    const auto cache = model->new_cache(length, length);
    const Transaction transaction = cache->begin(length);
    Outputs outputs;
    forward_alone(*model, {.cache = cache.get(), .tokens = tokens, .taps = {}, .logits_from = from}, outputs);
    EXPECT_TRUE(outputs.features.empty());
    const std::size_t skipped = static_cast<std::size_t>(from) * static_cast<std::size_t>(model->vocabulary());
    EXPECT_TRUE(same_bits(outputs.logits, std::span(all.logits).subspan(skipped)));
  }
}

TEST(CausalTransformer, EverySubsetOfTapsGivesTheRowsOfAllTaps) {
  const auto folder = external_dir / "qwen3-tiny-sharded";
  const auto tokens = stored_tokens(Hdf5::open(folder / "answers.h5"), "case0/tokens");
  const auto model = load_model(Checkpoint(folder), best_kernels());
  const int layers = model->layers();
  const Reading all = read(*model, tokens, all_layers(*model));
  for (unsigned choice = 0; choice < 1U << layers; ++choice) {
    std::vector<int> taps;
    for (int t = 0; t < layers; ++t) {
      if ((choice >> t & 1) != 0) taps.push_back(t);
    }
    const Reading some = read(*model, tokens, taps);
    for (std::size_t i = 0; i < taps.size(); ++i) {
      EXPECT_TRUE(same_bits(tap_of(some.features, static_cast<int>(i), static_cast<int>(taps.size()), model->hidden()),
                            tap_of(all.features, taps[i], layers, model->hidden())));
    }
    EXPECT_TRUE(same_bits(some.logits, all.logits));
  }
}

}  // namespace
}  // namespace draftproof::test::causal_transformer_test

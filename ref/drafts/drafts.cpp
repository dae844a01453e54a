// SPDX-License-Identifier: MIT
#include "ref/drafts/drafts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "kernels/kernels.h"
#include "ref/acceptance/sampler.h"
#include "ref/base/error.h"
#include "ref/drafts/control_drafts.h"
#include "ref/drafts/dflash.h"
#include "ref/drafts/fitted_model.h"
#include "ref/drafts/head_draft.h"
#include "ref/drafts/legacy_ngram_cache.h"
#include "ref/drafts/legacy_ngram_map.h"
#include "ref/drafts/legacy_ngram_mod.h"
#include "ref/drafts/legacy_ngram_simple.h"
#include "ref/drafts/legacy_suffix.h"
#include "ref/drafts/lookup_file.h"
#include "ref/drafts/model_draft.h"
#include "ref/drafts/ngram_cache.h"
#include "ref/drafts/ngram_map_k.h"
#include "ref/drafts/ngram_map_k4v.h"
#include "ref/drafts/ngram_mod.h"
#include "ref/drafts/none.h"
#include "ref/drafts/scripted.h"
#include "ref/drafts/self_draft.h"
#include "ref/drafts/suffix.h"
#include "ref/drafts/translated_draft.h"
#include "ref/models/draft_tables.h"
#include "ref/models/eagle3.h"
#include "ref/models/gemma4_assistant.h"
#include "ref/models/models.h"
#include "ref/models/mtp.h"
#include "ref/text/vocabulary_match.h"

namespace draftproof {
namespace {

constexpr int default_draft_tokens = 5;  // where each costs one pass of the draft

/// Adds what reads the rows of a model.
void add_reading(int vocabulary, MemoryNeed& need) {
  need.scratch += Sampler::bytes(vocabulary);
  // Of a draft token: the draft's row of logits, and the distribution it was drawn from.
  need.scratch_per_draft_token += Outputs::bytes_per_row(vocabulary) + Distribution::bytes_for(vocabulary);
}

class NoDrafter final : public Drafter {
 public:
  std::unique_ptr<Draft> open(int, int) override { return std::make_unique<NoDraft>(); }
};

std::unique_ptr<Drafter> load_none(const DraftStage&, const Checkpoint*, const DraftTarget&, const LoadOptions&) {
  return std::make_unique<NoDrafter>();
}

constexpr DraftOption min_prob_option = {"min_prob", 0, 0, 1,
                                         "stops where no token is so probable; 0: nowhere", false};

/// Of a network that draws each token from a row.
MinProbability min_probability_of(const DraftStage& stage) {
  const MinProbability least(stage.option("min_prob"));
  if (least && stage.trees()) {
    throw Error("draft '" + stage.name_with(stage.path) + "': min_prob ends chains; leave it out for a tree, which has "
                "the most probable tokens only");
  }
  return least;
}

constexpr DraftOption q4_option = {"q4", 0, 0, 1,
                                   "1: its weights in 4 bits, and a copy of the target's LM head where it has none"};
constexpr DraftOption q4_option_of_a_model = {"q4", 0, 0, 1, "1: its weights in 4 bits"};

constexpr DraftOption head_option = {"head", 0, 0, 1 << 24,
                                     "proposes the first so many tokens only, by a smaller LM head; 0: all"};

LoadOptions in_four_bits(LoadOptions options) {
  options.quantize = Quantization::q4;
  options.requantize = true;
  return options;
}

/// As `q4` and `head` have it. The LM head is most of what a small draft reads.
LoadOptions draft_options(const DraftStage& stage, const LoadOptions& load_options) {
  const bool q4 = stage.whole("q4") == 1;
  LoadOptions options = q4 ? in_four_bits(load_options) : load_options;
  options.small_tables = q4;
  options.head_tokens = stage.whole("head");
  return options;
}

/// The copy of the target's LM head that a draft has by `q4` or `head`.
void add_head_copy(const Checkpoint& files, const TransformerConfig& config, const LoadOptions& options,
                   MemoryNeed& need) {
  const std::optional<Format> format = DraftTables::copy_format(options, config.vocabulary, config.hidden);
  if (!format || files.has("lm_head.weight")) return;
  need.weights[traits(*format).name] +=
      options.kernels.packed_bytes(*format, tokens_of_head(options, config.vocabulary), config.hidden);
}

constexpr DraftOption dflash_options[] = {
    {"tree", 0, 0, 1024, "draft tokens of a tree of the most probable paths; 0: a chain"},
    {"window", 0, 0, 1 << 24, "positions of the text that layers of full attention see; 0: all"},
    q4_option,
    head_option,
    min_prob_option,
};

MemoryNeed need_of_dflash(const DraftStage& stage, const Checkpoint* files, const MemoryNeed&,
                          const LoadOptions& load_options) {
  const Json& config = files->config();
  const TransformerConfig transformer = describe_dflash(config, stage.whole("window"));
  const LoadOptions options = draft_options(stage, load_options);
  MemoryNeed need = need_of_part(*files, options, transformer, [](const std::string&) { return true; });
  add_head_copy(*files, transformer, options, need);
  add_reading(transformer.vocabulary, need);
  need.scratch_per_draft_token = 0;  // the target's has it
  const auto number = [&](const char* name, std::int64_t otherwise) {
    const auto field = find_dflash_field(config, name);
    return static_cast<std::uint64_t>(field ? field->integer(1, 1 << 24) : otherwise);
  };
  if (find_dflash_field(config, "conv_group_size")) {  // the kernels of a sublayer, and its rows once more
    const auto hidden = static_cast<std::uint64_t>(transformer.hidden);
    const std::uint64_t kernel = 2 * number("conv_kernel_size", 1) * hidden / number("conv_group_size", 1);
    need.scratch += sizeof(float) * number("block_size", 16) * (kernel + hidden);
  }
  if (find_dflash_field(config, "selector_rank")) {  // a row of scores, and a row of h for each position
    need.scratch += sizeof(float) * (static_cast<std::uint64_t>(transformer.vocabulary) +
                                     number("block_size", 16) * number("selector_rank", 1));
  }
  return need;
}

std::unique_ptr<Drafter> load_dflash(const DraftStage& stage, const Checkpoint* files, const DraftTarget& target,
                                     const LoadOptions& load_options) {
  auto network = std::make_unique<DFlashNetwork>(*files, target.model, draft_options(stage, load_options),
                                                 stage.whole("window"));
  if (stage.trees() && network->config().selector_rank > 0) {
    throw Error(files->path().string() + ": drafts with a candidate selector, in which a token depends on the one "
                "before, and trees of them are not implemented; leave out tree");
  }
  return std::make_unique<DFlashDrafter>(std::move(network), stage.whole("tree"), min_probability_of(stage));
}

constexpr DraftOption tree_option = {"tree", 0, 0, 256,
                                     "draft tokens of a tree of the most likely ones; 0: a chain is drawn"};
constexpr DraftOption eagle3_options[] = {tree_option, q4_option, head_option, min_prob_option};
constexpr DraftOption mtp_options[] = {tree_option, q4_option_of_a_model, min_prob_option};

std::unique_ptr<Drafter> load_eagle3(const DraftStage& stage, const Checkpoint* files, const DraftTarget& target,
                                     const LoadOptions& load_options) {
  auto head = std::make_unique<Eagle3Head>(*files, target.model, draft_options(stage, load_options));
  return std::make_unique<HeadDrafter>(std::move(head), stage.whole("tree"), min_probability_of(stage));
}

/// Of heads that borrow the target's tables.
LoadOptions head_options(const DraftStage& stage, const LoadOptions& load_options) {
  return stage.whole("q4") == 1 ? in_four_bits(load_options) : load_options;
}

/// A target with heads, or an assistant.
bool may_have_heads(const Json& config) { return !is_dflash(config) && !is_eagle3(config); }

std::unique_ptr<Drafter> load_mtp(const DraftStage& stage, const Checkpoint* files, const DraftTarget& target,
                                  const LoadOptions& load_options) {
  std::unique_ptr<Head> head;
  const bool assistant = is_gemma4_assistant(files->config());
  const LoadOptions options = head_options(stage, load_options);
  if (assistant) head = std::make_unique<Gemma4Assistant>(*files, target.model, options);
  else head = std::make_unique<MtpHead>(*files, target.model, options);
  return std::make_unique<HeadDrafter>(std::move(head), stage.whole("tree"), min_probability_of(stage));
}

/// A model with weights of its own.
class SmallModelDrafter final : public ModelDrafter {
 public:
  SmallModelDrafter(std::unique_ptr<Model> model, MinProbability min_probability)
      : ModelDrafter(*model, min_probability), own_(std::move(model)) {}
  std::unique_ptr<Draft> open(int capacity, int draft_max) override {
    return ModelDrafter::open(capacity, draft_tokens_per_round(draft_max, capacity));
  }
  int reach() const override { return own_->context(); }

 private:
  std::unique_ptr<Model> own_;
};

constexpr DraftOption model_options[] = {
    {"translate", 0, 0, 1, "1: it may have another tokenizer; its greedy draft tokens are translated through text"},
    q4_option_of_a_model,
    head_option,
    min_prob_option,
};

bool is_translated(const DraftStage& stage) { return stage.whole("translate") == 1; }

/// Throws Error when the draft's vocabulary is not the target's. Where one of them has no tokenizer to compare, they
/// need as many tokens.
void require_vocabulary(const Checkpoint& files, int rows, const DraftTarget& target, bool tokenizers) {
  const std::string named = files.path().string() + ": the draft's vocabulary ";
  if (!tokenizers && rows != target.model.vocabulary()) {
    throw Error(named + "of " + std::to_string(rows) + " does not fit the target's of " +
                std::to_string(target.model.vocabulary()) + "; use a draft made with the target's tokenizer");
  }
  if (!tokenizers) return;
  const Tokenizer of_target = Tokenizer::load(*target.files);
  const Tokenizer of_draft = Tokenizer::load(files);
  const VocabularyMatch match = match_vocabularies({of_target, target.model.vocabulary()}, {of_draft, rows});
  if (match.matches) return;
  throw Error(named + "does not fit the target's: " + match.why + "; use a draft with the target's tokenizer, or " +
              "translate between them with model:PATH?translate=1");
}

std::unique_ptr<Drafter> load_model_draft(const DraftStage& stage, const Checkpoint* files, const DraftTarget& target,
                                          const LoadOptions& load_options) {
  const bool tokenizers = target.files != nullptr && Tokenizer::is_in(*target.files) && Tokenizer::is_in(*files);
  if (is_translated(stage)) {
    if (!tokenizers) {
      throw Error(files->path().string() + ": translate=1 needs the tokenizers of draft and target, and one of them " +
                  "has none; put its tokenizer.json or tokenizer.model into its folder");
    }
    if (min_probability_of(stage)) {
      throw Error("draft '" + stage.name_with(stage.path) + "': min_prob is not implemented with translate=1; leave " +
                  "one of them out");
    }
    return std::make_unique<TranslatedDrafter>(
        TranslatedModel{load_model(*files, draft_options(stage, load_options)), Tokenizer::load(*files),
                        Tokenizer::load(*target.files), target.model.vocabulary()});
  }
  const int rows = describe(files->config()).vocabulary;
  require_vocabulary(*files, rows, target, tokenizers);
  std::unique_ptr<Model> model = load_model(*files, draft_options(stage, load_options));
  if (rows != target.model.vocabulary()) {
    model = std::make_unique<FittedModel>(std::move(model), target.model.vocabulary());
  }
  return std::make_unique<SmallModelDrafter>(std::move(model), min_probability_of(stage));
}

constexpr DraftOption self_options[] = {
    {"layers", 0, 0, 1024, "the first so many layers of the target; 0: all"},
    head_option,
    min_prob_option,
};

/// The options of the target's weights as its draft.
LoadOptions self_load_options(const DraftStage& stage, const LoadOptions& load_options) {
  LoadOptions options = in_four_bits(load_options);
  options.layers = stage.whole("layers");
  options.head_tokens = stage.whole("head");
  return options;
}

/// Throws Error when the draft would be as slow as the target. Decides by the formats of the weights, and so for a
/// kernel table that keeps all weights as floats as for the others.
void require_smaller(const Checkpoint& files, const LoadOptions& target, const LoadOptions& draft) {
  const Kernels& scalar = *find_kernels("scalar");
  const auto bytes = [&](const LoadOptions& options) {
    std::uint64_t sum = 0;
    for (const auto& [format, size] : model_need(files, with_kernels(scalar, options)).weights) sum += size;
    return sum;
  };
  if (bytes(draft) < bytes(target)) return;
  throw Error(files.path().string() + ": has no weights of more than 4 bits, so as its own draft it would be as slow; "
                                      "use self?layers=N, or another draft");
}

std::unique_ptr<Drafter> load_self(const DraftStage& stage, const Checkpoint* files, const DraftTarget&,
                                   const LoadOptions& load_options) {
  const LoadOptions options = self_load_options(stage, load_options);
  require_smaller(*files, load_options, options);
  return std::make_unique<SelfDrafter>(load_model(*files, options), min_probability_of(stage));
}

/// The target as its own draft, with another cache.
template <class Kind>
class TargetDrafter final : public ModelDrafter {
 public:
  using ModelDrafter::ModelDrafter;
  std::unique_ptr<Draft> open(int capacity, int draft_max) override {
    return std::make_unique<Kind>(model_, capacity, draft_tokens_per_round(draft_max, capacity));
  }
};

template <class Kind>
std::unique_ptr<Drafter> load_on_target(const DraftStage&, const Checkpoint*, const DraftTarget& target,
                                        const LoadOptions&) {
  return std::make_unique<TargetDrafter<Kind>>(target.model);
}

/// Alternates between a sampled branch with siblings, and a branch that starts wrong and is right in other places.
class TreeTestDrafter final : public Drafter {
 public:
  explicit TreeTestDrafter(Model& target) : target_(target) {}
  std::unique_ptr<Draft> open(int capacity, int draft_max) override {
    return std::make_unique<ScriptedDraft>(target_, capacity, draft_tokens_per_round(draft_max, capacity),
                                           "+&*+&*-/-<*-<**");
  }

 private:
  Model& target_;
};

std::unique_ptr<Drafter> load_tree_test(const DraftStage&, const Checkpoint*, const DraftTarget& target,
                                        const LoadOptions&) {
  return std::make_unique<TreeTestDrafter>(target.model);
}

MemoryNeed need_of_none(const DraftStage&, const Checkpoint*, const MemoryNeed&, const LoadOptions&) { return {}; }

MemoryNeed need_of_files(const DraftStage&, const Checkpoint* files, const MemoryNeed&,
                         const LoadOptions& load_options) {
  MemoryNeed need = decoding_need(*files, load_options);
  need.scratch_per_draft_token = 0;  // the target's has it
  return need;
}

MemoryNeed need_of_eagle3(const DraftStage& stage, const Checkpoint* files, const MemoryNeed& target,
                          const LoadOptions& load_options) {
  const LoadOptions options = draft_options(stage, load_options);
  MemoryNeed need = need_of_files(stage, files, target, options);
  add_head_copy(*files, describe(files->config()), options, need);
  return need;
}

MemoryNeed need_of_model_draft(const DraftStage& stage, const Checkpoint* files, const MemoryNeed& target,
                               const LoadOptions& load_options) {
  MemoryNeed need = need_of_files(stage, files, target, draft_options(stage, load_options));
  if (!is_translated(stage)) return need;
  need.cache_per_position *= TranslatedDraft::tokens_per_position;
  need.scratch_per_position *= TranslatedDraft::tokens_per_position;
  need.cache_per_position += sizeof(Token) * (1 + TranslatedDraft::tokens_per_position);
  return need;
}

MemoryNeed need_of_mtp(const DraftStage& stage, const Checkpoint* files, const MemoryNeed& target,
                       const LoadOptions& load_options) {
  const LoadOptions options = head_options(stage, load_options);
  if (is_gemma4_assistant(files->config())) return need_of_files(stage, files, target, options);
  MemoryNeed need = mtp_need(*files, options);
  need.cache_per_position += FeatureCache::bytes_per_position(describe(files->config()).hidden);
  need.scratch_per_draft_token = 0;  // the target's has it
  return need;
}

MemoryNeed need_of_self(const DraftStage& stage, const Checkpoint* files, const MemoryNeed& target,
                        const LoadOptions& load_options) {
  MemoryNeed need = need_of_files(stage, files, target, self_load_options(stage, load_options));
  need.cache_fixed = 0;  // it uses the target's
  need.cache_per_position = 0;
  return need;
}

/// The target again, with a cache of its own.
MemoryNeed need_of_target(const DraftStage&, const Checkpoint*, const MemoryNeed& target, const LoadOptions&) {
  MemoryNeed need;
  need.cache_fixed = target.cache_fixed;
  need.cache_per_position = target.cache_per_position;
  return need;
}

constexpr DraftOption legacy_option = {"legacy", 0, 0, 1, "1: what ik_llama.cpp proposes, with its bugs"};

bool is_legacy(const DraftStage& stage) { return stage.whole("legacy") == 1; }

/// Of a text draft that keeps this much for each token. A legacy one may have a round for each.
template <int bytes_per_token, int legacy_bytes_per_token>
MemoryNeed need_of_text(const DraftStage& stage, const Checkpoint*, const MemoryNeed&, const LoadOptions&) {
  MemoryNeed need;
  need.cache_per_position = sizeof(Token) + (is_legacy(stage) ? legacy_bytes_per_token : bytes_per_token);
  return need;
}

template <class Kind, class Settings>
std::unique_ptr<Drafter> text_drafter(const Settings& settings) {
  return std::make_unique<TextDrafter<Kind, Settings>>(settings.m, settings);
}

constexpr DraftOption ngram_simple_options[] = {
    {"n", 3, 1, 1024, "tokens that must have occurred before"},
    {"m", 16, 1, 1024, "draft tokens, at most"},
    legacy_option,
};

std::unique_ptr<Drafter> load_ngram_simple(const DraftStage& stage, const Checkpoint*, const DraftTarget&,
                                           const LoadOptions&) {
  const NgramMapKSettings settings = {.n = stage.whole("n"), .m = stage.whole("m"), .min_hits = 1};
  if (is_legacy(stage)) return text_drafter<LegacyNgramSimpleDraft>(settings);
  return text_drafter<NgramMapKDraft>(settings);
}

constexpr DraftOption suffix_options[] = {
    {"depth", 64, 2, 1024, "tokens of a match and of what follows it, at most"},
    {"min_match", 1, 1, 1023, "tokens that must have occurred before"},
    {"min_prob", 0.1, 0, 1, "least probability of a draft token", false},
    {"factor", 1, 0, 64, "draft tokens per token of the match", false},
    {"offset", 0, -1024, 1024, "draft tokens beside those", false},
    {"m", 16, 1, 1024, "draft tokens, at most"},
    legacy_option,
};

MemoryNeed need_of_suffix(const DraftStage& stage, const Checkpoint*, const MemoryNeed&, const LoadOptions&) {
  constexpr int legacy_bytes = LegacySuffixDraft::bytes_per_token;
  constexpr std::uint64_t tree_bytes = sizeof(Token) + SuffixTree::bytes_per_token;
  const bool legacy = is_legacy(stage);
  MemoryNeed need;
  need.cache_per_position = legacy ? sizeof(Token) + legacy_bytes + LegacyDraft::bytes_per_round : tree_bytes;
  if (stage.path.empty()) return need;
  const auto tokens = static_cast<std::uint64_t>(SuffixCorpus::tokens_in(stage.path));
  need.weights["corpus"] = tokens * tree_bytes;
  if (legacy) need.cache_fixed = tokens * legacy_bytes;
  return need;
}

std::unique_ptr<Drafter> load_suffix(const DraftStage& stage, const Checkpoint*, const DraftTarget& target,
                                     const LoadOptions&) {
  SuffixSettings settings = {.depth = stage.whole("depth"), .min_match = stage.whole("min_match"),
                             .min_prob = stage.option("min_prob"), .factor = stage.option("factor"),
                             .offset = stage.option("offset"), .m = stage.whole("m")};
  if (!stage.path.empty()) {
    settings.corpus = std::make_shared<SuffixCorpus>(stage.path, target.model.vocabulary(), settings.depth);
  }
  if (!is_legacy(stage)) return text_drafter<SuffixDraft>(settings);
  if (settings.corpus && std::ranges::count(settings.corpus->text(), SuffixTree::separator) > 0) {
    throw Error(stage.path.string() +
                ": has -1 between texts, which a suffix draft with legacy=1 does not know; make a corpus of one text");
  }
  return text_drafter<LegacySuffixDraft>(settings);
}

constexpr DraftOption ngram_map_k_options[] = {
    {"n", 3, 1, 1024, "tokens that must have occurred before"},
    {"m", 16, 1, 1024, "draft tokens, at most"},
    {"min_hits", 2, 1, 1 << 20, "earlier occurrences, at least"},
    legacy_option,
};

/// The settings of the legacy mode of ngram-map-k and, with values, of ngram-map-k4v.
LegacyNgramMapSettings legacy_map_settings(const DraftStage& stage, bool values) {
  return {.n = stage.whole("n"), .m = stage.whole("m"), .min_hits = stage.whole("min_hits"), .values = values};
}

template <int bytes_per_ngram>
MemoryNeed need_of_ngram_map(const DraftStage& stage, const Checkpoint* files, const MemoryNeed& target,
                             const LoadOptions& load_options) {
  MemoryNeed need =
      need_of_text<bytes_per_ngram, LegacyNgramMapDraft::bytes_per_round>(stage, files, target, load_options);
  if (is_legacy(stage)) need.cache_fixed = LegacyNgramMapDraft::table_size * sizeof(std::uint32_t);
  return need;
}

std::unique_ptr<Drafter> load_ngram_map_k(const DraftStage& stage, const Checkpoint*, const DraftTarget&,
                                          const LoadOptions&) {
  if (is_legacy(stage)) return text_drafter<LegacyNgramMapDraft>(legacy_map_settings(stage, false));
  return text_drafter<NgramMapKDraft>(NgramMapKSettings{
      .n = stage.whole("n"), .m = stage.whole("m"), .min_hits = stage.whole("min_hits")});
}

constexpr DraftOption ngram_map_k4v_options[] = {
    {"n", 3, 1, 1024, "tokens that must have occurred before"},
    {"m", 8, 1, 1024, "tokens of a continuation"},  // few: longer ones are seldom the same twice
    {"min_hits", 1, 1, 1 << 20, "earlier occurrences, at least"},
    legacy_option,
};

std::unique_ptr<Drafter> load_ngram_map_k4v(const DraftStage& stage, const Checkpoint*, const DraftTarget&,
                                            const LoadOptions&) {
  if (is_legacy(stage)) return text_drafter<LegacyNgramMapDraft>(legacy_map_settings(stage, true));
  return text_drafter<NgramMapK4vDraft>(NgramMapK4vSettings{
      .n = stage.whole("n"), .m = stage.whole("m"), .min_hits = stage.whole("min_hits")});
}

constexpr DraftOption ngram_mod_options[] = {
    {"n", 4, 1, 1024, "tokens that are hashed"},
    {"m", 16, 1, 1024, "draft tokens, at most"},
    {"bits", 18, 1, 28, "the table has 2^bits slots of 4 bytes"},
    legacy_option,
};

MemoryNeed need_of_ngram_mod(const DraftStage& stage, const Checkpoint*, const MemoryNeed&, const LoadOptions&) {
  MemoryNeed need;
  need.cache_fixed = sizeof(Token) << stage.whole("bits");
  need.cache_per_position = sizeof(Token) + (is_legacy(stage) ? LegacyDraft::bytes_per_round : 0);
  return need;
}

std::unique_ptr<Drafter> load_ngram_mod(const DraftStage& stage, const Checkpoint*, const DraftTarget&,
                                        const LoadOptions&) {
  const NgramModSettings settings = {.n = stage.whole("n"), .m = stage.whole("m"), .bits = stage.whole("bits")};
  if (is_legacy(stage)) return text_drafter<LegacyNgramModDraft>(settings);
  return text_drafter<NgramModDraft>(settings);
}

constexpr DraftOption ngram_cache_options[] = {
    {"m", 8, 1, 1024, "draft tokens, at most"},
    legacy_option,
};

MemoryNeed need_of_ngram_cache(const DraftStage& stage, const Checkpoint* files, const MemoryNeed& target,
                               const LoadOptions& load_options) {
  constexpr int legacy_bytes = LegacyNgramCacheDraft::bytes_per_token + LegacyDraft::bytes_per_round;
  MemoryNeed need =
      need_of_text<NgramCacheDraft::bytes_per_token, legacy_bytes>(stage, files, target, load_options);
  if (!stage.path.empty()) need.weights["lookup file"] = memory_of_lookup_file(stage.path);
  return need;
}

std::unique_ptr<Drafter> load_ngram_cache(const DraftStage& stage, const Checkpoint*, const DraftTarget& target,
                                          const LoadOptions&) {
  NgramCacheSettings settings = {.m = stage.whole("m")};
  if (!stage.path.empty()) {
    settings.lookup = std::make_shared<NgramCounts>(read_lookup_file(stage.path, target.model.vocabulary()));
  }
  if (is_legacy(stage)) return text_drafter<LegacyNgramCacheDraft>(settings);
  return text_drafter<NgramCacheDraft>(settings);
}

}  // namespace

int draft_tokens_per_round(int asked, int capacity) {
  return std::min(asked > 0 ? asked : default_draft_tokens, capacity);
}

MemoryNeed decoding_need(const Checkpoint& files, const LoadOptions& load_options) {
  MemoryNeed need = model_need(files, load_options);
  add_reading(describe(files.config()).vocabulary, need);
  return need;
}

std::span<const DraftKind> all_draft_kinds() noexcept {
  using enum TakesPath;
  using enum Keeps;
  static constexpr DraftKind list[] = {
      {"none", none, nullptr, false, nothing, {}, "no draft: plain decoding", need_of_none, load_none},
      {"dflash", required, is_dflash, false, cache, dflash_options, "block diffusion from the target's features",
       need_of_dflash, load_dflash},
      {"eagle3", required, is_eagle3, false, cache, eagle3_options, "a layer that continues from the target's features",
       need_of_eagle3, load_eagle3},
      {"mtp", optional_checkpoint, may_have_heads, false, cache, mtp_options,
       "the MTP (NextN) heads in the target's checkpoint or in another, or an assistant", need_of_mtp, load_mtp},
      {"model", required, nullptr, false, cache, model_options, "a smaller model with the same tokenizer",
       need_of_model_draft, load_model_draft},
      {"self", none, nullptr, false, nothing, self_options,
       "the target itself, its weights in 4 bits, over its own cache", need_of_self, load_self},
      {"ngram-simple", none, nullptr, false, tokens, ngram_simple_options,
       "what followed the last tokens where they occurred before",
       need_of_text<NgramMapKDraft::bytes_per_ngram, LegacyDraft::bytes_per_round>, load_ngram_simple},
      {"ngram-map-k", none, nullptr, false, tokens, ngram_map_k_options,
       "what followed the last tokens, if they occurred often before",
       need_of_ngram_map<NgramMapKDraft::bytes_per_ngram>, load_ngram_map_k},
      {"ngram-map-k4v", none, nullptr, false, tokens, ngram_map_k4v_options,
       "what followed the last tokens most often, if it outweighs the rest",
       need_of_ngram_map<NgramMapK4vDraft::bytes_per_ngram>, load_ngram_map_k4v},
      {"ngram-mod", none, nullptr, false, tokens, ngram_mod_options,
       "what followed the hash of the last tokens, in a table of constant size", need_of_ngram_mod, load_ngram_mod},
      {"ngram-cache", optional, nullptr, false, tokens, ngram_cache_options,
       "what followed the last tokens often enough, weighed by a lookup file", need_of_ngram_cache, load_ngram_cache},
      {"suffix", optional, nullptr, false, tokens, suffix_options,
       "what followed the longest likely ends where they occurred before, in the text or in a file of tokens",
       need_of_suffix, load_suffix},
      {"always-reject", none, nullptr, false, cache, {}, "always wrong (for proofs)", need_of_target,
       load_on_target<AlwaysRejectDraft>},
      {"perfect", none, nullptr, false, cache, {}, "always right (for proofs)", need_of_target,
       load_on_target<PerfectDraft>},
      {"tree-test", none, nullptr, true, cache, {}, "trees in which one branch is right (for proofs)", need_of_target,
       load_tree_test},
  };
  return list;
}

std::string kind_of_draft(const Checkpoint& files) {
  const Json& config = files.config();
  for (const DraftKind& kind : all_draft_kinds()) {
    const bool tells = kind.takes_path == TakesPath::required && kind.recognizes != nullptr;
    if (tells && kind.recognizes(config)) return kind.name;
  }
  if (is_gemma4_assistant(config)) return "mtp";
  const auto in_layer = [](const auto& tensor) { return tensor.first.starts_with("model.layers.0."); };
  const bool only_heads = describe(config).mtp_heads > 0 && std::ranges::none_of(files.tensors(), in_layer);
  return only_heads ? "mtp" : "model";
}

std::string names_of_drafts() {
  std::string names;
  for (const DraftKind& kind : all_draft_kinds()) {
    constexpr const char* paths[] = {"", "[:PATH]", "[:PATH]", ":PATH"};
    names += (names.empty() ? "" : ", ") + std::string(kind.name) + paths[static_cast<int>(kind.takes_path)];
  }
  return names;
}

}  // namespace draftproof

// SPDX-License-Identifier: MIT
// The kind model: drafts over a model with weights of its own, which has the target's vocabulary or is translated.
#include "ref/base/error.h"
#include "ref/drafts/drafts.h"
#include "ref/drafts/fitted_model.h"
#include "ref/drafts/model_draft.h"
#include "ref/drafts/network_draft.h"
#include "ref/drafts/short_context.h"
#include "ref/drafts/small_model.h"
#include "ref/drafts/translated_draft.h"
#include "ref/models/models.h"
#include "ref/text/vocabulary_match.h"

namespace draftproof {
namespace {

constexpr DraftOption options[] = {
    {"translate", 0, 0, 1, "1: it may have another tokenizer; its greedy draft tokens are translated through text"},
    type_option,
    kv_option,
    context_option,
    head_option,
    min_prob_option,
};

bool is_translated(const DraftStage& stage) { return stage.integer("translate") == 1; }

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

MemoryNeed memory_need(const DraftStage& stage, const Checkpoint* files, const MemoryNeed&,
                       const LoadOptions& load_options) {
  MemoryNeed need = need_of_draft(*files, draft_options(stage, load_options));
  const int context = context_of(stage, describe(files->config()).context);
  if (!is_translated(stage)) {
    need.end_at(context);
    return need;
  }
  need.cache_per_position *= TranslatedDraft::tokens_per_position;
  need.end_at(context / TranslatedDraft::tokens_per_position + 1);
  need.scratch_per_position *= TranslatedDraft::tokens_per_position;
  need.cache_per_position += sizeof(Token) * (1 + TranslatedDraft::tokens_per_position);
  return need;
}

/// Whether both have a tokenizer.
bool have_tokenizers(const Checkpoint& files, const DraftTarget& target) {
  return target.files != nullptr && Tokenizer::is_in(*target.files) && Tokenizer::is_in(files);
}

void require_vocabulary(const Checkpoint& files, int rows, const DraftTarget& target) {
  const bool tokenizers = have_tokenizers(files, target);
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

std::unique_ptr<Drafter> load(const DraftStage& stage, const Checkpoint* files, const DraftTarget& target,
                              const LoadOptions& load_options) {
  if (is_translated(stage)) {
    if (!have_tokenizers(*files, target)) {
      throw Error(files->path().string() + ": translate=1 needs the tokenizers of draft and target, and one of them " +
                  "has none; put its tokenizer.json or tokenizer.model into its folder");
    }
    if (min_probability_of(stage)) {
      throw Error("draft '" + stage.name_with(stage.path) + "': min_prob is not implemented with translate=1; leave " +
                  "one of them out");
    }
    return std::make_unique<TranslatedDrafter>(TranslatedModel{load_model(*files, draft_options(stage, load_options)),
                                                               Tokenizer::load(*files), Tokenizer::load(*target.files),
                                                               target.model.vocabulary(), context_of(stage)});
  }
  std::unique_ptr<Model> model = load_small_model(*files, target, draft_options(stage, load_options));
  return for_texts_of_any_length(std::make_unique<SmallModelDrafter>(std::move(model), min_probability_of(stage)),
                                 context_of(stage));
}

}  // namespace

std::unique_ptr<Model> load_small_model(const Checkpoint& files, const DraftTarget& target,
                                        const LoadOptions& options) {
  const int rows = describe(files.config()).vocabulary;
  require_vocabulary(files, rows, target);
  std::unique_ptr<Model> model = load_model(files, options);
  if (rows == target.model.vocabulary()) return model;
  return std::make_unique<FittedModel>(std::move(model), target.model.vocabulary());
}

const DraftKind model_kind = {.name = "model",
                              .summary = "a smaller model with the same tokenizer",
                              .takes_path = TakesPath::required,
                              .keeps = Keeps::cache,
                              .options = options,
                              .need = memory_need,
                              .load = load};

}  // namespace draftproof

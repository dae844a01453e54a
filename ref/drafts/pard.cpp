// SPDX-License-Identifier: MIT
#include "ref/drafts/pard.h"

#include <algorithm>

#include "ref/base/error.h"
#include "ref/drafts/continuation.h"
#include "ref/drafts/drafts.h"
#include "ref/drafts/marginal_tree.h"
#include "ref/drafts/network_draft.h"
#include "ref/drafts/short_context.h"
#include "ref/drafts/small_model.h"
#include "ref/models/models.h"
#include "ref/models/parallel_drafting.h"

namespace draftproof {

void PardDraft::propose(Token anchor, int limit, ProposalBuilder& builder) {
  ProposeJob job{this, anchor, limit, &builder};
  drafter_.propose(std::span(&job, 1));
  if (job.error) std::rethrow_exception(job.error);
}

void PardDrafter::extend(std::span<Continuation> texts) {
  std::vector<Segment> batch;
  std::vector<int> counts;
  for (Continuation& text : texts) {
    const int longest = draft_tokens_per_round(0, text.job.limit);  // path of a tree
    counts.push_back(shape_.tree > 0 ? longest : text.job.limit);
    text.tokens.insert(text.tokens.end(), static_cast<std::size_t>(counts.back()) - 1, shape_.mask);
    const int rows = static_cast<int>(text.tokens.size());
    batch.push_back({.cache = &text.cache, .tokens = text.tokens, .logits_from = rows - counts.back()});
  }
  model_.forward(batch, outputs_);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const SegmentOutput& output = outputs_.segments[i];
    texts[i].written = texts[i].tokens.size();
    try {
      if (!output.error.empty()) throw Error(output.error);
      add(output.logits, counts[i], texts[i].job);
    } catch (...) {
      texts[i].job.error = std::current_exception();
    }
  }
}

void PardDrafter::add(std::span<const float> rows, int count, const ProposeJob& job) const {
  const std::size_t vocabulary = rows.size() / static_cast<std::size_t>(count);
  if (shape_.tree > 0) {
    add_most_probable_paths(rows, static_cast<int>(vocabulary), job.limit, *job.builder);
    return;
  }
  for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
    const std::span<const float> logits = rows.subspan(row * vocabulary, vocabulary);
    if (shape_.min_probability.stops_before(logits)) return;
    job.builder->draw(logits);
  }
}

std::unique_ptr<Draft> PardDrafter::open(int capacity, int draft_max) {
  const int tree = std::min({draft_max > 0 ? draft_max : shape_.tree, shape_.tree, capacity});
  return std::make_unique<PardDraft>(*this, model_, capacity,
                                     shape_.tree > 0 ? tree : draft_tokens_per_round(draft_max, capacity));
}

namespace {

constexpr DraftOption options[] = {
    {"tree", 0, 0, 1024, "draft tokens of a tree of the most probable paths; 0: a chain"},
    {"mask", -1, 0, 1 << 24, "the mask token, where the files do not name it, as a GGUF does not"},
    type_option,
    kv_option,
    context_option,
    head_option,
    min_prob_option,
};

MemoryNeed memory_need(const DraftStage& stage, const Checkpoint* files, const MemoryNeed&,
                       const LoadOptions& load_options) {
  MemoryNeed need = need_of_draft(*files, draft_options(stage, load_options));
  need.end_at(context_of(stage, describe(files->config()).context));
  return need;
}

/// The mask token by the option, or else by the config.
Token mask_of(const DraftStage& stage, const Checkpoint& files) {
  const Json& config = files.config();
  if (const auto other = config.find("pard2"); other && other->boolean()) {
    other->fail("must be false; PARD-2, which reads the target's hidden states, is not implemented");
  }
  const int vocabulary = describe(config).vocabulary;
  const std::optional<Token> named = find_mask_token(config, vocabulary);
  const int asked = stage.integer("mask");
  if (asked < 0 && !named) {
    throw Error(files.path().string() +
                ": names no mask token (pard_token); a model that was not trained for parallel drafts is model:PATH, "
                "and of one that was pard:PATH?mask=TOKEN says it");
  }
  if (asked >= vocabulary) {
    throw Error(files.path().string() + ": mask=" + std::to_string(asked) + " is no token of its vocabulary of " +
                std::to_string(vocabulary));
  }
  if (asked >= 0 && named && asked != *named) {
    throw Error(files.path().string() + ": names the mask token " + std::to_string(*named) +
                ", and mask=" + std::to_string(asked) + " another one; leave it out");
  }
  return asked >= 0 ? static_cast<Token>(asked) : *named;
}

std::unique_ptr<Drafter> load(const DraftStage& stage, const Checkpoint* files, const DraftTarget& target,
                              const LoadOptions& load_options) {
  const PardShape shape = {mask_of(stage, *files), stage.integer("tree"), min_probability_of(stage)};
  auto drafter =
      std::make_unique<PardDrafter>(load_small_model(*files, target, draft_options(stage, load_options)), shape);
  return for_texts_of_any_length(std::move(drafter), context_of(stage));
}

}  // namespace

const DraftKind pard_kind = {.name = "pard",
                             .summary = "a smaller model that says several tokens in one pass, behind mask tokens",
                             .takes_path = TakesPath::required,
                             .keeps = Keeps::cache,
                             .options = options,
                             .need = memory_need,
                             .load = load};

}  // namespace draftproof

// SPDX-License-Identifier: MIT
#include "ref/drafts/drafts.h"

#include <algorithm>
#include <string>

#include "ref/base/error.h"
#include "ref/drafts/control_drafts.h"
#include "ref/drafts/dflash.h"
#include "ref/drafts/model_draft.h"
#include "ref/drafts/none.h"
#include "ref/drafts/scripted.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr int model_draft_max = 5;  // default; each draft token costs one pass of the draft model

/// Returns the requested number or the default, at most `capacity`: no round can use more than the text has positions.
int draft_tokens_per_round(int asked, int capacity) { return std::min(asked > 0 ? asked : model_draft_max, capacity); }

void require_context(int context, int capacity) {
  if (capacity <= context) return;
  throw Error("the draft has " + std::to_string(context) + " positions, the text may need " + std::to_string(capacity) +
              "; ask for fewer new tokens, or decode without this draft");
}

DraftSource open_none(const Checkpoint*, Model&, const LoadOptions&) {
  return [](int, int) { return std::make_unique<NoDraft>(); };
}

DraftSource open_dflash(const Checkpoint* files, Model& target, const LoadOptions& load_options) {
  auto network = std::make_shared<DFlashNetwork>(*files, target, load_options);
  return [network](int capacity, int) {
    require_context(network->config().transformer.context, capacity);
    return std::make_unique<DFlashDraft>(*network, capacity);
  };
}

DraftSource open_model(const Checkpoint* files, Model& target, const LoadOptions& load_options) {
  const std::shared_ptr<Model> model = load_model(*files, load_options);
  if (model->vocabulary() != target.vocabulary()) {
    throw Error(files->path().string() + ": the draft's vocabulary of " + std::to_string(model->vocabulary()) +
                " does not fit the target's of " + std::to_string(target.vocabulary()) +
                "; use a draft made with the target's tokenizer");
  }
  return [model](int capacity, int draft_max) -> std::unique_ptr<Draft> {
    require_context(model->context(), capacity);
    return std::make_unique<ModelDraft>(*model, capacity, draft_tokens_per_round(draft_max, capacity));
  };
}

template <class Kind>
DraftSource open_on_target(const Checkpoint*, Model& target, const LoadOptions&) {
  return [&target](int capacity, int draft_max) {
    return std::make_unique<Kind>(target, capacity, draft_tokens_per_round(draft_max, capacity));
  };
}

/// Alternates between a sampled branch with siblings, and a branch that starts wrong and is right in other places.
DraftSource open_tree_test(const Checkpoint*, Model& target, const LoadOptions&) {
  return [&target](int capacity, int draft_max) {
    return std::make_unique<ScriptedDraft>(target, capacity, draft_tokens_per_round(draft_max, capacity),
                                           "+&*+&*-/-<*-<**");
  };
}

}  // namespace

std::span<const DraftKind> all_draft_kinds() noexcept {
  static constexpr DraftKind list[] = {
      {"none", false, false, false, "no draft: plain decoding", open_none},
      {"dflash", true, true, false, "block diffusion from the target's features", open_dflash},
      {"model", true, false, false, "a smaller model with the same tokenizer", open_model},
      {"always-reject", false, false, false, "always wrong (for proofs)", open_on_target<AlwaysRejectDraft>},
      {"perfect", false, false, false, "always right (for proofs)", open_on_target<PerfectDraft>},
      {"tree-test", false, false, true, "trees in which one branch is right (for proofs)", open_tree_test},
  };
  return list;
}

DraftName parse_draft_name(const std::string& name) {
  const std::size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  const std::string path = colon == std::string::npos ? "" : name.substr(colon + 1);
  std::string known;
  for (const DraftKind& row : all_draft_kinds()) {
    known += std::string(known.empty() ? "" : ", ") + row.name + (row.takes_path ? ":PATH" : "");
    if (kind != row.name) continue;
    if (row.takes_path && path.empty()) throw Error("draft '" + name + "' needs a path: " + kind + ":PATH");
    if (!row.takes_path && colon != std::string::npos) throw Error("draft '" + name + "' takes no path");
    return {&row, path};
  }
  throw Error("draft '" + name + "' is not known; there are " + known);
}

void require_chains(const std::string& name, const std::string& what) {
  if (!parse_draft_name(name).kind->trees) return;
  throw Error(what + " holds chains of draft tokens, but the draft '" + name + "' proposes trees; use another draft");
}

}  // namespace draftproof

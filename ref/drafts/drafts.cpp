// SPDX-License-Identifier: MIT
#include "ref/drafts/drafts.h"

#include <algorithm>
#include <string>
#include <utility>

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

class NoDrafter final : public Drafter {
 public:
  std::unique_ptr<Draft> open(int, int) override { return std::make_unique<NoDraft>(); }
};

std::unique_ptr<Drafter> load_none(const Checkpoint*, Model&, const LoadOptions&) {
  return std::make_unique<NoDrafter>();
}

std::unique_ptr<Drafter> load_dflash(const Checkpoint* files, Model& target, const LoadOptions& load_options) {
  return std::make_unique<DFlashDrafter>(std::make_unique<DFlashNetwork>(*files, target, load_options));
}

/// A model with weights of its own.
class SmallModelDrafter final : public ModelDrafter {
 public:
  explicit SmallModelDrafter(std::unique_ptr<Model> model) : ModelDrafter(*model), own_(std::move(model)) {}
  std::unique_ptr<Draft> open(int capacity, int draft_max) override {
    require_context(own_->context(), capacity);
    return ModelDrafter::open(capacity, draft_tokens_per_round(draft_max, capacity));
  }

 private:
  std::unique_ptr<Model> own_;
};

std::unique_ptr<Drafter> load_small_model(const Checkpoint* files, Model& target, const LoadOptions& load_options) {
  std::unique_ptr<Model> model = load_model(*files, load_options);
  if (model->vocabulary() != target.vocabulary()) {
    throw Error(files->path().string() + ": the draft's vocabulary of " + std::to_string(model->vocabulary()) +
                " does not fit the target's of " + std::to_string(target.vocabulary()) +
                "; use a draft made with the target's tokenizer");
  }
  return std::make_unique<SmallModelDrafter>(std::move(model));
}

/// The target as its own draft.
template <class Kind>
class TargetDrafter final : public ModelDrafter {
 public:
  using ModelDrafter::ModelDrafter;
  std::unique_ptr<Draft> open(int capacity, int draft_max) override {
    return std::make_unique<Kind>(model_, capacity, draft_tokens_per_round(draft_max, capacity));
  }
};

template <class Kind>
std::unique_ptr<Drafter> load_on_target(const Checkpoint*, Model& target, const LoadOptions&) {
  return std::make_unique<TargetDrafter<Kind>>(target);
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

std::unique_ptr<Drafter> load_tree_test(const Checkpoint*, Model& target, const LoadOptions&) {
  return std::make_unique<TreeTestDrafter>(target);
}

}  // namespace

void require_context(int context, int capacity) {
  if (capacity <= context) return;
  throw Error("the draft has " + std::to_string(context) + " positions, the text may need " + std::to_string(capacity) +
              "; ask for fewer new tokens, or decode without this draft");
}

std::span<const DraftKind> all_draft_kinds() noexcept {
  static constexpr DraftKind list[] = {
      {"none", false, false, false, "no draft: plain decoding", load_none},
      {"dflash", true, true, false, "block diffusion from the target's features", load_dflash},
      {"model", true, false, false, "a smaller model with the same tokenizer", load_small_model},
      {"always-reject", false, false, false, "always wrong (for proofs)", load_on_target<AlwaysRejectDraft>},
      {"perfect", false, false, false, "always right (for proofs)", load_on_target<PerfectDraft>},
      {"tree-test", false, false, true, "trees in which one branch is right (for proofs)", load_tree_test},
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

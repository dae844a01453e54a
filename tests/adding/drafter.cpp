// SPDX-License-Identifier: MIT
// The walk of docs/adding.md: a drafter. It proposes that the last token comes again.
#include "ref/drafts/drafts.h"
#include "ref/drafts/text_draft.h"

namespace draftproof {
namespace {

constexpr DraftOption options[] = {{"m", 4, 1, 1024, "draft tokens, at most"}};

struct LastTokenSettings {
  int m;
};

class LastTokenDraft final : public TextDraft {
 public:
  LastTokenDraft(int draft_max, const LastTokenSettings&) : TextDraft(draft_max) {}

 private:
  void learn(std::span<const Token>, std::size_t) override {}
  void continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) override {
    draft_tokens.insert(draft_tokens.end(), static_cast<std::size_t>(limit), text.back());
  }
  void clear() override {}
};

MemoryNeed memory_need(const DraftStage&, const Checkpoint*, const MemoryNeed&, const LoadOptions&) {
  return need_of_text(0);
}

std::unique_ptr<Drafter> load(const DraftStage& stage, const Checkpoint*, const DraftTarget&, const LoadOptions&) {
  return text_drafter<LastTokenDraft>(LastTokenSettings{.m = stage.integer("m")});
}

}  // namespace

const DraftKind last_token_kind = {.name = "last-token",
                                   .summary = "the last token again",
                                   .keeps = Keeps::tokens,
                                   .options = options,
                                   .need = memory_need,
                                   .load = load};

}  // namespace draftproof

// SPDX-License-Identifier: MIT
// Several drafts for one text, asked in order: the first that proposes anything makes the proposal. All of them observe
// all committed tokens. At most one keeps a cache or reads features; the others read the text only.
#pragma once

#include <memory>
#include <vector>

#include "ref/drafts/text_draft.h"

namespace draftproof {

class ChainDraft final : public Draft {
 public:
  /// At most one of the stages does not read the text only; those that do are TextDrafts.
  explicit ChainDraft(std::vector<std::unique_ptr<Draft>> stages);

  int draft_max() const override;
  std::span<const int> taps() const override;
  void observe(std::span<const Token> committed, std::span<const float> features) override;
  void propose(Token anchor, int limit, ProposalBuilder& builder) override;
  void forget() override;
  Cache* context() override;
  bool reads_text_only() const override { return network_ == nullptr; }
  void skip(std::span<const Token> prefix) override;
  Fingerprint digest() const override;

 private:
  friend class ChainDrafter;
  void observe_text(std::span<const Token> committed);
  void take_back(std::size_t count);

  std::vector<std::unique_ptr<Draft>> stages_;
  std::vector<TextDraft*> text_;  // the stages that read the text only
  Draft* network_ = nullptr;      // the one that does not
};

class ChainDrafter final : public Drafter {
 public:
  explicit ChainDrafter(std::vector<std::unique_ptr<Drafter>> stages) : stages_(std::move(stages)) {}

  std::unique_ptr<Draft> open(int capacity, int draft_max) override;
  void propose(std::span<ProposeJob> jobs) override;
  void observe(std::span<ObserveJob> jobs) override;

 private:
  std::vector<std::unique_ptr<Drafter>> stages_;
};

}  // namespace draftproof

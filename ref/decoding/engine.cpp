// SPDX-License-Identifier: MIT
#include "ref/decoding/engine.h"

#include "kernels/operations.h"
#include "ref/acceptance/chance.h"
#include "ref/base/error.h"
#include "ref/drafts/none.h"
#include "ref/models/dflash.h"
#include "ref/models/models.h"

namespace draftproof {

const Kernels& kernels_by_name(const std::string& name) {
  const Kernels* const table = name.empty() ? &best_kernels() : find_kernels(name.c_str());
  if (table == nullptr) {
    std::string known;
    for (const Kernels* const* row = all_kernels(); *row != nullptr; ++row) known += std::string(" ") + (*row)->name;
    throw Error("there are no kernels named '" + name + "'; there are:" + known);
  }
  if (!table->supported()) throw Error("this CPU cannot run the kernels '" + name + "'; leave --kernels out");
  if (const std::string why = unfit(*table); !why.empty()) throw Error(why);
  return *table;
}

const Rule& rule_by_name(const std::string& name) {
  if (const Rule* const rule = find_rule(name)) return *rule;
  std::string known;
  for (const Rule* const* row = all_rules(); *row != nullptr; ++row) known += std::string(" ") + (*row)->name;
  throw Error("there is no rule named '" + name + "'; there are:" + known);
}

Engine::Engine(const std::filesystem::path& target, Layout layout)
    : layout_(std::move(layout)),
      need_(memory_need(Checkpoint(target), layout_)),
      target_(load_model(target, layout_)) {}

const Engine::LoadedDraft& Engine::load(const std::string& draft) {
  const auto known = drafts_.find(draft);
  if (known != drafts_.end()) return known->second;
  const DraftName name = parse_draft_name(draft);
  LoadedDraft loaded;
  loaded.question.draft_given = name.kind->name != std::string("none");
  loaded.question.draft_needs_target = name.kind->needs_target;
  loaded.question.draft_is_dflash = name.kind->needs_target && is_dflash(Checkpoint(name.path).config());
  loaded.question.target_has_taps = target_->layers() > 0;
  loaded.question.target_has_embeddings = target_->embeddings() != nullptr;
  if (draftproof::gate(loaded.question) == Gate::open) {
    loaded.new_draft = name.kind->open(name.path, *target_, layout_);
  }
  return drafts_.emplace(draft, std::move(loaded)).first->second;
}

Gate Engine::gate(const std::string& draft, bool logprobs) {
  GateQuestion question = load(draft).question;
  question.logprobs = logprobs;
  return draftproof::gate(question);
}

Trace Engine::decode(Request request, const std::string& draft, const Rule& rule, Chance& chance, Recording recording,
                     const std::function<void(std::span<const Token>)>& emit, const std::atomic<bool>* cancelled) {
  if (const std::string why = misfit(request, *target_); !why.empty()) throw Error(why);
  const int positions = static_cast<int>(request.prompt.size()) + request.max_new_tokens;
  const std::uint64_t cache = need_.cache_fixed + need_.cache_per_position * static_cast<std::uint64_t>(positions);
  const std::string text = "a text of " + std::to_string(positions) + " positions";
  if (const std::string why = shortage(text, cache, memory_available()); !why.empty()) throw Error(why);
  std::unique_ptr<Draft> guesser = std::make_unique<NoDraft>();
  if (gate(draft, request.logprobs) == Gate::open) {
    const int capacity = static_cast<int>(request.prompt.size()) + request.max_new_tokens;
    guesser = load(draft).new_draft(capacity, request.draft_max);
  }
  if (request.draft_max == 0) request.draft_max = guesser->draft_max();
  Decoder decoder(*target_, *guesser, rule, chance, std::move(request), recording);
  with_workers([&] { decoder.run(emit, cancelled); });
  Trace trace = std::move(decoder).trace();
  trace.kernels = layout_.kernels.name;
  trace.threads = threads();
  return trace;
}

}  // namespace draftproof

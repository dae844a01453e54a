// SPDX-License-Identifier: MIT
#include "ref/decoding/engine.h"

#include "ref/acceptance/chance.h"
#include "ref/base/error.h"
#include "ref/drafts/none.h"
#include "ref/models/dflash.h"
#include "ref/models/models.h"

namespace draftproof {

const Kernels& kernels_by_name(const std::string& name) {
  if (name.empty() || name == "auto") return best_kernels();
  const Kernels* const table = find_kernels(name.c_str());
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

Engine::Engine(const std::filesystem::path& target, const std::string& draft, const Kernels& kernels)
    : kernels_(kernels) {
  const DraftName name = parse_draft_name(draft);
  target_ = load_model(target, kernels);
  question_.draft_given = name.kind->name != std::string("none");
  question_.draft_needs_target = name.kind->needs_target;
  question_.draft_is_dflash = name.kind->needs_target && is_dflash(Json::read(name.path / "config.json"));
  question_.target_has_taps = target_->layers() > 0;
  question_.target_has_embeddings = target_->embeddings() != nullptr;
  if (gate() == Gate::open) new_draft_ = name.kind->open(name.path, *target_, kernels);
}

Gate Engine::gate(bool logprobs) const noexcept {
  GateQuestion question = question_;
  question.logprobs = logprobs;
  return draftproof::gate(question);
}

Trace Engine::decode(Request request, const Rule& rule, std::uint64_t seed, Recording recording,
                     const std::function<void(std::span<const Token>)>& emit, const std::atomic<bool>* cancelled) {
  if (const std::string why = misfit(request, *target_); !why.empty()) throw Error(why);
  std::unique_ptr<Draft> draft = std::make_unique<NoDraft>();
  if (gate(request.logprobs) == Gate::open) {
    const int capacity = static_cast<int>(request.prompt.size()) + request.max_new_tokens;
    draft = new_draft_(capacity, request.draft_max);
  }
  if (request.draft_max == 0) request.draft_max = draft->draft_max();
  SeededChance chance(seed);
  Decoder decoder(*target_, *draft, rule, chance, std::move(request), recording);
  decoder.run(emit, cancelled);
  return decoder.trace();
}

}  // namespace draftproof

// SPDX-License-Identifier: MIT
#include "zoo/subject.h"

#include <algorithm>
#include <atomic>
#include <iterator>

#include "ref/decoding/decoder.h"
#include "ref/drafts/model_draft.h"
#include "ref/drafts/none.h"
#include "ref/drafts/oracular.h"
#include "ref/drafts/scripted.h"

namespace draftproof::zoo {

bool same_name(const Rule* rule, const Rule& other) {
  return rule != nullptr && rule->name == std::string_view(other.name);
}

bool can_run(const Parts& parts, const Variation& variation, int vocabulary) {
  if (parts.trees && parts.rule != nullptr && variation.verification == Verification::serial) return false;
  const std::string_view name = variation.draft;
  if (name.starts_with("scripted:")) return parts.trees && ScriptedDraft::reads(name.substr(9), vocabulary);
  return std::find(std::begin(draft_names), std::end(draft_names), name) != std::end(draft_names);
}

ZooSubject::ZooSubject(const HashShape& shape, const Parts& parts)
    : parts_(parts), sound_(make_hash_model(shape)), dialect_(make_hash_model(disagreeing(shape))) {}

Model& ZooSubject::target(const Variation& variation) {
  if (parts_.target == nullptr) return *sound_;
  auto& target = targets_[variation.threads];
  if (target == nullptr) target = parts_.target(*sound_, variation.threads);
  return *target;
}

std::unique_ptr<Draft> ZooSubject::new_draft(const std::string& name, int capacity, int draft_max) {
  if (draft_max == 0 || name == "none") return std::make_unique<NoDraft>();
  if (name == "hostile") return std::make_unique<HostileDraft>(*sound_, capacity, draft_max);
  if (name == "oracular") return std::make_unique<OracularDraft>(*sound_, capacity, draft_max);
  if (name.starts_with("scripted:")) {
    return std::make_unique<ScriptedDraft>(*sound_, capacity, draft_max, name.substr(name.find(':') + 1));
  }
  if (name == "moody") return moody(*dialect_, capacity, draft_max);
  if (parts_.draft != nullptr) return parts_.draft(*dialect_, capacity, draft_max);
  return std::make_unique<ModelDraft>(*dialect_, capacity, draft_max);
}

Trace ZooSubject::run_watched(const Request& request, const Variation& variation, Chance& sound_chance,
                              const AfterRound& after_round) {
  Request asked = request;
  asked.draft_max = variation.draft_max;
  asked.prompt_rows = variation.prompt_rows;
  asked.verification = variation.verification;
  if (!first_) first_ = request;
  if (parts_.first_asked) {
    asked.sampling = first_->sampling;
    asked.stops = first_->stops;
  }
  const int capacity = static_cast<int>(asked.prompt.size()) + asked.max_new_tokens + slack;
  const auto draft = new_draft(variation.draft, capacity, asked.draft_max);
  const auto own_chance = parts_.chance == nullptr ? nullptr : parts_.chance(sound_chance);
  Chance& chance = own_chance ? *own_chance : sound_chance;
  const Rule& rule = same_name(parts_.rule, *variation.rule) ? *parts_.rule : *variation.rule;
  Model& own_target = target(variation);
  if (parts_.loop) return run_loop(own_target, *draft, rule, chance, asked, after_round, *parts_.loop);
  Decoder decoder(own_target, *draft, rule, chance, asked, Recording::digests);
  std::atomic<bool> ended = false;
  decoder.run({[&](const Trace& trace) { ended = after_round && !after_round(trace); }}, &ended);
  Trace trace = decoder.trace();
  trace.request.sampling = request.sampling;  // nobody says of himself that he took another's
  trace.request.stops = request.stops;
  return trace;
}

}  // namespace draftproof::zoo

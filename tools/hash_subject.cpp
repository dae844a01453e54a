// SPDX-License-Identifier: MIT
#include "tools/hash_subject.h"

#include <atomic>
#include <string_view>

#include "oracle/law_questions.h"
#include "ref/base/error.h"
#include "ref/decoding/decoder.h"
#include "ref/drafts/model_draft.h"
#include "ref/drafts/none.h"
#include "ref/drafts/oracular.h"
#include "ref/drafts/scripted.h"
#include "tools/engine_subject.h"

namespace draftproof {

HashSubject::HashSubject(const HashShape& shape, bool rows)
    : target_(make_hash_model(shape)), dialect_(make_hash_model(disagreeing(shape))), rows_(rows) {}

Trace HashSubject::run_watched(const Request& request, const Variation& variation, Chance& chance,
                               const AfterRound& after_round) {
  Request asked = varied(request, variation);
  const int capacity = static_cast<int>(asked.prompt.size()) + asked.max_new_tokens;
  std::unique_ptr<Draft> draft = std::make_unique<NoDraft>();
  if (variation.draft == "dialect") draft = std::make_unique<ModelDraft>(*dialect_, capacity, asked.draft_max);
  if (variation.draft == "hostile") draft = std::make_unique<HostileDraft>(*target_, capacity, asked.draft_max);
  if (variation.draft == "oracular") draft = std::make_unique<OracularDraft>(*target_, capacity, asked.draft_max);
  if (const std::string_view name = variation.draft; name.starts_with("scripted:")) {
    draft = std::make_unique<ScriptedDraft>(*target_, capacity, asked.draft_max, name.substr(name.find(':') + 1));
  }
  Decoder decoder(*target_, *draft, *variation.rule, chance, std::move(asked), Recording::digests);
  std::atomic<bool> ended = false;
  decoder.run({[&](const Trace& trace) { ended = after_round && !after_round(trace); }, rows_}, &ended);
  return decoder.trace();
}

Finding check_production_law(const Rule& rule) {
  ExactLaws laws;
  const auto ask = [&](const SmallLaw& law) {
    HashSubject subject({.vocabulary = law.vocabulary, .levels = law.levels, .spread = law.spread, .seed = law.seed});
    laws.ask(subject, law.question);
  };
  for (const SmallLaw& law : laws_by_hand(rule)) ask(law);
  for (int number = 0; number < 200; ++number) ask(law_by_number(rule, number, 500));
  for (int number = 0; number < 100; ++number) ask(law_by_number(rule, number, 500, Guessed::trees));
  return std::move(laws).finding();
}

}  // namespace draftproof

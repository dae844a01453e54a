// SPDX-License-Identifier: MIT
#include "tools/hash_subject.h"

#include <atomic>
#include <string_view>

#include "oracle/exact/exact_cases.h"
#include "ref/base/error.h"
#include "ref/decoding/decoder.h"
#include "ref/drafts/model_draft.h"
#include "ref/drafts/none.h"
#include "ref/drafts/control_drafts.h"
#include "ref/drafts/scripted.h"
#include "tools/engine_subject.h"

namespace draftproof {

HashSubject::HashSubject(const HashShape& shape, bool rows)
    : target_(make_hash_model(shape)), dialect_(make_hash_model(disagreeing(shape))), rows_(rows) {}

Trace HashSubject::run_with_callback(const Request& request, const Variation& variation, RandomSource& random,
                               const OnRound& on_round) {
  Request asked = varied(request, variation);
  const int capacity = static_cast<int>(asked.prompt.size()) + asked.max_new_tokens;
  std::unique_ptr<Draft> draft = std::make_unique<NoDraft>();
  if (variation.draft == "perturbed") draft = std::make_unique<ModelDraft>(*dialect_, capacity, asked.draft_max);
  if (variation.draft == "always-reject") draft = std::make_unique<AlwaysRejectDraft>(*target_, capacity, asked.draft_max);
  if (variation.draft == "perfect") draft = std::make_unique<PerfectDraft>(*target_, capacity, asked.draft_max);
  if (const std::string_view name = variation.draft; name.starts_with("scripted:")) {
    draft = std::make_unique<ScriptedDraft>(*target_, capacity, asked.draft_max, name.substr(name.find(':') + 1));
  }
  Decoder decoder(*target_, *draft, *variation.rule, random, std::move(asked), Recording::digests);
  std::atomic<bool> ended = false;
  decoder.run({[&](const Trace& trace) { ended = on_round && !on_round(trace); }, rows_}, &ended);
  return decoder.trace();
}

Finding check_production_distribution(const Rule& rule) {
  ExactDistributionCheck cases;
  const auto ask = [&](const ExactCase& exact_case) {
    HashSubject subject({.vocabulary = exact_case.vocabulary, .levels = exact_case.levels, .spread = exact_case.spread, .seed = exact_case.seed});
    cases.ask(subject, exact_case.question);
  };
  for (const ExactCase& exact_case : handwritten_cases(rule)) ask(exact_case);
  for (int number = 0; number < 200; ++number) ask(generated_case(rule, number, 500));
  for (int number = 0; number < 100; ++number) ask(generated_case(rule, number, 500, DraftShape::trees));
  return std::move(cases).finding();
}

}  // namespace draftproof

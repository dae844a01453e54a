// SPDX-License-Identifier: MIT
#include "tools/hash_subject.h"

#include <atomic>

#include "ref/base/error.h"
#include "ref/decoding/decoder.h"
#include "ref/drafts/model_draft.h"
#include "ref/drafts/none.h"
#include "ref/drafts/oracular.h"
#include "tools/engine_subject.h"

namespace draftproof {

HashSubject::HashSubject(const HashShape& shape, Recording recording)
    : target_(make_hash_model(shape)), dialect_(make_hash_model(disagreeing(shape))), recording_(recording) {}

Trace HashSubject::run_watched(const Request& request, const Variation& variation, Chance& chance,
                               const AfterRound& after_round) {
  Request asked = varied(request, variation);
  const int capacity = static_cast<int>(asked.prompt.size()) + asked.max_new_tokens;
  std::unique_ptr<Draft> draft = std::make_unique<NoDraft>();
  if (variation.draft == "dialect") draft = std::make_unique<ModelDraft>(*dialect_, capacity, asked.draft_max);
  if (variation.draft == "hostile") draft = std::make_unique<HostileDraft>(*target_, capacity, asked.draft_max);
  if (variation.draft == "oracular") draft = std::make_unique<OracularDraft>(*target_, capacity, asked.draft_max);
  Decoder decoder(*target_, *draft, *variation.rule, chance, std::move(asked), recording_);
  std::atomic<bool> ended = false;
  decoder.run([&](std::span<const Token>) { ended = after_round && !after_round(); }, &ended);
  return decoder.trace();
}

std::vector<LawQuestion> law_questions(const Rule& rule) {
  const std::vector<Sampling> samplings = {
      {.temperature = 1},
      {.temperature = 0.7F, .top_k = 2},
      {.temperature = 1.5F, .top_p = 0.7F},
      {.temperature = 1, .min_p = 0.3F},
      {.temperature = 1,
       .repeat_penalty = 1.5F,
       .presence_penalty = 0.25F,
       .frequency_penalty = 0.5F,
       .repeat_last_n = 3},
      {.temperature = 0, .repeat_penalty = 2, .repeat_last_n = -1},
  };
  std::vector<LawQuestion> questions;
  for (const Sampling& sampling : samplings) {
    for (const char* draft : {"dialect", "hostile", "oracular"}) {
      for (const int draft_max : {1, 2, 3}) {
        for (const Verification verification : {Verification::batched, Verification::serial}) {
          Request request;
          request.prompt = {1, 2, 1};
          request.sampling = sampling;
          request.stops = {0};
          request.max_new_tokens = 1 + draft_max;  // a whole block fits, or a block and what follows a refusal
          Variation variation;
          variation.draft = draft;
          variation.draft_max = draft_max;
          variation.rule = &rule;
          variation.verification = verification;
          questions.push_back({request, variation});
        }
      }
    }
  }
  return questions;
}

Finding check_production_law(const Rule& rule) {
  HashSubject subject({.vocabulary = 3, .levels = 3, .seed = 5});
  return check_distribution_exact(subject, law_questions(rule));
}

}  // namespace draftproof

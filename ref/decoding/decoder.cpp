// SPDX-License-Identifier: MIT
#include "ref/decoding/decoder.h"

#include <utility>

namespace draftproof {

Decoder::Decoder(Model& target, Draft& draft, const Rule& rule, RandomSource& random, Request request,
                 const Execution& execution, Recording recording)
    : serial_(target),
      sequence_({.target = execution.verification == Verification::serial ? serial_ : target,
                 .draft = draft,
                 .rule = rule,
                 .random = random},
                std::move(request), execution, recording) {}

void Decoder::run(const RoundCallback& watch, const std::atomic<bool>* cancelled) {
  sequence_.watch(watch, cancelled);
  sequence_.resume();
  decode_alone(sequence_);
}

}  // namespace draftproof

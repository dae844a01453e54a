// SPDX-License-Identifier: MIT
#include "oracle/spectrace/traced_subject.h"

namespace draftproof::spectrace {

Trace TracedSubject::run_with_callback(const Request& request, const Variation& variation, RandomSource& random,
                                       const OnRound& on_round) {
  if (writer_ == nullptr) return subject_.run_with_callback(request, variation, random, on_round);
  writer_->begin({.draft = variation.draft,
                  .kernels = variation.kernels,
                  .numerics = subject_.numerics(variation),
                  .grammar = request.constraint ? grammar_ : ""});
  Trace trace = subject_.run_with_callback(request, variation, random, [&](const Trace& so_far) {
    writer_->add_round(so_far);
    return !on_round || on_round(so_far);
  });
  writer_->end(trace);
  return trace;
}

}  // namespace draftproof::spectrace

// SPDX-License-Identifier: MIT
#include "oracle/spectrace/traced_subject.h"

namespace draftproof::spectrace {

Trace TracedSubject::run_watched(const Request& request, const Variation& variation, Chance& chance,
                                 const AfterRound& after_round) {
  if (writer_ == nullptr) return subject_.run_watched(request, variation, chance, after_round);
  writer_->begin({variation.draft, variation.kernels, subject_.numerics(variation)});
  Trace trace = subject_.run_watched(request, variation, chance, [&](const Trace& so_far) {
    writer_->add_round(so_far);
    return !after_round || after_round(so_far);
  });
  writer_->end(trace);
  return trace;
}

}  // namespace draftproof::spectrace

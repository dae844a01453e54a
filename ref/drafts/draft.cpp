// SPDX-License-Identifier: MIT
#include "ref/drafts/draft.h"

namespace draftproof {

void propose_alone(ProposeJob& job) {
  try {
    job.draft->propose(job.anchor, job.limit, *job.builder);
  } catch (...) {
    job.error = std::current_exception();
  }
}

void observe_alone(ObserveJob& job) {
  try {
    job.draft->observe(job.committed, job.features);
  } catch (...) {
    job.error = std::current_exception();
  }
}

void Drafter::propose(std::span<ProposeJob> jobs) {
  for (ProposeJob& job : jobs) propose_alone(job);
}

void Drafter::observe(std::span<ObserveJob> jobs) {
  for (ObserveJob& job : jobs) observe_alone(job);
}

}  // namespace draftproof

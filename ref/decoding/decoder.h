// SPDX-License-Identifier: MIT
// Decodes one request: a scheduler with a single sequence.
#pragma once

#include <atomic>

#include "ref/decoding/scheduler.h"
#include "ref/decoding/sequence.h"
#include "ref/models/serial.h"

namespace draftproof {

class Decoder {
 public:
  /// All references outlive the decoder. request_error(request, target) must be empty.
  Decoder(Model& target, Draft& draft, const Rule& rule, RandomSource& random, Request request,
          const Execution& execution, Recording recording);

  /// Decodes to the end. Looks at `cancelled` between prefill chunks and between rounds. Throws what the target, the
  /// draft or the callback throws. After that or a cancellation, another call continues.
  void run(const RoundCallback& watch = {}, const std::atomic<bool>* cancelled = nullptr);

  const Trace& trace() const& noexcept { return sequence_.trace(); }
  Trace trace() && { return std::move(sequence_).trace(); }
  const Cache& cache() const noexcept { return sequence_.cache(); }

 private:
  SerialModel serial_;
  Sequence sequence_;  // over the target as it is, or row by row
};

}  // namespace draftproof

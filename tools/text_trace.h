// SPDX-License-Identifier: MIT
// What an engine wrote, as a trace of tokens only (docs/spectrace.md, level T0).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "oracle/compare/compare.h"

namespace draftproof {

struct TextTrace {
  std::string engine;
  int vocabulary = 0;
  std::vector<Token> stops;                // of the model
  std::vector<std::string> sampler_order;  // empty: not stated
};

/// Returns the lines of the trace: a header, and a sequence of one round for each text, in this order. Texts without
/// tokens are left out. Throws Error for a token outside of the vocabulary.
std::string text_trace(const TextTrace& about, std::span<const WrittenText> texts);

}  // namespace draftproof

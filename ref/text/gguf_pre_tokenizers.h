// SPDX-License-Identifier: MIT
// The pre-tokenizers of byte-level BPE that a GGUF names in tokenizer.ggml.pre.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace draftproof {

struct GgufPreTokenizer {
  std::vector<std::string_view> names;   // the first is the kind's own
  std::vector<std::string> expressions;  // applied one after the other
  bool takes_whole = false;              // a piece that is in the vocabulary becomes that token
  bool adds_bos = false;                 // used when the file does not specify it
};

const std::vector<GgufPreTokenizer>& gguf_pre_tokenizers();

/// Returns nullptr when the name is unknown.
const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name);

}  // namespace draftproof

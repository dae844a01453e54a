// SPDX-License-Identifier: MIT
// What ends an output, what does not, and words that it does not have: the fields ignore_eos, stop_token_ids,
// min_tokens and bad_words of the server.
#pragma once

#include <string>
#include <vector>

#include "ref/decoding/request.h"
#include "ref/formats/checkpoint.h"
#include "ref/text/tokenizer.h"
#include "tools/command_line.h"

namespace draftproof {

struct EndOptions {
  bool ignore_eos = false;
  std::vector<std::string> stop_tokens;
  int min_tokens = 0;
  std::vector<std::string> bad_words;

  bool bans() const { return min_tokens > 0 || !bad_words.empty(); }
};

void add_end_options(Command& command, EndOptions& options);

/// Sets the stop tokens of a request, which has the model's. Throws Error for what is no token.
void set_stop_tokens(Request& request, const EndOptions& options, const Checkpoint& files);

/// Adds the bans to what the output of a request, whose stop tokens are set, has to follow. `tokenizer`: of the target,
/// which is named in errors; nullptr: it has none.
void add_bans(Request& request, const EndOptions& options, const Checkpoint& files, const Tokenizer* tokenizer,
              const std::string& target);

}  // namespace draftproof

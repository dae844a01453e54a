// SPDX-License-Identifier: MIT
#include "ref/models/parallel_drafting.h"

#include <string>

namespace draftproof {

std::optional<Token> find_mask_token(const Json& config, int vocabulary) {
  std::optional<Token> mask;
  for (const char* const name : {"mask_token_id", "pard_token", "ptd_token_id"}) {
    const auto field = config.find(name);
    if (!field) continue;
    const auto token = static_cast<Token>(field->integer(0, vocabulary - 1));
    if (mask && *mask != token) {
      field->fail("is another mask token than " + std::to_string(*mask) + ", which another field names");
    }
    mask = token;
  }
  return mask;
}

int read_speculative_tokens(const Json& config) {
  const auto block = config.find("speculators_config");
  const auto methods = block ? block->find("proposal_methods") : std::nullopt;
  if (!methods || !methods->is_array() || methods->size() == 0) return 0;
  const auto tokens = (*methods)[0].find("speculative_tokens");
  return tokens ? static_cast<int>(tokens->integer(1, 1 << 10)) : 0;
}

}  // namespace draftproof

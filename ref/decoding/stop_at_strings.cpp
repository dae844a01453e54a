// SPDX-License-Identifier: MIT
#include "ref/decoding/stop_at_strings.h"

#include <algorithm>

namespace draftproof {

bool StopAtStrings::ends(std::span<const Token> output) {
  const std::size_t kept = output.empty() ? 0 : std::min(after_.size() - 1, output.size() - 1);
  after_.resize(kept + 1, after_.front());
  for (const Token token : output.subspan(kept)) {
    bytes_.clear();
    tokenizer_.append_bytes(token, std::ranges::find(shown_, token) == shown_.end(), bytes_);
    after_.push_back(after_.back());
    after_.back().read(bytes_);
  }
  return after_.back().match().has_value();
}

}  // namespace draftproof

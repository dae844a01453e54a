// SPDX-License-Identifier: MIT
#include "ref/models/read_text.h"

#include <algorithm>

namespace draftproof {

void read_text(Model& model, Cache& cache, std::span<const Token> tokens, int chunk, int from,
               const RowVisitor& visit) {
  const int length = static_cast<int>(tokens.size());
  Outputs outputs;
  for (int at = 0; at < length; at += chunk) {
    const int rows = std::min(chunk, length - at);
    const int first = std::clamp(from - at, 0, rows);
    Transaction transaction = cache.begin(rows);
    forward_alone(model,
                  {.cache = &cache,
                   .tokens = tokens.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(rows)),
                   .logits_from = first},
                  outputs);
    transaction.commit(rows);
    for (int row = first; row < rows; ++row) {
      visit(at + row, outputs.logits_row(row - first, model.vocabulary()));
    }
  }
}

void read_text(Model& model, Cache& cache, std::span<const Token> tokens, int chunk) {
  read_text(model, cache, tokens, chunk, static_cast<int>(tokens.size()), [](int, std::span<const float>) {});
}

}  // namespace draftproof

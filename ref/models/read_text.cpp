// SPDX-License-Identifier: MIT
#include "ref/models/read_text.h"

#include <algorithm>

namespace draftproof {

std::string context_shift_error(const ContextShift& shift, const Model& model) {
  if (const std::string why = shift.error(); !why.empty()) return why;
  if (shift.context > model.context()) {
    return "the context cannot be shifted at " + std::to_string(shift.context) + " positions; the model has " +
           std::to_string(model.context());
  }
  const std::string why = model.new_cache(shift.context, 1)->discard_error(shift.context, shift.keep, shift.discard);
  return why.empty() ? "" : "the context cannot be shifted: " + why;
}

void read_text(Model& model, Cache& cache, std::span<const Token> tokens, int chunk,
               const std::optional<ContextShift>& shift, int from, const RowVisitor& visit) {
  const int length = static_cast<int>(tokens.size());
  Outputs outputs;
  int rows = 0;
  for (int at = 0; at < length; at += rows) {
    rows = std::min(chunk, length - at);
    if (shift) {
      rows = std::min(rows, shift->room(cache.length()));
      shift->make_room(cache);
    }
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

void read_text(Model& model, Cache& cache, std::span<const Token> tokens, int chunk,
               const std::optional<ContextShift>& shift) {
  read_text(model, cache, tokens, chunk, shift, static_cast<int>(tokens.size()), [](int, std::span<const float>) {});
}

}  // namespace draftproof

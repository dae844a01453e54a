// SPDX-License-Identifier: MIT
#include "ref/text/pre_tokenizer.h"

namespace draftproof {
namespace {

std::vector<std::string_view> split_by_all(const std::vector<Pattern>& patterns, std::string_view text,
                                           MatchBudget& budget) {
  std::vector<std::string_view> pieces;
  if (!text.empty()) pieces.push_back(text);
  for (const Pattern& pattern : patterns) {
    std::vector<std::string_view> finer;
    for (const std::string_view piece : pieces) pattern.split(piece, budget, finer);
    pieces = std::move(finer);
  }
  return pieces;
}

}  // namespace

const std::string gpt2_pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void PreTokenizer::split(std::string_view text, MatchBudget& budget, std::vector<std::string>& pieces) const {
  for (const std::string_view piece : split_by_all(before_space, text, budget)) {
    const std::string spaced = prefix_space && !piece.starts_with(' ') ? ' ' + std::string(piece) : std::string(piece);
    for (const std::string_view part : split_by_all(after_space, spaced, budget)) pieces.emplace_back(part);
  }
}

}  // namespace draftproof

// SPDX-License-Identifier: MIT
#include "ref/text/pre_tokenizer.h"

#include <algorithm>

#include "ref/base/error.h"

namespace draftproof {
namespace {

constexpr std::size_t piece_bytes_max = (std::size_t{1} << 31) - 16;  // positions in a piece are 32 bits

/// `left` and `right` are neighbors in one text.
std::string_view joined(std::string_view left, std::string_view right) {
  return {left.data(), left.size() + right.size()};
}

/// Joins matches to the pieces before them; of neighboring matches the first.
std::vector<std::string_view> merged_with_previous(const std::vector<PatternPart>& parts) {
  std::vector<std::string_view> merged;
  bool after_match = false;
  for (const PatternPart& part : parts) {
    if (part.matches && !after_match && !merged.empty()) {
      merged.back() = joined(merged.back(), part.text);
    } else {
      merged.push_back(part.text);
    }
    after_match = part.matches;
  }
  return merged;
}

std::vector<std::string_view> merged_with_next(const std::vector<PatternPart>& parts) {
  std::vector<std::string_view> merged;  // in reverse
  bool before_match = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->matches && !before_match && !merged.empty()) {
      merged.back() = joined(part->text, merged.back());
    } else {
      merged.push_back(part->text);
    }
    before_match = part->matches;
  }
  std::ranges::reverse(merged);
  return merged;
}

std::vector<std::string_view> contiguous(const std::vector<PatternPart>& parts) {
  std::vector<std::string_view> merged;
  bool after_match = false;
  for (const PatternPart& part : parts) {
    if (part.matches == after_match && !merged.empty()) {
      merged.back() = joined(merged.back(), part.text);
    } else {
      merged.push_back(part.text);
    }
    after_match = part.matches;
  }
  return merged;
}

void append(const std::vector<std::string_view>& pieces, std::vector<std::string_view>& to) {
  to.insert(to.end(), pieces.begin(), pieces.end());
}

/// Appends the pieces that the parts of one piece become.
void append_pieces(const std::vector<PatternPart>& parts, SplitBehavior behavior, std::vector<std::string_view>& to) {
  switch (behavior) {
    case SplitBehavior::merged_with_previous: return append(merged_with_previous(parts), to);
    case SplitBehavior::merged_with_next: return append(merged_with_next(parts), to);
    case SplitBehavior::contiguous: return append(contiguous(parts), to);
    case SplitBehavior::isolated:
    case SplitBehavior::removed: break;
  }
  for (const PatternPart& part : parts) {
    if (behavior == SplitBehavior::isolated || !part.matches) to.push_back(part.text);
  }
}

void apply(const SplitStep& step, bool, MatchBudget& budget, Pieces& pieces) {
  std::vector<std::string_view> finer;
  std::vector<PatternPart> parts;
  for (const std::string_view piece : pieces.list) {
    parts.clear();
    step.pattern.split(piece, budget, parts);
    if (step.inverted) {
      for (PatternPart& part : parts) part.matches = !part.matches;
    }
    append_pieces(parts, step.behavior, finer);
  }
  pieces.list = std::move(finer);
}

void apply(const PrefixSpaceStep&, bool, MatchBudget&, Pieces& pieces) {
  for (std::string_view& piece : pieces.list) {
    if (!piece.starts_with(' ')) piece = pieces.changed.emplace_back(' ' + std::string(piece));
  }
}

/// Calls `act` with each part of `text` that begins where `mark` does, and with the text before the first.
template <typename Act>
void for_each_marked(std::string_view text, std::string_view mark, const Act& act) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(mark, begin + 1), text.size());
    act(text.substr(begin, end - begin));
    begin = end;
  }
}

std::string with_marks(std::string_view piece, const std::string& mark) {
  const auto spaces = static_cast<std::size_t>(std::ranges::count(piece, ' '));
  if (piece.size() + spaces * mark.size() > piece_bytes_max) {
    throw Error("the text to encode is longer than 2 GiB once its spaces are marked; encode it in parts");
  }
  std::string marked;
  for (const char byte : piece) byte == ' ' ? marked += mark : marked += byte;
  return marked;
}

void apply(const MetaspaceStep& step, bool first, MatchBudget&, Pieces& pieces) {
  std::vector<std::string_view> finer;
  for (const std::string_view piece : pieces.list) {
    std::string& marked = pieces.changed.emplace_back(with_marks(piece, step.mark));
    const bool prepend = step.prepend == MetaspaceStep::Prepend::always ||
                         (step.prepend == MetaspaceStep::Prepend::first && first && finer.empty());
    if (prepend && !marked.starts_with(step.mark)) marked = step.mark + marked;
    if (step.split) {
      for_each_marked(marked, step.mark, [&](std::string_view part) { finer.push_back(part); });
    } else {
      finer.push_back(marked);
    }
  }
  pieces.list = std::move(finer);
}

}  // namespace

const std::string gpt2_pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Pieces PreTokenizer::split(std::string_view text, bool first, MatchBudget& budget) const {
  Pieces pieces;
  if (!text.empty()) pieces.list.push_back(text);
  for (const Step& step : steps_) {
    std::visit([&](const auto& one) { apply(one, first, budget, pieces); }, step);
  }
  return pieces;
}

}  // namespace draftproof

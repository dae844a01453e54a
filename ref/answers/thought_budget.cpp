// SPDX-License-Identifier: MIT
#include "ref/answers/thought_budget.h"

#include <algorithm>
#include <utility>

#include "ref/answers/blanks.h"

namespace draftproof {

class ThoughtBudget::Reader final : public ConstraintReader {
 public:
  explicit Reader(const ThoughtBudget& budget)
      : budget_(budget), held_(budget.held_ ? budget.held_->reader() : nullptr), set_(budget.all_) {}

  bool possible(std::span<const Token> output) override {
    if (held_ != nullptr && !held_->possible(output)) return false;
    const auto max = forced_from(output);
    for (std::size_t place = max.value_or(output.size()); place < output.size(); ++place) {
      if (!allowed(output.first(place)).has(output[place])) return false;
    }
    return true;
  }

  /// The mark begins where what the answer is held to lets it: not inside of a character, for example.
  const TokenSet& allowed(std::span<const Token> output) override {
    const TokenSet& others = held_ ? held_->allowed(output) : budget_.all_;
    const auto max = forced_from(output);
    if (!max) return others;
    std::size_t written = std::min(budget_.end_.size() - 1, output.size() - *max);  // tokens of the mark
    while (written > 0 && !std::ranges::equal(output.last(written), std::span(budget_.end_).first(written))) --written;
    if (!others.has(budget_.end_[written])) return others;
    set_.clear();
    set_.add(budget_.end_[written]);
    return set_;
  }

  bool complete(std::span<const Token> output) override { return held_ != nullptr && held_->complete(output); }

 private:
  /// From which token of the output on the mark has to come that ends its thoughts; nullopt where it has not.
  std::optional<std::size_t> forced_from(std::span<const Token> output) {
    read(output);
    const std::string_view text = text_;
    std::size_t first = 0;  // token of the thoughts
    if (budget_.thinking_ == Thinking::possible) {
      const std::string_view begin = parts_of_mark(budget_.marks_.begin).front();
      const std::size_t at = behind_blanks(text);
      if (!text.substr(at).starts_with(begin)) return std::nullopt;
      first = static_cast<std::size_t>(std::ranges::lower_bound(ends_, at + begin.size()) - ends_.begin()) + 1;
    }
    const std::size_t max = first + static_cast<std::size_t>(budget_.tokens_);
    if (output.size() < max) return std::nullopt;
    // Thoughts that ended by themselves, or whose end has been written, are over.
    const std::string_view end = parts_of_mark(budget_.marks_.end).front();
    return text.find(end) == std::string_view::npos ? std::optional(max) : std::nullopt;
  }

  /// Keeps the text of the output. What it has in common with the last one is not read again.
  void read(std::span<const Token> output) {
    const auto same = static_cast<std::size_t>(std::ranges::mismatch(output, output_).in1 - output.begin());
    output_.resize(same);
    ends_.resize(same);
    text_.resize(same == 0 ? 0 : ends_.back());
    for (const Token token : output.subspan(same)) {
      budget_.tokenizer_.append_bytes(token, false, text_);
      output_.push_back(token);
      ends_.push_back(text_.size());
    }
  }

  const ThoughtBudget& budget_;
  std::unique_ptr<ConstraintReader> held_;
  TokenSet set_;
  std::vector<Token> output_;
  std::vector<std::size_t> ends_;  // bytes of the text up to each token
  std::string text_;
};

ThoughtBudget::ThoughtBudget(const ThoughtMarks& marks, Thinking thinking, int tokens, const Tokenizer& tokenizer,
                             int vocabulary, std::shared_ptr<const Constraint> held)
    : marks_(marks),
      thinking_(thinking),
      tokens_(tokens),
      tokenizer_(tokenizer),
      end_(tokenizer.encode(parts_of_mark(marks.end).front(), false, true)),
      all_(vocabulary),
      held_(std::move(held)) {
  for (Token token = 0; token < vocabulary; ++token) all_.add(token);
}

std::unique_ptr<ConstraintReader> ThoughtBudget::reader() const { return std::make_unique<Reader>(*this); }

}  // namespace draftproof

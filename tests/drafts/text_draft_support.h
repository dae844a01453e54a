// SPDX-License-Identifier: MIT
// Shared by the tests of the drafts that look things up in the text: each is compared with its definition, written down
// once more in the test as loops over the text.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ref/drafts/text_draft.h"
#include "tests/drafts/support.h"
#include "tests/drafts/texts.h"

namespace draftproof {

/// Returns the draft tokens after a text, when at most `limit` are asked for.
using Definition = std::function<Text(const Text& text, int limit)>;
using NewDraft = std::function<std::unique_ptr<Draft>()>;

/// "abc" is {0, 1, 2}.
inline Text text_of(const std::string& letters) {
  Text text;
  for (const char letter : letters) text.push_back(letter - 'a');
  return text;
}

inline std::string shown(const Text& text) {
  std::string letters;
  for (const Token token : text) letters += static_cast<char>('a' + token);
  return letters;
}

/// Observes text[from, text.size() - 1): all but the anchor.
inline void observe_up_to_anchor(Draft& draft, const Text& text, std::size_t from = 0) {
  for (std::size_t end = 0; from + 1 < text.size(); from = end) {
    end = std::min(from + Draft::max_chunk, text.size() - 1);
    draft.observe(std::span(text).subspan(from, end - from), {});
  }
}

/// The draft tokens after `text`, of which the draft has observed all but the anchor.
inline Text draft_tokens_after(Draft& draft, const Text& text, int limit) {
  PhiloxSource random(1);
  return propose(draft, text, limit, {}, random).tokens;
}

/// Of a new draft.
inline std::string continued(const NewDraft& new_draft, const std::string& letters) {
  const auto draft = new_draft();
  const Text text = text_of(letters);
  observe_up_to_anchor(*draft, text);
  return shown(draft_tokens_after(*draft, text, draft->draft_max()));
}

/// Calls `visit(text, number)` for every text of `length` letters out of `letters`.
template <class Visit>
void for_each_text(int letters, int length, const Visit& visit) {
  std::uint32_t count = 1;
  for (int i = 0; i < length; ++i) count *= static_cast<std::uint32_t>(letters);
  Text text(static_cast<std::size_t>(length));
  for (std::uint32_t number = 0; number < count; ++number) {
    std::uint32_t rest = number;
    for (Token& token : text) {
      token = static_cast<Token>(rest % static_cast<std::uint32_t>(letters));
      rest /= static_cast<std::uint32_t>(letters);
    }
    visit(text, number);
  }
}

/// Compares a new draft with the definition after every text of 1 to `longest` letters out of three. It is asked twice,
/// for all and for fewer draft tokens.
inline void expect_definition(const NewDraft& new_draft, const Definition& definition, int longest) {
  long proposed = 0;
  for (int length = 1; length <= longest; ++length) {
    for_each_text(3, length, [&](const Text& text, std::uint32_t number) {
      if (testing::Test::HasFailure()) return;
      const auto draft = new_draft();
      observe_up_to_anchor(*draft, text);
      for (const int limit : {draft->draft_max(), 1 + static_cast<int>(number) % draft->draft_max()}) {
        const Text tokens = draft_tokens_after(*draft, text, limit);
        const Text expected = definition(text, limit);
        proposed += static_cast<long>(tokens.size());
        if (tokens != expected) {
          ADD_FAILURE() << shown(text) << " continues with '" << shown(tokens) << "', not '" << shown(expected) << "'";
        }
      }
    });
  }
  EXPECT_GT(proposed, 1000);
}

/// Compares one draft with the definition after every text of `length` letters out of three, which it observes in
/// pieces, with proposals in between, and then forgets.
inline void expect_no_trace_of_rounds(const NewDraft& new_draft, const Definition& definition, int length) {
  const auto draft = new_draft();
  for_each_text(3, length, [&](const Text& text, std::uint32_t number) {
    if (testing::Test::HasFailure()) return;
    Text so_far = {text.front()};
    const auto check = [&] {
      const int limit = 1 + static_cast<int>(number % 7) % draft->draft_max();
      const Text tokens = draft_tokens_after(*draft, so_far, limit);
      if (tokens == definition(so_far, limit)) return;
      ADD_FAILURE() << shown(so_far) << " of " << shown(text) << " continues with '" << shown(tokens) << "'";
    };
    check();
    for (const int run : cuts(length - 1, 4, number)) {
      const std::size_t anchor = so_far.size() - 1;
      draft->observe(std::span(text).subspan(anchor, static_cast<std::size_t>(run)), {});
      so_far.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(anchor) + run + 1);
      check();
    }
    draft->forget();
  });
}

/// What a round of 4 tokens costs must not depend on the length of the text before it.
inline void expect_time_per_token_not_to_grow(const NewDraft& new_draft) {
  const auto decode = [&](const Text& text) {
    const auto draft = new_draft();
    PhiloxSource random(1);
    Sampler sampler;
    for (std::size_t done = 0; done + 4 < text.size(); done += 4) {
      ProposalBuilder builder({}, std::span(text).first(1), 0, 1, Purpose::target, random, sampler);
      draft->observe(std::span(text).subspan(done, 4), {});
      draft->propose(text[done + 4], draft->draft_max(), builder);
    }
  };
  for (const std::uint32_t vocabulary : {4U, 64U, 50000U}) {
    const std::string name = "random text of " + std::to_string(vocabulary) + " different tokens";
    const auto text_of_length = [=](int length) { return random_text(length, vocabulary); };
    expect_time_per_token_not_to_grow(name.c_str(), text_of_length, decode);
  }
  for (const int period : {1, 5, 700}) {
    const std::string name = "text of period " + std::to_string(period);
    expect_time_per_token_not_to_grow(
        name.c_str(), [=](int length) { return periodic_text(length, period); }, decode);
  }
}

/// Checks the bytes of the tables of a draft against those of its formula, and that forget() gives them back.
/// `fixed`: what does not depend on the text.
template <class Kind>
void expect_table_bytes(Kind& draft, std::size_t bytes_per_token, std::size_t fixed) {
  EXPECT_EQ(draft.table_bytes(), 0U);
  for (const Text& text : {random_text(20000, 2), random_text(20000, 50000), periodic_text(20000, 9)}) {
    Text so_far;
    for (std::size_t done = 0; done + 100 < text.size(); done += 100) {
      draft.observe(std::span(text).subspan(done, 100), {});
      so_far.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(done) + 101);
      draft_tokens_after(draft, so_far, 1);
      ASSERT_LE(draft.table_bytes(), bytes_per_token * (done + 100) + fixed);
      ASSERT_GT(draft.table_bytes(), 0U);
    }
    draft.forget();
    EXPECT_EQ(draft.table_bytes(), 0U);
  }
}

}  // namespace draftproof

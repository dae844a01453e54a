// SPDX-License-Identifier: MIT
// What is asked of a decoder (Request) and how it carries it out (Execution). Under `matching`, and wherever decoding
// is greedy, no execution changes the output; under `rejection` the draft tokens of a round do, never its distribution.
// Each has one table of its fields: options, fixtures, reproducers and cases that are shrunk are made from it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ref/acceptance/constraint.h"
#include "ref/acceptance/sampling_params.h"
#include "ref/base/token.h"
#include "ref/caches/context_shift.h"

namespace draftproof {

struct Request {
  std::vector<Token> prompt;  // at least one token
  Sampling sampling;
  std::vector<Token> stops;  // stop tokens: the text ends with the first of them, which is part of the output
  int max_new_tokens = 0;
  int sequence = 0;              // part of every random key
  bool logprobs = false;         // record the log-probability of every token
  int top_logprobs = 0;          // record as many of the most likely tokens for every token, 0 to top_logprobs_max
  bool prompt_logprobs = false;  // record both for the prompt's tokens as well; nothing of it is then reused
  std::optional<ContextShift> context_shift = {};     // lossy; without it the whole text must fit the target's context
  std::shared_ptr<const Constraint> constraint = {};  // what the output may be; nullptr: anything
  int constrained_prompt = 0;  // so many of the last tokens of the prompt are part of that output: it goes on with them

  static constexpr int top_logprobs_max = 20;
  static constexpr int text_max = 1 << 30;  // most tokens of prompt and output; positions are counted in ints

  bool stops_at(Token token) const noexcept;
  /// The part of a text of the request that its constraint reads.
  std::span<const Token> constrained(std::span<const Token> text) const {
    return text.subspan(prompt.size() - static_cast<std::size_t>(constrained_prompt));
  }
  /// The most positions that its caches hold.
  int positions() const noexcept {
    const int text = static_cast<int>(prompt.size()) + max_new_tokens;
    return context_shift ? std::min(text, context_shift->context) : text;
  }

  bool operator==(const Request&) const = default;
};

/// What is known of a field beside its value. The default is the value of a Request{}.
template <class T>
struct RequestField {
  T Request::*member;
  const char* name;  // in files
  int min, max;      // of a number, and of each token of a list
};

/// The fields that say which text is asked for, without the parameters of sampling, which have a table of their own,
/// and those that only some requests have: the context shift and the constraint.
inline constexpr std::tuple request_fields{
    RequestField<std::vector<Token>>{&Request::prompt, "prompt", 0, std::numeric_limits<Token>::max()},
    RequestField<std::vector<Token>>{&Request::stops, "stops", 0, std::numeric_limits<Token>::max()},
    RequestField<int>{&Request::max_new_tokens, "max_new_tokens", 0, std::numeric_limits<int>::max()},
    RequestField<int>{&Request::sequence, "sequence", 0, std::numeric_limits<int>::max()},
};

template <class Visit>
void for_each_request_field(const Visit& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, request_fields);
}

/// How a proposal is verified: all rows in one pass; row by row; or all rows in one pass that is rolled back when a
/// draft token was rejected, after which the accepted ones are read again (what engines do whose caches cannot keep a
/// part of a pass). All give equal bits.
enum class Verification : std::uint8_t { batched, serial, redecode };
inline constexpr Verification all_verifications[] = {Verification::batched, Verification::serial,
                                                     Verification::redecode};
const char* name_of(Verification verification) noexcept;
std::vector<std::string> names_of_verifications();
/// Of one of these names.
Verification verification_by_name(std::string_view name);

struct Execution {
  static constexpr int draft_max_auto = -1;  // the tuner chooses the length of every proposal
  int draft_max = 0;      // most draft tokens per round, of which the draft may propose fewer; 0: the draft's default
  int prefill_chunk = 0;  // most prompt rows per prefill pass; 0: the default
  Verification verification = Verification::batched;

  bool operator==(const Execution&) const = default;
};

/// What is known of a field beside its value. The default is the value of an Execution{}.
template <class T>
struct ExecutionField {
  T Execution::*member;
  const char* name;  // in files
  T min, max;        // what files and options may ask for, without draft_max_auto
};

inline constexpr ExecutionField<int> draft_max_field{&Execution::draft_max, "draft_max", 0, 1024};
inline constexpr ExecutionField<int> prefill_chunk_field{&Execution::prefill_chunk, "prefill_chunk", 0,
                                                         std::numeric_limits<int>::max()};
inline constexpr ExecutionField<Verification> verification_field{&Execution::verification, "verification",
                                                                 Verification::batched, Verification::redecode};

template <class Visit>
void for_each_execution_field(const Visit& visit) {
  visit(draft_max_field);
  visit(prefill_chunk_field);
  visit(verification_field);
}

/// When a request that is decoded together with others comes and goes, so that a run can be repeated. Moments are
/// counted in passes of the scheduler and in rounds of the sequence, from 1 on; `never` for what does not happen.
struct Timetable {
  static constexpr int never = 0;
  int joins_after = 0;          // passes
  int preempted_after = never;  // rounds; its caches are taken once
  int cancelled_after = never;  // rounds
};

/// Ends a text where more than a token decides it, for example at a stop string.
class StopCondition {
 public:
  virtual ~StopCondition() = default;
  /// Returns whether the text ends with the last of these output tokens. Depends on the tokens only. It is asked for
  /// every output once, but may be asked again from an earlier one on.
  virtual bool ends(std::span<const Token> output) = 0;
};

}  // namespace draftproof

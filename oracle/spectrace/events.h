// SPDX-License-Identifier: MIT
// The content of a trace file in the format spectrace/2, line by line; docs/spectrace.md has the schema. The types of
// lines, and their members, are named as in the format: the header, then events of the types sequence, round,
// context_shift and end. A field that the format makes optional is empty here when the line lacks it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ref/acceptance/distribution.h"
#include "ref/acceptance/random_source.h"
#include "ref/acceptance/sampling_params.h"
#include "ref/acceptance/token_set.h"
#include "ref/base/digest.h"
#include "ref/base/token.h"
#include "ref/decoding/trace.h"

namespace draftproof::spectrace {

inline constexpr const char* schema_name = "spectrace/2";
inline constexpr const char* our_generator = "philox4x32-10";  // PhiloxSource, by key
inline constexpr const char* our_block = "integers";           // the rule of ref/acceptance/block.cpp

/// How draft tokens are verified. matching: against the target's own draw. rejection: by rejection sampling. greedy:
/// against the target's best token. block: by block verification. lossy: by a rule that does not promise the target's
/// distribution.
enum class AcceptanceRule : std::uint8_t { matching, rejection, greedy, block, lossy };
const char* name_of(AcceptanceRule rule) noexcept;

/// Where the token after the accepted draft tokens comes from: the residual distribution after a rejection, the
/// target's own draw that the draft token did not equal (matching), the row after all draft tokens, the best token.
enum class NextFrom : std::uint8_t { residual, target, bonus, greedy };
const char* name_of(NextFrom from) noexcept;

/// The acceptance rule that a trace declares.
struct DeclaredRule {
  AcceptanceRule kind = AcceptanceRule::rejection;
  std::string variant = {};  // the name of a lossy rule; "integers" of `block` as draftproof has it
  std::string name() const;  // as the trace states it: "rejection", "lossy:NAME", "block:integers"
};

struct Header {
  std::string engine;
  std::string weights;  // as the engine names them; empty when it does not
  int vocabulary = 0;
  std::optional<DeclaredRule> rule;  // of sequences that do not declare one
  std::uint64_t total = 0;           // of every row's integer weights; 0: weights and random numbers are reals
  double unit = 0x1p-23;             // rounding unit of the reals
  std::string generator;             // of random numbers; empty when the trace names none
  std::optional<std::uint64_t> seed;
  int u_bits = 0;         // random bits of every number u, as the engine states them; 0: not stated
  std::string rows_file;  // name of the file beside the trace that holds rows; empty when there is none

  /// Returns what an engine may lose of a probability of a stated row, besides rounding in proportion to it: integer
  /// weights of ours end at 2^-40, the smallest float16 is 2^-24.
  double weight_min() const noexcept { return total > 0 ? 0x1p-38 : unit * 0x1p-14; }
  /// Whether every random number follows from the seed and its key, so that the check computes it again.
  bool draws_follow_from_seed() const noexcept { return seed && total > 0 && generator == our_generator; }
};

/// What a sequence declares before its first round.
struct SequenceEvent {
  std::int64_t sequence = 0;  // its number in this file
  std::int32_t rng_key = 0;   // its number in the keys of random numbers
  bool rng_key_stated = false;
  DeclaredRule rule;
  std::vector<Token> prompt;
  Sampling sampling;
  std::string grammar;                   // that the output follows, in GBNF; empty: none
  std::int64_t constrained_prompt = 0;   // of the last tokens of the prompt: part of that output
  std::vector<std::string> adjustments;  // names of what else changes logits or forbids tokens
  bool masked = false;                   // rounds state which tokens may follow; one that does not allows all
  std::string other_sampler;             // that draws tokens; empty: those of `sampling`
  /// Names of the samplers in the order in which the engine applied them; empty when the trace does not state it.
  std::optional<std::vector<std::string>> sampler_order;
  std::optional<std::vector<Token>> stop_tokens;
  bool stop_strings = false;       // strings may end the sequence, too
  bool stop_token_emitted = true;  // else a stop token is not part of the text
  bool hides_stop_tokens() const noexcept { return !stop_token_emitted && stop_tokens; }
  std::optional<std::int64_t> max_new_tokens;
  std::optional<std::int64_t> max_draft_tokens;  // per round
  std::optional<Verification> verification;
  std::optional<DraftCosts> draft_costs;  // by which a tuner chooses how many draft tokens a draft is asked for
  std::optional<std::int64_t> continues;  // the sequence whose cache was kept
  std::optional<std::int64_t> reused;     // positions of that cache that were not read again
  std::string draft;
  std::string kernels;
  std::string numerics;
  bool logprobs_after_sampling = false;  // of the distribution that tokens are drawn from, else of the raw logits

  /// Whether tokens are drawn by other logits than the model's own, apart from temperature and cuts.
  bool changes_logits() const noexcept {
    return sampling.penalizes() || sampling.dries() || !sampling.logit_bias.empty() || !grammar.empty() ||
           !adjustments.empty() || masked || !other_sampler.empty();
  }
};

/// A weight or a random number as the trace states it: an integer where the header has a total, else a real.
struct StatedNumber {
  std::uint64_t integer = 0;
  double real = 0;
};

/// A row of real weights: the tokens with a weight above 0, ascending, and their weights.
struct RealRow {
  std::vector<Token> tokens;
  std::vector<double> weights;
  double weight(Token token) const;  // 0 when absent
};

/// A draw from integer weights: u, below `bound`, falls into the token's interval [before, before + weight).
struct Draw {
  Token token = 0;
  std::optional<std::uint64_t> u;  // empty when none was drawn: one token has all the weight
  std::uint64_t bound = 0;
  std::uint64_t before = 0;  // weight of smaller tokens
  std::uint64_t weight = 0;
  std::optional<std::uint64_t> p;  // of a residual draw: weight = p - q
  std::optional<std::uint64_t> q;
};

/// The two best tokens of a row, the best first.
struct TopTwo {
  Token first = 0;
  Token second = 0;
  double first_logit = 0;
  double second_logit = 0;
};

/// A value that no right engine states, in a line that can be read: a probability of NaN, a token of -1.
struct ImpossibleValue {
  const char* check = "";  // token, number
  std::string field;
  std::string observed;
};

/// Which tokens may follow at a row: all, only those listed, or all but those listed.
struct AllowedTokens {
  enum class Kind : std::uint8_t { all, only, except };
  Kind kind = Kind::all;
  std::vector<Token> tokens;  // ascending

  bool has(Token token) const;
  TokenSet set(int vocabulary) const;
};

/// Positions of the random numbers that a round drew, by purpose: each position once, ascending.
struct RngPositions {
  std::vector<std::int64_t> positions[4];
  std::vector<std::int64_t>& of(Purpose purpose) { return positions[static_cast<std::size_t>(purpose)]; }
  const std::vector<std::int64_t>& of(Purpose purpose) const { return positions[static_cast<std::size_t>(purpose)]; }
  void add(Purpose purpose, std::int64_t position);
  bool operator==(const RngPositions&) const = default;
};

struct RoundEvent {
  std::int64_t sequence = 0;
  std::int64_t round = 0;
  std::int64_t position = 0;   // of the first token that this round decides
  std::vector<Token> emitted;  // empty only where the text ends with a stop token that is not part of it

  bool has_draft_tokens = false;  // the line states the fields below, to next_from
  /// In the order of the walk: first the one that is verified at row 0, 1, ... of the accepted path, then all others.
  std::vector<Token> draft_tokens;
  std::vector<int> depths;  // of a tree: draft tokens above each; of a chain empty, where they are 0, 1, 2, ...
  int accepted = 0;         // draft tokens
  std::vector<Token> accepted_tokens;  // these
  int verified = 0;                    // rows at which a draft token is verified: all to `accepted`, or all before it
  std::vector<Token> refused;          // draft tokens that might have followed the accepted ones and did not
  std::optional<int> width;            // rows of the verification pass
  NextFrom next_from = NextFrom::bonus;

  std::optional<std::vector<StatedNumber>> q_draft;  // of every draft token
  std::optional<std::vector<StatedNumber>> p_draft;  // of the draft tokens that were verified, or of all
  /// Rejection: below q. Matching: the number the target drew with, of accepted draft tokens.
  std::optional<std::vector<std::optional<StatedNumber>>> accept_u;
  std::optional<std::vector<std::uint64_t>> p_before;  // matching: weight in p before the accepted draft tokens
  std::optional<std::vector<std::optional<StatedNumber>>> draft_u;
  std::optional<std::vector<std::uint64_t>> q_before;
  // The token after the accepted draft tokens: its whole draw for integer weights, emitted or cut; u for reals.
  std::optional<Draw> next;
  std::optional<std::optional<double>> next_u;
  // Rejection of a tree, of every row before `accepted`: the draw that selected a sibling of the draft token that was
  // rejected there; empty where the draft token was accepted.
  std::optional<std::vector<std::optional<Draw>>> sibling_draws;
  std::optional<std::vector<std::optional<double>>> sibling_u;

  // Of each stage of the draft, when it has proposed; of the target's cache, before the verification pass.
  std::optional<std::int64_t> target_held;
  std::optional<std::vector<std::int64_t>> draft_held;
  std::optional<std::vector<std::int64_t>> draft_unread;
  std::optional<std::int64_t> draft_anchor;
  std::optional<std::vector<int>> draft_asked;  // of each stage, up to the one that proposed; 0: it was not
  int draft_cut = 0;                            // draft tokens that were not verified: behind the end, or forbidden
  int draft_forced = 0;                         // of the last draft tokens: a grammar's, which no draft proposed
  std::optional<RoundSeconds> seconds;          // what a tuner learned the costs of the round from

  std::optional<RngPositions> rng_positions;
  std::optional<Fingerprint> state_digest;  // of the target's cache, after the round
  // Of row 0, 1, ...; of a round of tokens only, of every emitted token.
  std::vector<AllowedTokens> allowed_tokens;
  std::vector<Fingerprint> allowed_digests;
  std::vector<TopTwo> top_logits;           // of row 0, 1, ...
  std::vector<Fingerprint> logits_digests;  // of the same rows
  std::vector<Fingerprint> p_digests;
  std::vector<Fingerprint> q_digests;  // of every draft token's q
  std::vector<double> logprobs;        // of the emitted tokens
  std::vector<RealRow> top_logprobs;   // of some tokens, for each emitted token: log-probabilities, not weights
  std::vector<Distribution> p_rows;    // of row 0, 1, ...; of a round of tokens only, of every emitted token
  std::vector<Distribution> q_rows;    // of every draft token
  std::vector<RealRow> p_reals;        // p_rows and q_rows when weights are reals
  std::vector<RealRow> q_reals;

  std::vector<ImpossibleValue> faults;  // where there are any, the fields they name hold harmless values

  /// Makes the draft tokens a chain of which this many are accepted.
  void accept_of_chain(int accepted_now);
  /// Returns how many draft tokens lie above draft token j.
  int depth(std::size_t j) const { return depths.empty() ? static_cast<int>(j) : depths[j]; }
  /// Returns whether a draft token is verified at a row, draft_tokens[row].
  bool verifies(std::size_t row) const noexcept { return row < static_cast<std::size_t>(verified); }
  /// Returns whether it is accepted. In a tree one of its siblings may be, in its place.
  bool accepts(std::size_t row) const {
    return row < accepted_tokens.size() && accepted_tokens[row] == draft_tokens[row];
  }
  /// Returns the token that a row decides; nothing where it was cut and is not stated.
  std::optional<Token> token_at(std::size_t row) const;
  /// Returns the draw of the token at a row where no draft token is verified or it is rejected; nothing where it is not
  /// stated. draw_u: of reals.
  std::optional<Draw> draw_at(std::size_t row) const;
  std::optional<std::optional<double>> draw_u_at(std::size_t row) const;
};

/// A context shift: before any other token is read, positions [keep, keep + discard) of the cache are dropped.
struct ShiftEvent {
  std::int64_t sequence = 0;
  std::int64_t tokens_read = 0;  // of the text, when it happens
  std::int64_t keep = 0;
  std::int64_t discard = 0;
};

/// Counts of a sequence, as its end states them (ref/decoding/trace.h).
struct StatedCounts {
  std::optional<int> rounds, iterations, drafted, accepted, mismatches, all_accepted, batched, serial;
};

struct EndEvent {
  std::int64_t sequence = 0;
  Finish reason = Finish::unfinished;
  std::string other;  // NAME of the reason "other:NAME"; the reason above is then unfinished
  std::optional<std::int64_t> emitted_count;
  std::optional<std::vector<Token>> emitted;
  std::optional<StatedCounts> statistics;
  std::string digest;  // sha256 of all lines before; empty when not stated
};

struct Event {
  long line = 0;
  std::variant<Header, SequenceEvent, RoundEvent, ShiftEvent, EndEvent> what;
};

/// Returns the digest of a set of tokens: XXH3-128 of their ids, ascending, each a little-endian int32.
Fingerprint fingerprint_of(const TokenSet& tokens, int vocabulary);

/// "[4,7]".
std::string listed(const std::vector<Token>& tokens);

}  // namespace draftproof::spectrace

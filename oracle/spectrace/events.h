// SPDX-License-Identifier: MIT
// What a trace file of the format spectrace/1 says, line by line; docs/spectrace.md is its schema. A line is a Header,
// an Opening of a sequence, a Step (one round) or an Ending. Whatever is optional there may be absent here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ref/acceptance/random_source.h"
#include "ref/acceptance/distribution.h"
#include "ref/acceptance/sampling.h"
#include "ref/base/digest.h"
#include "ref/base/token.h"
#include "ref/decoding/trace.h"

namespace draftproof::spectrace {

inline constexpr const char* schema_name = "spectrace/1";
inline constexpr const char* our_generator = "philox4x32-10";  // PhiloxSource, by key

/// How draft tokens are judged. greedy: by the target's best token, without chance. block: by block verification. lossy: by
/// a rule that does not promise the target's law.
enum class Judging : std::uint8_t { matching, rejection, greedy, block, lossy };
const char* name_of(Judging judging) noexcept;

/// Where the token after the draft tokens comes from: residual of a refusal, the target's own draw that a draft token did not
/// match, the row after all draft tokens, the best token.
enum class Last : std::uint8_t { residual, own, bonus, greedy };
const char* name_of(Last last) noexcept;  // "res", "own", "bonus", "greedy"

/// How the drafts of a sequence are judged.
struct JudgedBy {
  Judging rule = Judging::rejection;
  std::string loss;               // name of a rule that is lossy
  std::string name() const;       // as a trace has it
};

struct Header {
  std::string engine;
  std::string weights;            // as the engine names them; empty when it does not
  int vocabulary = 0;
  std::optional<JudgedBy> judged_by;  // of sequences that do not say it themselves
  std::uint64_t total = 0;        // of every row's integer weights; 0: weights and coins are reals
  double unit = 0x1p-23;          // rounding unit of the reals
  std::string generator;          // of coins; empty when not said
  std::optional<std::uint64_t> seed;
  int coin_bits = 0;              // of every coin, as the engine states them; 0: not said
  std::string rows;               // name of the file beside the trace that holds rows; empty when there is none

  bool coins_follow() const noexcept { return seed && total > 0 && generator == our_generator; }
};

struct Opening {
  std::int64_t sequence = 0;      // its name in this file
  std::int32_t key = 0;           // its number in random keys
  JudgedBy judged_by;
  std::vector<Token> prompt;
  Sampling sampling;
  /// Samplers in the order in which they were applied, as the engine names them; none: not said.
  std::optional<std::vector<std::string>> order;
  std::optional<std::vector<Token>> stops;
  bool stop_strings = false;              // texts may end the sequence, too
  bool stop_emitted = true;               // else a stop token is not part of the text
  std::optional<std::int64_t> budget;     // most tokens to be emitted
  std::optional<std::int64_t> draft_max;  // most draft tokens per round
  std::optional<Verification> verification;
  std::string draft;
  std::string kernels;
  std::string numerics;
  bool logprobs_after_sampling = false;           // of the law that tokens are drawn from, else of the logits as they are
};

/// A weight or a coin: an integer where the header has a total, else a real.
struct Quantity {
  std::uint64_t whole = 0;
  double real = 0;
};

/// Real weights of the tokens that have one, tokens ascending.
struct RealRow {
  std::vector<Token> tokens;
  std::vector<double> weights;
  double weight(Token token) const;  // 0 when absent
};

/// A draw from integer weights: the coin, below `bound`, falls on the token that has [before, before + weight).
struct Draw {
  Token token = 0;
  std::optional<std::uint64_t> coin;  // none when nothing was asked: one token has all the weight
  std::uint64_t bound = 0;
  std::uint64_t before = 0;           // weight of smaller tokens
  std::uint64_t weight = 0;
  std::optional<std::uint64_t> p;     // of a residual draw: weight = p - q
  std::optional<std::uint64_t> q;
};

/// The two best tokens of a row, the best first.
struct Best {
  Token first = 0;
  Token second = 0;
  double first_logit = 0;
  double second_logit = 0;
};

/// What no engine should say, in a line that can be read: a probability of NaN, a token of -1.
struct Fault {
  const char* check = "";  // token, number
  std::string field;
  std::string observed;
};

/// Positions of the keys that were asked, by purpose: each once, ascending.
struct KeysAsked {
  std::vector<std::int64_t> positions[4];
  std::vector<std::int64_t>& of(Purpose purpose) { return positions[static_cast<std::size_t>(purpose)]; }
  const std::vector<std::int64_t>& of(Purpose purpose) const { return positions[static_cast<std::size_t>(purpose)]; }
  void add(Purpose purpose, std::int64_t position);
  bool operator==(const KeysAsked&) const = default;
};

struct Step {
  std::int64_t sequence = 0;
  std::int64_t round = 0;
  std::int64_t position = 0;       // of the first token decided
  std::vector<Token> emitted;

  bool judged = false;             // the four below are there
  std::vector<Token> draft_tokens;
  int accepted = 0;                // draft tokens that stand
  int width = 0;                   // rows of the target's pass
  Last last = Last::bonus;

  std::optional<std::vector<Quantity>> q;                     // of every draft token
  std::optional<std::vector<Quantity>> p;                     // of the draft tokens judged, or of all
  std::optional<std::vector<std::optional<Quantity>>> coins;  // below q; matching: the target's, of draft tokens that stand
  std::optional<std::vector<std::uint64_t>> before;         // matching: weight before the draft tokens that stand
  std::optional<std::vector<std::optional<Quantity>>> draft_coins;
  std::optional<std::vector<std::uint64_t>> draft_before;
  // The token after the draft tokens that stand: of integer weights all about it, emitted or cut; of reals its coin.
  std::optional<Draw> next;
  std::optional<std::optional<double>> next_coin;

  std::optional<KeysAsked> keys;
  std::vector<Best> best;                  // of row 0, 1, ...
  std::vector<Fingerprint> logits;         // the same rows
  std::vector<Fingerprint> targets;
  std::vector<Fingerprint> drafts;         // of every draft token's q
  std::vector<double> logprobs;            // of the tokens emitted
  std::vector<RealRow> top_logprobs;       // of some tokens, for each token emitted: log-probabilities, not weights
  std::vector<Distribution> target_rows;   // of row 0, 1, ...; of a round of tokens only, of every token emitted
  std::vector<Distribution> draft_rows;    // of every draft token
  std::vector<RealRow> target_reals;       // the same of reals
  std::vector<RealRow> draft_reals;

  std::vector<Fault> faults;               // then what is named there is not what the engine meant
};

struct Ending {
  std::int64_t sequence = 0;
  Finish reason = Finish::unfinished;
  std::string other;                       // reason "other:NAME": the name, and the reason above is unfinished
  std::optional<std::int64_t> count;       // tokens emitted
  std::optional<std::vector<Token>> emitted;
  std::optional<Statistics> statistics;    // counts only
  std::string digest;                      // sha256 of all lines before; empty when not said
};

struct Event {
  long line = 0;
  std::variant<Header, Opening, Step, Ending> what;
};

}  // namespace draftproof::spectrace

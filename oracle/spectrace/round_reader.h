// SPDX-License-Identifier: MIT
// Reads a line of type "round". A value that no right engine states is kept as an ImpossibleValue, with a harmless
// value in its place, since it is the engine's fault and not the file's.
#pragma once

#include <utility>
#include <vector>

#include "oracle/spectrace/line_reader.h"
#include "oracle/spectrace/rows_file.h"

namespace draftproof::spectrace {

class RoundReader : LineReader {
 public:
  /// `rows`: null where the header names no file of rows. `rule`, `hides_stop_tokens`, `masked`: of the
  /// round's sequence.
  RoundReader(const Header& header, RowsReader* rows, AcceptanceRule rule, bool hides_stop_tokens, bool masked)
      : LineReader(header), rows_(rows), rule_(rule), hides_stop_tokens_(hides_stop_tokens), masked_(masked) {}

  /// Throws Error when the line is not a well-formed round. Call once.
  RoundEvent read(const Json& line);

 private:
  // round_reader.cpp: what was drafted, accepted and emitted, and the numbers that decided it.
  void read_acceptance(const Json& line);
  void read_tree(const Json& line);
  template <class Value>
  void order_by_walk(std::vector<Value>& of_draft_tokens) const;
  std::size_t min_of_q() const;
  std::size_t min_of_p() const;
  std::size_t max_of_p() const;
  std::size_t max_of_p_rows() const;
  void read_weights(const Json& line);
  void read_random_numbers(const Json& line);
  void read_next(const Json& line);
  void fault(const char* check, const std::string& field, std::size_t place, const std::string& observed);
  std::vector<Token> engines_tokens(const Json& list, const char* name);
  double engines_real(const Json& value, const char* name, std::size_t place, bool below_1 = false);
  std::optional<std::uint64_t> u_below(const Json& value, std::uint64_t bound) const;
  std::vector<StatedNumber> weights(const Json& list, const char* name);
  std::vector<std::uint64_t> integer_weights(const Json& list) const;
  template <class Bound>
  std::vector<std::optional<StatedNumber>> random_numbers(const Json& list, const char* name, const Bound& bound);
  Draw draw(const Json& value) const;

  // round_reader_rows.cpp: rows, digests, logits, log-probabilities.
  void read_digests(const Json& line);
  void read_p_rows(const Json& line, std::size_t min, std::size_t max);
  void read_q_rows(const Json& line);
  void read_allowed(const Json& line, std::size_t min, std::size_t max);
  AllowedTokens allowed_tokens(const Json& value) const;
  void read_rows(const Json& line, const char* name, std::size_t min, std::size_t max,
                 std::vector<Distribution>& integers, std::vector<RealRow>& reals);
  Distribution row(const Json& list) const;
  RealRow real_row(const Json& list, const char* name);
  void read_logprobs(const Json& line);
  void read_positions(const Json& line);
  void read_top_logprobs(const Json& lists);
  double logprob(const Json& value, const char* name, std::size_t place);
  static RngPositions rng_positions(const Json& value);
  TopTwo top_two(const Json& list) const;

  RowsReader* rows_;
  AcceptanceRule rule_;
  bool hides_stop_tokens_;
  bool masked_;
  std::vector<std::size_t> walk_;  // of a tree: place in the line of the draft token at each place of the walk
  RoundEvent round_;
};

/// Puts what is stated of each draft token into the order of the walk. Of a chain that is the order of the line.
template <class Value>
void RoundReader::order_by_walk(std::vector<Value>& of_draft_tokens) const {
  if (walk_.empty() || of_draft_tokens.empty()) return;
  std::vector<Value> ordered;
  for (const std::size_t place : walk_) ordered.push_back(std::move(of_draft_tokens[place]));
  of_draft_tokens = std::move(ordered);
}

}  // namespace draftproof::spectrace

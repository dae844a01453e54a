// SPDX-License-Identifier: MIT
// Writes runs of this project's decoder as spectrace/2, round by round while they happen, and keeps nothing of a round.
// The decoder does not record its random numbers: each follows from the seed, its key and its bound.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/spectrace/events.h"
#include "oracle/spectrace/rows_file.h"
#include "ref/acceptance/rule.h"
#include "ref/base/sha256.h"
#include "ref/decoding/trace.h"

namespace draftproof::spectrace {

class Writer {
 public:
  /// Without a file of rows, rows of at most this many tokens are written into the line.
  static constexpr std::size_t row_tokens_max = 64;

  /// Receives each line, with its newline.
  using Take = std::function<void(std::string_view)>;

  /// Runs draw from PhiloxSource(seed). `weights`: as Target::weights names them. `rows`, unless null, receives every
  /// row and outlives the writer. Writes the header at once.
  Writer(Take take, const std::string& engine, const std::string& weights, int vocabulary, const Rule& rule,
         std::uint64_t seed, RowsWriter* rows = nullptr);

  /// Names of what computes a run, the strings that end its text beside the stop tokens, and the grammar of a request
  /// that has a constraint, in GBNF; without it the constraint is only named.
  struct Setup {
    std::string draft;
    std::string kernels;
    std::string numerics;
    std::vector<std::string> stop_strings = {};
    std::string grammar = {};
  };
  /// Begins the next run, which becomes a sequence of its own.
  void begin(Setup setup);
  /// Writes the last round of `trace`, which must have been recorded with its rows.
  void add_round(const Trace& trace);
  /// Writes the end of the run, unless it is unfinished.
  void end(const Trace& trace);

 private:
  class Coins;
  void open(const Trace& trace);
  void add_line(const std::string& line);
  /// Writes the context shifts before a token is read of which `tokens_read` others were read.
  void add_shifts(const Request& request, int tokens_read);
  std::string draft_text(const Round& round, Coins& coins) const;
  std::string verified_text(const Round& round, const std::vector<int>& path, Coins& coins) const;
  std::string next_text(const Round& round, Coins& coins) const;
  std::string residual_draw(const Round& round, std::size_t row, int draft_token, Token drawn, Coins& coins) const;
  std::string rows_text(const Round& round);

  Take take_;
  RowsWriter* rows_file_;
  AcceptanceRule rule_;
  Purpose draft_noise_;
  PhiloxSource random_;
  Sha256 digest_;
  Setup setup_;
  std::int64_t sequence_ = -1;
  std::int64_t rounds_ = 0;  // of this sequence
  int dropped_ = 0;          // positions, by context shifts that are written
  bool opened_ = false;
};

}  // namespace draftproof::spectrace

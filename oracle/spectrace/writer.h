// SPDX-License-Identifier: MIT
// Writes runs of this project's decoder as spectrace/1, round by round while they happen: nothing of a round remains
// here. What the decoder cannot know it need not record: every coin follows from the seed, its key and its bound.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "oracle/spectrace/events.h"
#include "oracle/spectrace/rows_file.h"
#include "ref/acceptance/rule.h"
#include "ref/base/sha256.h"
#include "ref/decoding/trace.h"

namespace draftproof::spectrace {

class Writer {
 public:
  /// Where rows have no file of their own, those of at most so many tokens are written into the line.
  static constexpr std::size_t row_tokens_max = 64;

  /// Where lines go, each with its newline.
  using Take = std::function<void(std::string_view)>;

  /// Runs are drawn with PhiloxSource(seed). `weights`: as Target::weights names them. `rows`, where there is one, gets
  /// every row, and outlives the writer. The first line is taken at once.
  Writer(Take take, const std::string& engine, const std::string& weights, int vocabulary, const Rule& rule,
         std::uint64_t seed, RowsWriter* rows = nullptr);

  /// How a run is made, as it names it.
  struct Way {
    std::string draft;
    std::string kernels;
    std::string numerics;
  };
  /// The next run begins, a sequence of its own.
  void begin(Way way);
  /// A round was recorded: the last of the trace, which is watched with its rows.
  void add_round(const Trace& trace);
  void end(const Trace& trace);

 private:
  void open(const Request& request);
  void add_line(const std::string& line);
  std::string rows_text(const Round& round);

  Take take_;
  RowsWriter* rows_file_;
  Judging judging_;
  Purpose draft_noise_;
  PhiloxSource random_;
  Sha256 digest_;
  Way way_;
  std::int64_t sequence_ = -1;
  std::int64_t rounds_ = 0;  // of this sequence
  bool opened_ = false;
};

}  // namespace draftproof::spectrace

// SPDX-License-Identifier: MIT
// The statistics of a run as text and as JSON, and JSON as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "kernels/ranks.h"
#include "ref/decoding/gate.h"
#include "ref/decoding/trace.h"

namespace draftproof {

/// `draft`: its name; the stages of several are shown one by one.
std::string statistics_text(const Trace& trace, Gate gate, const std::string& draft);
nlohmann::ordered_json statistics_json(const Trace& trace, const std::string& draft);

/// Returns the warning that a draft which serves `reach` positions (Engine::draft_reach) does not draft all of this
/// text; empty when it does.
std::string short_draft_text(int reach, const Request& request);

/// The shares of draft tokens that became output, by depth, among the rounds that had one there: "0.91 0.83 0.71".
std::string accepted_by_depth_text(const StageStatistics& stage);

/// What ranks exchange for the tokens behind the first round, which also reads the prompt.
class RankTraffic {
 public:
  /// nullptr: there is one process.
  explicit RankTraffic(const Ranks* ranks) : ranks_(ranks) {}

  void add_round(const Trace& so_far);
  /// A line; empty for one process, and of one round.
  std::string text() const;

 private:
  const Ranks* ranks_;
  Ranks::Traffic begin_ = {};
  Ranks::Traffic end_ = {};
  std::size_t tokens_before_ = 0;  // of the first round
  std::size_t tokens_ = 0;
};

/// Returns the JSON indented, with a newline at its end. File names need not be UTF-8: other bytes become U+FFFD.
std::string dumped(const nlohmann::ordered_json& json);

}  // namespace draftproof

// SPDX-License-Identifier: MIT
#include "tools/statistics.h"

#include <fmt/format.h>

#include "ref/drafts/draft_spec.h"
#include "ref/drafts/drafts.h"

namespace draftproof {

namespace {

/// The name of every stage that has statistics.
std::vector<std::string> stage_names(const Trace& trace, const std::string& draft, std::size_t stages) {
  std::vector<std::string> names = trace.own_stages;
  const DraftSpec spec = parse_draft_spec(draft);
  for (std::size_t i = 0; names.size() < stages; ++i) {
    names.push_back(spec.stages.at(i).name_with(spec.stages.at(i).path));
  }
  return names;
}

/// What rounds with draft tokens gave beside those without. Empty where a tuner did not measure both.
std::string worth_of_drafting_text(const Trace& trace) {
  struct Rounds {
    int count = 0;
    double tokens = 0;
    double seconds = 0;
  } drafted, plain;
  for (const Round& round : trace.rounds) {
    if (!round.seconds) continue;
    Rounds& kind = round.proposal.size() > 0 ? drafted : plain;
    ++kind.count;
    kind.tokens += static_cast<double>(round.emitted.size());
    kind.seconds += round.seconds->verify + round.seconds->draft;
  }
  if (drafted.count == 0 || plain.count == 0 || drafted.seconds <= 0 || plain.seconds <= 0) return "";
  const double tokens = drafted.tokens / drafted.count;
  const double times = (drafted.seconds / drafted.count) / (plain.seconds / plain.count);
  return fmt::format(
      "{} round{} with draft tokens gave {:.2f} tokens each in {:.2f} times the time of others: they "
      "{}\n",
      drafted.count, drafted.count == 1 ? "" : "s", tokens, times, tokens > times ? "paid" : "did not pay");
}

}  // namespace

std::string short_draft_text(int reach, const Request& request) {
  const std::size_t text = request.prompt.size() + static_cast<std::size_t>(request.max_new_tokens);
  if (text <= static_cast<std::size_t>(reach)) return "";
  return fmt::format(
      "the draft serves {} positions and the text may have {}: behind the draft's last one it is decoded "
      "plainly",
      reach, text);
}

std::string accepted_by_depth_text(const StageStatistics& stage) {
  std::string text;
  for (std::size_t depth = 0; depth < stage.drafted_by_depth.size(); ++depth) {
    text += fmt::format("{}{:.2f}", depth == 0 ? "" : " ",
                        static_cast<double>(stage.accepted_by_depth[depth]) / stage.drafted_by_depth[depth]);
  }
  return text;
}

std::string statistics_text(const Trace& trace, Gate gate, const std::string& draft) {
  const Statistics& s = trace.statistics;
  const double seconds = s.decode_seconds();
  std::string text =
      fmt::format("{} tokens in {} rounds, {:.2f} tokens per round, {:.1f} tokens/s with {} thread{}, finished by {}\n",
                  trace.output.size(), s.rounds, trace.tokens_per_round(),
                  seconds > 0 ? static_cast<double>(trace.output.size()) / seconds : 0.0, trace.threads,
                  trace.threads == 1 ? "" : "s", name_of(trace.finish));
  if (gate != Gate::open && trace.own_stages.empty())
    return text + fmt::format("speculation is off: {}\n", name_of(gate));
  text += fmt::format(
      "{} draft tokens verified, {} accepted: acceptance rate {:.3f}, mean accepted length {:.2f}\n"
      "{} rounds with draft tokens ({} batched, {} serial): {} with a rejection, {} all accepted{}\n"
      "target {:.1f} ms, draft {:.1f} ms, acceptance rule {:.1f} ms, prefill {:.1f} ms\n",
      s.drafted, s.accepted, s.acceptance(), s.average_accepted(), s.iterations, s.batched, s.serial, s.mismatches,
      s.all_accepted, s.redecoded > 0 ? fmt::format("; {} rows read again", s.redecoded) : "", 1e3 * s.target_seconds,
      1e3 * s.draft_seconds, 1e3 * s.validate_seconds, 1e3 * s.prompt_seconds);
  if (const int rounds = rounds_beyond_draft(trace); rounds > 0) {
    text += fmt::format("{} rounds behind the draft's {} positions\n", rounds, trace.draft_reach);
  }
  text += worth_of_drafting_text(trace);
  const std::vector<StageStatistics> stages = statistics_by_stage(trace);
  const std::vector<std::string> names = stage_names(trace, draft, stages.size());
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageStatistics& stage = stages[i];
    text += fmt::format("{}: {} drafts, {} of {} draft tokens accepted, {:.2f} tokens per draft", names[i],
                        stage.drafts, stage.accepted, stage.drafted, stage.tokens_per_draft());
    if (stage.drafts > 0) text += fmt::format("; accepted by depth {}", accepted_by_depth_text(stage));
    text += fmt::format("; begin {:.1f} ms, draft {:.1f} ms, accept {:.1f} ms\n", 1e3 * stage.times.begin,
                        1e3 * stage.times.draft, 1e3 * stage.times.accept);
    text += fmt::format("  asked in {} rounds, silent in {}; {} positions of the text read{}\n", stage.times.asked,
                        stage.times.silent, stage.positions,
                        stage.passed > 0 ? fmt::format(", {} of them passed by a window", stage.passed) : "");
  }
  return text;
}

void RankTraffic::add_round(const Trace& so_far) {
  if (ranks_ == nullptr) return;
  end_ = ranks_->traffic();
  tokens_ = so_far.output.size();
  if (so_far.rounds.size() > 1) return;
  begin_ = end_;
  tokens_before_ = tokens_;
}

std::string RankTraffic::text() const {
  if (tokens_ == tokens_before_) return "";
  const auto tokens = static_cast<double>(tokens_ - tokens_before_);
  return fmt::format("{} ranks: {:.1f} messages and {:.0f} bytes per token\n", ranks_->count(),
                     static_cast<double>(end_.messages - begin_.messages) / tokens,
                     static_cast<double>(end_.bytes - begin_.bytes) / tokens);
}

std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

nlohmann::ordered_json statistics_json(const Trace& trace, const std::string& draft) {
  const Statistics& s = trace.statistics;
  nlohmann::ordered_json json = {
      {"rounds", s.rounds},
      {"iterations", s.iterations},
      {"drafted", s.drafted},
      {"accepted", s.accepted},
      {"mismatches", s.mismatches},
      {"all_accepted", s.all_accepted},
      {"batched", s.batched},
      {"serial", s.serial},
      {"redecoded", s.redecoded},
      {"beyond_draft", rounds_beyond_draft(trace)},
      {"acceptance_rate", s.acceptance()},
      {"mean_accepted", s.average_accepted()},
      {"tokens_per_round", trace.tokens_per_round()},
      {"target_seconds", s.target_seconds},
      {"draft_seconds", s.draft_seconds},
      {"validate_seconds", s.validate_seconds},
      {"prompt_seconds", s.prompt_seconds},
      {"drafters", nlohmann::ordered_json::array()},
  };
  const std::vector<StageStatistics> stages = statistics_by_stage(trace);
  const std::vector<std::string> names = stage_names(trace, draft, stages.size());
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageStatistics& stage = stages[i];
    json["drafters"].push_back({{"draft", names[i]},
                                {"asked", stage.times.asked},
                                {"silent", stage.times.silent},
                                {"failed", stage.times.failed},
                                {"drafts", stage.drafts},
                                {"drafted", stage.drafted},
                                {"accepted", stage.accepted},
                                {"tokens_per_draft", stage.tokens_per_draft()},
                                {"drafted_by_depth", stage.drafted_by_depth},
                                {"accepted_by_depth", stage.accepted_by_depth},
                                {"positions", stage.positions},
                                {"positions_passed", stage.passed},
                                {"begin_seconds", stage.times.begin},
                                {"draft_seconds", stage.times.draft},
                                {"accept_seconds", stage.times.accept}});
  }
  return json;
}

}  // namespace draftproof

// SPDX-License-Identifier: MIT
#include "oracle/spectrace/control.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "kernels/math64.h"
#include "oracle/checks/acceptance_statistics.h"
#include "oracle/plain/plain.h"
#include "oracle/sequential/e_process.h"
#include "oracle/sequential/rare_events.h"
#include "oracle/sequential/rounded_distribution.h"
#include "oracle/spectrace/nearby_distribution.h"
#include "oracle/spectrace/plain_reader.h"
#include "oracle/spectrace/reader.h"
#include "ref/base/error.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

/// The slacks that a control's tokens are bet against.
constexpr std::array<double, 8> sizes = {1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2};
constexpr double quiet = 100;              // e-value: a right engine reaches it in one control of a hundred
constexpr double granted_slack_max = 0.1;  // of numerics: bf16 weights and activations need 0.03
constexpr double granted_tie_max = 4;      // logits: half of what no numerics explain
constexpr std::size_t tokens_min = 100;    // of a kind, to rest on them
constexpr double rarely = 1e-6;            // how often a right engine's greedy token may lie beyond the tie
constexpr double bets_on_row_max = 0.25;   // slack of a row; with more it excludes too little to bet on it
constexpr std::size_t kept_readers = 8;    // of open sequences, with what their caches hold

double largest(const std::vector<double>& values) { return values.empty() ? 0 : *std::ranges::max_element(values); }

/// Returns how likely another token a gap below is where the error of a difference is logistic with this scale.
double exchange(double gap, double scale) { return 1 / (1 + exp64(gap / scale)); }

}  // namespace

/// The bets on sampled tokens at one size of slack.
struct Control::Sampled {
  EProcess tokens;
  RareEvents points;

  Sampled(int vocabulary, double slack) : tokens({vocabulary, 1 / quiet, slack}) {}
  double e_value() const { return std::max(tokens.e_value(), points.e_value()); }
};

/// One open sequence.
struct Control::Reading {
  SequenceEvent declared;
  std::vector<Token> text;
  std::unique_ptr<PlainReader> reader;  // null: it is left out
  bool greedy = false;
};

Control::Control(const std::string& file, const TraceTarget& target) : Control(file, target, false) {}

Control::Control(const std::string& file, const TraceTarget& target, bool of_itself)
    : file_(file), e_values_(sizes.size(), std::numeric_limits<double>::infinity()) {
  // Most engines are quiet at the smallest slack; the others cost as much again, each.
  read(target, of_itself, 0, 1);
  if (!of_itself && e_values_.front() >= quiet) read(target, of_itself, 1, sizes.size());
}

/// Reads the trace, and bets on its tokens with the sizes [first, last); from the second time on does nothing else.
void Control::read(const TraceTarget& target, bool of_itself, std::size_t first, std::size_t last) {
  const bool again = first > 0;
  Reader lines(file_);
  const Header header = lines.header();
  if (header.vocabulary != target.vocabulary) {
    throw Error(in_quotes(file_) + " has a vocabulary of " + std::to_string(header.vocabulary) +
                ", the target one of " + std::to_string(target.vocabulary) + "; give a trace of the same model");
  }
  const std::shared_ptr<Model> model = target.computing_anyhow();
  const std::shared_ptr<const Twin> twin = target.exact ? target.twin() : nullptr;
  std::vector<Sampled> bets;
  for (std::size_t k = first; k < last; ++k) bets.emplace_back(header.vocabulary, sizes[k]);
  std::map<std::int64_t, Reading> open;

  const auto bet = [&](const Reading& sequence, const std::vector<std::string>& order, Token token) {
    const SequenceEvent& declared = sequence.declared;
    for (std::size_t k = 0; k < bets.size(); ++k) {
      const double slack = sizes[first + k];
      if (bets[k].e_value() >= quiet) continue;  // it is too small
      const auto near = nearby_distribution(sequence.reader->logits(), declared.sampling, order, sequence.text, slack);
      if (!near) return;
      NextToken next{near->p, near->slack};
      if (declared.hides_stop_tokens()) {
        const auto others = without(near->p, *declared.stop_tokens, near->slack);
        if (!others) return;
        next = *others;
      }
      const bool other = next.p.weight(token) == 0;
      if (next.slack >= bets_on_row_max) continue;
      if (next.p.is_point()) bets[k].points.observe(next.slack, other);
      else bets[k].tokens.observe(next.p, nullptr, token, {sequence.text, {}, next.slack});
    }
    if (!again) ++sampled_;
  };
  const auto compare_row = [&](const Reading& sequence, const std::vector<std::string>& order,
                               const Distribution& stated, double rounding) {
    const auto slack_of = [&](double slack) {
      return nearby_distribution(sequence.reader->logits(), sequence.declared.sampling, order, sequence.text, slack);
    };
    for (const double size : sizes) {
      const auto near = slack_of(size);
      if (!near) return;
      const double apart = static_cast<double>(Distribution::total - overlap(stated, near->p)) /
                           static_cast<double>(Distribution::total);
      if (!cuts(sequence.declared.sampling)) return rows_.push_back(std::max(0.0, apart - rounding));
      if (apart <= near->slack + rounding) return rows_.push_back(size);
    }
    rows_.push_back(1);
  };
  const auto compare_logprobs = [&](const Reading& sequence, const RoundEvent& round, std::size_t row) {
    if (sequence.declared.logprobs_after_sampling) return;
    double apart = -1;
    const auto compare = [&](Token token, double stated) {
      const double own = exp64(log_probability(sequence.reader->logits(), token));
      apart = std::max(apart, std::fabs(exp64(stated) - own));
    };
    if (row < round.logprobs.size()) compare(round.emitted[row], round.logprobs[row]);
    if (row < round.top_logprobs.size()) {
      const RealRow& top = round.top_logprobs[row];
      for (std::size_t i = 0; i < top.tokens.size(); ++i) compare(top.tokens[i], top.weights[i]);
    }
    if (apart >= 0) logprobs_.push_back(apart);
  };
  const auto read_round = [&](Reading& sequence, const RoundEvent& round, long line) {
    const std::vector<std::string>& order = sequence.declared.sampler_order.value_or(our_order());
    for (std::size_t row = 0; row < round.emitted.size(); ++row) {
      const Token token = round.emitted[row];
      const bool stated = row < round.p_rows.size() || row < round.p_reals.size();
      const bool wanted = !of_itself || stated || row < round.logprobs.size() || row < round.top_logprobs.size();
      const bool fits = static_cast<int>(sequence.text.size()) <= model->context();
      if (wanted && fits) {
        sequence.reader->after(sequence.text);
        if (!again) compare_logprobs(sequence, round, row);
        if (!again && !sequence.greedy && row < round.p_rows.size()) compare_row(sequence, order, round.p_rows[row], 0);
        if (!again && !sequence.greedy && row < round.p_reals.size()) {
          const RealRow& reals = round.p_reals[row];
          const RoundedDistribution of = rounded_distribution(reals.tokens, reals.weights, header.unit);
          compare_row(sequence, order, of.distribution, of.slack);
        }
        if (!of_itself && !sequence.greedy) bet(sequence, order, token);
        if (!of_itself && !again && sequence.greedy) {
          const BestToken best(sequence.reader->logits(), sequence.declared.sampling, sequence.text);
          const bool is_best = token == best.token();
          greedy_.push_back({is_best ? best.gap_to_second() : best.gap(token), is_best, line,
                             static_cast<std::int64_t>(sequence.text.size())});
        }
      }
      sequence.text.push_back(token);
    }
  };

  while (const auto event = lines.next()) {
    if (const auto* declared = std::get_if<SequenceEvent>(&event->what)) {
      Reading sequence{*declared, declared->prompt, nullptr,
                       declared->rule.kind == AcceptanceRule::greedy || declared->sampling.greedy()};
      Sampling sampling = declared->sampling;
      if (sequence.greedy) sampling.temperature = 0;
      if (!declared->grammar.empty() || !declared->adjustments.empty()) left_out_ = "their logits are adjusted";
      else
        sequence.reader = std::make_unique<PlainReader>(*model, sampling, declared->prompt.size(), nullptr, 0,
                                                        std::vector<Token>(), twin);
      open.insert_or_assign(declared->sequence, std::move(sequence));
    } else if (const auto* round = std::get_if<RoundEvent>(&event->what)) {
      if (!of_itself && !round->draft_tokens.empty()) {
        lines.fail("draft_tokens", "is not empty: this run speculates; a control is made without a draft");
      }
      Reading& sequence = open.at(round->sequence);
      if (sequence.reader && round->faults.empty()) read_round(sequence, *round, event->line);
      else sequence.reader.reset();
      if (open.size() > kept_readers && sequence.reader) sequence.reader->release();
    } else if (const auto* shift = std::get_if<ShiftEvent>(&event->what)) {
      open.at(shift->sequence).reader.reset();
      left_out_ = "their context was shifted";
    } else if (const auto* end = std::get_if<EndEvent>(&event->what)) {
      open.erase(end->sequence);
    }
  }
  for (std::size_t k = first; k < last; ++k) e_values_[k] = bets[k - first].e_value();
}

Grant Control::tie() const {
  const std::string of = "--tie auto: the control " + in_quotes(file_);
  if (greedy_.size() < tokens_min) {
    throw Error(of + " has " + std::to_string(greedy_.size()) + " greedy tokens that can be compared" +
                (left_out_.empty() ? "" : " (of some sequences " + left_out_ + ")") + "; give one of at least " +
                std::to_string(tokens_min));
  }
  const auto log_likelihood = [&](double scale, const GreedyToken* but) {
    double sum = 0;
    for (const GreedyToken& token : greedy_) {
      if (&token == but || token.gap > 700 * scale) {
        if (&token != but && !token.best) sum -= token.gap / scale;
        continue;
      }
      const double p = exchange(token.gap, scale);
      sum += log64(token.best ? 1 - p : p);
    }
    return sum;
  };
  /// The largest scale that is no thousand times less likely than the likeliest one.
  const auto upper_scale = [&](const GreedyToken* but) {
    constexpr double step = 1.05;
    std::vector<std::pair<double, double>> scales;
    double likeliest = -1e300;
    for (double scale = 1e-7; scale < 10; scale *= step) {
      scales.emplace_back(scale, log_likelihood(scale, but));
      likeliest = std::max(likeliest, scales.back().second);
    }
    double upper = scales.front().first;
    for (const auto& [scale, log] : scales) {
      if (log >= likeliest - log64(1000)) upper = scale;
    }
    return upper;
  };
  const double to_rarely = log64(1 / rarely);
  const GreedyToken* furthest = nullptr;
  long off = 0;
  for (const GreedyToken& token : greedy_) {
    off += token.best ? 0 : 1;
    if (!token.best && (furthest == nullptr || token.gap > furthest->gap)) furthest = &token;
  }
  if (furthest != nullptr && furthest->gap > upper_scale(furthest) * to_rarely) {
    throw Error(
        fmt::format("{} is itself wrong: its token at line {}, position {}, lies {:.3g} below the target's best "
                    "in logits, more than its other {} greedy tokens explain; give another control",
                    of, furthest->line, furthest->position, furthest->gap, greedy_.size() - 1));
  }
  const double scale = upper_scale(nullptr);
  Grant grant{.granted = scale * to_rarely, .basis = {}, .scale = scale};
  if (grant.granted > granted_tie_max) {
    throw Error(
        fmt::format("{} shows too little: its {} greedy tokens, {} of them not the target's best, leave a tie "
                    "of {:.3g} logits possible; give a longer one",
                    of, greedy_.size(), off, grant.granted));
  }
  grant.basis = fmt::format(
      "{} of {} greedy tokens of the control are not the target's best{}; errors of logit differences have the scale "
      "{:.2g} at most (likelihood ratio 1000), and lie beyond the tie with probability {:g}",
      off, greedy_.size(), furthest == nullptr ? "" : fmt::format(", the furthest {:.3g} below it", furthest->gap),
      scale, rarely);
  return grant;
}

Grant Control::slack() const {
  const std::string of = "--slack auto: the control " + in_quotes(file_);
  const auto quiet_size = std::ranges::find_if(e_values_, [](double e) { return e < quiet; });
  const bool enough = sampled_ >= static_cast<long>(tokens_min);
  const std::size_t direct = std::max(rows_.size(), logprobs_.size());
  if (!enough && direct < tokens_min) {
    throw Error(
        fmt::format("{} has {} sampled tokens, {} rows and {} log-probabilities that can be compared{}; give "
                    "one with at least {} of one kind",
                    of, sampled_, rows_.size(), logprobs_.size(),
                    left_out_.empty() ? "" : " (of some sequences " + left_out_ + ")", tokens_min));
  }
  if (quiet_size == e_values_.end()) {
    throw Error(fmt::format(
        "{} is further from the target than numerics explain: at a slack of {:g} its tokens have an "
        "e-value of {:.3g}; give one that was made with the sampling that it states, and states its sampler_order",
        of, sizes.back(), e_values_.back()));
  }
  const double shown = enough ? sizes[static_cast<std::size_t>(quiet_size - e_values_.begin())] : 0;
  const double furthest = std::max(largest(rows_), largest(logprobs_));
  Grant grant;
  if (direct < tokens_min) {
    grant = {
        .granted = std::max(3 * shown, 2 * furthest),
        .basis = fmt::format("three times the smallest slack at which the bets on {} sampled tokens of the control "
                             "stay quiet",
                             sampled_),
        .from_tokens = sampled_};
  } else {
    grant = {.granted = std::max(shown, 2 * furthest),
             .basis = fmt::format("twice as far as any of {} rows and {} log-probabilities of the control, and no less "
                                  "than its {} sampled tokens need",
                                  rows_.size(), logprobs_.size(), sampled_)};
  }
  if (grant.granted > granted_slack_max) {
    throw Error(
        fmt::format("{} is {:.3g} away from the target, further than numerics explain; give one that was made "
                    "with the model and the sampling that it states",
                    of, furthest));
  }
  grant.granted = std::max(grant.granted, sizes.front());
  return grant;
}

Grant Control::slack_shown_by(const std::string& file, const TraceTarget& target) {
  const Control itself(file, target, true);
  std::vector<double> apart = itself.rows_.size() >= tokens_min ? itself.rows_ : itself.logprobs_;
  if (apart.size() < tokens_min) {
    throw Error(
        fmt::format("--slack auto: {} states {} rows and {} log-probabilities that can be compared, fewer than "
                    "{}; give --control, a trace of the same engine without speculation",
                    in_quotes(file), itself.rows_.size(), itself.logprobs_.size(), tokens_min));
  }
  const auto place = static_cast<std::ptrdiff_t>(apart.size() * 9 / 10);
  std::ranges::nth_element(apart, apart.begin() + place);
  const double within = apart[static_cast<std::size_t>(place)];
  if (4 * within > granted_slack_max) {
    throw Error(
        fmt::format("--slack auto: more than one in ten of the {} rows or log-probabilities of {} lie {:.3g} "
                    "from the target's, further than numerics explain; give --control, a trace of the same "
                    "engine without speculation",
                    apart.size(), in_quotes(file), within));
  }
  return {.granted = std::max(4 * within, sizes.front()),
          .basis = fmt::format("four times what nine in ten of the {} {} of the trace itself lie within", apart.size(),
                               itself.rows_.size() >= tokens_min ? "rows" : "log-probabilities")};
}

}  // namespace draftproof::spectrace

// SPDX-License-Identifier: MIT
#include "oracle/sequential/e_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/math64.h"
#include "oracle/sequential/wealth.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr double rounding = CellBets::rounding;
constexpr double ratio_max = 8;  // of r / p, under slack

constexpr const char* names[EProcess::partitions] = {"q / p", "p", "rank", "id", "the text before"};
constexpr std::size_t by_q = 0;     // the partition that needs q
constexpr std::size_t by_text = 4;  // that needs the dropped draft tokens
constexpr const char* text_names[EProcess::text_models] = {"emits the rejected draft token", "repeats the last token",
                                                           "repeats recent tokens"};

/// Returns the least that a bet on a model can pay for any token.
constexpr double pay_min(double w, double slack) { return rounding * (1 - w) / (1 + slack * w * ratio_max); }

PositionDistributions make_distributions(const Distribution& p, const Distribution* q) {
  static constexpr std::array<std::uint64_t, token_block_size> none{};
  constexpr double unit = 1.0 / static_cast<double>(Distribution::total);
  const TokenBlocks of_p = p.blocks();
  const TokenBlocks of_q = q == nullptr ? TokenBlocks() : q->blocks();
  PositionDistributions models;
  for (std::size_t i = 0, j = 0; i < of_p.size() || j < of_q.size();) {
    const bool in_p = i < of_p.size() && (j == of_q.size() || of_p[i] <= of_q[j]);
    const bool in_q = j < of_q.size() && (i == of_p.size() || of_q[j] <= of_p[i]);
    const std::size_t first = std::size_t{in_p ? of_p[i] : of_q[j]} * token_block_size;
    const std::uint64_t* const p_here = in_p ? p.block(i++).data() : none.data();
    const std::uint64_t* const q_here = in_q ? q->block(j++).data() : none.data();
    for (std::size_t k = 0; k < token_block_size; ++k) {
      if ((p_here[k] | q_here[k]) == 0) continue;
      models.tokens.push_back(static_cast<Token>(first + k));
      models.p.push_back(static_cast<double>(p_here[k]) * unit);
      if (q != nullptr) models.q.push_back(static_cast<double>(q_here[k]) * unit);
    }
  }
  return models;
}

std::uint8_t cell_of_ratio(double p, double q) {
  constexpr double bounds[] = {0x1p-3, 0x1p-2, 0x1p-1, 0x1.6ap-1, 1, 0x1.6ap0, 2, 4, 8, 64};
  if (q == 0) return 0;
  return static_cast<std::uint8_t>(1 + (std::upper_bound(std::begin(bounds), std::end(bounds), q / p) - bounds));
}

std::uint8_t cell_of_size(double p) {
  int exponent = 0;
  std::frexp(p, &exponent);
  return static_cast<std::uint8_t>(std::clamp(-exponent, 0, EProcess::cells - 2));
}

/// Returns the places of the most likely tokens, the most likely first.
std::vector<std::size_t> likeliest(const std::vector<double>& p, std::size_t count) {
  std::vector<std::size_t> places(p.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  const auto end = places.begin() + static_cast<std::ptrdiff_t>(std::min(count, places.size()));
  std::partial_sort(places.begin(), end, places.end(),
                    [&](std::size_t a, std::size_t b) { return p[a] != p[b] ? p[a] > p[b] : a < b; });
  places.erase(end, places.end());
  return places;
}

/// How a token occurs in the text before it; the first case that holds.
enum class Echo : std::uint8_t { rejected, dropped, last, near, far, none };

/// Returns each token of the recent text or the last round once, with how it occurs.
std::vector<std::pair<Token, Echo>> echoes_of(const EProcess::Known& known) {
  std::vector<std::pair<Token, Echo>> echoes;
  echoes.reserve(2 * EProcess::looked_back);
  const auto add = [&](Token token, Echo echo) {
    const auto same = [&](const auto& other) { return other.first == token; };
    if (std::none_of(echoes.begin(), echoes.end(), same)) echoes.emplace_back(token, echo);
  };
  for (std::size_t i = 0; i < std::min(known.dropped.size(), EProcess::looked_back); ++i) {
    add(known.dropped[i], i == 0 ? Echo::rejected : Echo::dropped);
  }
  for (std::size_t back = 1; back <= std::min(known.before.size(), EProcess::looked_back); ++back) {
    add(known.before[known.before.size() - back], back == 1 ? Echo::last : back <= 4 ? Echo::near : Echo::far);
  }
  return echoes;
}

/// Returns the tokens that text model number `model` restricts p to; a token may occur twice.
std::span<const Token> restricted_to(const EProcess::Known& known, std::size_t model) {
  if (model == 0) return known.dropped.first(std::min(known.dropped.size(), std::size_t{1}));
  return known.before.last(std::min(known.before.size(), model == 1 ? std::size_t{1} : EProcess::looked_back));
}

}  // namespace

EProcess::Stakes::Stakes(const Settings& settings, const Distribution& p, const Distribution* q, const Known& known,
                         std::span<const FaultModel> models, std::optional<Token> only)
    : slack_(std::max(settings.slack, known.slack)),
      q_unknown_(q == nullptr && known.q_unknown),
      dropped_unknown_(known.dropped_unknown) {
  const PositionDistributions position = make_distributions(p, q);
  std::vector<std::size_t> possible;  // places in position.tokens of tokens with p > 0
  std::vector<double> weight;
  for (std::size_t i = 0; i < position.tokens.size(); ++i) {
    if (position.p[i] == 0) continue;
    possible.push_back(i);
    tokens_.push_back(position.tokens[i]);
    weight.push_back(position.p[i]);
  }

  const std::size_t width = (models.size() + text_models + settings.suspects.size()) * weights.size();
  if (only) first_ = place_of(*only);
  const std::size_t last = only ? first_ : never();
  pays_.assign((last + 1 - first_) * width, 1.0);
  const auto held = [&](double ratio) { return slack_ > 0 ? std::min(ratio, ratio_max) : ratio; };
  /// Sets what model number `model` pays for each token, where its ratios r / p lie between least and most. A token
  /// with p = 0, for which nothing is paid without slack, pays as the best other.
  const auto pay = [&](std::size_t model, double min, double max, const auto& ratio_of) {
    for (std::size_t w = 0; w < weights.size(); ++w) {
      const double lowered = rounding / (1 + slack_ * weights[w] * std::max(max - min, 0.0));
      for (std::size_t i = first_; i <= last; ++i) {
        const double ratio = i < never() ? ratio_of(i) : max;
        pays_[(i - first_) * width + model * weights.size() + w] = lowered * ((1 - weights[w]) + weights[w] * ratio);
      }
    }
  };
  std::vector<double> r(position.tokens.size());
  for (std::size_t model = 0; model < models.size(); ++model) {
    if (models[model].of_a_draft_token && q == nullptr) {
      for (std::size_t w = 0; w < weights.size() && q_unknown_; ++w) {
        for (std::size_t i = first_; i <= last; ++i) {
          pays_[(i - first_) * width + model * weights.size() + w] = pay_min(weights[w], slack_);
        }
      }
      continue;
    }
    models[model].distribution(position, r);
    const auto ratio_of = [&](std::size_t i) { return held(r[possible[i]] / weight[i]); };
    double max = 0;
    double min = ratio_max;
    for (std::size_t i = 0; i < tokens_.size() && slack_ > 0; ++i) {
      max = std::max(max, ratio_of(i));
      min = std::min(min, ratio_of(i));
    }
    pay(model, min, max, ratio_of);
  }
  for (std::size_t model = 0; model < text_models; ++model) {
    std::vector<std::size_t> inside;  // places
    double sum = 0;
    for (const Token token : restricted_to(known, model)) {
      const std::size_t place = place_of(token);
      if (place == never() || std::find(inside.begin(), inside.end(), place) != inside.end()) continue;
      inside.push_back(place);
      sum += weight[place];
    }
    if (model == 0 && dropped_unknown_) {
      for (std::size_t w = 0; w < weights.size(); ++w) {
        for (std::size_t i = first_; i <= last; ++i) {
          pays_[(i - first_) * width + models.size() * weights.size() + w] = pay_min(weights[w], slack_);
        }
      }
      continue;
    }
    if (inside.empty()) continue;
    const double max = held(1 / sum);
    pay(models.size() + model, inside.size() == tokens_.size() ? max : 0, max,
        [&](std::size_t i) { return std::find(inside.begin(), inside.end(), i) == inside.end() ? 0 : max; });
  }

  for (std::size_t s = 0; s < known.suspected.size(); ++s) {
    if (!known.suspected[s]) continue;
    const auto ratio_of = [&](std::size_t i) {
      constexpr double unit = 1.0 / static_cast<double>(Distribution::total);
      return held(static_cast<double>(known.suspected[s]->weight(tokens_[i])) * unit / weight[i]);
    };
    double max = 0;
    double min = ratio_max;
    for (std::size_t i = 0; i < tokens_.size() && slack_ > 0; ++i) {
      max = std::max(max, ratio_of(i));
      min = std::min(min, ratio_of(i));
    }
    pay(models.size() + text_models + s, min, max, ratio_of);
  }

  cells_.resize(tokens_.size() + 1);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const double of_q = q == nullptr ? 0 : position.q[possible[i]];
    const auto stretch = static_cast<std::int64_t>(tokens_[i]) * (cells - 1) / std::max(1, settings.vocabulary);
    cells_[i] = {cell_of_ratio(weight[i], of_q), cell_of_size(weight[i]), cells - 2,
                 static_cast<std::uint8_t>(std::clamp<std::int64_t>(stretch, 0, cells - 2)),
                 static_cast<std::uint8_t>(Echo::none)};
  }
  for (const auto& [token, echo] : echoes_of(known)) cells_[place_of(token)][4] = static_cast<std::uint8_t>(echo);
  const std::vector<std::size_t> ranked = likeliest(weight, cells - 2);
  for (std::size_t rank = 0; rank < ranked.size(); ++rank) cells_[ranked[rank]][2] = static_cast<std::uint8_t>(rank);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    for (std::size_t k = 0; k < partitions; ++k) mass_[k][cells_[i][k]] += weight[i];
  }
  cells_.back().fill(cells - 1);
}

std::size_t EProcess::Stakes::place_of(Token token) const noexcept {
  const auto place = std::lower_bound(tokens_.begin(), tokens_.end(), token);
  if (place == tokens_.end() || *place != token) return never();
  return static_cast<std::size_t>(place - tokens_.begin());
}

EProcess::EProcess(const Settings& settings, std::span<const FaultModel> models)
    : settings_(settings),
      models_(models),
      wealth_((models.size() + text_models + settings.suspects.size()) * weights.size()),
      slack_(settings.slack) {
  kept_ = 1.0 / bets();
  std::fill(wealth_.begin(), wealth_.end(), kept_);
  for (CellBets& learned : by_cell_) learned.begin_with(kept_);
}

void EProcess::observe(const Distribution& p, const Distribution* q, Token token, const Known& known) {
  const Stakes stakes(settings_, p, q, known, models_, token);
  observe(stakes, stakes.place_of(token));
}

void EProcess::observe(const Stakes& stakes, std::size_t place) {
  REQUIRE(place >= stakes.first_ && stakes.pays_.size() >= (place + 1 - stakes.first_) * wealth_.size(),
          "the stakes are for this place and the same models");
  ++observed_;
  slack_ = std::max(slack_, stakes.slack_);
  if (place == stakes.never() && stakes.slack_ == 0) impossible_ = true;
  if (impossible_ || max_ >= wealth_enough) return;

  double total[4] = {kept_, 0, 0, 0};
  const double* const pays = stakes.pays_.data() + (place - stakes.first_) * wealth_.size();
  for (std::size_t bet = 0; bet < wealth_.size(); ++bet) wealth_[bet] *= pays[bet];
  std::size_t bet = 0;
  for (; bet + 4 <= wealth_.size(); bet += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) total[lane] += wealth_[bet + lane];
  }
  for (; bet < wealth_.size(); ++bet) total[0] += wealth_[bet];
  for (std::size_t k = 0; k < partitions; ++k) {
    const bool unknown = (k == by_q && stakes.q_unknown_) || (k == by_text && stakes.dropped_unknown_);
    if (unknown) by_cell_[k].forfeit(stakes.slack_);
    else by_cell_[k].observe(stakes.mass_[k], stakes.cells_[place][k], stakes.slack_);
    for (std::size_t c = 0; c < CellBets::caution.size(); ++c) total[c] += by_cell_[k].wealth()[c];
  }
  const double wealth = (total[0] + total[1]) + (total[2] + total[3]);
  max_ = std::max(max_, wealth);
  if (observed_ % spread_interval != 0) return;

  // Spreading and learning use earlier tokens only, so they are known before the next token is.
  if (!settings_.spreads) {
    for (CellBets& learned : by_cell_) learned.learn();
    return;
  }
  const double spread = spread_share * wealth / bets();
  for (double& of_bet : wealth_) of_bet = (1 - spread_share) * of_bet + spread;
  for (CellBets& learned : by_cell_) {
    learned.share(spread_share, spread);
    learned.learn();
  }
  kept_ = (1 - spread_share) * kept_ + spread;
}

void EProcess::forfeit(double slack) {
  if (forfeited_++ == 0) before_forfeits_ = observed_;
  if (impossible_ || max_ >= wealth_enough) return;
  for (std::size_t bet = 0; bet < wealth_.size(); ++bet) {
    wealth_[bet] *= pay_min(weights[bet % weights.size()], slack);
  }
  for (CellBets& learned : by_cell_) learned.forfeit(slack);
}

std::string EProcess::suspect() const {
  std::string name = "none";
  double max = kept_;
  for (std::size_t bet = 0; bet < wealth_.size(); ++bet) {
    if (wealth_[bet] <= max) continue;
    max = wealth_[bet];
    const std::size_t model = bet / weights.size();
    if (model < models_.size()) name = models_[model].name;
    else if (model < models_.size() + text_models) name = text_names[model - models_.size()];
    else name = settings_.suspects[model - models_.size() - text_models];
  }
  for (std::size_t k = 0; k < partitions; ++k) {
    if (by_cell_[k].largest() <= max) continue;
    max = by_cell_[k].largest();
    name = std::string("tokens by ") + names[k];
  }
  return name;
}

std::vector<double> EProcess::by_bet() const {
  REQUIRE(!settings_.spreads, "wealth that was spread is no bet's own");
  std::vector<double> list = wealth_;
  for (const CellBets& learned : by_cell_) list.insert(list.end(), learned.wealth().begin(), learned.wealth().end());
  list.push_back(kept_);
  for (double& of_bet : list) {
    of_bet = impossible_ ? std::numeric_limits<double>::infinity() : of_bet / kept_;
  }
  return list;
}

std::string EProcess::name_of_bet(std::size_t bet, std::span<const FaultModel> models) {
  const std::size_t model = bet / weights.size();
  if (model < models.size()) return models[model].name;
  if (model < models.size() + text_models) return text_names[model - models.size()];
  const std::size_t partition = (bet - (models.size() + text_models) * weights.size()) / CellBets::caution.size();
  return partition < partitions ? std::string("tokens by ") + names[partition] : "none";
}

double EProcess::smallest_deviation_of(long tokens) const {
  const double of_all = smallest_deviation_of(tokens, forfeited_);
  return forfeited_ == 0 ? of_all : std::min(of_all, smallest_deviation_of(std::min(tokens, before_forfeits_), 0));
}

double EProcess::smallest_deviation_of(long tokens, long forfeited) const {
  if (tokens == 0) return 1;
  const auto n = static_cast<double>(tokens);
  const double intervals = static_cast<double>(tokens / spread_interval);
  const double needed =
      log64(bets() / settings_.alpha) + 2 * log64(100) - intervals * log64(1 - spread_share) + n * 0x1p-30;
  const double w = forfeited == 0 ? weights[0] : weights[1];
  const double lost = forfeited == 0 ? 0 : -static_cast<double>(forfeited) * log64(pay_min(w, slack_));
  const double slack = 2 * slack_;
  return std::min(1.0, (slack + std::sqrt(slack * slack + (needed + lost) / n)) / w);
}

std::optional<long> EProcess::tokens_until(double deviation) const {
  long enough_tokens = std::max(observed_, 1L);
  while (smallest_deviation_of(enough_tokens) >= deviation) {
    if (enough_tokens > tokens_max) return std::nullopt;
    enough_tokens *= 2;
  }
  long too_few = enough_tokens / 2;
  while (enough_tokens - too_few > 1) {
    const long middle = too_few + (enough_tokens - too_few) / 2;
    (smallest_deviation_of(middle) < deviation ? enough_tokens : too_few) = middle;
  }
  return std::max(enough_tokens - observed_, 0L);
}

std::string EProcess::describe() const {
  if (impossible_) {
    return fmt::format("one of {} tokens has probability 0 under the target", observed_);
  }
  if (alarm()) {
    return fmt::format(
        "e-value {:.3g} after {} tokens: the text does not have the target's distribution; this looks "
        "like '{}'",
        e_value(), observed_, suspect());
  }
  return fmt::format(
      "e-value {:.3g} after {} tokens, alarm at {:.0e}; a known fault with total variation {:.2g} would "
      "have been found with probability 0.99",
      e_value(), observed_, 1 / settings_.alpha, smallest_deviation());
}

}  // namespace draftproof

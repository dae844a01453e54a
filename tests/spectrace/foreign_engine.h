// SPDX-License-Identifier: MIT
// A decoder that shares no code with ours, and the traces it writes: of reals or of integers, under every rule, stating
// more or less, and wrong in ways that were each found in some engine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ref/acceptance/random_source.h"
#include "tests/fuzz/damage.h"
#include "tests/spectrace/support.h"

namespace draftproof::spectrace {

enum class Wrong {
  none,
  coin_of_0_accepts,  // u is 0 and the draft token is accepted, whatever p
  every_coin_0,
  one_coin_a_round,        // one u for all draft tokens
  coins_again,             // the generator restarts every 40 rounds
  coin_after_the_fact,     // u is drawn below p / q, so that nothing is rejected
  draft_is_best,           // of q; the stated coin selects it
  stale_token,             // the draft token rejected last is emitted, now and then
  repeats_last,            // the last token is emitted again, now and then
  row_of_another_context,  // tokens are drawn from rows that are not those stated
  residual_is_p,           // q is not taken away
  // of draws by race; the noise of engines has 24 or 32 bits, here 8, so that it shows in few rounds
  race_unbounded,  // noise that is 0 now and then: any token wins, whatever its weight
};

struct Foreign {
  std::string rule = "rejection";  // or matching, greedy, block, lossy:typical
  bool reals = true;
  std::string generator;           // with a seed; ours: its coins are those of the keys
  bool keys = false;               // rng_positions are stated
  bool rows = true;                // p_rows and q_rows are stated
  bool decisions = true;           // else rows alone
  float temperature = 1;           // 0: every row is a point
  bool grammar_end = false;        // the last round is cut, and the reason is named
  bool drafts_dropped = false;     // more draft tokens are drawn than are verified
  bool null_where_p_is_0 = false;  // no coin is drawn there
  bool race = false;               // tokens are drawn by an exponential race, as by Gumbel noise: without a coin
  bool peaked = false;             // each row has one likely token
  int rounds = 120;
  int vocabulary = 8;
  Wrong wrong = Wrong::none;
};

class ForeignEngine {
 public:
  ForeignEngine(const Foreign& how, std::uint64_t seed) : how_(how), seed_(seed), numbers_(seed), keyed_(seed) {}

  std::string trace() {
    Json header = {{"type", "header"},     {"schema", "spectrace/2"},
                   {"engine", "somebody"}, {"vocabulary", how_.vocabulary},
                   {"rule", how_.rule},    {"temperature", hex(how_.temperature)},
                   {"prompt", {1}},        {"stop_tokens", Json::array()}};
    if (!how_.reals) header["total_weight"] = Distribution::total;
    if (!how_.generator.empty()) header["rng"] = {{"algorithm", how_.generator}, {"seed", std::to_string(seed_)}};
    std::string text = header.dump() + "\n";
    int position = 1;
    for (int n = 0; n < how_.rounds; ++n) {
      if (how_.wrong == Wrong::coins_again && n % 40 == 0) numbers_ = Numbers(seed_);
      rows_ = Numbers(seed_ * 1000003 + static_cast<std::uint64_t>(position));
      Json step = how_.rule == "matching" ? match(position)
                  : how_.rule == "block"  ? judge_block(position)
                                          : judge(position);
      step.update({{"type", "round"}, {"round", n}, {"position", position}});
      const bool last_round = n + 1 == how_.rounds;
      if (how_.grammar_end && last_round && step["emitted"].size() > 1) {
        step["emitted"].erase(step["emitted"].size() - 1);
      }
      position += static_cast<int>(step["emitted"].size());
      last_ = step["emitted"].back().get<Token>();
      const auto accepted = step["accepted"].get<std::size_t>();
      rejected_.reset();
      if (accepted < step["draft_tokens"].size()) rejected_ = step["draft_tokens"][accepted].get<Token>();
      text += step.dump() + "\n";
    }
    return text + Json({{"type", "end"}, {"reason", how_.grammar_end ? "other:grammar" : "cancelled"}}).dump() + "\n";
  }

 private:
  using Row = std::vector<double>;  // floats, or integers below 2^53

  static std::string hex(double value) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%a", value);
    return digits;
  }
  Json said(double value) const { return how_.reals ? Json(hex(value)) : Json(static_cast<std::uint64_t>(value)); }
  static double whole_part(double value) { return static_cast<double>(static_cast<std::uint64_t>(value)); }
  double rounded(double value) const { return how_.reals ? static_cast<double>(static_cast<float>(value)) : value; }
  double total() const { return how_.reals ? 1.0 : static_cast<double>(Distribution::total); }

  Json pairs(const Row& row) const {
    Json list = Json::array();
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i] > 0) list.insert(list.end(), {static_cast<int>(i), said(row[i])});
    }
    return list;
  }

  Row row() {
    Row row(static_cast<std::size_t>(how_.vocabulary));
    double sum = 0;
    for (double& weight : row) sum += weight = static_cast<double>(rows_.below(9));
    if (how_.peaked) {
      row[rows_.below(row.size())] += 2000;
      sum += 2000;
    }
    if (sum == 0) return this->row();
    if (how_.temperature == 0) {
      const auto best = std::max_element(row.begin(), row.end()) - row.begin();
      std::fill(row.begin(), row.end(), 0.0);
      row[best] = total();
      return row;
    }
    if (how_.reals) {
      for (double& weight : row) weight = rounded(weight / sum);
      return row;
    }
    double left = total();
    for (double& weight : row) left -= weight = whole_part(weight / sum * total());
    *std::max_element(row.begin(), row.end()) += left;
    return row;
  }

  struct Draw {
    Token token = 0;
    std::optional<double> coin;
    double bound = 0, before = 0, weight = 0;
  };

  /// Draws a number in [0, 1) with 24 bits, or an integer below the bound.
  double coin(int position, Purpose purpose, double bound, int depth = 0) {
    if (how_.wrong == Wrong::every_coin_0) return 0;
    if (!how_.reals && how_.generator == our_generator && !own_numbers(purpose)) {
      asked_.add(purpose, position);
      return static_cast<double>(keyed_.below({0, position, purpose, depth}, static_cast<std::uint64_t>(bound)));
    }
    const std::uint64_t bits = numbers_.next();
    if (how_.reals) return static_cast<double>(bits >> 40) * 0x1p-24;
    return whole_part(static_cast<double>(bits >> 11) * 0x1p-53 * bound);
  }
  /// Where no ratio is involved the draft draws as it likes.
  bool own_numbers(Purpose purpose) const { return purpose == Purpose::draft && how_.rule != "rejection"; }

  Draw along(const Row& row, double coin) const {
    double sum = 0;
    for (const double weight : row) sum = rounded(sum + weight);
    Draw draw;
    draw.coin = coin;
    draw.bound = how_.reals ? 1 : sum;
    const double reach = how_.reals ? rounded(coin * sum) : coin;
    double until = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i] == 0) continue;
      draw.token = static_cast<Token>(i);
      draw.before = until;
      draw.weight = row[i];
      until = rounded(until + row[i]);
      if (reach < until) break;
    }
    if (draw.weight == sum) draw.coin.reset();
    return draw;
  }
  /// Draws the token with the least noise for its weight. -log u of a uniform number u is such noise.
  Draw draw_by_race(const Row& row) {
    Draw best;
    double min = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::uint64_t bits = numbers_.next();
      double u = static_cast<double>((bits >> 11) + 1) * 0x1p-53;
      if (how_.wrong == Wrong::race_unbounded) u = static_cast<double>((bits >> 56) + 1) * 0x1p-8;
      const double score = u == 1 ? 0 : -std::log(u) / row[i];
      if (score >= min) continue;
      min = score;
      best.token = static_cast<Token>(i);
      best.weight = row[i];
    }
    return best;
  }
  Draw draw(const Row& row, int position, Purpose purpose, int depth = 0) {
    if (how_.race) return draw_by_race(row);
    if (std::count_if(row.begin(), row.end(), [](double weight) { return weight > 0; }) == 1) return along(row, 0);
    double sum = 0;
    for (const double weight : row) sum += weight;
    return along(row, coin(position, purpose, sum, depth));
  }
  Draw draw_best(const Row& row, int position, int depth) {
    Row best(row.size());
    const auto place = static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    const double before = along(row, 0).before;
    double until = before;
    for (std::size_t i = 0; i < place; ++i) until += row[i];
    const double inside = how_.reals ? coin(position, Purpose::draft, 1, depth) * row[place]
                                     : coin(position, Purpose::draft, row[place], depth);
    return along(row, how_.reals ? std::min(until + inside, 1 - 0x1p-24) : until + inside);
  }
  Json said_coin(const std::optional<double>& coin) const { return coin ? said(*coin) : Json(nullptr); }

  struct Drafted {
    std::vector<Row> rows;
    std::vector<Draw> draws;
  };
  Drafted draft(int position, int count) {
    Drafted drafted;
    for (int j = 0; j < count; ++j) {
      drafted.rows.push_back(row());
      drafted.draws.push_back(how_.wrong == Wrong::draft_is_best
                                  ? draw_best(drafted.rows.back(), position + j, j)
                                  : draw(drafted.rows.back(), position + j, Purpose::draft, j));
    }
    if (how_.drafts_dropped) draw(row(), position + count, Purpose::draft, count);
    return drafted;
  }

  /// Adds the next token and its fields.
  void finish(Json& step, const Draw& last, const std::vector<Row>& p, const Drafted& q, std::size_t accepted,
              bool rejected) {
    Token token = last.token;
    if (how_.wrong == Wrong::stale_token && rejected_ && numbers_.below(4) == 0) token = *rejected_;
    if (how_.wrong == Wrong::repeats_last && numbers_.below(4) == 0) token = last_;
    step["emitted"].push_back(token);
    step["accepted"] = accepted;
    step["next_from"] = how_.rule == "greedy"     ? "greedy"
                        : !rejected               ? "bonus"
                        : how_.rule == "matching" ? "target"
                                                  : "residual";
    step["width"] = q.rows.size() + 1;
    if (how_.rows) {
      for (const Row& each : p) step["p_rows"].push_back(pairs(each));
      for (const Row& each : q.rows) step["q_rows"].push_back(pairs(each));
      if (q.rows.empty()) step["q_rows"] = Json::array();
    }
    if (!how_.decisions) return;
    if (how_.reals) {
      step["next_u"] = said_coin(last.coin);
    } else {
      step["next"] = {{"token", token},
                      {"u", said_coin(last.coin)},
                      {"bound", said(last.bound)},
                      {"before", said(last.before)},
                      {"weight", said(last.weight)}};
      if (rejected && how_.rule == "rejection") {
        const auto place = static_cast<std::size_t>(token);
        step["next"].update({{"p", said(p[accepted][place])}, {"q", said(q.rows[accepted][place])}});
      }
    }
    if (how_.keys) {
      step["rng_positions"] = Json::object();
      for (const Purpose purpose : {Purpose::target, Purpose::draft, Purpose::accept, Purpose::residual}) {
        if (!asked_.of(purpose).empty()) step["rng_positions"][name_of(purpose)] = asked_.of(purpose);
      }
    }
  }

  void say_drafts(Json& step, const Drafted& drafted) {
    step["draft_tokens"] = Json::array();
    for (std::size_t j = 0; j < drafted.draws.size(); ++j) step["draft_tokens"].push_back(drafted.draws[j].token);
    if (!how_.decisions) return;
    for (const char* field : {"q_draft", "draft_u"}) step[field] = Json::array();
    if (!how_.reals) step["q_before"] = Json::array();
    for (std::size_t j = 0; j < drafted.draws.size(); ++j) {
      const Draw& draw = drafted.draws[j];
      step["q_draft"].push_back(said(draw.weight));
      step["draft_u"].push_back(said_coin(draw.coin));
      if (!how_.reals) step["q_before"].push_back(said(draw.before));
    }
  }

  /// Verifies by rejection, also for the rules greedy and lossy: where rows are points all three are the same.
  Json judge(int position) {
    asked_ = {};
    const bool ratio = how_.rule != "greedy" && how_.rule.substr(0, 5) != "lossy";
    Json step = {{"emitted", Json::array()}};
    const Drafted q = draft(position, 2);
    say_drafts(step, q);
    std::vector<Row> p;
    std::size_t accepted = 0;
    bool rejected = false;
    std::optional<double> of_round;
    if (how_.decisions && ratio) step["p_draft"] = step["accept_u"] = Json::array();
    while (accepted < q.rows.size() && !rejected) {
      p.push_back(row());
      const auto draft_token = static_cast<std::size_t>(q.draws[accepted].token);
      const double of_p = p.back()[draft_token], of_q = q.rows[accepted][draft_token];
      const int at = position + static_cast<int>(accepted);
      std::optional<double> u;
      const bool asked =
          how_.reals ? !(how_.null_where_p_is_0 && of_p == 0) : of_p < of_q && !(how_.null_where_p_is_0 && of_p == 0);
      if (asked) u = coin(at, Purpose::accept, of_q);
      if (u && how_.wrong == Wrong::coin_of_0_accepts) u = 0;
      if (u && how_.wrong == Wrong::coin_after_the_fact && of_p > 0 && of_p < of_q) {
        u = how_.reals ? rounded(*u * of_p / of_q * 0.99) : whole_part(*u / of_q * of_p);
      }
      if (u && how_.wrong == Wrong::one_coin_a_round) {
        const double part = how_.reals ? *u : *u / of_q;
        if (!of_round) of_round = part;
        u = how_.reals ? *of_round : whole_part(*of_round * of_q);
      }
      const bool stays = !u ? of_p >= of_q && of_p > 0 : how_.reals ? rounded(*u * of_q) < of_p : *u < of_p;
      if (how_.decisions && ratio) {
        step["p_draft"].push_back(said(of_p));
        step["accept_u"].push_back(said_coin(u));
      }
      rejected = !stays;
      if (!rejected) step["emitted"].push_back(q.draws[accepted++].token);
    }
    if (!rejected) p.push_back(row());
    Row last = p.back();
    for (std::size_t i = 0; i < last.size() && rejected && how_.wrong != Wrong::residual_is_p; ++i) {
      last[i] = std::max(rounded(last[i] - q.rows[accepted][i]), 0.0);
    }
    if (how_.wrong == Wrong::row_of_another_context) last = row();
    const Draw next =
        draw(last, position + static_cast<int>(accepted), rejected && ratio ? Purpose::residual : Purpose::target);
    finish(step, next, p, q, accepted, rejected);
    return step;
  }

  Json match(int position) {
    asked_ = {};
    Json step = {{"emitted", Json::array()}};
    const Drafted q = draft(position, 2);
    say_drafts(step, q);
    if (how_.decisions) step["p_draft"] = step["accept_u"] = Json::array();
    if (how_.decisions && !how_.reals) step["p_before"] = Json::array();
    std::vector<Row> p;
    for (std::size_t accepted = 0;; ++accepted) {
      p.push_back(row());
      const Draw own = draw(p.back(), position + static_cast<int>(accepted), Purpose::target);
      const bool refused = accepted < q.draws.size() && own.token != q.draws[accepted].token;
      if (how_.decisions && accepted < q.draws.size()) {
        step["p_draft"].push_back(said(p.back()[q.draws[accepted].token]));
      }
      if (accepted == q.draws.size() || refused) {
        finish(step, own, p, q, accepted, refused);
        return step;
      }
      step["emitted"].push_back(own.token);
      if (!how_.decisions) continue;
      step["accept_u"].push_back(said_coin(own.coin));
      if (!how_.reals) step["p_before"].push_back(said(own.before));
    }
  }

  /// Verifies by block verification, arXiv 2403.10444, algorithm 2.
  Json judge_block(int position) {
    asked_ = {};
    Json step = {{"emitted", Json::array()}};
    const Drafted q = draft(position, 2);
    say_drafts(step, q);
    std::vector<Row> p;
    for (std::size_t i = 0; i <= q.rows.size(); ++i) p.push_back(row());
    std::size_t accepted = 0;
    double reach = 1, reach_of_accepted = 1;
    step["accept_u"] = Json::array();
    for (std::size_t i = 0; i < q.rows.size(); ++i) {
      const auto draft_token = static_cast<std::size_t>(q.draws[i].token);
      reach = std::min(reach * p[i][draft_token] / q.rows[i][draft_token], 1.0);
      double stays = reach;
      if (i + 1 < q.rows.size()) {
        double left = 0;
        for (std::size_t x = 0; x < p[i + 1].size(); ++x) {
          left += std::max(reach * p[i + 1][x] - q.rows[i + 1][x], 0.0) / total();
        }
        stays = left == 0 && reach == 1 ? 1 : left / (left + 1 - reach);
      }
      const double u = static_cast<double>(numbers_.next() >> 40) * 0x1p-24;
      step["accept_u"].push_back(how_.reals ? said(u) : said(whole_part(u * total())));
      if (u >= stays) continue;
      accepted = i + 1;
      reach_of_accepted = reach;
    }
    const bool rejected = accepted < q.rows.size();
    p.resize(accepted + 1);
    Row last = p.back();
    for (std::size_t x = 0; x < last.size() && rejected; ++x) {
      last[x] = std::max(rounded(reach_of_accepted * last[x] - q.rows[accepted][x]), 0.0);
      if (!how_.reals) last[x] = whole_part(last[x]);
    }
    for (std::size_t i = 0; i < accepted; ++i) step["emitted"].push_back(q.draws[i].token);
    Draw next = draw(last, position + static_cast<int>(accepted), Purpose::residual);
    finish(step, next, p, q, accepted, rejected);
    step.erase("next");  // its weights are those of no rule that is replayed
    return step;
  }

  Foreign how_;
  std::uint64_t seed_;
  Numbers numbers_;
  Numbers rows_{0};
  PhiloxSource keyed_;
  RngPositions asked_;
  std::optional<Token> rejected_;
  Token last_ = 1;
};

}  // namespace draftproof::spectrace

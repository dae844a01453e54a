// SPDX-License-Identifier: MIT
// A right engine, and the traces that it can write of one and the same run: rows and coins everywhere, only where a
// rejection needs them, or of some sequences; stop tokens written or hidden; sessions whose generators go back to the
// kept text.
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "ref/acceptance/distribution.h"
#include "tests/fuzz/damage.h"

namespace draftproof::spectrace {

enum class Where { everywhere, rejections, acceptances, long_sequences, one_in_two, nowhere };
enum class Stops {
  written,
  hidden,            // declared; a round of only a stop token is written
  hidden_unwritten,  // declared; such a round is not written, nor is a sequence of only such a round
  undeclared,        // the same, and the trace does not say so
};

struct Written {
  const char* name;
  std::string rule = "rejection";  // or matching
  Where p_rows = Where::everywhere;
  Where q_rows = Where::everywhere;
  Where accept_u = Where::everywhere;
  Where next_u = Where::everywhere;
  Where draft_u = Where::everywhere;
  Where weights = Where::everywhere;       // p_draft and q_draft
  Where draft_tokens = Where::everywhere;  // else the round states tokens only
  Stops stops = Stops::written;
  bool rewinds = false;     // after a stop the generators go back to the numbers that the text needed
  bool reseeded = false;    // the draft draws with the same numbers in every round
  bool one_stream = false;  // every request draws with the same numbers, and rng_key is left out
  bool masked = false;      // a grammar takes tokens away
  bool top = false;         // top_logprobs in place of p_rows: the two likeliest tokens, and the emitted one
  Where residual_is_p = Where::nowhere;  // everywhere: not a right engine
};

class RightEngine {
 public:
  static constexpr int vocabulary = 6;
  static constexpr Token stop = 0;
  static constexpr int longest = 40;

  RightEngine(Written how, bool reals, std::uint64_t seed) : how_(std::move(how)), reals_(reals), seed_(seed) {
    Numbers numbers(seed * 31 + 7);
    for (int last = 0; last < vocabulary; ++last) {
      p_.push_back(some_row(numbers, last));
      q_.push_back(some_row(numbers, last));
    }
  }

  std::string trace(long tokens) {
    const std::string weights = reals_ ? "\"dtype\":\"f64\"" : "\"total_weight\":" + std::to_string(total);
    std::string text = "{\"type\":\"header\",\"schema\":\"spectrace/2\",\"engine\":\"right\",\"vocabulary\":6," +
                       weights + ",\"rule\":\"" + how_.rule + "\"}\n";
    long written = 0;
    for (int s = 0; written < tokens; ++s) text += sequence(s, written);
    return text;
  }

 private:
  using Row = std::array<std::uint64_t, vocabulary>;
  static constexpr std::uint64_t total = Distribution::total;

  struct Draw {
    Token token = 0;
    std::uint64_t u53 = 0, coin = 0, bound = 0, before = 0, weight = 0;
    bool drawn() const { return weight < bound; }
  };
  struct Round {
    int position = 0;
    std::vector<Token> draft_tokens, emitted;
    int accepted = 0;
    bool rejected = false;
    std::vector<Draw> drafts, matches;
    std::vector<std::uint64_t> accept;  // 53 bits
    std::vector<Row> p, q;              // of rows 0 to accepted; of every draft token
    Draw next;
  };

  /// Numbers that can be drawn again.
  struct Stream {
    std::uint64_t seed;
    std::uint64_t next = 0;
    std::uint64_t draw() {  // 53 bits, by splitmix64
      std::uint64_t mixed = seed + ++next * 0x9e3779b97f4a7c15u;
      mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
      mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
      return (mixed ^ mixed >> 31) >> 11;
    }
  };

  Row some_row(Numbers& numbers, int last) const {
    Row row{};
    std::uint64_t sum = 0;
    for (int x = 0; x < vocabulary; ++x) {
      const std::uint64_t side = how_.masked && (x + last) % 3 == 1 ? 0 : 1 + numbers.below(6);
      sum += row[x] = side * side;
    }
    std::uint64_t left = total;
    for (auto& weight : row) left -= weight = total / sum * weight;
    *std::max_element(row.begin(), row.end()) += left;
    return row;
  }
  static Draw draw(const Row& row, std::uint64_t u53) {
    Draw draw;
    for (const auto weight : row) draw.bound += weight;
    draw.u53 = u53;
    draw.coin = static_cast<std::uint64_t>((static_cast<unsigned __int128>(u53) * draw.bound) >> 53);
    for (int x = 0; x < vocabulary; ++x) {
      draw.token = x;
      draw.weight = row[x];
      if (draw.coin - draw.before < row[x]) break;
      draw.before += row[x];
    }
    return draw;
  }

  Round round(std::vector<Token>& text, int left) {
    Round r;
    r.position = static_cast<int>(text.size());
    Token last = text.back();
    Stream own{seed_ * 1009 + 5};
    for (int j = 0; j < std::min(3, left - 1); ++j) {
      r.q.push_back(q_[last]);
      r.drafts.push_back(draw(r.q.back(), (how_.reseeded ? own : draft_).draw()));
      r.draft_tokens.push_back(last = r.drafts.back().token);
    }
    last = text.back();
    for (;;) {
      const auto row = static_cast<std::size_t>(r.accepted);
      r.p.push_back(p_[last]);
      Row from = r.p.back();
      const bool drafted = row < r.draft_tokens.size();
      if (how_.rule == "matching") {
        r.next = draw(from, target_.draw());
        r.rejected = drafted && r.next.token != r.draft_tokens[row];
        if (!drafted || r.rejected) break;
        r.matches.push_back(r.next);
      } else if (drafted) {
        const std::uint64_t p = from[r.draft_tokens[row]], q = r.q[row][r.draft_tokens[row]];
        r.accept.push_back(accept_.draw());
        r.rejected = static_cast<std::uint64_t>((static_cast<unsigned __int128>(r.accept.back()) * q) >> 53) >= p;
        if (r.rejected) {
          for (int x = 0; x < vocabulary && how_.residual_is_p == Where::nowhere; ++x) {
            from[x] = from[x] > r.q[row][x] ? from[x] - r.q[row][x] : 0;
          }
          r.next = draw(from, target_.draw());
          break;
        }
      } else {
        r.next = draw(from, target_.draw());
        break;
      }
      last = r.draft_tokens[row];
      ++r.accepted;
    }
    r.emitted.assign(r.draft_tokens.begin(), r.draft_tokens.begin() + r.accepted);
    r.emitted.push_back(r.next.token);
    const auto ends = std::find(r.emitted.begin(), r.emitted.end(), stop);
    if (ends != r.emitted.end()) r.emitted.erase(ends + 1, r.emitted.end());
    text.insert(text.end(), r.emitted.begin(), r.emitted.end());
    return r;
  }

  /// Returns to the numbers that the text needed.
  void go_back(const Round& r, const std::array<std::uint64_t, 3>& before) {
    const auto kept = static_cast<std::uint64_t>(r.emitted.size());
    const auto rows = static_cast<std::uint64_t>(r.accepted) + 1;
    if (kept == rows) return;
    draft_.next = before[0] + kept;
    accept_.next = before[1] + kept;
    target_.next = before[2] + (how_.rule == "matching" ? kept : 0);
  }

  std::string sequence(int s, long& written) {
    const int session = how_.rewinds ? s / 20 : s;
    std::vector<Token> prompt{static_cast<Token>(1 + s % (vocabulary - 1))};
    if (how_.rewinds && s % 20 != 0) {
      prompt = kept_;
      prompt.push_back(static_cast<Token>(1 + s % (vocabulary - 1)));
    } else {
      const std::uint64_t seed = seed_ * 7919 + (how_.one_stream ? 0 : static_cast<std::uint64_t>(session) * 104729);
      draft_ = {seed + 1};
      accept_ = {seed + 2};
      target_ = {seed + 3};
    }
    std::vector<Token> text = prompt;
    std::vector<Round> rounds;
    const auto emitted = [&] { return static_cast<int>(text.size() - prompt.size()); };
    while (emitted() < longest && (emitted() == 0 || text.back() != stop)) {
      const std::array<std::uint64_t, 3> before = {draft_.next, accept_.next, target_.next};
      rounds.push_back(round(text, longest - emitted()));
      if (how_.rewinds) go_back(rounds.back(), before);
    }
    kept_ = text;
    const bool stopped = text.back() == stop;
    const bool hides = how_.stops != Stops::written;
    if (stopped && hides) {
      rounds.back().emitted.pop_back();
      if (rounds.back().emitted.empty() && how_.stops != Stops::hidden) rounds.pop_back();
      if (rounds.empty()) return "";
    }
    written += emitted();
    std::string lines = "{\"type\":\"sequence\",\"sequence\":" + std::to_string(s) + ",\"prompt\":" + list(prompt) +
                        (how_.one_stream ? "" : ",\"rng_key\":" + std::to_string(session)) +
                        ",\"temperature\":\"0x1p+0\",\"max_new_tokens\":" + std::to_string(longest);
    if (how_.stops != Stops::undeclared) lines += ",\"stop_tokens\":[0]";
    if (hides && how_.stops != Stops::undeclared) lines += ",\"stop_token_emitted\":false";
    if (how_.top) lines += ",\"logprobs_of\":\"p\"";
    lines += "}\n";
    for (std::size_t n = 0; n < rounds.size(); ++n) lines += line(rounds[n], s, n, emitted());
    return lines + "{\"type\":\"end\",\"sequence\":" + std::to_string(s) + ",\"reason\":\"" +
           (stopped ? "stop" : "length") + "\"}\n";
  }

  static std::string list(const std::vector<Token>& tokens) {
    std::string text = "[";
    for (const Token token : tokens) text += (text.size() > 1 ? "," : "") + std::to_string(token);
    return text + "]";
  }
  static std::string real(double value) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "\"%a\"", value);
    return digits;
  }
  std::string said(std::uint64_t weight) const {
    return reals_ ? real(static_cast<double>(weight) * 0x1p-52) : std::to_string(weight);
  }
  std::string coin(std::uint64_t u53, std::uint64_t bound) const {
    if (reals_) return real(static_cast<double>(u53) * 0x1p-53);
    return std::to_string(static_cast<std::uint64_t>((static_cast<unsigned __int128>(u53) * bound) >> 53));
  }
  std::string rows(const std::vector<Row>& rows) const {
    std::string text = "[";
    for (const Row& row : rows) {
      std::string pairs;
      for (int x = 0; x < vocabulary; ++x) {
        if (row[x] > 0) pairs += (pairs.empty() ? "" : ",") + std::to_string(x) + "," + said(row[x]);
      }
      text += (text.size() > 1 ? ",[" : "[") + pairs + "]";
    }
    return text + "]";
  }
  /// The two likeliest tokens, and the emitted one where it is neither.
  static std::string top_two(const Row& row, Token emitted) {
    std::array<int, vocabulary> ranked{};
    for (int x = 0; x < vocabulary; ++x) ranked[x] = x;
    std::stable_sort(ranked.begin(), ranked.end(), [&](int a, int b) { return row[a] > row[b]; });
    std::string text;
    for (int rank = 0; rank < vocabulary; ++rank) {
      const int x = ranked[rank];
      if (row[x] == 0 || (rank > 1 && x != emitted)) continue;
      text += (text.empty() ? "[" : ",") + std::to_string(x) + "," +
              real(__builtin_log(static_cast<double>(row[x]) * 0x1p-52));
    }
    return text + "]";
  }
  bool states(Where where, const Round& r, int s, int length) const {
    switch (where) {
      case Where::everywhere: return true;
      case Where::rejections: return r.rejected;
      case Where::acceptances: return r.accepted > 0;
      case Where::long_sequences: return length >= 8;
      case Where::one_in_two: return s % 2 == 0;
      case Where::nowhere: return false;
    }
    return false;
  }

  std::string line(const Round& r, int s, std::size_t n, int length) const {
    const auto has = [&](Where where) { return states(where, r, s, length); };
    const bool matching = how_.rule == "matching";
    std::string text = "{\"type\":\"round\",\"sequence\":" + std::to_string(s) + ",\"round\":" + std::to_string(n) +
                       ",\"position\":" + std::to_string(r.position) + ",\"emitted\":" + list(r.emitted);
    const bool drafts = has(how_.draft_tokens);
    if (has(how_.p_rows)) {
      std::vector<Row> p = r.p;
      if (!drafts) p.resize(r.emitted.size());
      text += ",\"p_rows\":" + rows(p);
    }
    if (how_.top) {
      text += ",\"top_logprobs\":[";
      for (std::size_t i = 0; i < r.emitted.size(); ++i) text += (i > 0 ? "," : "") + top_two(r.p[i], r.emitted[i]);
      text += "]";
    }
    if (!drafts) return text + "}\n";
    text += ",\"draft_tokens\":" + list(r.draft_tokens) + ",\"accepted\":" + std::to_string(r.accepted) +
            ",\"width\":" + std::to_string(r.draft_tokens.size() + 1) + ",\"next_from\":\"" +
            (!r.rejected ? "bonus"
             : matching  ? "target"
                         : "residual") +
            "\"";
    if (has(how_.q_rows)) text += ",\"q_rows\":" + rows(r.q);
    const auto values = [&](const char* name, std::size_t count, const auto& value) {
      text += ",\"" + std::string(name) + "\":[";
      for (std::size_t i = 0; i < count; ++i) text += (i > 0 ? "," : "") + value(i);
      text += "]";
    };
    const auto accepted = static_cast<std::size_t>(r.accepted);
    const std::size_t verified = std::min(accepted + 1, r.draft_tokens.size());
    const auto p_at = [&](std::size_t i) { return r.p[i][r.draft_tokens[i]]; };
    const auto q_at = [&](std::size_t i) { return r.q[i][r.draft_tokens[i]]; };
    if (has(how_.weights)) {
      values("p_draft", verified, [&](std::size_t i) { return said(p_at(i)); });
      values("q_draft", r.draft_tokens.size(), [&](std::size_t i) { return said(q_at(i)); });
      if (has(how_.accept_u) && matching) {
        values("accept_u", accepted, [&](std::size_t i) {
          return r.matches[i].drawn() ? coin(r.matches[i].u53, total) : std::string("null");
        });
        if (!reals_) values("p_before", accepted, [&](std::size_t i) { return std::to_string(r.matches[i].before); });
      } else if (has(how_.accept_u)) {
        values("accept_u", verified, [&](std::size_t i) {
          return p_at(i) >= q_at(i) || p_at(i) == 0 ? std::string("null") : coin(r.accept[i], q_at(i));
        });
      }
      if (has(how_.draft_u)) {
        values("draft_u", r.draft_tokens.size(),
               [&](std::size_t i) { return r.drafts[i].drawn() ? coin(r.drafts[i].u53, total) : std::string("null"); });
        if (!reals_) {
          values("q_before", r.draft_tokens.size(), [&](std::size_t i) { return std::to_string(r.drafts[i].before); });
        }
      }
    }
    if (has(how_.next_u)) text += next(r);
    return text + "}\n";
  }

  std::string next(const Round& r) const {
    const std::string u = r.next.drawn() ? coin(r.next.u53, r.next.bound) : "null";
    if (reals_) return ",\"next_u\":" + u;
    std::string text = ",\"next\":{\"token\":" + std::to_string(r.next.token) + ",\"u\":" + u +
                       ",\"bound\":" + std::to_string(r.next.bound) + ",\"before\":" + std::to_string(r.next.before) +
                       ",\"weight\":" + std::to_string(r.next.weight);
    if (r.rejected && how_.rule == "rejection") {
      text += ",\"p\":" + std::to_string(r.p.back()[r.next.token]) +
              ",\"q\":" + std::to_string(r.q[r.p.size() - 1][r.next.token]);
    }
    return text + "}";
  }

  Written how_;
  bool reals_;
  std::uint64_t seed_;
  std::vector<Row> p_, q_;
  std::vector<Token> kept_;
  Stream draft_{0}, accept_{0}, target_{0};
};

}  // namespace draftproof::spectrace

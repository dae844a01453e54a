// SPDX-License-Identifier: MIT
// Traces of an engine that shares no code with ours and computes in floats.
#pragma once

#include <cstdio>

#include "tests/fuzz/damage.h"
#include "tests/spectrace/support.h"

namespace draftproof::spectrace {

/// A toy engine of floats that states every decision with its random number.
class FloatEngine {
 public:
  explicit FloatEngine(std::uint64_t seed) : numbers_(seed) {}

  /// `coin` may choose another number than the one drawn, for the acceptance of a draft token with these p and q.
  using Coin = float (*)(float drawn, float p, float q);
  std::string trace(const std::string& rule, int rounds, Coin coin = nullptr) {
    const Json header = {{"type", "header"}, {"schema", "spectrace/2"}, {"engine", "floats"}, {"vocabulary", 8},
                         {"rule", rule},     {"temperature", "0x1p+0"}, {"prompt", {1}}};
    std::string text = header.dump() + "\n";
    for (int n = 0, position = 1; n < rounds; ++n) {
      const Json step = rule == "matching" ? match(n, position) : judge(n, position, coin);
      position += static_cast<int>(step["emitted"].size());
      text += step.dump() + "\n";
    }
    return text + "{\"type\":\"end\",\"reason\":\"cancelled\"}\n";
  }

 private:
  using Row = std::vector<float>;

  static std::string hex(double value) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%a", value);
    return digits;
  }
  static Json pairs(const Row& row) {
    Json list = Json::array();
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i] > 0) list.insert(list.end(), {static_cast<int>(i), hex(row[i])});
    }
    return list;
  }
  float coin() { return static_cast<float>(numbers_.next() >> 40) * 0x1p-24F; }
  Row row() {
    Row row(8);
    float sum = 0;
    for (float& weight : row) sum += weight = static_cast<float>(numbers_.below(9));
    if (sum == 0) return this->row();
    for (float& weight : row) weight /= sum;
    return row;
  }
  static Token draw(const Row& row, float coin) {
    float sum = 0;
    for (const float weight : row) sum += weight;
    float until = 0;
    Token last = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i] == 0) continue;
      last = static_cast<Token>(i);
      if (coin * sum < (until += row[i])) return last;
    }
    return last;
  }

  Json judge(int n, int position, Coin change) {
    std::vector<Row> rows_p, rows_q;
    Json d = Json::array(), q = d, p = d, u = d, qc = d, o = d, all_p = d, all_q = d;
    for (int j = 0; j < 2; ++j) {
      rows_q.push_back(row());
      const float c = coin();
      d.push_back(draw(rows_q.back(), c));
      qc.push_back(hex(c));
      q.push_back(hex(rows_q.back()[d.back().get<std::size_t>()]));
      all_q.push_back(pairs(rows_q.back()));
    }
    std::size_t accepted = 0;
    bool rejected = false;
    while (accepted < 2 && !rejected) {
      rows_p.push_back(row());
      const auto draft_token = d[accepted].get<std::size_t>();
      const float of_p = rows_p.back()[draft_token], of_q = rows_q[accepted][draft_token];
      const float drawn = coin();
      const float c = change == nullptr ? drawn : change(drawn, of_p, of_q);
      p.push_back(hex(of_p));
      u.push_back(hex(c));
      rejected = !(c * of_q < of_p);
      if (!rejected) o.push_back(d[accepted++]);
    }
    if (!rejected) rows_p.push_back(row());
    Row last = rows_p.back();
    for (std::size_t i = 0; i < last.size() && rejected; ++i) last[i] = std::max(last[i] - rows_q[accepted][i], 0.0F);
    const float c = coin();
    o.push_back(draw(last, c));
    for (const Row& each : rows_p) all_p.push_back(pairs(each));
    return {{"type", "round"},   {"round", n},           {"position", position},
            {"width", 3},        {"accepted", accepted}, {"next_from", rejected ? "residual" : "bonus"},
            {"draft_tokens", d}, {"q_draft", q},         {"draft_u", qc},
            {"p_draft", p},      {"accept_u", u},        {"next_u", hex(c)},
            {"emitted", o},      {"p_rows", all_p},      {"q_rows", all_q}};
  }

  Json match(int n, int position) {
    Json d = Json::array(), u = d, o = d, all_p = d;
    std::size_t accepted = 0;
    for (int j = 0; j < 2; ++j) d.push_back(numbers_.below(8));
    while (true) {
      const Row own = row();
      all_p.push_back(pairs(own));
      const float c = coin();
      const Token token = draw(own, c);
      o.push_back(token);
      if (accepted == 2 || d[accepted] != token) {
        const char* const last = accepted == 2 ? "bonus" : "target";
        return {{"type", "round"},      {"round", n},        {"position", position}, {"width", 3},
                {"accepted", accepted}, {"next_from", last}, {"draft_tokens", d},    {"accept_u", u},
                {"next_u", hex(c)},     {"p_rows", all_p},   {"emitted", o}};
      }
      u.push_back(hex(c));
      ++accepted;
    }
  }

  Numbers numbers_;
};

}  // namespace draftproof::spectrace

// SPDX-License-Identifier: MIT
#include "oracle/spectrace/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "ref/base/require.h"
#include "ref/base/utf8.h"

namespace draftproof::spectrace {
namespace {

/// A JSON string. What is not UTF-8 in it is lost: such names are for people, nothing depends on them.
std::string in_json(const std::string& text) {
  std::string result = "\"";
  for (const char c : utf8::replace_broken(text)) {
    if (static_cast<unsigned char>(c) < ' ' || c == '"' || c == '\\') {
      result += fmt::format("\\u{:04x}", c);
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string real(double value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "\"%a\"", value);
  return digits;
}

using Coin = std::optional<std::uint64_t>;
std::string shown(std::int64_t value) { return std::to_string(value); }
std::string shown(std::uint64_t value) { return std::to_string(value); }
std::string shown(Token value) { return std::to_string(value); }
std::string shown(const Coin& coin) { return coin ? std::to_string(*coin) : "null"; }
std::string shown(const Fingerprint& value) { return '"' + value.hex() + '"'; }
std::string shown(const Distribution& row) {
  const auto tokens = row.tokens();
  const auto weights = row.weights();
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    text += fmt::format("{}{},{}", i > 0 ? "," : "", tokens[i], weights[i]);
  }
  return '[' + text + ']';
}

template <class Value>
std::string named(const char* name, const std::vector<Value>& values) {
  std::string text;
  for (const Value& value : values) text += (text.empty() ? "" : ",") + shown(value);
  return fmt::format("\"{}\":[{}]", name, text);
}
template <class Value>
std::string list(const char* name, const std::vector<Value>& values) {
  return "," + named(name, values);
}

std::string placed(const char* name, const RowsPlace& place) {
  return fmt::format(",\"{}\":{{\"row\":{},\"n\":{},\"sha256\":\"{}\"}}", name, place.first, place.count,
                     place.digest);
}

/// Of smaller tokens.
template <class Row>
std::uint64_t weight_before(const Row& row, Token token) {
  const std::size_t home = static_cast<std::size_t>(token) / token_block_size;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < row.blocks().size() && row.blocks()[i] <= home; ++i) {
    if (row.blocks()[i] < home) {
      sum += row.sums()[i];
      continue;
    }
    const auto weights = row.block(i);
    for (std::size_t in_block = 0; in_block < static_cast<std::size_t>(token) % token_block_size; ++in_block) {
      sum += weights[in_block];
    }
  }
  return sum;
}

/// The coins of one round, and the keys they were asked with.
class Coins {
 public:
  Coins(const PhiloxSource& random, int sequence) : random_(random), sequence_(sequence) {}

  Coin ask(int position, Purpose purpose, std::uint64_t bound) {
    asked_.add(purpose, position);
    return random_.below({sequence_, position, purpose}, bound);
  }
  /// A point asks for nothing.
  Coin ask(const Distribution& row, int position, Purpose purpose) {
    if (row.is_point()) return std::nullopt;
    return ask(position, purpose, Distribution::total);
  }
  const KeysAsked& asked() const { return asked_; }

 private:
  const PhiloxSource& random_;
  int sequence_;
  KeysAsked asked_;
};

std::string statistics_text(const Statistics& s) {
  return fmt::format(
      "{{\"rounds\":{},\"iterations\":{},\"drafted\":{},\"accepted\":{},\"mismatches\":{},\"all_accepted\":{},"
      "\"batched\":{},\"serial\":{}}}",
      s.rounds, s.iterations, s.drafted, s.accepted, s.mismatches, s.all_accepted, s.batched, s.serial);
}

bool short_rows(const std::vector<Distribution>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const Distribution& row) {
    return row.blocks().size() <= Writer::row_tokens_max && row.tokens().size() <= Writer::row_tokens_max;
  });
}

}  // namespace

Writer::Writer(Take take, const std::string& engine, const std::string& weights, int vocabulary, const Rule& rule,
               std::uint64_t seed, RowsWriter* rows)
    : take_(std::move(take)), rows_file_(rows),
      judging_(rule.judge == matching.judge ? Judging::matching : Judging::rejection),
      draft_noise_(rule.draft_noise), random_(seed) {
  add_line(fmt::format("{{\"t\":\"hdr\",\"schema\":\"{}\",\"engine\":{},\"weights\":{},\"vocab\":{},\"rule\":\"{}\","
                       "\"W\":{},\"rng\":{{\"alg\":\"{}\",\"seed\":\"{}\"}}{}}}",
                       schema_name, in_json(engine), in_json(weights), vocabulary, name_of(judging_),
                       Distribution::total, our_generator, seed,
                       rows == nullptr ? "" : ",\"rows\":" + in_json(rows->name())));
}

void Writer::add_line(const std::string& line) {
  digest_.add(line + '\n');
  take_(line + '\n');
}

void Writer::begin(Way way) {
  way_ = std::move(way);
  ++sequence_;
  rounds_ = 0;
  opened_ = false;
}

void Writer::open(const Request& request) {
  if (std::exchange(opened_, true)) return;
  const Sampling& s = request.sampling;
  add_line(fmt::format("{{\"t\":\"seq\",\"s\":{},\"key\":{},\"draft\":{},\"kernels\":{},\"numerics\":{},\"k\":{},"
                       "\"verify\":\"{}\",\"max\":{},\"T\":{},\"top_k\":{},\"top_p\":{},\"min_p\":{},\"repeat\":{},"
                       "\"presence\":{},\"frequency\":{},\"last_n\":{}{}{}}}",
                       sequence_, request.sequence, in_json(way_.draft), in_json(way_.kernels), in_json(way_.numerics),
                       request.draft_max, name_of(request.verification), request.max_new_tokens, real(s.temperature),
                       s.top_k, real(s.top_p), real(s.min_p), real(s.repeat_penalty), real(s.presence_penalty),
                       real(s.frequency_penalty), s.repeat_last_n, list("stops", request.stops),
                       list("prompt", request.prompt)));
}

void Writer::add_round(const Trace& trace) {
  open(trace.request);
  const Request& request = trace.request;
  const Round& round = trace.rounds.back();
  const auto& draft_tokens = round.proposal.tokens;
  const auto& drawn_from = round.proposal.drawn_from;
  const auto accepted = static_cast<std::size_t>(round.verdict.accepted);
  REQUIRE(round.proposal.is_chain(), "spectrace/1 writes down chains");
  REQUIRE(drawn_from.size() == draft_tokens.size() && round.rows.size() == accepted + 1,
          "the round is watched with its rows");
  const bool refused = accepted < draft_tokens.size();
  const bool by_matching = judging_ == Judging::matching;
  Coins coins(random_, request.sequence);

  std::vector<std::uint64_t> q, p, draft_before, before;
  std::vector<Coin> draft_coins, judging_coins;
  std::vector<Fingerprint> drafts;
  for (std::size_t j = 0; j < draft_tokens.size(); ++j) {
    const int position = round.position + static_cast<int>(j);
    drafts.push_back(drawn_from[j].fingerprint());
    q.push_back(drawn_from[j].weight(draft_tokens[j]));
    draft_before.push_back(weight_before(drawn_from[j], draft_tokens[j]));
    draft_coins.push_back(coins.ask(drawn_from[j], position, draft_noise_));
    if (j > accepted) continue;
    const Distribution& row = round.rows[j];
    p.push_back(row.weight(draft_tokens[j]));
    if (!by_matching) {
      judging_coins.push_back(p[j] < q[j] ? coins.ask(position, Purpose::accept, q[j]) : std::nullopt);
    } else if (j < accepted) {
      before.push_back(weight_before(row, draft_tokens[j]));
      judging_coins.push_back(coins.ask(row, position, Purpose::target));
    }
  }

  const Token next = round.verdict.next;
  const int position = round.position + round.verdict.accepted;
  const Distribution& row = round.rows.back();
  std::string draw;
  if (refused && !by_matching) {
    const Residual residual(row, drawn_from[accepted]);
    std::uint64_t bound = 0;
    for (const std::uint64_t sum : residual.sums()) bound += sum;
    const std::uint64_t p_next = row.weight(next);
    const std::uint64_t q_next = drawn_from[accepted].weight(next);
    draw = fmt::format("\"id\":{},\"c\":{},\"of\":{},\"at\":{},\"wt\":{},\"p\":{},\"q\":{}", next,
                       shown(coins.ask(position, Purpose::residual, bound)), bound, weight_before(residual, next),
                       p_next > q_next ? p_next - q_next : 0, p_next, q_next);
  } else {
    draw = fmt::format("\"id\":{},\"c\":{},\"of\":{},\"at\":{},\"wt\":{}", next,
                       shown(coins.ask(row, position, Purpose::target)), Distribution::total,
                       weight_before(row, next), row.weight(next));
  }
  std::string keys;
  for (const Purpose purpose : {Purpose::target, Purpose::draft, Purpose::accept, Purpose::residual}) {
    const auto& asked = coins.asked().of(purpose);
    if (asked.empty()) continue;
    keys += (keys.empty() ? "" : ",") + named(name_of(purpose), asked);
  }
  const bool batched = request.verification == Verification::batched;
  const Last last = !refused ? Last::bonus : by_matching ? Last::own : Last::residual;
  add_line(fmt::format(
      "{{\"t\":\"step\",\"s\":{},\"n\":{},\"pos\":{},\"w\":{},\"a\":{},\"last\":\"{}\"{}{}{}{}{}{}{}{},\"y\":{{{}}},"
      "\"rc\":{{{}}}{}{}{}{}}}",
      sequence_, rounds_++, round.position, batched ? draft_tokens.size() + 1 : accepted + 1, accepted, name_of(last),
      list("d", draft_tokens), list("o", round.emitted), list("q", q), list("qc", draft_coins), list("qb", draft_before),
      list("p", p), list("u", judging_coins), by_matching ? list("b", before) : "", draw, keys,
      list("h", round.logits), list("ph", round.targets), list("qh", drafts), rows_text(round)));
}

std::string Writer::rows_text(const Round& round) {
  const auto& drawn_from = round.proposal.drawn_from;
  if (rows_file_ != nullptr) {
    return placed("P", rows_file_->append(round.rows)) + placed("Q", rows_file_->append(drawn_from));
  }
  return short_rows(round.rows) && short_rows(drawn_from) ? list("P", round.rows) + list("Q", drawn_from) : "";
}

void Writer::end(const Trace& trace) {
  open(trace.request);
  if (trace.finish == Finish::unfinished) return;
  add_line(fmt::format("{{\"t\":\"end\",\"s\":{},\"reason\":\"{}\",\"count\":{},\"stats\":{},\"sha256\":\"{}\"}}",
                       sequence_, name_of(trace.finish), trace.output.size(), statistics_text(trace.statistics),
                       digest_.hex()));
}

}  // namespace draftproof::spectrace

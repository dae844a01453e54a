// SPDX-License-Identifier: MIT
#include "oracle/spectrace/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/base/utf8.h"

namespace draftproof::spectrace {
namespace {

/// Returns a JSON string. Bytes that are not UTF-8 are lost; such names are for people and nothing depends on them.
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
std::string shown(float value) { return real(value); }
std::string shown(const std::string& text) { return in_json(text); }
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
  return fmt::format(",\"{}\":{{\"row\":{},\"count\":{},\"sha256\":\"{}\"}}", name, place.first, place.count,
                     place.digest);
}

/// Returns the weight of all tokens smaller than `token`.
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

std::string positions_text(const RngPositions& drawn) {
  std::string text;
  for (const Purpose purpose : {Purpose::target, Purpose::draft, Purpose::accept, Purpose::residual}) {
    if (drawn.of(purpose).empty()) continue;
    text += (text.empty() ? "" : ",") + named(name_of(purpose), drawn.of(purpose));
  }
  return text;
}

std::string reals(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ",") + real(value);
  return '[' + text + ']';
}

/// Returns the costs by which a tuner chooses; empty without one. With a context shift the room in the cache limits the
/// draft tokens, too, and the trace does not state it.
std::string costs_text(const Trace& trace) {
  const DraftCosts& costs = trace.costs;
  if (costs.verify.empty() || trace.request.context_shift) return "";
  std::string stages;
  for (const std::vector<double>& stage : costs.draft) stages += (stages.empty() ? "" : ",") + reals(stage);
  std::string work;
  for (const ProposalWork one : costs.work) work += fmt::format("{}\"{}\"", work.empty() ? "" : ",", name_of(one));
  if (!work.empty()) work = ",\"work\":[" + work + "]";
  return fmt::format(",\"draft_costs\":{{\"verify\":{},\"draft\":[{}],\"reading\":{}{}}}", reals(costs.verify), stages,
                     reals(costs.reading), work);
}

/// Returns the parameters of sampling; adjustments_text has the biases.
std::string sampling_text(const Sampling& sampling) {
  std::string text;
  for_each_sampling_field([&](const auto& field) {
    const auto value = sampling.*field.member;
    if (field.rare && value == Sampling{}.*field.member) return;
    text += fmt::format(",\"{}\":{}", field.name, shown(value));
  });
  if (!sampling.dry_breakers.empty()) text += list("dry_breakers", sampling.dry_breakers);
  if (sampling.order == Sampling{}.order) return text;
  std::string names;
  for (const SamplerStep step : sampling.order)
    names += (names.empty() ? "\"" : ",\"") + std::string(name_of(step)) + '"';
  return text + ",\"sampler_order\":[" + names + "]";
}

/// Returns the fields about what changes logits and forbids tokens.
std::string adjustments_text(const Request& request, const std::string& grammar) {
  std::string text;
  for (const LogitBias& one : request.sampling.logit_bias) {
    text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", one.token, real(one.bias));
  }
  if (!text.empty()) text = ",\"logit_bias\":{" + text + "}";
  if (!request.constraint) return text;
  if (grammar.empty()) return text + ",\"adjustments\":[\"constraint\"]";
  text += ",\"grammar\":" + in_json(grammar);
  return request.constrained_prompt == 0 ? text
                                         : text + fmt::format(",\"constrained_prompt\":{}", request.constrained_prompt);
}

/// Returns the fields about what each of several drafts, or one with a tuner, was asked for, what that tuner learned
/// from, and what a grammar forced.
std::string asked_text(const Round& round) {
  const Proposal& proposal = round.proposal;
  std::string text = proposal.forced == 0 ? "" : fmt::format(",\"draft_forced\":{}", proposal.forced);
  if (proposal.asked.empty()) return text;
  text += list("draft_asked", proposal.asked);
  if (proposal.cut > 0) text += fmt::format(",\"draft_cut\":{}", proposal.cut);
  if (!round.seconds) return text;
  return text + fmt::format(",\"verify_seconds\":{},\"draft_seconds\":{}", real(round.seconds->verify),
                            real(round.seconds->draft));
}

/// Returns the fields about what target and draft held when the draft had proposed.
std::string held_text(const Trace& trace, const Round& round) {
  std::string text = fmt::format(",\"target_held\":{}", round.positions_before);
  if (round.cache != Fingerprint()) text += ",\"state_digest\":" + shown(round.cache);
  if (round.draft_positions.empty() || round.position > trace.draft_reach) return text;
  std::vector<std::int64_t> held, unread;
  for (const DraftPositions& stage : round.draft_positions) {
    held.push_back(stage.held);
    unread.push_back(stage.unread);
  }
  text += list("draft_held", held);
  if (std::ranges::any_of(unread, [](std::int64_t rows) { return rows > 0; })) text += list("draft_unread", unread);
  const auto stage = static_cast<std::size_t>(round.proposal.stage());
  if (round.proposal.size() == round.proposal.forced || stage >= round.draft_positions.size()) return text;
  return text + fmt::format(",\"draft_anchor\":{}", round.draft_positions[stage].anchor);
}

/// Returns the fields about where the draft tokens of a tree stand and which of them were accepted.
std::string tree_text(const Proposal& proposal, const std::vector<int>& path) {
  if (proposal.is_chain()) return "";
  std::vector<std::int64_t> parents(static_cast<std::size_t>(proposal.size()));
  for (int node = 0; node < proposal.size(); ++node) parents[node] = proposal.parent(node);
  return list("draft_parents", parents) + list("accepted_path", std::vector<std::int64_t>(path.begin(), path.end()));
}

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

/// Draws the random numbers of one round again, and keeps the positions of their keys.
class Writer::Coins {
 public:
  Coins(const PhiloxSource& random, int sequence) : random_(random), sequence_(sequence) {}

  int sequence() const { return sequence_; }
  Coin draw(const Key& key, std::uint64_t bound) {
    drawn_.add(key.purpose, key.position);
    return random_.below(key, bound);
  }
  Coin draw(int position, Purpose purpose, std::uint64_t bound) { return draw({sequence_, position, purpose}, bound); }
  /// Draws from a row; a row of one token needs no number.
  Coin draw(const Distribution& row, const Key& key) {
    return row.is_point() ? std::nullopt : draw(key, Distribution::total);
  }
  const RngPositions& drawn() const { return drawn_; }

 private:
  const PhiloxSource& random_;
  int sequence_;
  RngPositions drawn_;
};

Writer::Writer(Take take, const std::string& engine, const std::string& weights, int vocabulary, const Rule& rule,
               std::uint64_t seed, RowsWriter* rows)
    : take_(std::move(take)),
      rows_file_(rows),
      rule_(rule.judge == matching.judge                ? AcceptanceRule::matching
            : rule.name == std::string_view(block.name) ? AcceptanceRule::block
                                                        : AcceptanceRule::rejection),
      draft_noise_(rule.draft_noise),
      random_(seed) {
  add_line(
      fmt::format("{{\"type\":\"header\",\"schema\":\"{}\",\"engine\":{},\"weights\":{},\"vocabulary\":{},"
                  "\"rule\":\"{}{}\",\"total_weight\":{},\"rng\":{{\"algorithm\":\"{}\",\"seed\":\"{}\"}}{}}}",
                  schema_name, in_json(engine), in_json(weights), vocabulary, name_of(rule_),
                  rule_ == AcceptanceRule::block ? std::string(":") + our_block : "", Distribution::total,
                  our_generator, seed, rows == nullptr ? "" : ",\"rows_file\":" + in_json(rows->name())));
}

void Writer::add_line(const std::string& line) {
  digest_.add(line + '\n');
  take_(line + '\n');
}

void Writer::begin(Setup setup) {
  setup_ = std::move(setup);
  ++sequence_;
  rounds_ = 0;
  dropped_ = 0;
  opened_ = false;
}

void Writer::open(const Trace& trace) {
  if (std::exchange(opened_, true)) return;
  const Request& request = trace.request;
  add_line(fmt::format(
      "{{\"type\":\"sequence\",\"sequence\":{},\"rng_key\":{},\"draft\":{},\"kernels\":{},\"numerics\":{},"
      "\"max_draft_tokens\":{},\"verification\":\"{}\",\"max_new_tokens\":{}{}{}{}{}{}{}{}}}",
      sequence_, request.sequence, in_json(setup_.draft), in_json(setup_.kernels), in_json(setup_.numerics),
      trace.execution.draft_max, name_of(trace.execution.verification), request.max_new_tokens,
      trace.reused == 0 ? "" : fmt::format(",\"reused\":{}", trace.reused), sampling_text(request.sampling),
      adjustments_text(request, setup_.grammar), costs_text(trace), list("stop_tokens", request.stops),
      setup_.stop_strings.empty() ? "" : list("stop_strings", setup_.stop_strings), list("prompt", request.prompt)));
}

void Writer::add_shifts(const Request& request, int tokens_read) {
  if (!request.context_shift) return;
  const ContextShift& shift = *request.context_shift;
  for (; tokens_read - dropped_ >= shift.context; dropped_ += shift.discard) {
    add_line(fmt::format("{{\"type\":\"context_shift\",\"sequence\":{},\"tokens_read\":{},\"keep\":{},\"discard\":{}}}",
                         sequence_, shift.context + dropped_, shift.keep, shift.discard));
  }
}

void Writer::add_round(const Trace& trace) {
  open(trace);
  const Round& round = trace.rounds.back();
  add_shifts(trace.request, round.position - 1);
  const auto& draft_tokens = round.proposal.tokens;
  const auto accepted = static_cast<std::size_t>(round.verdict.accepted);
  const bool together = rule_ == AcceptanceRule::block;  // rows after draft tokens that are not accepted are read, too
  REQUIRE(round.proposal.drawn_from.size() == draft_tokens.size() &&
              (together ? round.rows.size() > accepted : round.rows.size() == accepted + 1),
          "the round is recorded with its rows");
  if (together && !round.proposal.is_chain()) {
    throw Error("traces of the rule block are of chains; use a draft that proposes no trees, or another rule");
  }
  const bool batched = trace.execution.verification != Verification::serial;
  const NextFrom next_from = round.all_accepted()                ? NextFrom::bonus
                             : rule_ == AcceptanceRule::matching ? NextFrom::target
                                                                 : NextFrom::residual;
  Coins coins(random_, trace.request.sequence);
  const std::vector<int> path = round.proposal.path_to(round.verdict.last);
  std::string drafts = tree_text(round.proposal, path) + draft_text(round, coins);
  std::vector<Fingerprint> logits =
      round.logits;  // rows behind the accepted draft tokens are stated, not held to these
  logits.resize(std::min(logits.size(), accepted + 1));
  std::string decided;  // a block follows from rows and seed
  if (!together) {
    drafts += verified_text(round, path, coins);
    decided = ",\"next\":{" + next_text(round, coins) + '}';
    decided += ",\"rng_positions\":{" + positions_text(coins.drawn()) + '}';
  }
  std::vector<Fingerprint> q_digests;
  for (const Distribution& row : round.proposal.drawn_from) q_digests.push_back(row.fingerprint());
  add_line(
      fmt::format("{{\"type\":\"round\",\"sequence\":{},\"round\":{},\"position\":{},\"width\":{},\"accepted\":{},"
                  "\"next_from\":\"{}\"{}{}{}{}{}{}{}{}{}{}}}",
                  sequence_, rounds_++, round.position, batched ? draft_tokens.size() + 1 : round.rows.size(), accepted,
                  name_of(next_from), list("draft_tokens", draft_tokens), list("emitted", round.emitted),
                  held_text(trace, round), asked_text(round), drafts, decided, list("logits_digests", logits),
                  list("p_digests", round.targets), list("q_digests", q_digests), rows_text(round)));
}

/// Returns the fields about what draft tokens were drawn from and with which numbers.
std::string Writer::draft_text(const Round& round, Coins& coins) const {
  const Proposal& proposal = round.proposal;
  std::vector<std::uint64_t> q, q_before;
  std::vector<Coin> draft_u;
  for (int node = 0; node < proposal.size(); ++node) {
    const Token draft_token = proposal.tokens[node];
    const Distribution& drawn_from = proposal.drawn_from[node];
    q.push_back(drawn_from.weight(draft_token));
    q_before.push_back(weight_before(drawn_from, draft_token));
    draft_u.push_back(
        coins.draw(drawn_from, draft_key(coins.sequence(), round.position, proposal.depth(node), draft_noise_)));
  }
  return list("q_draft", q) + list("draft_u", draft_u) + list("q_before", q_before);
}

/// Returns the fields about the draft tokens that were verified, of a tree one at each row of the accepted path: their
/// weights in p and the numbers they were accepted with, or their siblings in their place.
std::string Writer::verified_text(const Round& round, const std::vector<int>& path, Coins& coins) const {
  const Proposal& proposal = round.proposal;
  const bool matching = rule_ == AcceptanceRule::matching;
  std::vector<std::uint64_t> p, p_before;
  std::vector<Coin> accept_u;
  std::string siblings;
  for (std::size_t row = 0; row <= path.size(); ++row) {
    const int position = round.position + static_cast<int>(row);
    const bool accepted = row < path.size();
    const int first = proposal.first_child(row == 0 ? -1 : path[row - 1]);
    const int node = matching && accepted ? path[row] : first;
    if (node == Proposal::no_node) break;
    const Distribution& target = round.rows[row];
    const Token draft_token = proposal.tokens[node];
    p.push_back(target.weight(draft_token));
    if (matching) {
      if (!accepted) break;
      p_before.push_back(weight_before(target, draft_token));
      accept_u.push_back(coins.draw(target, {coins.sequence(), position, Purpose::target}));
      continue;
    }
    const std::uint64_t q = proposal.drawn_from[node].weight(draft_token);
    accept_u.push_back(p.back() < q ? coins.draw(position, Purpose::accept, q) : std::nullopt);
    if (!accepted) break;
    const bool by_sibling = path[row] != first;
    siblings += siblings.empty() ? "" : ",";
    siblings += by_sibling ? '{' + residual_draw(round, row, first, proposal.tokens[path[row]], coins) + '}' : "null";
  }
  if (!matching && !proposal.is_chain()) siblings = ",\"sibling_draws\":[" + siblings + ']';
  else siblings.clear();
  return list("p_draft", p) + list("accept_u", accept_u) + (matching ? list("p_before", p_before) : siblings);
}

/// Returns the content of the field `next`: how the token after the accepted draft tokens was drawn.
std::string Writer::next_text(const Round& round, Coins& coins) const {
  const Token next = round.verdict.next;
  const auto accepted = static_cast<std::size_t>(round.verdict.accepted);
  if (!round.all_accepted() && rule_ == AcceptanceRule::rejection) {
    return residual_draw(round, accepted, round.proposal.first_child(round.verdict.last), next, coins);
  }
  const Distribution& row = round.rows.back();
  const Key key{coins.sequence(), round.position + round.verdict.accepted, Purpose::target};
  return fmt::format("\"token\":{},\"u\":{},\"bound\":{},\"before\":{},\"weight\":{}", next,
                     shown(coins.draw(row, key)), Distribution::total, weight_before(row, next), row.weight(next));
}

/// Returns the draw at a row after the rejection of a draft token.
std::string Writer::residual_draw(const Round& round, std::size_t row, int draft_token, Token drawn,
                                  Coins& coins) const {
  const Distribution& p_row = round.rows[row];
  const Distribution& q_row = round.proposal.drawn_from[draft_token];
  const Residual residual(p_row, q_row);
  std::uint64_t bound = 0;
  for (const std::uint64_t sum : residual.sums()) bound += sum;
  const std::uint64_t p = p_row.weight(drawn);
  const std::uint64_t q = q_row.weight(drawn);
  const int position = round.position + static_cast<int>(row);
  return fmt::format("\"token\":{},\"u\":{},\"bound\":{},\"before\":{},\"weight\":{},\"p\":{},\"q\":{}", drawn,
                     shown(coins.draw(position, Purpose::residual, bound)), bound, weight_before(residual, drawn),
                     p > q ? p - q : 0, p, q);
}

std::string Writer::rows_text(const Round& round) {
  const auto& drawn_from = round.proposal.drawn_from;
  if (rows_file_ != nullptr) {
    // Two statements: of the terms of one sum g++ computes the second one first on x86-64, and the first one on
    // aarch64.
    std::string places = placed("p_rows", rows_file_->append(round.rows));
    places += placed("q_rows", rows_file_->append(drawn_from));
    return places;
  }
  if (!short_rows(round.rows) || !short_rows(drawn_from)) return "";
  return list("p_rows", round.rows) + list("q_rows", drawn_from);
}

void Writer::end(const Trace& trace) {
  open(trace);
  if (trace.finish == Finish::unfinished) return;
  add_line(fmt::format(
      "{{\"type\":\"end\",\"sequence\":{},\"reason\":\"{}\",\"emitted_count\":{},"
      "\"statistics\":{},\"sha256\":\"{}\"}}",
      sequence_, name_of(trace.finish), trace.output.size(), statistics_text(trace.statistics), digest_.hex()));
}

}  // namespace draftproof::spectrace

// SPDX-License-Identifier: MIT
#include "oracle/spectrace/round_reader.h"

#include <algorithm>
#include <utility>

#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

const Names round_names = {
    "type",          "sequence",      "round",        "position",       "width",           "draft_tokens",
    "accepted",      "next_from",     "emitted",      "q_draft",        "p_draft",         "accept_u",
    "p_before",      "next",          "next_u",       "draft_u",        "q_before",        "rng_positions",
    "top_logits",    "logprobs",      "p_digests",    "logits_digests", "q_digests",       "p_rows",
    "q_rows",        "top_logprobs",  "target_held",  "draft_held",     "draft_unread",    "draft_anchor",
    "draft_asked",   "draft_cut",     "draft_forced", "draft_seconds",  "verify_seconds",  "draft_parents",
    "accepted_path", "sibling_draws", "sibling_u",    "allowed_tokens", "allowed_digests", "state_digest"};
/// Fields of a round that states no draft tokens.
const Names token_names = {"type",         "sequence",       "round",           "position",    "emitted",
                           "p_rows",       "logprobs",       "top_logprobs",    "target_held", "draft_held",
                           "draft_unread", "allowed_tokens", "allowed_digests", "state_digest"};

}  // namespace

RoundEvent RoundReader::read(const Json& line) {
  refuse_unknown(line, round_names);
  if (const auto id = line.find("sequence")) round_.sequence = id->integer(0, exact_max);
  round_.round = line.at("round").integer(0, exact_max);
  round_.position = line.at("position").integer(1, position_max);
  round_.emitted = engines_tokens(line.at("emitted"), "emitted");
  if (round_.emitted.empty() && !hides_stop_tokens_) {
    line.at("emitted").fail(
        "a round emits at least one token, unless stop_token_emitted is false and stop_tokens are "
        "listed");
  }
  round_.has_draft_tokens = line.find("draft_tokens").has_value();
  if (round_.has_draft_tokens) {
    read_acceptance(line);
    read_weights(line);
    read_random_numbers(line);
    read_next(line);
    read_digests(line);
    const auto rows = static_cast<std::size_t>(round_.accepted) + 1;
    read_p_rows(line, rows, max_of_p_rows());
    read_allowed(line, rows, max_of_p_rows());
    read_q_rows(line);
  } else {
    for (const std::string& name : line.fields()) {
      if (token_names.contains(name) || name.starts_with("x_")) continue;
      line.fail("field " + name + " belongs to draft tokens, but field draft_tokens is missing");
    }
    read_p_rows(line, round_.emitted.size(), round_.emitted.size());
    read_allowed(line, round_.emitted.size(), round_.emitted.size());
  }
  read_logprobs(line);
  read_positions(line);
  return std::move(round_);
}

/// Reads what the caches of target and draft hold, and what the draft was asked for.
void RoundReader::read_positions(const Json& line) {
  const auto position = [](const Json& value) { return value.integer(0, position_max); };
  if (const auto held = line.find("target_held")) round_.target_held = position(*held);
  if (const auto state = line.find("state_digest")) round_.state_digest = digest(*state);
  if (const auto held = line.find("draft_held")) round_.draft_held = read_list(*held, position);
  if (const auto unread = line.find("draft_unread")) {
    if (!round_.draft_held) unread->fail("states what the draft does not hold yet, but field draft_held is missing");
    round_.draft_unread = read_list(*unread, position);
    expect_size(line, "draft_unread", *round_.draft_unread, round_.draft_held->size(), round_.draft_held->size());
  }
  if (const auto anchor = line.find("draft_anchor")) round_.draft_anchor = position(*anchor);
  const auto draft_tokens = [](const Json& value) { return static_cast<int>(value.integer(0, draft_tokens_max)); };
  if (const auto asked = line.find("draft_asked")) {
    round_.draft_asked = read_list(*asked, draft_tokens);
    expect_size(line, "draft_asked", *round_.draft_asked, 1, stages_max);
  }
  if (const auto cut = line.find("draft_cut")) {
    if (!round_.draft_asked) cut->fail("states draft tokens that were not verified, but field draft_asked is missing");
    round_.draft_cut = draft_tokens(*cut);
  }
  if (const auto verify = line.find("verify_seconds")) {
    const auto seconds = [](const Json& value) { return real_in(value, 0, 1e9); };
    if (!round_.draft_asked) verify->fail("is what a tuner learned from, but field draft_asked is missing");
    round_.seconds = {seconds(*verify), seconds(line.at("draft_seconds"))};
  } else if (const auto draft = line.find("draft_seconds")) {
    draft->fail("belongs to field verify_seconds, which is missing");
  }
  if (const auto forced = line.find("draft_forced")) {
    round_.draft_forced = static_cast<int>(forced->integer(0, static_cast<std::int64_t>(round_.draft_tokens.size())));
  }
}

void RoundReader::fault(const char* check, const std::string& field, std::size_t place, const std::string& observed) {
  round_.faults.push_back({check, field + "[" + std::to_string(place) + "]", observed});
}

/// Reads token ids; one outside the vocabulary is an ImpossibleValue.
std::vector<Token> RoundReader::engines_tokens(const Json& list, const char* name) {
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::int64_t token = list[i].integer(std::numeric_limits<std::int32_t>::min(), position_max);
    if (token < 0 || token >= header_.vocabulary) fault("token", name, i, "token " + std::to_string(token));
    tokens.push_back(static_cast<Token>(token));
  }
  return tokens;
}

/// Reads a probability, or with `below_1` a random number; one outside its range is an ImpossibleValue.
double RoundReader::engines_real(const Json& value, const char* name, std::size_t place, bool below_1) {
  const double real = real_or_not(value);
  if (real >= 0 && (below_1 ? real < 1 : real <= 1)) return real;
  fault("number", name, place, value.string());
  return 0;
}

void RoundReader::read_acceptance(const Json& line) {
  round_.draft_tokens = engines_tokens(line.at("draft_tokens"), "draft_tokens");
  const auto count = static_cast<std::int64_t>(round_.draft_tokens.size());
  expect_size(line, "draft_tokens", round_.draft_tokens, 0, static_cast<std::size_t>(draft_tokens_max));
  round_.accepted = static_cast<int>(line.at("accepted").integer(0, count));
  if (const auto width = line.find("width")) {
    round_.width = static_cast<int>(width->integer(1, position_max));
    if (*round_.width > 1 + count) {
      width->fail("is " + std::to_string(*round_.width) + ", but " + std::to_string(count) + " draft tokens have " +
                  std::to_string(1 + count) + " rows; where a pass is padded, count no padding or leave the field out");
    }
  }
  const Json next_from = line.at("next_from");
  bool known = false;
  for (const NextFrom kind : {NextFrom::residual, NextFrom::target, NextFrom::bonus, NextFrom::greedy}) {
    if (next_from.string() != name_of(kind)) continue;
    round_.next_from = kind;
    known = true;
  }
  if (!known) {
    next_from.fail("must be residual, target, bonus or greedy, but is " + in_quotes(next_from.string()));
  }
  if (round_.emitted.size() > static_cast<std::size_t>(round_.accepted) + 1) {
    line.at("emitted").fail("holds more than the accepted draft tokens and one token");
  }
  if (line.find("draft_parents")) return read_tree(line);
  for (const char* const of_tree : {"accepted_path", "sibling_draws", "sibling_u"}) {
    if (const auto field = line.find(of_tree)) field->fail("belongs to a tree, but field draft_parents is missing");
  }
  round_.accept_of_chain(round_.accepted);
}

/// Reads where the draft tokens of a tree stand, and the way of the rule through them.
void RoundReader::read_tree(const Json& line) {
  const Json parents_field = line.at("draft_parents");
  if (rule_ == AcceptanceRule::block) parents_field.fail("belongs to a tree, but block verification is of chains");
  const std::size_t count = round_.draft_tokens.size();
  std::vector<int> parents;
  std::vector<int> depths;
  for (std::size_t j = 0; j < parents_field.size(); ++j) {
    const int parent = static_cast<int>(parents_field[j].integer(-1, static_cast<std::int64_t>(j) - 1));
    parents.push_back(parent);
    depths.push_back(parent < 0 ? 0 : depths[static_cast<std::size_t>(parent)] + 1);
  }
  expect_size(line, "draft_parents", parents, count, count);
  const Json path_field = line.at("accepted_path");
  std::vector<int> path;
  for (std::size_t row = 0; row < path_field.size(); ++row) {
    const int node = static_cast<int>(path_field[row].integer(0, static_cast<std::int64_t>(count) - 1));
    if (parents[static_cast<std::size_t>(node)] != (path.empty() ? -1 : path.back())) {
      path_field[row].fail("is no child, by draft_parents, of the draft token that was accepted before it");
    }
    path.push_back(node);
  }
  expect_size(line, "accepted_path", path, static_cast<std::size_t>(round_.accepted),
              static_cast<std::size_t>(round_.accepted));

  // Under rejection the first child is verified; the other rules look for the child that the target chose.
  const bool by_draw = rule_ == AcceptanceRule::matching || rule_ == AcceptanceRule::greedy;
  const auto first_child = [&](int node) { return std::ranges::find(parents, node) - parents.begin(); };
  std::vector<bool> is_verified(count, false);
  for (std::size_t row = 0; row <= path.size(); ++row) {
    const bool chosen = by_draw && row < path.size();
    const auto node = static_cast<std::size_t>(chosen ? path[row] : first_child(row == 0 ? -1 : path[row - 1]));
    if (node == count) break;
    walk_.push_back(node);
    is_verified[node] = true;
  }
  round_.verified = static_cast<int>(walk_.size());
  for (std::size_t j = 0; j < count; ++j) {
    if (!is_verified[j]) walk_.push_back(j);
    if (parents[j] == (path.empty() ? -1 : path.back())) round_.refused.push_back(round_.draft_tokens[j]);
  }
  for (const int node : path) round_.accepted_tokens.push_back(round_.draft_tokens[static_cast<std::size_t>(node)]);
  order_by_walk(round_.draft_tokens);
  order_by_walk(depths);
  round_.depths = std::move(depths);
}

/// Reads a random number; nothing when it is null.
std::optional<std::uint64_t> RoundReader::u_below(const Json& value, std::uint64_t bound) const {
  if (value.is_null()) return std::nullopt;
  if (bound == 0) value.fail("no number lies below 0");
  return integer_in(value, 0, bound - 1);
}

std::vector<StatedNumber> RoundReader::weights(const Json& list, const char* name) {
  std::vector<StatedNumber> values;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (header_.total > 0) values.push_back({integer_in(list[i], 0, header_.total), 0});
    else values.push_back({0, engines_real(list[i], name, i)});
  }
  return values;
}

std::vector<std::uint64_t> RoundReader::integer_weights(const Json& list) const {
  if (header_.total == 0) list.fail("needs integer weights, but the header has no total_weight");
  return read_list(list, [&](const Json& value) { return integer_in(value, 0, header_.total); });
}

/// `bound(i)`: what the i-th number must lie below, where they are integers.
template <class Bound>
std::vector<std::optional<StatedNumber>> RoundReader::random_numbers(const Json& list, const char* name,
                                                                     const Bound& bound) {
  std::vector<std::optional<StatedNumber>> numbers;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json value = list[i];
    if (value.is_null()) numbers.emplace_back();
    else if (header_.total == 0) numbers.push_back(StatedNumber{0, engines_real(value, name, i, true)});
    else numbers.push_back(StatedNumber{*u_below(value, bound(i)), 0});
  }
  return numbers;
}

/// Returns of how many draft tokens q is needed, where it is stated: those that are verified; of a tree all.
std::size_t RoundReader::min_of_q() const {
  const bool all = rule_ == AcceptanceRule::block || !round_.depths.empty();
  return all ? round_.draft_tokens.size() : static_cast<std::size_t>(round_.verified);
}

/// Return of how many draft tokens p is needed, where it is stated, and of how many it may be: those that are verified,
/// and all of a chain. Block verification decides about all draft tokens together, a lossy rule as it likes: neither
/// needs any p.
std::size_t RoundReader::min_of_p() const {
  const bool one_by_one = rule_ != AcceptanceRule::block && rule_ != AcceptanceRule::lossy;
  return one_by_one ? static_cast<std::size_t>(round_.verified) : 0;
}
std::size_t RoundReader::max_of_p_rows() const {
  return 1 + (round_.depths.empty() ? round_.draft_tokens.size() : static_cast<std::size_t>(round_.accepted));
}
std::size_t RoundReader::max_of_p() const {
  return round_.depths.empty() ? round_.draft_tokens.size() : static_cast<std::size_t>(round_.verified);
}

/// Reads p and q of the draft tokens.
void RoundReader::read_weights(const Json& line) {
  if (const auto q = line.find("q_draft")) {
    round_.q_draft = weights(*q, "q_draft");
    expect_size(line, "q_draft", *round_.q_draft, min_of_q(), round_.draft_tokens.size());
    order_by_walk(*round_.q_draft);
  }
  if (const auto p = line.find("p_draft")) {
    round_.p_draft = weights(*p, "p_draft");
    expect_size(line, "p_draft", *round_.p_draft, min_of_p(), max_of_p());
  }
}

/// Reads the random numbers that draft tokens were accepted and drawn with. Call after read_weights.
void RoundReader::read_random_numbers(const Json& line) {
  const std::size_t drafted = round_.draft_tokens.size();
  const std::size_t accepted = static_cast<std::size_t>(round_.accepted);
  if (const auto u = line.find("accept_u")) {
    if (rule_ == AcceptanceRule::greedy) u->fail("the rule greedy accepts without random numbers");
    const bool matching = rule_ == AcceptanceRule::matching;
    round_.accept_u = random_numbers(*u, "accept_u", [&](std::size_t i) {
      const bool below_q = rule_ == AcceptanceRule::rejection && round_.q_draft && i < round_.q_draft->size();
      return below_q ? (*round_.q_draft)[i].integer : header_.total;
    });
    expect_size(line, "accept_u", *round_.accept_u, matching ? accepted : min_of_p(), matching ? accepted : max_of_p());
  }
  if (const auto before = line.find("p_before")) {
    if (rule_ != AcceptanceRule::matching) before->fail("belongs to the rule matching only");
    round_.p_before = integer_weights(*before);
    expect_size(line, "p_before", *round_.p_before, accepted, accepted);
  }
  if (const auto list = line.find("draft_u")) {
    round_.draft_u = random_numbers(*list, "draft_u", [&](std::size_t) { return header_.total; });
    expect_size(line, "draft_u", *round_.draft_u, min_of_q(), drafted);
    order_by_walk(*round_.draft_u);
  }
  if (const auto before = line.find("q_before")) {
    round_.q_before = integer_weights(*before);
    expect_size(line, "q_before", *round_.q_before, min_of_q(), drafted);
    order_by_walk(*round_.q_before);
  }
}

/// Reads how the token after the accepted draft tokens was drawn, and the accepted ones that no draft token equals
/// which was verified.
void RoundReader::read_next(const Json& line) {
  const auto accepted = static_cast<std::size_t>(round_.accepted);
  if (const auto draws = line.find("sibling_draws")) {
    if (rule_ != AcceptanceRule::rejection) draws->fail("belongs to the rule rejection only");
    round_.sibling_draws = read_list(
        *draws, [&](const Json& value) { return value.is_null() ? std::nullopt : std::optional(draw(value)); });
    expect_size(line, "sibling_draws", *round_.sibling_draws, accepted, accepted);
  }
  if (const auto list = line.find("sibling_u")) {
    if (rule_ != AcceptanceRule::rejection) list->fail("belongs to the rule rejection only");
    if (header_.total > 0) list->fail("belongs to real weights, but the header has total_weight");
    round_.sibling_u.emplace();
    for (std::size_t i = 0; i < list->size(); ++i) {
      const Json u = (*list)[i];
      round_.sibling_u->push_back(u.is_null() ? std::nullopt : std::optional(engines_real(u, "sibling_u", i, true)));
    }
    expect_size(line, "sibling_u", *round_.sibling_u, accepted, accepted);
  }
  if (const auto next = line.find("next")) round_.next = draw(*next);
  if (!line.has("next_u")) return;
  if (header_.total > 0) {
    line.fail("field next_u belongs to real weights, but the header has total_weight; integer weights use field next");
  }
  round_.next_u.emplace();
  if (const auto u = line.find("next_u")) *round_.next_u = engines_real(*u, "next_u", 0, true);
}

Draw RoundReader::draw(const Json& value) const {
  refuse_unknown(value, {"token", "u", "bound", "before", "weight", "p", "q"});
  if (header_.total == 0) value.fail("needs integer weights, but the header has no total_weight");
  Draw draw;
  draw.token = token(value.at("token"));
  draw.bound = integer_in(value.at("bound"), 1, header_.total);
  draw.weight = integer_in(value.at("weight"), 0, draw.bound);
  draw.before = integer_in(value.at("before"), 0, draw.bound - draw.weight);
  if (const auto u = value.find("u")) draw.u = u_below(*u, draw.bound);
  if (const auto p = value.find("p")) draw.p = integer_in(*p, 0, header_.total);
  if (const auto q = value.find("q")) draw.q = integer_in(*q, 0, header_.total);
  return draw;
}

}  // namespace draftproof::spectrace

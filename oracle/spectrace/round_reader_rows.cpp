// SPDX-License-Identifier: MIT
#include <cmath>
#include <map>
#include <utility>

#include "oracle/spectrace/round_reader.h"
#include "ref/base/error.h"

namespace draftproof::spectrace {

void RoundReader::read_digests(const Json& line) {
  const std::size_t drafted = round_.draft_tokens.size();
  if (const auto positions = line.find("rng_positions")) round_.rng_positions = rng_positions(*positions);
  const auto rows = [&](const char* name, auto& values, std::size_t min, std::size_t max, auto read) {
    const auto list = line.find(name);
    if (!list) return;
    values = read_list(*list, read);
    expect_size(line, name, values, min, max);
  };
  const auto digest_of = [&](const Json& value) { return digest(value); };
  const std::size_t target_rows = static_cast<std::size_t>(round_.accepted) + 1;
  rows("logits_digests", round_.logits_digests, target_rows, max_of_p_rows(), digest_of);
  rows("p_digests", round_.p_digests, target_rows, max_of_p_rows(), digest_of);
  rows("top_logits", round_.top_logits, target_rows, max_of_p_rows(),
       [&](const Json& value) { return top_two(value); });
  rows("q_digests", round_.q_digests, min_of_q(), drafted, digest_of);
  order_by_walk(round_.q_digests);
}

void RoundReader::read_p_rows(const Json& line, std::size_t min, std::size_t max) {
  read_rows(line, "p_rows", min, max, round_.p_rows, round_.p_reals);
}

void RoundReader::read_q_rows(const Json& line) {
  read_rows(line, "q_rows", min_of_q(), round_.draft_tokens.size(), round_.q_rows, round_.q_reals);
  order_by_walk(round_.q_rows);
  order_by_walk(round_.q_reals);
}

/// Reads which tokens may follow at the rows of the target.
void RoundReader::read_allowed(const Json& line, std::size_t min, std::size_t max) {
  if (const auto list = line.find("allowed_tokens")) {
    if (!masked_)
      list->fail("needs the field masked of its sequence: whether rows are masked is known before they are");
    round_.allowed_tokens = read_list(*list, [&](const Json& value) { return allowed_tokens(value); });
    expect_size(line, "allowed_tokens", round_.allowed_tokens, min, max);
  }
  if (const auto list = line.find("allowed_digests")) {
    round_.allowed_digests = read_list(*list, [&](const Json& value) { return digest(value); });
    expect_size(line, "allowed_digests", round_.allowed_digests, min, max);
  }
}

AllowedTokens RoundReader::allowed_tokens(const Json& value) const {
  AllowedTokens allowed;
  if (value.is_null()) return allowed;
  refuse_unknown(value, {"only", "except"});
  if (value.has("only") == value.has("except")) value.fail("must be null, or have one of the fields only and except");
  allowed.kind = value.has("only") ? AllowedTokens::Kind::only : AllowedTokens::Kind::except;
  const Json list = value.at(value.has("only") ? "only" : "except");
  allowed.tokens = tokens(list);
  for (std::size_t i = 1; i < allowed.tokens.size(); ++i) {
    if (allowed.tokens[i] <= allowed.tokens[i - 1]) list[i].fail("must be larger than the token before it");
  }
  if (allowed.kind == AllowedTokens::Kind::only && allowed.tokens.empty()) list.fail("allows no token");
  return allowed;
}

/// Reads rows from the line, or from the file beside the trace.
void RoundReader::read_rows(const Json& line, const char* name, std::size_t min, std::size_t max,
                            std::vector<Distribution>& integers, std::vector<RealRow>& reals) {
  const auto field = line.find(name);
  if (!field) return;
  if (header_.total > 0 && header_.total != Distribution::total) {
    field->fail("integer rows need a total_weight of 2^52");
  }
  if (!field->is_object()) {
    if (header_.total > 0) integers = read_list(*field, [&](const Json& value) { return row(value); });
    else reals = read_list(*field, [&](const Json& value) { return real_row(value, name); });
    expect_size(line, name, header_.total > 0 ? integers.size() : reals.size(), min, max);
    return;
  }
  refuse_unknown(*field, {"row", "count", "sha256"});
  if (rows_ == nullptr) field->fail("names rows in a file beside the trace, but the header has no field rows_file");
  const RowsPlace place{integer_in(field->at("row"), 0, exact_max),
                        static_cast<std::size_t>(integer_in(field->at("count"), min, max)),
                        field->at("sha256").string()};
  try {
    if (header_.total > 0) integers = rows_->distributions(place);
    else reals = rows_->reals(place);
  } catch (const Error& wrong) {
    field->fail(wrong.what());
  }
}

Distribution RoundReader::row(const Json& list) const {
  const auto parts =
      parts_of<std::uint64_t>(list, [](const Json& value) { return integer_in(value, 1, Distribution::total); });
  return Distribution::exact(parts.tokens, parts.weights);
}

/// Reads a row of reals; a weight that is no number makes the row an ImpossibleValue and empty.
RealRow RoundReader::real_row(const Json& list, const char* name) {
  for (std::size_t i = 1; i < list.size(); i += 2) {
    if (std::isfinite(real_or_not(list[i]))) continue;
    fault("number", name, i, list[i].string());
    return {};
  }
  auto parts = parts_of<double>(list, [](const Json& value) { return real_in(value, 0, 1); });
  return {std::move(parts.tokens), std::move(parts.weights)};
}

void RoundReader::read_logprobs(const Json& line) {
  const std::size_t emitted = round_.emitted.size();
  if (const auto list = line.find("logprobs")) {
    for (std::size_t i = 0; i < list->size(); ++i) round_.logprobs.push_back(logprob((*list)[i], "logprobs", i));
    expect_size(line, "logprobs", round_.logprobs.size(), emitted, emitted);
  }
  if (const auto lists = line.find("top_logprobs")) {
    read_top_logprobs(*lists);
    expect_size(line, "top_logprobs", round_.top_logprobs.size(), emitted, emitted);
  }
}

void RoundReader::read_top_logprobs(const Json& lists) {
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const Json list = lists[i];
    if (list.size() % 2 != 0) list.fail("must be a list of tokens, each followed by its log-probability");
    std::map<Token, double> logs;
    for (std::size_t k = 0; k < list.size(); k += 2) {
      if (logs.emplace(token(list[k]), logprob(list[k + 1], "top_logprobs", i)).second) continue;
      list[k].fail("is listed twice");
    }
    RealRow row;
    for (const auto& [listed, log] : logs) {
      row.tokens.push_back(listed);
      row.weights.push_back(log);
    }
    round_.top_logprobs.push_back(std::move(row));
  }
}

/// Reads a log-probability. Minus infinity is one; a value above 0 by more than rounding is an ImpossibleValue.
double RoundReader::logprob(const Json& value, const char* name, std::size_t place) {
  const double log = real_or_not(value);
  if (log <= header_.unit) return log;
  fault("number", name, place, value.string());
  return 0.0;
}

RngPositions RoundReader::rng_positions(const Json& value) {
  RngPositions positions;
  refuse_unknown(value, {"target", "draft", "accept", "residual"});
  for (const Purpose purpose : {Purpose::target, Purpose::draft, Purpose::accept, Purpose::residual}) {
    if (const auto list = value.find(name_of(purpose))) positions.of(purpose) = list->integers(0, position_max);
  }
  return positions;
}

TopTwo RoundReader::top_two(const Json& list) const {
  if (list.size() != 4) list.fail("must be [token, logit, token, logit], the best first");
  return {token(list[0]), token(list[2]), real_of(list[1]), real_of(list[3])};
}

}  // namespace draftproof::spectrace

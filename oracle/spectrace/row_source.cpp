// SPDX-License-Identifier: MIT
#include "oracle/spectrace/row_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/math64.h"
#include "oracle/checks/acceptance_statistics.h"
#include "ref/base/error.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

/// Whether rows can be read in the order of the samplers.
bool knows_order(const SequenceEvent& declared) {
  return !declared.sampler_order || !unknown_sampler(*declared.sampler_order);
}

std::string target_row(std::size_t row) { return "row " + number(static_cast<std::int64_t>(row)) + " of the target"; }

std::string stated_row(std::size_t row) { return "row " + number(static_cast<std::int64_t>(row)) + " of p "; }

}  // namespace

void RowSource::open(const OpenSequence& sequence) {
  TargetRows& rows = rows_[sequence.declared.sequence];
  name_adjustments(sequence.declared);
  if (target_.vocabulary > 0) hold_to_target(sequence, rows);
}

void RowSource::leave(std::int64_t sequence) {
  TargetRows& rows = rows_.at(sequence);
  std::erase(readers_, rows.reader.get());
  rows.reader.reset();
  for (const auto& suspect : rows.suspects) std::erase(readers_, suspect.get());
  rows.suspects.clear();
}

void RowSource::close(std::int64_t sequence) {
  leave(sequence);
  rows_.erase(sequence);
}

/// The order of samplers in an engine of other numerics.
const std::vector<std::string>& RowSource::order_of(const SequenceEvent& declared) const {
  if (declared.sampler_order) return *declared.sampler_order;
  return target_.assumed == nullptr ? our_order() : target_.assumed->samplers;
}

void RowSource::name_adjustments(const SequenceEvent& declared) {
  for (const std::string& name : declared.adjustments) {
    report_.missing.insert("'" + printable(name) +
                           "' changes the logits (field adjustments): p is taken as the trace states it");
  }
  if (!declared.other_sampler.empty()) {
    report_.missing.insert("tokens are drawn by '" + printable(declared.other_sampler) +
                           "' (field other_sampler): p is taken as the trace states it");
  }
  if (declared.masked) {
    report_.missing.insert("which tokens may follow is taken as the trace states it (field allowed_tokens)");
  }
}

/// Returns the reader of the grammar of a sequence; nullptr without one. Throws Error where it cannot be compiled.
std::unique_ptr<ConstraintReader> RowSource::constraint_of(const SequenceEvent& declared) const {
  if (declared.grammar.empty()) return nullptr;
  if (!target_.constraint) throw Error("the target has no tokenizer");
  return target_.constraint(declared.grammar, declared.stop_tokens.value_or(std::vector<Token>()))->reader();
}

void RowSource::hold_to_target(const OpenSequence& sequence, TargetRows& rows) {
  const SequenceEvent& declared = sequence.declared;
  if (!declared.adjustments.empty() || !declared.other_sampler.empty()) return;
  std::unique_ptr<ConstraintReader> constraint;
  try {
    constraint = constraint_of(declared);
  } catch (const Error& wrong) {
    report_.missing.insert("the grammar cannot be read here, so p is taken as the trace states it: " +
                           printable(wrong.what()));
    return;
  }
  const bool order_known = knows_order(declared);
  if (header_.total == Distribution::total && order_known) rows.target = target_.computing_in(declared.numerics);
  Sampling sampling = declared.sampling;
  if (sequence.greedy()) sampling.temperature = 0;
  if (!rows.target) {
    rows.foreign = true;
    const bool compared = target_.computing_anyhow && (target_.slack > 0 || sequence.greedy());
    if (compared) {
      rows.target = target_.computing_anyhow();
      report_.reference = target_.reference;
    }
    name_missing_target(sequence, compared, order_known);
  }
  if (!rows.target) return;
  const std::size_t from = declared.prompt.size() - static_cast<std::size_t>(declared.constrained_prompt);
  rows.reader = std::make_unique<PlainReader>(*rows.target, sampling, declared.prompt.size(), std::move(constraint),
                                              from, declared.stop_tokens.value_or(std::vector<Token>()),
                                              rows.foreign && target_.exact ? target_.twin() : nullptr);
  if (sequence.greedy() || sequence.rule() == AcceptanceRule::lossy) return;  // such tokens are not bet on
  for (const Suspect& suspect : target_.suspects) {
    rows.suspects.push_back(std::make_unique<PlainReader>(*suspect.model, sampling, declared.prompt.size()));
  }
}

/// `compared`: its tokens are, with a target of other numerics.
void RowSource::name_missing_target(const OpenSequence& sequence, bool compared, bool order_known) {
  const SequenceEvent& declared = sequence.declared;
  const std::string why =
      header_.total == 0                     ? "p are reals, and the target's own are integers"
      : header_.total != Distribution::total ? "total_weight is not 2^52, the sum of the target's own rows"
      : !order_known                         ? "sampler_order names a sampler that is not known here"
      : declared.numerics.empty()
          ? "the trace does not state in which numerics p were computed (field numerics)"
          : "p were computed with the numerics '" + foreign(declared.numerics) + "', which are not available here";
  (compared ? report_.missing : report_.unproved)
      .insert(why + ": they are not held to the target's bits" + (compared ? "" : "; tokens are, with --slack"));
  if (!compared) report_.advice = "--slack TV holds tokens to a target of other numerics";
  const Sampling& s = declared.sampling;
  if (compared && !sequence.greedy() && !declared.sampler_order && (cuts(s) || s.penalizes())) {
    std::string names;
    for (const std::string& name : order_of(declared)) names += (names.empty() ? "" : ", ") + name;
    std::ranges::replace(names, '_', '-');
    report_.assumed.insert(names + " were applied in this order (field sampler_order)");
  }
}

/// Returns the first foreign numerics, so that the report has one message however many there are.
const std::string& RowSource::foreign(const std::string& numerics) {
  if (!foreign_) foreign_ = printable(numerics);
  return *foreign_;
}

void RowSource::shift(const ShiftEvent& shift) {
  PlainReader* const reader = rows_.at(shift.sequence).reader.get();
  if (reader == nullptr) return;
  const auto drop = [&](PlainReader& from) {
    return from.shift(static_cast<int>(shift.tokens_read), static_cast<int>(shift.keep),
                      static_cast<int>(shift.discard));
  };
  for (auto& suspect : rows_.at(shift.sequence).suspects) {
    if (suspect == nullptr || drop(*suspect).empty()) continue;
    std::erase(readers_, suspect.get());
    suspect.reset();  // it cannot follow; the target can without it
  }
  const std::string why = drop(*reader);
  if (why.empty()) return;
  report_.unproved.insert("rows after a context shift are not held to the target, whose cache cannot be shifted so: " +
                          why);
  leave(shift.sequence);
}

bool RowSource::complete(const OpenSequence& sequence, std::span<const Token> more) const {
  PlainReader* const reader = rows_.at(sequence.declared.sequence).reader.get();
  if (reader == nullptr || sequence.declared.grammar.empty()) return false;
  std::vector<Token> whole = sequence.text;
  whole.insert(whole.end(), more.begin(), more.end());
  return reader->complete(whole);
}

/// Returns how many positions of the target the text takes.
std::int64_t RowSource::positions(const OpenSequence& sequence, const TargetRows& rows) const {
  return static_cast<std::int64_t>(sequence.text.size()) - rows.reader->dropped();
}

/// Returns the row after the text. All sequences' KV caches together have no more positions than the longest text of
/// one could take in the target and in each suspect; the caches read longest ago are released.
const PlainRow& RowSource::read(const OpenSequence& sequence, PlainReader& reader, const TokenSet* stated) {
  const PlainRow& row = reader.after(sequence.text, stated);
  std::erase(readers_, &reader);
  readers_.push_back(&reader);
  auto positions_max = static_cast<std::size_t>(rows_.at(sequence.declared.sequence).target->context());
  for (const Suspect& suspect : target_.suspects) positions_max += static_cast<std::size_t>(suspect.model->context());
  std::size_t positions = 0;
  for (const PlainReader* const each : readers_) positions += each->capacity();
  while (readers_.size() > 1 && positions > positions_max) {
    positions -= readers_.front()->capacity();
    readers_.front()->release();
    readers_.erase(readers_.begin());
  }
  return row;
}

/// Returns what the suspects give the token after the text, which they are to read with the target's masks.
std::vector<std::optional<Distribution>> RowSource::suspected(const OpenSequence& sequence, const TargetRows& rows) {
  const SequenceEvent& declared = sequence.declared;
  std::vector<std::optional<Distribution>> list;
  for (std::size_t s = 0; s < rows.suspects.size(); ++s) {
    std::optional<Distribution>& given = list.emplace_back();
    if (rows.suspects[s] == nullptr || positions(sequence, rows) > target_.suspects[s].model->context()) continue;
    const PlainRow& row = read(sequence, *rows.suspects[s], rows.reader->allowed());
    if (!rows.foreign) given = row.distribution;
    else if (auto near = nearby_distribution(rows.suspects[s]->logits(), declared.sampling, order_of(declared),
                                             sequence.text, 0, rows.reader->allowed()))
      given = std::move(near->p);
  }
  return list;
}

KnownRow RowSource::after(const OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                          const Findings& findings) {
  const TargetRows& rows = rows_.at(sequence.declared.sequence);
  KnownRow known;
  known.own = rows.reader && !rows.foreign;
  if (row < round.p_rows.size()) known.p = round.p_rows[row];
  if (row < round.p_reals.size()) {
    known.reals = rounded_distribution(round.p_reals[row].tokens, round.p_reals[row].weights, header_.unit);
  }
  if (row < std::max(round.p_rows.size(), round.p_reals.size())) expect_declared(sequence, round, row, findings);
  // A row behind the end of a text decides nothing, and no grammar says what follows there.
  const bool behind_end = !sequence.declared.grammar.empty() && row >= round.emitted.size();
  if (rows.reader && !behind_end) {
    const int context = rows.target->context();
    const std::int64_t taken = positions(sequence, rows);
    if (taken > context) {
      findings.expect(
          false, "position", [&] { return "the target has " + number(context) + " positions"; },
          [&] { return number(taken) + " tokens before a row"; });
      return known;
    }
    ++report_.examined.rows;
    std::optional<TokenSet> stated;
    if (row < round.allowed_tokens.size() && round.allowed_tokens[row].kind != AllowedTokens::Kind::all) {
      stated = round.allowed_tokens[row].set(header_.vocabulary);
    }
    const PlainRow& plain = read(sequence, *rows.reader, stated ? &*stated : nullptr);
    if (rows.foreign) exact_.sample(sequence, rows.reader->logits());
    if (rows.foreign) expect_near(sequence, row, *rows.reader, known, findings);
    else expect_own(round, row, plain, known, findings);
    if (row < round.emitted.size()) known.suspected = suspected(sequence, rows);
  }
  expect_allowed(round, row, behind_end ? nullptr : rows.reader.get(), findings);
  if (known.p && row < round.p_digests.size()) {
    const Fingerprint digest = known.p->fingerprint();
    findings.expect(
        round.p_digests[row] == digest, "p_row", [&] { return stated_row(row) + "has the digest " + digest.hex(); },
        [&] { return round.p_digests[row].hex(); });
  }
  return known;
}

void RowSource::expect_state(const OpenSequence& sequence, const RoundEvent& round, const Findings& findings) {
  if (!round.state_digest) return;
  const TargetRows& rows = rows_.at(sequence.declared.sequence);
  const auto read = std::span(sequence.text).first(sequence.text.size() - 1);
  const bool fits = rows.reader && !rows.foreign && positions(sequence, rows) <= rows.target->context() + 1;
  const std::optional<Fingerprint> own = fits ? rows.reader->state_after(read) : std::nullopt;
  if (!own) {
    findings.unread("state_digest",
                    "caches are known only of a target that computes in the numerics of the trace, and of some text");
    return;
  }
  findings.expect(
      *round.state_digest == *own, "state",
      [&] { return "a cache that has read the text has the digest " + own->hex(); },
      [&] { return round.state_digest->hex(); });
}

/// Checks what may follow at a row: the emitted token and what the stated row has are among it, and a grammar that is
/// known here allows it. Other adjustments may allow less than a grammar does.
void RowSource::expect_allowed(const RoundEvent& round, std::size_t row, const PlainReader* reader,
                               const Findings& findings) {
  const TokenSet* const by_grammar = reader == nullptr ? nullptr : reader->allowed_by_constraint();
  if (row < round.allowed_digests.size()) {
    const bool stated = row < round.allowed_tokens.size();
    if (stated || by_grammar != nullptr) {
      const Fingerprint own =
          fingerprint_of(stated ? round.allowed_tokens[row].set(header_.vocabulary) : *by_grammar, header_.vocabulary);
      findings.expect(
          round.allowed_digests[row] == own, "allowed",
          [&] { return "the tokens that may follow at " + target_row(row) + " have the digest " + own.hex(); },
          [&] { return round.allowed_digests[row].hex(); });
    } else {
      findings.unread("allowed_digests", "neither a target with the grammar nor allowed_tokens says what may follow");
    }
  }
  if (row >= round.allowed_tokens.size()) return;
  const AllowedTokens& allowed = round.allowed_tokens[row];
  const auto expect_one = [&](Token token, const char* what) {
    findings.expect(
        allowed.has(token), "allowed",
        [&] { return std::string(what) + " is one of those that may follow at " + target_row(row); },
        [&] { return "token " + number(token); });
  };
  if (row < round.emitted.size()) expect_one(round.emitted[row], "the emitted token");
  if (row < round.p_rows.size()) {
    for (const Token token : round.p_rows[row].tokens()) expect_one(token, "a token with a weight in p");
  }
  if (row < round.p_reals.size()) {
    for (const Token token : round.p_reals[row].tokens) expect_one(token, "a token with a weight in p");
  }
  if (by_grammar == nullptr || allowed.kind == AllowedTokens::Kind::all) return;
  for (Token token = 0; token < header_.vocabulary; ++token) {
    if (!allowed.has(token) || by_grammar->has(token)) continue;
    findings.expect(
        false, "allowed",
        [&] { return "the grammar does not allow token " + number(token) + " at " + target_row(row); },
        [] { return std::string("it may follow"); });
    return;
  }
}

std::optional<std::span<const double>> RowSource::logits(const OpenSequence& sequence) const {
  const TargetRows& rows = rows_.at(sequence.declared.sequence);
  if (!rows.reader || (rows.foreign && target_.slack <= 0)) return std::nullopt;
  if (positions(sequence, rows) > rows.target->context()) return std::nullopt;
  return rows.reader->logits();
}

double RowSource::reference_error(const OpenSequence& sequence) {
  const TargetRows& rows = rows_.at(sequence.declared.sequence);
  return rows.foreign && rows.reader ? exact_.error_of_logit(sequence, rows.reader->logits()) : 0;
}

const std::vector<double>* RowSource::exact_logits(const OpenSequence& sequence) {
  const TargetRows& rows = rows_.at(sequence.declared.sequence);
  return rows.foreign && rows.reader ? exact_.after(sequence, rows.reader->logits()) : nullptr;
}

std::optional<NearbyDistribution> RowSource::near_exact(const OpenSequence& sequence, const PlainReader& reader) {
  const std::vector<double>* const logits = exact_logits(sequence);
  if (logits == nullptr) return std::nullopt;
  return nearby_distribution(*logits, sequence.declared.sampling, order_of(sequence.declared), sequence.text,
                             target_.slack, reader.allowed());
}

bool RowSource::allows_exactly(const OpenSequence& sequence, Token token) {
  const TargetRows& rows = rows_.at(sequence.declared.sequence);
  const auto near = rows.reader ? near_exact(sequence, *rows.reader) : std::nullopt;
  return near && near->allows(token);
}

void RowSource::expect_own(const RoundEvent& round, std::size_t row, const PlainRow& plain, KnownRow& known,
                           const Findings& findings) const {
  if (row < round.logits_digests.size()) {
    findings.expect(
        round.logits_digests[row] == plain.logits, "p_row",
        [&] { return target_row(row) + " has logits " + plain.logits.hex(); },
        [&] { return round.logits_digests[row].hex(); });
  }
  if (known.p) {
    findings.expect(
        *known.p == plain.distribution, "p_row", [&] { return target_row(row) + " has other weights"; },
        [&] { return "p_rows[" + number(static_cast<std::int64_t>(row)) + "]"; });
  }
  known.p = plain.distribution;
}

/// Checks that a row of other numerics lies no further from the target's own than was granted.
void RowSource::expect_near(const OpenSequence& sequence, std::size_t row, const PlainReader& reader, KnownRow& known,
                            const Findings& findings) {
  const Sampling& sampling = sequence.declared.sampling;
  const std::vector<std::string>& order = order_of(sequence.declared);
  if (sequence.greedy()) {
    known.best.emplace(reader.logits(), sampling, sequence.text, reader.allowed());
    return;
  }
  known.near = nearby_distribution(reader.logits(), sampling, order, sequence.text, target_.slack, reader.allowed());
  if (!known.near) {
    const auto unknown = unknown_sampler(order);
    const char* const exact_only = sampler_of_own_numerics(sampling);
    report_.unproved.insert((unknown ? "sampler_order names '" + printable(*unknown) + "', which is not known here"
                             : exact_only != nullptr
                                 ? std::string(exact_only) + " is known of our own numerics only"
                                 : std::string("penalties come after a cut, where their effect is not known")) +
                            ": tokens are not held to the target");
    return;
  }
  const Distribution* const stated = known.distribution();
  if (stated == nullptr) return;
  const double rounding = known.reals ? known.reals->slack : 0;
  const auto apart_from = [&](const NearbyDistribution& near) {
    return static_cast<double>(Distribution::total - overlap(*stated, near.p)) /
           static_cast<double>(Distribution::total);
  };
  const double apart = apart_from(*known.near);
  report_.furthest_row = std::max(report_.furthest_row.value_or(0), apart);
  if (target_.slack_from_tokens > 0) return;  // no row of the control shows how far one may lie
  const auto within_error = [&] {             // it may be the reference that is off
    const auto exact = near_exact(sequence, reader);
    return exact && apart_from(*exact) <= exact->slack + rounding;
  };
  findings.expect(
      apart <= known.near->slack + rounding || within_error(), "p_row",
      [&] {
        return fmt::format("the stated row is at most {:g} away from {} in total variation",
                           known.near->slack + rounding, target_row(row));
      },
      [&] { return fmt::format("{:g}", apart); });
}

/// Checks that a stated row agrees with the declared sampling and with the stated logits.
void RowSource::expect_declared(const OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                                const Findings& findings) const {
  const Sampling& s = sequence.declared.sampling;
  if (!sequence.declared.other_sampler.empty()) return;
  if (!s.greedy() && s.top_k <= 0 && row >= round.top_logits.size()) return;
  const RealRow* const reals = row < round.p_reals.size() ? &round.p_reals[row] : nullptr;
  RealRow stated;
  if (reals == nullptr) {
    const Distribution& whole = round.p_rows[row];
    stated.tokens = whole.tokens();
    for (const std::uint64_t weight : whole.weights()) stated.weights.push_back(static_cast<double>(weight));
  } else {
    stated = *reals;
  }
  const auto tokens = [&] { return std::to_string(stated.tokens.size()) + " tokens"; };
  std::vector<double> sizes = stated.weights;
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  const double fine = 1 + 4 * header_.unit;  // weights closer than this are equal within rounding
  if (s.greedy()) {
    findings.expect(
        sizes.size() == 1, "declared", [&] { return stated_row(row) + "has one token, as the temperature is 0"; },
        tokens);
  } else if (s.top_k > 0) {
    const double last = sizes.back() * fine;
    const auto above = std::count_if(sizes.begin(), sizes.end(), [&](double size) { return size > last; });
    findings.expect(
        sizes.size() <= static_cast<std::size_t>(s.top_k) || above < s.top_k, "declared",
        [&] {
          return stated_row(row) + "has at most " + number(s.top_k) + " tokens, and others only as likely as the last";
        },
        tokens);
  }
  if (row >= round.top_logits.size() || sequence.declared.changes_logits() || sampler_of_own_numerics(s)) return;
  const TopTwo& best = round.top_logits[row];
  const auto is_of_size = [&](Token token, double size) { return stated.weight(token) * fine >= size; };
  const bool ordered = findings.expect(
      is_of_size(best.first, sizes[0]) && (sizes.size() < 2 || is_of_size(best.second, sizes[1])), "declared",
      [&] { return stated_row(row) + "has its likeliest tokens first in top_logits"; },
      [&] { return "tokens " + number(best.first) + ", " + number(best.second); });
  if (!ordered) return;
  const double total = reals == nullptr ? static_cast<double>(Distribution::total) : 1;
  expect_ratio(sequence, row, best, stated.weight(best.first) / total, stated.weight(best.second) / total, findings);
}

/// Checks that a token of a stated row is as much likelier than another as their logits say.
void RowSource::expect_ratio(const OpenSequence& sequence, std::size_t row, const TopTwo& best, double first,
                             double second, const Findings& findings) const {
  const Sampling& s = sequence.declared.sampling;
  const auto& order = sequence.declared.sampler_order;
  const bool of_reference = target_.vocabulary == 0 && target_.slack > 0;  // then the logits are another program's
  const bool cut = second == 0 && cuts(s);
  if (sequence.greedy() || sequence.rule() == AcceptanceRule::lossy || of_reference || cut) return;
  if (order && unknown_sampler(*order)) return;
  const double ratio = exp64((best.second_logit - best.first_logit) / s.temperature);
  // Each logit may have been rounded, at most by half a unit of itself, before and after it was divided.
  const double rounding =
      header_.unit * (8 + 2 * (std::fabs(best.first_logit) + std::fabs(best.second_logit)) / s.temperature);
  const double lost = header_.weight_min();
  findings.expect(
      second + lost >= first * ratio * exp64(-rounding) && second - lost <= first * ratio * exp64(rounding), "declared",
      [&] {
        return fmt::format("{}has {:.6g} of the weight of token {} for token {}, by their logits and the temperature",
                           stated_row(row), ratio, best.first, best.second);
      },
      [&] { return fmt::format("{:.6g}", second / first); });
}

}  // namespace draftproof::spectrace

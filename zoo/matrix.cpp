// SPDX-License-Identifier: MIT
#include <algorithm>

#include "zoo/zoo.h"

namespace draftproof::zoo {

const char* name_of(Harm harm) noexcept {
  switch (harm) {
    case Harm::lossy: return "lossy";
    case Harm::latent: return "latent";
    case Harm::counts: return "counts";
    case Harm::speed: return "speed";
    case Harm::none: return "right";
  }
  return "lossy";
}

const Mutant* find(std::string_view id) {
  for (const std::span<const Mutant> list : {all_mutants(), all_controls()}) {
    const auto at = std::find_if(list.begin(), list.end(), [&](const Mutant& mutant) { return id == mutant.id; });
    if (at != list.end()) return &*at;
  }
  return nullptr;
}

namespace {

/// What a check that catches the mutant finds.
Outcome outcome_of(Harm harm) noexcept {
  return harm == Harm::none ? Outcome::pass : harm == Harm::speed ? Outcome::perf_regression : Outcome::fail;
}

}  // namespace

bool as_expected(const Mutant& mutant, const Findings& findings) {
  const Outcome wanted = outcome_of(mutant.harm);
  const bool called_lossy = std::any_of(findings.begin(), findings.end(),
                                        [](const auto& entry) { return entry.second.outcome == Outcome::fail; });
  if (mutant.harm == Harm::speed && called_lossy) return false;
  if (mutant.harm != Harm::none) {
    return !mutant.expected_failures.empty() &&
           std::all_of(mutant.expected_failures.begin(), mutant.expected_failures.end(),
                       [&](const Check* check) { return findings.at(check->name).outcome == wanted; });
  }
  return std::all_of(findings.begin(), findings.end(),
                     [](const auto& entry) { return entry.second.outcome == Outcome::pass; });
}

Matrix matrix_of(std::span<const Row> rows) {
  Matrix matrix{.checks = check_names(), .rows = {}};
  for (const auto& [mutant, findings] : rows) {
    Matrix::Row row{.id = mutant->id,
                    .name = mutant->name,
                    .harm = name_of(mutant->harm),
                    .cause = mutant->cause,
                    .as_expected = as_expected(*mutant, findings),
                    .outcomes = {},
                    .stage = mutant->stage,
                    .issue = mutant->issue,
                    .expected_failures = {}};
    for (const Check* const check : mutant->expected_failures) row.expected_failures.emplace_back(check->name);
    for (const std::string& check : matrix.checks) {
      const auto found = findings.find(check);  // a check that the decoder cannot be asked is not among them
      row.outcomes.push_back(found == findings.end() ? Outcome::vacuous : found->second.outcome);
      row.messages.push_back(found == findings.end() ? "" : found->second.message);
    }
    matrix.rows.push_back(std::move(row));
  }
  return matrix;
}

Finding make_finding(const Row& row) {
  const auto& [mutant, findings] = row;
  const bool control = mutant->harm == Harm::none;
  const std::string decoder = std::string(mutant->id) + " " + mutant->name;
  Finding finding{
      .check = decoder,
      .outcome = as_expected(*mutant, findings) ? Outcome::pass : Outcome::fail,
      .examined = static_cast<long>(findings.size()),
      .message = decoder + (control ? " passes every check" : " is caught by all checks that must catch it")};
  if (finding.outcome == Outcome::pass) return finding;
  finding.message = decoder + (control ? " is right and was flagged"
                                       : " escapes a check that must catch it, or is called lossy and is not");
  const Outcome wanted = outcome_of(mutant->harm);
  Failure failure{.run = decoder,
                  .expected = control ? "every check passes" : "flagged by every check that must catch it",
                  .observed = {}};
  for (const auto& [check, found] : findings) {
    const bool called_lossy = mutant->harm == Harm::speed && found.outcome == Outcome::fail;
    const bool matters = control || called_lossy ||
                         std::any_of(mutant->expected_failures.begin(), mutant->expected_failures.end(),
                                     [&](const Check* expected) { return expected->name == check; });
    if (!matters || found.outcome == wanted) continue;
    failure.observed += (failure.observed.empty() ? "" : ", ") + check + ": " + draftproof::name_of(found.outcome);
    failure.facts.push_back(check + ": " + found.message);
  }
  failure.blames = "the check, or the questions that decoders of the zoo are asked";
  failure.clears = "the engine, because only the parts that the decoder shares with it are run";
  finding.failure = failure;
  return finding;
}

}  // namespace draftproof::zoo

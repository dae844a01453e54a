// SPDX-License-Identifier: MIT
// A zoo of wrong decoders, each wrong in one way and most of them found in the wild, with the checks that must catch
// them; and right decoders that look odd, which no check may flag. The letters group them: A acceptance and q, B random
// numbers, C sampling parameters, D the end of the text, E caches, F and G state between rounds, H drafts, S counts,
// N controls. Every mutant and control is put the same questions.
//
// A draft that is wrong only in what it remembers leaves the text right. `independence` names it as a fault of the
// draft when its digest shows it (E11, E12); a draft that merely guesses badly (H03, N06) is a control.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/check.h"
#include "oracle/exact_law.h"
#include "oracle/mutants/loop.h"
#include "oracle/mutants/parts.h"
#include "ref/models/hash.h"

namespace draftproof::mutants {

/// What takes the place of a sound part of the production loop.
struct Parts {
  const Rule* rule = nullptr;      // judges in place of the rule of the same name
  const Rule* declared = nullptr;  // is asked for in place of the rule of the same name
  NewTarget target = nullptr;
  NewChance chance = nullptr;
  NewDraft draft = nullptr;           // in place of "dialect"
  std::optional<Fault> loop = {};     // the small loop with this fault in place of the production loop
};

struct Mutant {
  const char* name;
  const char* wrong;  // for a control: why it is right
  std::vector<std::string_view> caught_by;
  Parts parts;
};

std::span<const Mutant> all_mutants();
std::span<const Mutant> all_controls();  // caught by nothing; the first two are the sound loops

/// A decoder over hash models. Drafts: none, dialect (a model that disagrees with the target on some rows), hostile,
/// oracular, moody (guesses as many tokens as it feels like, often none).
class MutantSubject final : public Subject {
 public:
  MutantSubject(const HashShape& shape, const Parts& parts);

  Trace run(const Request& request, const Variation& variation, Chance& chance) override;
  Model& target(const Variation& variation) override;
  std::string numerics(const Variation&) override { return "hash"; }

 private:
  std::unique_ptr<Draft> new_draft(const std::string& name, int capacity, int draft_max);

  Parts parts_;
  std::unique_ptr<Model> sound_;
  std::unique_ptr<Model> dialect_;
  std::unique_ptr<Model> target_;
};

/// What every check says of one decoder, over all trials and joint laws. `fail` in one trial is `fail`; `vacuous` is
/// what was vacuous in all of them.
std::map<std::string, Finding> examined(const Parts& parts);

/// Names of all checks, distribution_exact last.
std::vector<std::string> check_names();

}  // namespace draftproof::mutants

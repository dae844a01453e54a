// SPDX-License-Identifier: MIT
// Parts that are wrong in one way each, to be put in place of a sound one. Which mutant uses which: mutants.cpp.
#pragma once

#include <memory>

#include "ref/acceptance/random_source.h"
#include "ref/acceptance/rule.h"
#include "ref/drafts/draft.h"
#include "ref/models/model.h"

namespace draftproof::zoo {

// Rules. Each bears the name of the rule it claims to be.
extern const Rule accepts_all;
extern const Rule accepts_what_is_possible;
extern const Rule first_draft_token_unchecked;
extern const Rule refused_token_subtracted_only;
extern const Rule zero_coin_accepts;
extern const Rule row_too_late;
extern const Rule replacement_from_next_row;
extern const Rule replacement_from_whole_target;
extern const Rule replacement_with_accept_key;
extern const Rule draft_noise_of_replacement;
extern const Rule bonus_from_draft;
extern const Rule always_best;
extern const Rule draft_token_removed_from_target;
extern const Rule drawn_again;
extern const Rule lenient;
extern const Rule block_with_replacement_of_token;
extern const Rule numbered_by_row;
extern const Rule replacement_in_advance;
extern const Rule fallback_never_needed;  // sound
// ... of trees.
extern const Rule longest_of_the_branches;
extern const Rule sibling_judged_by_whole_target;
extern const Rule row_of_the_first_sibling;
/// N04, sound where every draw has a number of its own: a block may stand although one of its draft tokens, judged by
/// itself, would have fallen. For models whose weights are small multiples of one unit.
extern const Rule block;
extern const Rule sample_match;  // sound: matching, with a draft that has noise of its own

// Targets, around a sound one that outlives them.
using NewTarget = std::unique_ptr<Model> (*)(Model& sound, int threads);
std::unique_ptr<Model> even_passes_differ(Model& sound, int threads);
std::unique_ptr<Model> threads_differ(Model& sound, int threads);
std::unique_ptr<Model> looks_ahead(Model& sound, int threads);
std::unique_ptr<Model> draft_tokens_unseen(Model& sound, int threads);
std::unique_ptr<Model> positions_run_on(Model& sound, int threads);
std::unique_ptr<Model> forgets_nothing(Model& sound, int threads);
std::unique_ptr<Model> forgets_nothing_past_the_window(Model& sound, int threads);
std::unique_ptr<Model> forgets_everything(Model& sound, int threads);
std::unique_ptr<Model> forgets_unless_all_was_refused(Model& sound, int threads);
std::unique_ptr<Model> forgets_once(Model& sound, int threads);
std::unique_ptr<Model> keeps_three(Model& sound, int threads);
std::unique_ptr<Model> moves_to_the_wrong_places(Model& sound, int threads);
std::unique_ptr<Model> unread_residue(Model& sound, int threads);
std::unique_ptr<Model> last_cache_only(Model& sound, int threads);
std::unique_ptr<Model> prefixes_by_their_beginning(Model& sound, int threads);
std::unique_ptr<Model> stale_slot(Model& sound, int threads);
std::unique_ptr<Model> sees_a_window(Model& sound, int threads);  // sound
std::unique_ptr<Model> window_grows_with_the_pass(Model& sound, int threads);
std::unique_ptr<Model> ring_without_room(Model& sound, int threads);
// ... of trees.
std::unique_ptr<Model> sees_other_branches(Model& sound, int threads);
std::unique_ptr<Model> keeps_the_first_branch(Model& sound, int threads);

// Sources of chance, around a sound one that outlives them.
using NewRandomSource = std::unique_ptr<RandomSource> (*)(RandomSource& sound);
std::unique_ptr<RandomSource> positions_collapse(RandomSource& sound);
std::unique_ptr<RandomSource> purposes_collapse(RandomSource& sound);
std::unique_ptr<RandomSource> sequences_collapse(RandomSource& sound);
std::unique_ptr<RandomSource> seed_ignored(RandomSource& sound);
std::unique_ptr<RandomSource> numbered_by_call(RandomSource& sound);

// Drafts over a model that outlives them; the first is part of every trial. All but the last two are sound.
using NewDraft = std::unique_ptr<Draft> (*)(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> variable_length(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> names_the_best(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> hotter_and_narrower(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> stops_when_unsure(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> constant(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> names_the_neighbor(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> continues_the_wrong_row(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> never_forgets(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> remembers_draft_tokens(Model& model, int capacity, int draft_max);

}  // namespace draftproof::zoo

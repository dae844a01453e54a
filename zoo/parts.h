// SPDX-License-Identifier: MIT
// Parts that are wrong in one way each and replace a sound one. mutants.cpp lists which mutant uses which.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ref/acceptance/distribution.h"
#include "ref/acceptance/random_source.h"
#include "ref/acceptance/rule.h"
#include "ref/acceptance/sampler.h"
#include "ref/drafts/draft.h"
#include "ref/models/model.h"

namespace draftproof::zoo {

// Rules. Each has the name of the rule it claims to be.
extern const Rule accepts_all;
extern const Rule accepts_what_is_possible;
extern const Rule first_draft_token_unchecked;
extern const Rule rejected_token_subtracted_only;
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
extern const Rule block_with_coins_by_position;
extern const Rule block_with_share_not_cut;
extern const Rule block_rounded_down;
extern const Rule block_with_coins_from_front;
extern const Rule numbered_by_row;
extern const Rule replacement_in_advance;
extern const Rule residual_not_normalized;
extern const Rule residual_is_distance;
extern const Rule residual_with_floor;
extern const Rule ratio_of_point;
extern const Rule p_in_eight_bits;
extern const Rule coin_of_one;
extern const Rule accepts_at_a_rate;
extern const Rule accepts_above_a_threshold;
extern const Rule q_of_another_sequence;  // of a SharedQ
extern const Rule fallback_never_needed;  // sound
// Rules for trees.
extern const Rule longest_of_the_branches;
extern const Rule sibling_judged_by_whole_target;
extern const Rule row_of_the_first_sibling;
extern const Rule sample_match;  // sound: matching, with a draft that has its own noise

// Readers of rows, in place of compute_distribution.
Distribution nan_is_zero(std::span<const float> logits, const Sampling& sampling, const History& history);
Distribution nan_row_is_a_token(std::span<const float> logits, const Sampling& sampling, const History& history);
Distribution infinity_is_lowest(std::span<const float> logits, const Sampling& sampling,
                                const History& history);  // sound

// Targets that wrap a sound one, which must outlive them.
using NewTarget = std::unique_ptr<Model> (*)(Model& sound, int threads);
std::unique_ptr<Model> even_passes_differ(Model& sound, int threads);
std::unique_ptr<Model> caps_long_passes(Model& sound, int threads);
std::unique_ptr<Model> caps_every_pass(Model& sound, int threads);  // sound
std::unique_ptr<Model> adapter_on_first_row(Model& sound, int threads);
std::unique_ptr<Model> replays_the_last_token(Model& sound, int threads);
std::unique_ptr<Model> threads_differ(Model& sound, int threads);
std::unique_ptr<Model> looks_ahead(Model& sound, int threads);
std::unique_ptr<Model> draft_tokens_unseen(Model& sound, int threads);
std::unique_ptr<Model> positions_run_on(Model& sound, int threads);
std::unique_ptr<Model> no_rollback(Model& sound, int threads);
std::unique_ptr<Model> no_rollback_past_the_window(Model& sound, int threads);
std::unique_ptr<Model> rolls_back_everything(Model& sound, int threads);
std::unique_ptr<Model> no_rollback_when_all_rejected(Model& sound, int threads);
std::unique_ptr<Model> second_rollback_one_short(Model& sound, int threads);
std::unique_ptr<Model> keeps_three(Model& sound, int threads);
std::unique_ptr<Model> swaps_the_last_rows(Model& sound, int threads);
std::unique_ptr<Model> unread_residue(Model& sound, int threads);
std::unique_ptr<Model> last_cache_only(Model& sound, int threads);
std::unique_ptr<Model> prefixes_by_their_beginning(Model& sound, int threads);
std::unique_ptr<Model> stale_slot(Model& sound, int threads);
std::unique_ptr<Model> sees_a_window(Model& sound, int threads);  // sound
std::unique_ptr<Model> window_grows_with_the_pass(Model& sound, int threads);
std::unique_ptr<Model> ring_without_room(Model& sound, int threads);
// Targets with a state of the whole text (states.cpp).
std::unique_ptr<Model> state_not_restored(Model& sound, int threads);
std::unique_ptr<Model> state_replayed_a_row_late(Model& sound, int threads);
std::unique_ptr<Model> state_replayed_by_position(Model& sound, int threads);
// Targets for several sequences in one pass.
std::unique_ptr<Model> rows_of_neighbor(Model& sound, int threads);
std::unique_ptr<Model> scattered_by_the_order_before(Model& sound, int threads);
std::unique_ptr<Model> padded_to_the_longest(Model& sound, int threads);
std::unique_ptr<Model> slot_not_cleared(Model& sound, int threads);
std::unique_ptr<Model> placeholder_in_the_neighbor(Model& sound, int threads);
// Targets for the prefix cache.
std::unique_ptr<Model> publishes_rejected_rows(Model& sound, int threads);
std::unique_ptr<Model> drops_the_reused_prefix(Model& sound, int threads);
std::unique_ptr<Model> forgets_the_scale(Model& sound, int threads);
std::unique_ptr<Model> swaps_pages(Model& sound, int threads);
std::unique_ptr<Model> keeps_prefixes_packed(Model& sound, int threads);  // sound
// Targets for trees.
std::unique_ptr<Model> sees_other_branches(Model& sound, int threads);
std::unique_ptr<Model> keeps_the_first_branch(Model& sound, int threads);

// Random sources that wrap a sound one, which must outlive them.
using NewRandomSource = std::unique_ptr<RandomSource> (*)(RandomSource& sound);
std::unique_ptr<RandomSource> positions_collapse(RandomSource& sound);
std::unique_ptr<RandomSource> rounds_collapse(RandomSource& sound);
std::unique_ptr<RandomSource> draft_noise_again(RandomSource& sound);
std::unique_ptr<RandomSource> purposes_collapse(RandomSource& sound);
std::unique_ptr<RandomSource> sequences_collapse(RandomSource& sound);
std::unique_ptr<RandomSource> seed_ignored(RandomSource& sound);
std::unique_ptr<RandomSource> numbered_by_call(RandomSource& sound);
/// The same numbers, with the q of the sequence that was verified last, whichever it was.
class SharedQ final : public RandomSource {
 public:
  SharedQ(RandomSource& sound, std::shared_ptr<std::vector<Distribution>> q) : sound_(sound), q_(std::move(q)) {}
  std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) override {
    return sound_.sample_index(key, weights);
  }
  std::vector<Distribution>& q() { return *q_; }

 private:
  RandomSource& sound_;
  std::shared_ptr<std::vector<Distribution>> q_;
};
/// Keys name this place in place of the sequence.
std::unique_ptr<RandomSource> keyed_by_place(RandomSource& sound, int place);

// Drafts over a model that must outlive them; the first is part of every trial. The text is right with every one of
// them; those behind `remembers_draft_tokens` keep a wrong state.
using NewDraft = std::unique_ptr<Draft> (*)(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> variable_length(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> tuned_length(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> proposes_the_best(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> hotter_and_narrower(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> stops_when_unsure(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> breaks_ties_differently(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> rounds_before_drawing(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> draws_by_its_own_generator(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> reseeds_its_own_generator(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> constant(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> proposes_the_neighbor(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> remembers_draft_tokens(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> continues_the_wrong_row(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> draft_without_rollback(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> anchor_one_early(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> drops_a_row_of_partial_acceptance(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> repeats_a_row_of_partial_acceptance(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> survives_forget(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> mispairs_what_another_proposed(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> shares_one_table(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> loses_pairs_between_calls(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> drafts_beyond_its_reach(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> begins_anew_at_its_reach(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> ends_at_its_reach(Model& model, int capacity, int draft_max);
std::unique_ptr<Draft> keeps_rows_of_draft_tokens(Model& model, int capacity, int draft_max);

}  // namespace draftproof::zoo

// SPDX-License-Identifier: MIT
#include "zoo/zoo_subject.h"

#include <algorithm>
#include <iterator>

#include "ref/decoding/decoder.h"
#include "ref/drafts/control_drafts.h"
#include "ref/drafts/model_draft.h"
#include "ref/drafts/none.h"
#include "ref/drafts/scripted.h"
#include "ref/models/serial.h"
#include "zoo/joint_run.h"

namespace draftproof::zoo {

bool same_name(const Rule* rule, const Rule& other) {
  return rule != nullptr && rule->name == std::string_view(other.name);
}

bool can_run(const Parts& parts, const Variation& variation, int vocabulary) {
  const std::string_view name = variation.draft;
  if (name.starts_with("scripted:")) return parts.trees && ScriptedDraft::is_script(name.substr(9), vocabulary);
  return std::find(std::begin(draft_names), std::end(draft_names), name) != std::end(draft_names);
}

ZooSubject::ZooSubject(const HashShape& shape, const Parts& parts, bool rows) : parts_(parts), rows_(rows) {
  HashShape own = shape;
  own.recurrent = parts.recurrent;
  sound_ = make_hash_model(own);
  perturbed_ = make_hash_model(disagreeing(own));
}

Model& ZooSubject::target(const Variation& variation) {
  if (parts_.target == nullptr) return *sound_;
  auto& target = targets_[variation.threads];
  if (target == nullptr) target = parts_.target(*sound_, variation.threads);
  return *target;
}

std::unique_ptr<Draft> ZooSubject::new_draft(const std::string& name, int capacity, int draft_max) {
  if (draft_max == 0 || name == "none") return std::make_unique<NoDraft>();
  if (name == "always-reject") return std::make_unique<AlwaysRejectDraft>(*sound_, capacity, draft_max);
  if (name == "perfect") return std::make_unique<PerfectDraft>(*sound_, capacity, draft_max);
  if (name.starts_with("scripted:")) {
    return std::make_unique<ScriptedDraft>(*sound_, capacity, draft_max, name.substr(name.find(':') + 1));
  }
  if (name == "variable-length") return variable_length(*perturbed_, capacity, draft_max);
  if (parts_.draft != nullptr) return parts_.draft(*perturbed_, capacity, draft_max);
  return std::make_unique<ModelDraft>(*perturbed_, capacity, draft_max);
}

/// Returns the request as a decoder with these parts runs it.
Request ZooSubject::as_asked(const Request& request) {
  if (!first_) first_ = request;
  Request asked = request;
  if (parts_.first_asked) {
    asked.sampling = first_->sampling;
    asked.stops = first_->stops;
  }
  return asked;
}

std::optional<JointRun> ZooSubject::run_together(std::span<const Companion> companions, const JointPlan& plan) {
  if (parts_.loop) return std::nullopt;
  const Variation& common = companions.front().variation;
  SerialModel serial(target(common));
  Model& own_target = common.verification == Verification::serial ? serial : target(common);
  ModelDrafter drafter(*perturbed_);
  std::vector<std::unique_ptr<Draft>> drafts;
  std::vector<std::unique_ptr<RandomSource>> randoms;
  const auto q = std::make_shared<std::vector<Distribution>>();
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<Scheduled> scheduled;
  for (std::size_t i = 0; i < companions.size(); ++i) {
    const Companion& one = companions[i];
    const Variation& variation = one.variation;
    Request asked = as_asked(one.request);
    if (parts_.joint == JointFault::sampling_of_neighbor) {
      asked.sampling = companions[(i + 1) % companions.size()].request.sampling;
    }
    const int capacity = static_cast<int>(asked.prompt.size()) + asked.max_new_tokens + slack;
    drafts.push_back(new_draft(variation.draft, capacity, variation.draft_max));
    randoms.push_back(parts_.random == nullptr ? nullptr : parts_.random(*one.random));
    if (parts_.joint == JointFault::keys_by_place) {
      randoms.back() = keyed_by_place(*one.random, static_cast<int>(i));
    }
    const bool shares_q =
        parts_.joint == JointFault::q_of_neighbor && same_name(&q_of_another_sequence, *variation.rule);
    if (shares_q) randoms.back() = std::make_unique<SharedQ>(*one.random, q);
    const bool drafts_jointly = variation.draft == "perturbed" && parts_.draft == nullptr && variation.draft_max > 0;
    const Rule& rule = shares_q                                  ? q_of_another_sequence
                       : same_name(parts_.rule, *variation.rule) ? *parts_.rule
                                                                 : *variation.rule;
    const bool keeps_nothing = variation.draft == "none" || parts_.joint == JointFault::draft_not_restored;
    const Collaborators with = {.target = own_target,
                                .draft = *drafts.back(),
                                .rule = rule,
                                .random = randoms.back() ? *randoms.back() : *one.random,
                                .drafter = drafts_jointly ? &drafter : nullptr,
                                .draft_name = keeps_nothing ? "" : variation.draft};
    sequences.push_back(std::make_unique<Sequence>(with, asked, variation, Recording::digests));
    scheduled.push_back({sequences.back().get(), {}, one.timetable});
  }
  PrefixCache prefixes(std::size_t{1} << 24);
  Scheduler scheduler(own_target, {.rows_per_pass = plan.rows_per_pass}, plan.prefix_cache ? &prefixes : nullptr);
  JointRun run = run_jointly(scheduler, scheduled);
  for (std::size_t i = 0; i < companions.size(); ++i) {
    run.traces[i].request.sampling = companions[i].request.sampling;
    run.traces[i].request.stops = companions[i].request.stops;
  }
  return run;
}

Trace ZooSubject::run_with_callback(const Request& request, const Variation& variation, RandomSource& sound_random,
                                    const OnRound& on_round) {
  const Request asked = as_asked(request);
  const int capacity = static_cast<int>(asked.prompt.size()) + asked.max_new_tokens + slack;
  const auto draft = new_draft(variation.draft, capacity, variation.draft_max);
  const auto own_random = parts_.random == nullptr ? nullptr : parts_.random(sound_random);
  RandomSource& random = own_random ? *own_random : sound_random;
  const Rule& rule = same_name(parts_.rule, *variation.rule) ? *parts_.rule : *variation.rule;
  Model& own_target = target(variation);
  if (parts_.loop) return run_loop(own_target, *draft, rule, random, asked, variation, on_round, *parts_.loop);
  Decoder decoder(own_target, *draft, rule, random, asked, variation, Recording::digests);
  decoder.run({[&](const Trace& trace) { return !on_round || on_round(trace) ? Next::go_on : Next::cancel; }, rows_});
  Trace trace = decoder.trace();
  trace.request.sampling = request.sampling;  // a decoder with this fault would record what it was given
  trace.request.stops = request.stops;
  return trace;
}

}  // namespace draftproof::zoo

// SPDX-License-Identifier: MIT
#include "ref/decoding/engine.h"

#include <algorithm>
#include <system_error>

#include "kernels/kernels.h"
#include "kernels/openblas.h"
#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/decoding/draft_costs.h"
#include "ref/drafts/decoding_need.h"
#include "ref/drafts/none.h"
#include "ref/drafts/prediction.h"
#include "ref/drafts/suffix_pool.h"
#include "ref/models/models.h"
#include "ref/ranks/led_model.h"
#include "ref/text/vocabulary_match.h"

namespace draftproof {

const Kernels& kernels_by_name(const std::string& name) {
  const Kernels* const table = name.empty() ? &best_kernels() : find_kernels(name.c_str());
  if (table == nullptr) {
    std::string known;
    for (const Kernels* const* row = all_kernels(); *row != nullptr; ++row) known += std::string(" ") + (*row)->name;
    throw Error("there are no kernels named '" + name + "'; there are:" + known);
  }
  if (!table->supported()) throw Error("this CPU cannot run the kernels '" + name + "'; leave --kernels out");
  if (const std::string why = self_test(*table); !why.empty()) throw Error(why);
  return *table;
}

std::string numerics_of(const Kernels& kernels) {
  const std::string numerics = kernels.numerics;
  return numerics == "openblas" ? numerics + "/" + openblas_core() : numerics;
}

std::string numerics_of(const LoadOptions& load_options) {
  std::string numerics = numerics_of(load_options.kernels);
  if (load_options.quantize != Quantization::none) {
    numerics += std::string(", quantize ") + name_of(load_options.quantize);
  }
  if (load_options.long_context) numerics += ", long context";
  if (load_options.kv != KvFormat::f32) numerics += std::string(", kv ") + traits(load_options.kv).name;
  return numerics;
}

const Rule& rule_by_name(const std::string& name) {
  if (const Rule* const rule = find_rule(name)) return *rule;
  std::string known;
  for (const Rule* const* row = all_rules(); *row != nullptr; ++row) known += std::string(" ") + (*row)->name;
  throw Error("there is no rule named '" + name + "'; there are:" + known);
}

namespace {

/// The draft tokens of a round that memory is counted for.
int counted_draft_max(int draft_max) { return draft_max > 0 ? draft_max : counted_draft_tokens; }

/// The most draft tokens of a round that a tuner chooses from; 0: the text is too short for one.
int tuned_draft_max(const Request& request) { return std::clamp(request.positions() - 2, 0, counted_draft_max(0)); }

bool is_tuned(const Execution& execution, const Request& request) {
  return execution.draft_max == Execution::draft_max_auto && tuned_draft_max(request) > 0;
}

/// The options of a draft, of which rank 0 has all or each rank a part.
LoadOptions draft_options(const DraftKind& kind, LoadOptions options) {
  if (!kind.over_ranks) options.ranks = nullptr;
  return options;
}

/// Throws Error when the checkpoint is a draft of another kind.
const Checkpoint* files_of(const DraftStage& stage, ModelFiles& files) {
  const TakesPath takes_path = stage.kind->takes_path;
  const bool own =
      takes_path == TakesPath::required || (takes_path == TakesPath::optional_checkpoint && !stage.path.empty());
  const Checkpoint& found = own ? files.draft(stage.path) : files.target();
  if (stage.kind->recognizes == nullptr || stage.kind->recognizes(found.config())) return &found;
  throw Error(found.path().string() + ": is not a draft of the kind " + stage.kind->name + "; name it as " +
              kind_of_draft(found) + ":PATH");
}

/// Of a draft that reads features, and so the target's tokens: how its own tokenizer differs from the target's. Empty
/// when it does not, when one of both has none, and when it cannot be built, because it is not needed.
std::string other_tokens(const Checkpoint& draft, const Checkpoint& target, int rows) {
  if (!Tokenizer::is_in(draft) || !Tokenizer::is_in(target)) return "";
  try {
    const VocabularyMatch match = match_vocabularies({Tokenizer::load(target), rows}, {Tokenizer::load(draft), rows});
    if (match.matches) return "";
    return draft.path().string() + ": the draft's own tokenizer is not the target's: " + match.why +
           "; fewer of its draft tokens may be accepted";
  } catch (const Error&) {
    return "";
  }
}

/// What the features take that wait in a chain.
MemoryNeed need_of_waiting(const DraftSpec& spec) {
  MemoryNeed need;
  const auto reads_features = [](const DraftStage& stage) { return stage.kind->recognizes != nullptr; };
  if (std::ranges::any_of(spec.stages, reads_features)) need.cache_fixed = ChainDraft::waiting_features_max;
  return need;
}

/// What a draft needs more where it becomes the only stage of a chain.
MemoryNeed need_as_chain(const std::string& draft) {
  const DraftSpec spec = parse_draft_spec(draft);
  return spec.stages.size() == 1 ? need_of_waiting(spec) : MemoryNeed();
}

/// What the own stages of a job need beside its target and its draft, which becomes a stage of a chain. A pool is its
/// owner's.
MemoryNeed need_beside_draft(const DecodeJob& job, bool speculative) {
  MemoryNeed need = need_of_text(0);
  if (!job.prediction.empty()) need += need_of_prediction(job.prediction.size());
  if (speculative) need += need_as_chain(job.draft);
  return need;
}

/// The memory that a draft needs beside its target's, on the rank of the options.
MemoryNeed draft_need(const DraftSpec& spec, ModelFiles& files, const MemoryNeed& target,
                      const LoadOptions& load_options) {
  MemoryNeed need;
  const bool follows = load_options.ranks != nullptr && load_options.ranks->rank() > 0;
  for (const DraftStage& stage : spec.stages) {
    if (follows && !stage.kind->over_ranks) continue;
    need += stage.kind->need(stage, files_of(stage, files), target, draft_options(*stage.kind, load_options));
  }
  if (spec.stages.size() > 1 && !follows) need += need_of_waiting(spec);
  if (spec.trees()) need += need_of_tree(describe(files.target().config()), load_options.kv);
  return need;
}

/// The distributions of one round: one for each row of the verification pass, and one of them as lists.
MemoryNeed need_of_rows(int vocabulary) {
  MemoryNeed need;
  const std::uint64_t row = static_cast<std::uint64_t>(vocabulary) * sizeof(std::uint64_t);
  const std::uint64_t lists = static_cast<std::uint64_t>(vocabulary) * (sizeof(Token) + sizeof(std::uint64_t));
  need.scratch = row + lists;
  need.scratch_per_draft_token = row;
  return need;
}

void refuse(const std::string& what, std::uint64_t need) {
  if (const std::string why = shortage(what, need, memory_available()); !why.empty()) throw Error(why);
}

}  // namespace

MemoryNeed memory_need(ModelFiles& files, std::span<const std::string> drafts, const LoadOptions& load_options,
                       bool rows) {
  const MemoryNeed of_target = decoding_need(files.target(), load_options);
  MemoryNeed need = of_target;
  if (rows) need += need_of_rows(describe(files.target().config()).vocabulary);
  for (const std::string& draft : drafts) need += draft_need(parse_draft_spec(draft), files, of_target, load_options);
  return need;
}

void refuse_shortage(ModelFiles& files, std::span<const std::string> drafts, const LoadOptions& load_options,
                     const Request& request, int draft_max, bool rows) {
  const bool plain = std::ranges::all_of(drafts, [](const std::string& draft) { return draft == "none"; });
  const int context = describe(files.target().config()).context;
  const int max = request.context_shift ? std::min(context, request.context_shift->context) : context;
  const std::size_t wanted = request.prompt.size() + static_cast<std::size_t>(request.max_new_tokens);
  const int positions = static_cast<int>(std::min(wanted, static_cast<std::size_t>(std::max(1, max))));
  std::string what = files.target().path().string();
  for (const std::string& draft : drafts) {
    if (draft != "none") what += " with " + draft;
  }
  refuse(what + " for a text of " + std::to_string(positions) + " positions",
         memory_need(files, drafts, load_options, rows).total(positions, plain ? 0 : counted_draft_max(draft_max)));
}

namespace {

std::unique_ptr<Model> load_with_workers(const Checkpoint& files, const LoadOptions& options) {
  std::unique_ptr<Model> model;
  with_workers([&] { model = load_led_model(files, options); });  // once for all matrices
  return model;
}

}  // namespace

Engine::Engine(ModelFiles& files, LoadOptions load_options)
    : files_(files),
      load_options_(std::move(load_options)),
      need_(decoding_need(files.target(), load_options_)),
      target_(load_with_workers(files.target(), load_options_)),
      serial_(std::make_unique<SerialModel>(*target_)) {}

Engine::LoadedDraft& Engine::load(const std::string& draft) {
  const auto known = drafts_.find(draft);
  if (known != drafts_.end()) return known->second;
  const DraftSpec spec = parse_draft_spec(draft);
  LoadedDraft loaded;
  loaded.inputs.draft_given = !spec.none();
  loaded.inputs.target_has_taps = target_->layers() > 0;
  loaded.inputs.target_has_embeddings = target_->embeddings() != nullptr;
  for (const DraftStage& stage : spec.stages) {
    if (stage.kind->recognizes == nullptr) continue;
    loaded.inputs.draft_needs_target = true;
    files_of(stage, files_);
  }
  if (draftproof::gate(loaded.inputs) == Gate::open) {
    loaded.need = draft_need(spec, files_, need_, load_options_);
    refuse(draft, loaded.need.total(0));
    std::vector<std::shared_ptr<Drafter>> stages;
    for (const DraftStage& stage : spec.stages) {
      const Checkpoint* const files = files_of(stage, files_);
      const bool reads_features = stage.kind->recognizes != nullptr;
      std::shared_ptr<Drafter> drafter;
      with_workers([&] {
        drafter =
            stage.kind->load(stage, files, {*target_, &files_.target()}, draft_options(*stage.kind, load_options_));
      });
      loaded.reach = std::min(loaded.reach, drafter->reach());
      if (reads_features && !stage.path.empty()) {
        loaded.remark = other_tokens(*files, files_.target(), target_->vocabulary());
      }
      stages.push_back(std::move(drafter));
    }
    loaded.drafter = stages.size() == 1 ? stages.front() : std::make_shared<ChainDrafter>(stages);
    loaded.tuned = std::make_unique<ChainDrafter>(std::move(stages));
  }
  return drafts_.emplace(draft, std::move(loaded)).first->second;
}

Gate Engine::gate(const std::string& draft, bool logprobs) {
  GateInputs inputs = load(draft).inputs;
  inputs.logprobs = logprobs;
  return draftproof::gate(inputs);
}

int Engine::draft_reach(const std::string& draft, const Request& request) {
  const LoadedDraft& loaded = load(draft);
  if (!request.context_shift || loaded.drafter == nullptr) return loaded.reach;
  return draftproof::draft_reach(request, *loaded.drafter->open(request.positions(), 0));
}

std::string Engine::tuning_error(const std::string& draft) {
  const DraftSpec spec = parse_draft_spec(draft);
  if (spec.trees()) {
    return "draft '" + draft + "' proposes trees, and --draft-max auto chooses the lengths of chains; give a number, " +
           "or leave it out";
  }
  return "";
}

std::optional<DraftCosts> Engine::shared_pass_costs(const std::string& draft, const Execution& execution, int rows) {
  const DraftSpec spec = parse_draft_spec(draft);  // a proposal that ends early costs less than one that does not
  if (drafter(draft) == nullptr || spec.trees() || spec.ends_early()) return std::nullopt;
  const int positions = std::min({target_->context(), load(draft).reach, 2 * rows + 256});
  if (positions < rows + 2) return std::nullopt;
  DraftCosts costs;
  with_workers([&] {
    costs = measure_draft_costs(target(execution), load(draft).tuned->stages(), rows - 1, positions,
                                {.temperature = 1, .top_p = 0.95F});
  });
  return costs;
}

Drafter* Engine::drafter(const std::string& draft) {
  return gate(draft) == Gate::open ? load(draft).drafter.get() : nullptr;
}

Model& Engine::target(const Execution& execution) noexcept {
  return execution.verification == Verification::serial ? *serial_ : *target_;
}

void Engine::sign(Trace& trace) const {
  trace.kernels = load_options_.kernels.name;
  trace.threads = threads();
}

Engine::Opened Engine::open(DecodeJob job) {
  if (const std::string why = request_error(job.request, *target_); !why.empty()) throw Error(why);
  Execution& execution = job.execution;
  Opened opened;
  opened.cost = {need_.cache_fixed, need_.cache_per_position};
  const bool tuned = is_tuned(execution, job.request);
  if (execution.draft_max == Execution::draft_max_auto) execution.draft_max = 0;
  const int positions = job.request.positions();
  Drafter* shared = drafter(job.draft);
  const bool speculative = shared != nullptr;
  std::vector<std::string> own_stages;
  std::vector<std::unique_ptr<Draft>> own;
  const int own_max = std::min(positions, execution.draft_max > 0 ? execution.draft_max : prediction_draft_max);
  if (!job.prediction.empty()) {
    own_stages.push_back(prediction_stage);
    own.push_back(prediction_draft(job.prediction, job.request.prompt, *target_, own_max));
  }
  if (job.pool != nullptr) {
    REQUIRE(&job.rule == &matching, "by another rule the text would depend on those in the pool");
    own_stages.push_back(pool_stage);
    own.push_back(pool_draft(job.pool, own_max));
  }
  const bool chained = !own.empty() || (speculative && (tuned || job.limited_by_load));
  if (!own.empty()) {
    const MemoryNeed need = need_beside_draft(job, speculative);
    opened.cost.fixed += need.cache_fixed;
    opened.cost.per_position += need.cache_per_position;
  }
  if (!speculative && own.empty()) {
    opened.draft = std::make_unique<NoDraft>();
  } else if (!chained) {
    opened.draft = shared->open(positions, execution.draft_max);
  } else {
    if (const std::string why = tuned ? tuning_error(job.draft) : ""; !why.empty()) throw Error(why);
    const bool only_stage = own.empty() && parse_draft_spec(job.draft).stages.size() == 1;
    ChainDrafter& chain = speculative ? *load(job.draft).tuned : alone_;
    shared = &chain;
    opened.draft = tuned ? chain.open_tuned(positions, tuned_draft_max(job.request), std::move(own))
                         : chain.open(positions, execution.draft_max, std::move(own));
    if (only_stage) {  // the features that wait
      const std::uint64_t bytes = sizeof(float) * opened.draft->taps().size() *
                                  static_cast<std::uint64_t>(target_->hidden()) * static_cast<std::uint64_t>(positions);
      opened.cost.fixed += std::min<std::uint64_t>(bytes, ChainDraft::waiting_features_max);
    }
  }
  if (speculative) {
    const LoadedDraft& loaded = load(job.draft);
    opened.cost.fixed += loaded.need.cache_fixed;
    opened.cost.per_position += loaded.need.cache_per_position;
    for (const auto& [limit, bytes] : loaded.need.cache_per_position_up_to) {
      if (limit < positions) opened.cost.fixed += bytes * static_cast<std::uint64_t>(limit);
      else opened.cost.per_position += bytes;
    }
  }
  if (execution.draft_max == 0) execution.draft_max = opened.draft->draft_max();
  const Collaborators with = {.target = target(execution),
                              .draft = *opened.draft,
                              .rule = job.rule,
                              .random = job.random,
                              .drafter = shared,
                              .stop = job.stop,
                              .own_stages = std::move(own_stages),
                              .draft_name = speculative ? job.draft : "",
                              .prefix_owner = std::move(job.prefix_owner)};
  opened.sequence = std::make_unique<Sequence>(with, std::move(job.request), execution, job.recording);
  opened.sequence->watch(std::move(job.watch), job.cancelled);
  return opened;
}

Trace Engine::decode(DecodeJob job, PrefixCache* prefixes) {
  if (const std::string why = request_error(job.request, *target_); !why.empty()) throw Error(why);
  const int positions = job.request.positions();
  MemoryNeed need = need_;
  if (job.watch.rows) need += need_of_rows(target_->vocabulary());
  const bool speculative = gate(job.draft) == Gate::open;
  if (speculative) need += load(job.draft).need;
  const bool own = !job.prediction.empty() || job.pool != nullptr;
  if (own) {
    need += need_beside_draft(job, speculative);
  } else if (speculative && is_tuned(job.execution, job.request)) {
    need += need_as_chain(job.draft);
  }
  if (prefixes != nullptr) {  // copies of the caches: of both ends of the text that is read, and of its rows once
    need.cache_fixed *= 3;
    need.cache_per_position *= 2;
    for (auto& [limit, bytes] : need.cache_per_position_up_to) bytes *= 2;
  }
  refuse("a text of " + std::to_string(positions) + " positions",
         need.beside_weights(positions, speculative || own ? counted_draft_max(job.execution.draft_max) : 0));
  const Opened opened = open(std::move(job));
  with_workers([&] { decode_alone(*opened.sequence, {}, prefixes); });
  Trace trace = std::move(*opened.sequence).trace();
  sign(trace);
  return trace;
}

void Engine::load_prefixes(PrefixCache& prefixes, const PrefixOrigin& origin, const std::string& draft,
                           const std::filesystem::path& file) {
  std::error_code unreadable;  // load_prefix_cache says so
  const auto bytes = std::filesystem::file_size(file, unreadable);
  if (!unreadable) refuse("the prefix cache " + file.string(), bytes);
  const auto cache = target_->new_cache(1, 1);
  Drafter* const shared = drafter(draft);
  const auto opened = shared != nullptr ? shared->open(1, 0) : std::make_unique<NoDraft>();
  load_prefix_cache(prefixes, origin, parts_in_prefix_cache(*cache, *opened, shared != nullptr ? draft : ""), file);
}

std::uint64_t Engine::cache_budget(std::span<const std::string> drafts, int rows_per_pass, int positions) {
  MemoryNeed need = need_;
  for (const std::string& draft : drafts) {
    if (gate(draft) == Gate::open) need += load(draft).need;
  }
  const auto rows = static_cast<std::uint64_t>(rows_per_pass);
  const std::uint64_t besides = need.scratch * (rows / prefill_chunk + 1) + rows * need.scratch_per_draft_token +
                                need.scratch_per_position * static_cast<std::uint64_t>(positions);
  refuse("a pass of " + std::to_string(rows_per_pass) + " rows", besides);
  return memory_available() - besides;
}

}  // namespace draftproof

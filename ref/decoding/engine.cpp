// SPDX-License-Identifier: MIT
#include "ref/decoding/engine.h"

#include <algorithm>

#include "kernels/kernels.h"
#include "kernels/openblas.h"
#include "kernels/threads.h"
#include "ref/acceptance/random_source.h"
#include "ref/base/error.h"
#include "ref/drafts/none.h"
#include "ref/models/dflash.h"
#include "ref/models/models.h"
#include "ref/models/transformer.h"

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
int default_draft_max(const Request& request) { return request.draft_max > 0 ? request.draft_max : 16; }

/// The need of a model and of what reads its rows.
MemoryNeed decoding_need(const Checkpoint& files, const LoadOptions& load_options) {
  MemoryNeed need = model_need(files, load_options);
  const int vocabulary = read_transformer_config(files.config(), 1).vocabulary;
  need.scratch += Sampler::bytes(vocabulary);
  // Of a draft token: the draft's row of logits, and the distribution it was drawn from.
  need.scratch_per_draft_token += Outputs::bytes_per_row(vocabulary) + Distribution::bytes_for(vocabulary);
  return need;
}

/// The memory that a draft needs beside its target's.
MemoryNeed draft_need(const DraftName& name, ModelFiles& files, const MemoryNeed& target,
                      const LoadOptions& load_options) {
  MemoryNeed need;
  if (name.kind->takes_path) {
    need = decoding_need(files.draft(name.path), load_options);
    need.scratch_per_draft_token = 0;  // the target's has it
  } else if (name.kind->name != std::string("none")) {  // the target again, with a cache of its own
    need.cache_fixed = target.cache_fixed;
    need.cache_per_position = target.cache_per_position;
  }
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
  if (rows) need += need_of_rows(read_transformer_config(files.target().config()).vocabulary);
  for (const std::string& draft : drafts) need += draft_need(parse_draft_name(draft), files, of_target, load_options);
  return need;
}

void refuse_shortage(ModelFiles& files, std::span<const std::string> drafts, const LoadOptions& load_options,
                     const Request& request, bool rows) {
  const bool plain = std::ranges::all_of(drafts, [](const std::string& draft) { return draft == "none"; });
  const int context = read_transformer_config(files.target().config()).context;
  const std::size_t wanted = request.prompt.size() + static_cast<std::size_t>(request.max_new_tokens);
  const int positions = static_cast<int>(std::min(wanted, static_cast<std::size_t>(context)));
  std::string what = files.target().path().string();
  for (const std::string& draft : drafts) {
    if (draft != "none") what += " with " + draft;
  }
  refuse(what + " for a text of " + std::to_string(positions) + " positions",
         memory_need(files, drafts, load_options, rows).total(positions, plain ? 0 : default_draft_max(request)));
}

Engine::Engine(ModelFiles& files, LoadOptions load_options)
    : files_(files),
      load_options_(std::move(load_options)),
      need_(decoding_need(files.target(), load_options_)),
      target_(load_model(files.target(), load_options_)) {}

const Engine::LoadedDraft& Engine::load(const std::string& draft) {
  const auto known = drafts_.find(draft);
  if (known != drafts_.end()) return known->second;
  const DraftName name = parse_draft_name(draft);
  LoadedDraft loaded;
  loaded.question.draft_given = name.kind->name != std::string("none");
  loaded.question.draft_needs_target = name.kind->needs_target;
  loaded.question.draft_is_dflash = name.kind->needs_target && is_dflash(files_.draft(name.path).config());
  loaded.question.target_has_taps = target_->layers() > 0;
  loaded.question.target_has_embeddings = target_->embeddings() != nullptr;
  if (draftproof::gate(loaded.question) == Gate::open) {
    loaded.need = draft_need(name, files_, need_, load_options_);
    refuse(draft, loaded.need.total(0));
    const Checkpoint* const files = name.kind->takes_path ? &files_.draft(name.path) : nullptr;
    loaded.new_draft = name.kind->open(files, *target_, load_options_);
  }
  return drafts_.emplace(draft, std::move(loaded)).first->second;
}

Gate Engine::gate(const std::string& draft, bool logprobs) {
  GateQuestion question = load(draft).question;
  question.logprobs = logprobs;
  return draftproof::gate(question);
}

Trace Engine::decode(Request request, const std::string& draft, const Rule& rule, RandomSource& random,
                     Recording recording, const RoundCallback& watch, const std::atomic<bool>* cancelled) {
  if (const std::string why = request_error(request, *target_); !why.empty()) throw Error(why);
  const int positions = static_cast<int>(request.prompt.size()) + request.max_new_tokens;
  const std::string text = "a text of " + std::to_string(positions) + " positions";
  std::unique_ptr<Draft> drafter = std::make_unique<NoDraft>();
  MemoryNeed need = need_;
  if (watch.rows) need += need_of_rows(target_->vocabulary());
  if (gate(draft, request.logprobs) == Gate::open) {
    const LoadedDraft& loaded = load(draft);
    need += loaded.need;
    refuse(text, need.beside_weights(positions, default_draft_max(request)));
    drafter = loaded.new_draft(positions, request.draft_max);
  } else {
    refuse(text, need.beside_weights(positions, 0));
  }
  if (request.draft_max == 0) request.draft_max = drafter->draft_max();
  Decoder decoder(*target_, *drafter, rule, random, std::move(request), recording);
  with_workers([&] { decoder.run(watch, cancelled); });
  Trace trace = std::move(decoder).trace();
  trace.kernels = load_options_.kernels.name;
  trace.threads = threads();
  return trace;
}

}  // namespace draftproof

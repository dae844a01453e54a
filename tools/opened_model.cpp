// SPDX-License-Identifier: MIT
#include "tools/opened_model.h"

#include <fmt/format.h>

#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/decoding/fastest_threads.h"
#include "ref/models/models.h"
#include "ref/ranks/process_ranks.h"
#include "tools/complaint.h"
#include "tools/statistics.h"

namespace draftproof {

namespace {

/// Before anything computes, so that no thread starts that is not wanted.
NumberOrAuto set(NumberOrAuto threads) {
  if (threads.number > 0) set_threads(threads.number);
  return threads;
}

}  // namespace

OpenedModel::OpenedModel(const ModelToOpen& what)
    : threads_(set(what.threads)),
      quiet_(what.quiet),
      progress_(what.quiet),
      files_(with_adapters(Checkpoint(what.target), what.layout)),
      load_options_(layout_of(what.layout)) {
  if (load_options_.long_context && describe(files_.target().config()).long_context == 0) {
    throw Error("--long-context: " + files_.target().path().string() + " has no longrope");
  }
  load_options_.observer = progress_.observer();
  load_options_.ranks = process_ranks();
}

const Tokenizer* OpenedModel::tokenizer() {
  if (!tokenizer_ && Tokenizer::is_in(files_.target())) tokenizer_ = Tokenizer::load(files_.target());
  return tokenizer_ ? &*tokenizer_ : nullptr;
}

const Tokenizer* OpenedModel::tokenizer_to_read(const CommonOptions& options) {
  if (!options.prompt_tokens.empty()) return nullptr;
  try {
    return tokenizer();
  } catch (const Error& wrong) {
    throw Error(std::string(wrong.what()) + "; give the prompt as --prompt-tokens");
  }
}

const Tokenizer* OpenedModel::tokenizer_to_write() {
  try {
    return tokenizer();
  } catch (const Error& wrong) {
    if (!quiet_) complain("printing token ids instead of text: " + std::string(wrong.what()));
    return nullptr;
  }
}

void OpenedModel::refuse_shortage(const std::vector<std::string>& drafts, const Request& request, int draft_max,
                                  bool rows) {
  draftproof::refuse_shortage(files_, drafts, load_options_, request, draft_max, rows);
}

Engine& OpenedModel::load(const std::vector<std::string>& drafts, const Request& request, int draft_max, bool rows) {
  refuse_shortage(drafts, request, draft_max, rows);
  engine_ = std::make_unique<Engine>(files_, load_options_);
  if (threads_.number == NumberOrAuto::automatic) set_threads(fastest_threads(engine_->target(), threads()));
  return *engine_;
}

OpenedModel::UsedDraft OpenedModel::used_draft(const std::string& draft, const Request& request, bool logprobs) {
  UsedDraft used = {engine_->gate(draft, logprobs), "none", "", "", ""};
  if (used.gate == Gate::open) used.name = draft;
  else if (used.gate != Gate::no_draft)
    used.off = std::string("speculation is off, decoding plainly: ") + name_of(used.gate);
  used.too_short = short_draft_text(engine_->draft_reach(used.name, request), request);
  used.remark = engine_->draft_remark(used.name);
  return used;
}

OpenedModel::UsedDraft OpenedModel::draft_to_write(const std::string& draft, const Request& request, bool logprobs) {
  UsedDraft used = used_draft(draft, request, logprobs);
  if (!used.off.empty()) complain(used.off);
  for (const std::string& remark : {used.too_short, used.remark}) {
    if (!remark.empty() && !quiet_) complain(remark);
  }
  return used;
}

void OpenedModel::require_draft(const std::string& draft) {
  if (const Gate gate = engine_->gate(draft); gate != Gate::open) {
    throw Error(fmt::format("speculation is off for draft {}: {}", draft, name_of(gate)));
  }
}

Request request_of_size(int prompt, int max_new_tokens) {
  Request request;
  request.prompt.resize(static_cast<std::size_t>(prompt));
  request.max_new_tokens = max_new_tokens;
  return request;
}

}  // namespace draftproof

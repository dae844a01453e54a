// SPDX-License-Identifier: MIT
#include "tools/model_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ref/base/error.h"
#include "ref/base/sha256.h"
#include "ref/decoding/draft_lengths.h"
#include "ref/formats/whole_file.h"
#include "ref/models/models.h"
#include "tools/complaint.h"
#include "tools/lookup_update.h"
#include "tools/saved_prefixes.h"
#include "tools/weights_digest.h"

namespace draftproof {
namespace {

/// "Qwen3-0.6B" of a folder or a file with that name.
std::string name_of_model(const std::filesystem::path& target) {
  std::filesystem::path path = std::filesystem::weakly_canonical(target);
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

std::string name_with_adapters(const Checkpoint& files) {
  std::string name = name_of_model(files.path());
  for (const MergedAdapter& adapter : files.adapters()) name += "+" + name_of_model(adapter.source.path);
  return name;
}

std::optional<ChatTemplate> template_of(const ServeOptions& options, const Checkpoint& files) {
  if (!options.template_file.empty()) return ChatTemplate::read(options.template_file, files);
  return ChatTemplate::find(files);
}

/// `cache_bytes`: what the KV caches of all answers may have.
serve::ServiceOptions service_options_of(const ServeOptions& options, const std::string& draft, Engine& engine,
                                         std::uint64_t cache_bytes) {
  serve::ServiceOptions service;
  service.draft = draft;
  service.execution.draft_max = options.draft_max;
  service.limits = {.rows_per_pass = options.rows_per_pass,
                    .reading_rows = options.reading_rows,
                    .running_max = options.parallel,
                    .cache_bytes = cache_bytes};
  if (options.draft_max == 0) service.costs = engine.shared_pass_costs(draft, {}, DraftLengths::rows_measured);
  service.pool_tokens = options.pool_tokens;
  service.share_prefixes = options.share_prefixes;
  service.waiting_max = options.waiting_max;
  service.drain_seconds = options.drain_seconds;
  return service;
}

constexpr std::size_t lookup_bytes_max = std::size_t{1} << 28;  // that answers are counted into

/// What a budget leaves when every API key has its pool, and answers are counted.
std::uint64_t room_beside_learning(const ServeOptions& options, std::size_t keys, std::uint64_t budget) {
  if (options.pool_tokens > 0 && options.pool_tokens < SuffixPool::max_tokens_min) {
    throw Error(fmt::format("--draft-pool {}: a pool holds at least {} tokens; give more, or 0 for none",
                            options.pool_tokens, SuffixPool::max_tokens_min));
  }
  const std::uint64_t pools = std::max<std::uint64_t>(1, keys) * static_cast<std::uint64_t>(options.pool_tokens) *
                              SuffixCorpus::bytes_per_token;
  if (const std::string why = shortage("--draft-pool of every API key", pools, budget); !why.empty()) throw Error(why);
  const std::uint64_t counts = options.lookup_file.empty() ? 0 : lookup_bytes_max;
  if (const std::string why = shortage("--lookup-update", counts, budget - pools); !why.empty()) throw Error(why);
  return budget - pools - counts;
}

}  // namespace

/// The KV caches of prompts that were read before, kept in a folder from one run of the server to the next. There is
/// one file for each target with its adapters, draft and numerics class, so servers of different models may share a
/// folder.
class ServedPrefixes {
 public:
  ServedPrefixes(const ServeOptions& options, std::uint64_t bytes, Engine& engine, const std::string& draft,
                 const serve::Log& events)
      : events_(events), in_memory_(bytes) {
    if (options.prefix_folder.empty()) return;
    const std::filesystem::path folder = options.prefix_folder;
    std::error_code failure;
    std::filesystem::create_directories(folder, failure);
    if (failure) throw Error(options.prefix_folder + ": " + failure.message() + "; give --prefix-cache a folder");
    remove_leftovers(folder);
    Sha256 key;
    key.add(draft + "\n" + engine.numerics());
    for (const std::string& adapter : options.layout.lora) key.add("\n" + adapter);
    const std::string file = (folder / (name_of_model(options.target) + "-" + key.hex().substr(0, 8) + ".h5")).string();
    saved_.emplace(PrefixCacheOptions{file, {bytes}}, std::vector{options.target});
    saved_->begin(engine, draft);
    try {
      saved_->load(engine, draft);
    } catch (const Error& wrong) {
      complain(std::string(wrong.what()) + "; the prefix cache starts empty, and will replace the file");
    }
  }

  PrefixCache& cache() noexcept { return saved_ ? saved_->cache() : in_memory_; }
  void save() const {
    if (!saved_) return;
    try {
      saved_->save();
    } catch (const Error& wrong) {
      events_.write("prefix cache not saved", {{"why", wrong.what()}});
    }
  }

 private:
  const serve::Log& events_;
  PrefixCache in_memory_;
  std::optional<SavedPrefixes> saved_;
};

/// The answers of a run, counted into a lookup file.
class LearnedLookup {
 public:
  LearnedLookup(const ServeOptions& options, int vocabulary, const serve::Log& events)
      : events_(events),
        update_(options.lookup_file, {options.target, options.template_file, options.api_key_file}, vocabulary) {
    if (full()) {
      throw Error(
          fmt::format("{}: takes {} MiB in memory, and --lookup-update of a server counts into at most {}; "
                      "begin a new file",
                      options.lookup_file, update_.bytes() >> 20, lookup_bytes_max >> 20));
    }
  }

  void add(const Trace& answer) {
    if (full()) return;
    update_.count(answer.request.prompt, answer.output);
    if (full()) events_.write("lookup file full", {{"bytes", update_.bytes()}});
    if (update_.worth_saving()) save();
  }
  void save() {
    try {
      update_.save();
    } catch (const Error& wrong) {
      events_.write("lookup file not saved", {{"why", wrong.what()}});
    }
  }

 private:
  /// A table may double once more.
  bool full() const noexcept { return update_.bytes() > lookup_bytes_max / 2; }

  const serve::Log& events_;
  LookupUpdate update_;
};

ModelHost::ModelHost(const ServeOptions& options)
    : options_(options), opened_({options.target, options.layout, options.threads}) {
  opened_.tokenizer();  // refuses one that cannot be built before the target is loaded
  chat_ = template_of(options_, opened_.files().target());
  served_.name = name_with_adapters(opened_.files().target());
  bytes_ = memory_need(opened_.files(), std::span(&options_.draft, 1), opened_.load_options()).total(0);
}

ModelHost::~ModelHost() = default;

void ModelHost::load_engine() {
  engine_ = &opened_.load({options_.draft}, request_of_size(1, options_.max_new_tokens), options_.draft_max);
}

void ModelHost::describe() {
  served_.draft = parse_draft_spec(draft_).name_with_paths([](const auto& path) { return name_of_model(path); });
  served_.fingerprint = engine_->numerics();
  served_.weights = weights_fingerprint(engine_->checkpoint());
  served_.tokenizer = opened_.tokenizer();
  served_.chat = chat_ ? &*chat_ : nullptr;
  served_.vocabulary = engine_->target().vocabulary();
  if (served_.tokenizer != nullptr) {
    served_.tokens = std::make_shared<const TokenTrie>(*served_.tokenizer, served_.vocabulary);
  }
  served_.stops = read_stop_tokens(opened_.files().target());
  served_.context = engine_->target().context();
  served_.max_new_tokens = options_.max_new_tokens;
}

void ModelHost::open(const Shared& shared) {
  load_engine();
  draft_ = opened_.draft_to_write(options_.draft, request_of_size(1, engine_->target().context() - 1)).name;
  describe();
  const std::uint64_t free =
      engine_->cache_budget(std::span(&draft_, 1), options_.rows_per_pass, engine_->target().context());
  if (const std::string why = shortage("the other models", shared.not_loaded, free); !why.empty()) throw Error(why);
  const std::uint64_t room = room_beside_learning(options_, shared.keys, (free - shared.not_loaded) / shared.models);
  prefix_bytes_ = std::min(options_.prefix_cache_size.bytes / shared.models, room / 4);
  const std::uint64_t for_answers =
      options_.kv_budget.bytes > 0 ? options_.kv_budget.bytes / shared.models : room - prefix_bytes_;
  std::vector<std::string> stages;
  for (const DraftStage& stage : parse_draft_spec(draft_).stages) stages.push_back(stage.name_with({}));
  events_ = &shared.events;
  metrics_.emplace(stages);
  serve::ServiceOptions service = service_options_of(options_, draft_, *engine_, for_answers);
  if (!options_.lookup_file.empty()) {
    lookup_ = std::make_unique<LearnedLookup>(options_, served_.vocabulary, *events_);
    service.on_answer = [this](const Trace& answer) { lookup_->add(answer); };
  }
  service_.emplace(served_.tokenizer, *metrics_, shared.wakeup, std::move(service));
  begin_service();
}

void ModelHost::begin_service() {
  prefixes_ = std::make_unique<ServedPrefixes>(options_, prefix_bytes_, *engine_, draft_, *events_);
  service_->load(*engine_, prefixes_->cache());
}

void ModelHost::load() {
  load_engine();
  engine_->gate(draft_);
  begin_service();
  events_->write("model loaded", {{"model", served_.name}});
}

void ModelHost::drop() {
  service_->unload();
  prefixes_->save();
  if (lookup_) lookup_->save();
  prefixes_.reset();
  engine_ = nullptr;
  opened_.unload();
  events_->write("model dropped", {{"model", served_.name}});
}

void ModelHost::tell_ready(int port) const {
  events_->write("ready",
                 {{"model", served_.name}, {"draft", draft_}, {"numerics", served_.fingerprint}, {"port", port}});
}

}  // namespace draftproof

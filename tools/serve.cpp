// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <optional>
#include <stop_token>
#include <thread>

#include "ref/base/error.h"
#include "ref/base/sha256.h"
#include "ref/chat/chat_template.h"
#include "ref/decoding/engine.h"
#include "ref/formats/whole_file.h"
#include "ref/models/models.h"
#include "serve/server.h"
#include "tools/commands.h"
#include "tools/complaint.h"
#include "tools/opened_model.h"
#include "tools/pair.h"
#include "tools/saved_prefixes.h"
#include "tools/weights_digest.h"

namespace draftproof {
namespace {

constexpr int measured_rows = 32;  // of a pass, by which load decides the lengths of drafts

struct ServeOptions {
  std::string target;
  std::vector<std::string> also;  // more targets
  std::string draft = "none";
  int draft_max = 0;
  std::string template_file;  // empty: the model's own
  LayoutOptions layout;
  NumberOrAuto threads = {.max = threads_max};
  std::string host = "127.0.0.1";
  int port = 8080;
  std::string api_key_file;
  std::vector<std::string> cors;
  std::string log_format = "text";
  int parallel = 32;
  int waiting_max = 256;
  int max_new_tokens = 512;
  int rows_per_pass = 256;
  int reading_rows = 256;
  ByteCount kv_budget;  // 0: what memory has room for
  std::string prefix_folder;
  ByteCount prefix_cache_size = {std::uint64_t{1} << 30};
  int pool_tokens = 0;
  int drain_seconds = 30;
};

/// A byte order mark at the beginning and blanks around keys are not of them.
std::vector<std::string> read_api_keys(const std::string& file) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  constexpr const char* blanks = " \t\r";
  std::vector<std::string> keys;
  if (file.empty()) return keys;
  std::ifstream stream(file);
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    if (++number == 1 && line.starts_with(mark)) line.erase(0, mark.size());
    line.erase(0, std::min(line.find_first_not_of(blanks), line.size()));
    line.erase(line.find_last_not_of(blanks) + 1);
    if (!std::ranges::all_of(line, [](char c) { return c > ' ' && c < 127; })) {
      throw Error(fmt::format("{}: line {}: an API key has letters, digits and signs of ASCII only", file, number));
    }
    if (!line.empty()) keys.push_back(line);
  }
  if (keys.empty()) throw Error(file + ": holds no API key, or cannot be read; write one key in each line");
  return keys;
}

/// "Qwen3-0.6B" of a folder or a file with that name.
std::string name_of_model(const std::filesystem::path& target) {
  std::filesystem::path path = std::filesystem::weakly_canonical(target);
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

/// The signals that end a server are for the thread that waits for them. Made before all other threads, which inherit
/// the mask.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    struct sigaction hangup {};
    sigaction(SIGHUP, nullptr, &hangup);
    if (hangup.sa_handler != SIG_IGN) sigaddset(&signals_, SIGHUP);  // nohup has it ignored
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
  }
  /// Calls `on_first` for the first of them, and ends the process at the second, as long as the thread lives.
  std::jthread watch(std::function<void()> on_first) const {
    return std::jthread([signals = signals_, on_first = std::move(on_first)](const std::stop_token& stop) {
      bool first = true;
      while (!stop.stop_requested()) {
        const timespec interval = {0, 200'000'000};
        if (sigtimedwait(&signals, nullptr, &interval) < 0) continue;
        if (!first) std::_Exit(static_cast<int>(Exit::bad_input));
        first = false;
        on_first();
      }
    });
  }

 private:
  sigset_t signals_{};
};

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

serve::LogFormat log_format_of(const ServeOptions& options) {
  return options.log_format == "json"   ? serve::LogFormat::json
         : options.log_format == "none" ? serve::LogFormat::none
                                        : serve::LogFormat::text;
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
  if (options.draft_max == 0) service.costs = engine.shared_pass_costs(draft, {}, measured_rows);
  service.pool_tokens = options.pool_tokens;
  service.waiting_max = options.waiting_max;
  service.drain_seconds = options.drain_seconds;
  return service;
}

/// `chat` may be null.
serve::ServedModel served_model_of(const ServeOptions& options, const std::string& draft, OpenedModel& opened,
                                   Engine& engine, const ChatTemplate* chat) {
  serve::ServedModel model;
  model.name = name_of_model(options.target);
  for (const MergedAdapter& adapter : engine.checkpoint().adapters()) {
    model.name += "+" + name_of_model(adapter.source.path);
  }
  model.draft = parse_draft_spec(draft).name_with_paths([](const auto& path) { return name_of_model(path); });
  model.fingerprint = engine.numerics();
  model.weights = weights_fingerprint(engine.checkpoint());
  model.tokenizer = opened.tokenizer();
  model.chat = chat;
  model.vocabulary = engine.target().vocabulary();
  if (model.tokenizer != nullptr) {
    model.tokens = std::make_shared<const TokenTrie>(*model.tokenizer, model.vocabulary);
  }
  model.stops = read_stop_tokens(opened.files().target());
  model.context = engine.target().context();
  model.max_new_tokens = options.max_new_tokens;
  return model;
}

/// What a budget leaves when every API key has its pool.
std::uint64_t room_beside_pools(const ServeOptions& options, std::size_t keys, std::uint64_t budget) {
  if (options.pool_tokens > 0 && options.pool_tokens < SuffixPool::max_tokens_min) {
    throw Error(fmt::format("--draft-pool {}: a pool holds at least {} tokens; give more, or 0 for none",
                            options.pool_tokens, SuffixPool::max_tokens_min));
  }
  const std::uint64_t pools = std::max<std::uint64_t>(1, keys) * static_cast<std::uint64_t>(options.pool_tokens) *
                              SuffixCorpus::bytes_per_token;
  if (const std::string why = shortage("--draft-pool of every API key", pools, budget); !why.empty()) throw Error(why);
  return budget - pools;
}

/// A model that is loaded, and its service.
class ModelHost {
 public:
  explicit ModelHost(const ServeOptions& options)
      : options_(options), opened_({options.target, options.layout, options.threads}) {
    opened_.tokenizer();  // refuses one that cannot be built before the target is loaded
    chat_ = template_of(options_, opened_.files().target());
    engine_ = &opened_.load({options_.draft}, request_of_size(1, options_.max_new_tokens), options_.draft_max);
    draft_ = opened_.draft_to_write(options_.draft, request_of_size(1, engine_->target().context() - 1)).name;
    served_ = served_model_of(options_, draft_, opened_, *engine_, chat_ ? &*chat_ : nullptr);
  }

  /// Once all models are loaded, which are so many and share the memory that is left.
  void open(std::size_t models, std::size_t keys, serve::Wakeup& wakeup, const serve::Log& events) {
    const std::uint64_t all =
        engine_->cache_budget(std::span(&draft_, 1), options_.rows_per_pass, engine_->target().context());
    const std::uint64_t room = room_beside_pools(options_, keys, all / models);
    const std::uint64_t for_prefixes = std::min(options_.prefix_cache_size.bytes / models, room / 4);
    const std::uint64_t for_answers =
        options_.kv_budget.bytes > 0 ? options_.kv_budget.bytes / models : room - for_prefixes;
    prefixes_.emplace(options_, for_prefixes, *engine_, draft_, events);
    std::vector<std::string> stages;
    for (const DraftStage& stage : parse_draft_spec(draft_).stages) stages.push_back(stage.name_with({}));
    metrics_.emplace(stages);
    service_.emplace(*engine_, served_.tokenizer, prefixes_->cache(), *metrics_, wakeup,
                     service_options_of(options_, draft_, *engine_, for_answers));
  }

  const serve::ServedModel& served() const noexcept { return served_; }
  serve::Service& service() noexcept { return *service_; }
  serve::HostedModel hosted() { return {*service_, served_, *metrics_}; }
  void tell_ready(const serve::Log& events, int port) const {
    events.write("ready",
                 {{"model", served_.name}, {"draft", draft_}, {"numerics", served_.fingerprint}, {"port", port}});
  }
  void save_prefixes() const { prefixes_->save(); }

 private:
  ServeOptions options_;
  OpenedModel opened_;
  std::optional<ChatTemplate> chat_;
  Engine* engine_;
  std::string draft_;
  serve::ServedModel served_;
  std::optional<ServedPrefixes> prefixes_;
  std::optional<serve::Metrics> metrics_;
  std::optional<serve::Service> service_;
};

/// Throws Error for two models of one name.
std::vector<std::unique_ptr<ModelHost>> load_models(const std::vector<ServeOptions>& all) {
  std::vector<std::unique_ptr<ModelHost>> models;
  for (const ServeOptions& options : all) {
    models.push_back(std::make_unique<ModelHost>(options));
    const std::string& name = models.back()->served().name;
    const auto of_it = std::ranges::count_if(models, [&](const auto& one) { return one->served().name == name; });
    if (of_it > 1) throw Error("two models have the name " + name + ", by which requests choose; rename one");
  }
  return models;
}

Exit serve_models(const std::vector<ServeOptions>& all) {
  const EndSignals signals;
  const ServeOptions& options = all.front();
  const std::vector<std::string> keys = read_api_keys(options.api_key_file);
  const serve::Log events(log_format_of(options));
  serve::Wakeup wakeup;
  const std::vector<std::unique_ptr<ModelHost>> models = load_models(all);
  std::vector<serve::HostedModel> hosted;
  std::vector<serve::Service*> services;
  for (const auto& model : models) {
    model->open(models.size(), keys.size(), wakeup, events);
    hosted.push_back(model->hosted());
    services.push_back(&model->service());
  }
  const int answers = static_cast<int>(models.size()) * (options.parallel + options.waiting_max);
  serve::Server server(hosted, events, {options.host, options.port, keys, answers + 32, options.cors});
  const int port = server.start();
  const std::jthread watcher = signals.watch([&] {
    events.write("draining");
    for (serve::Service* const service : services) service->drain();
  });
  if (keys.empty() && !server.on_loopback()) {
    complain("anyone who reaches this machine may ask; give --api-key-file, or --host 127.0.0.1 for itself alone");
  }
  const bool is_v6 = options.host.find(':') != std::string::npos;
  fmt::print("listening on http://{}{}{}:{}\n", is_v6 ? "[" : "", options.host, is_v6 ? "]" : "", port);
  if (std::fflush(stdout) != 0) throw Error("standard output cannot be written, so nobody learns of the port");
  for (const auto& model : models) model->tell_ready(events, port);
  serve::run(services, wakeup);
  server.stop();
  for (const auto& model : models) model->save_prefixes();
  events.write("stopped");
  return Exit::pass;
}

}  // namespace

void add_serve(Command& app) {
  auto options = std::make_shared<ServeOptions>();
  Command& command = app.subcommand("serve", "answer requests of OpenAI's API over HTTP");
  command.group("Model");
  add_target_option(command, options->target, TakesPair::yes);
  command
      .option("--also MODEL", options->also,
              "serve this model too, with its draft if it is a pair: requests choose by their field `model`; may be "
              "given several times")
      .one_each_time();
  add_layout_options(command, options->layout);
  add_threads_option(command, options->threads);
  command.option("--template FILE", options->template_file, "chat template (Jinja); left out: the model's own");
  add_one_draft_option(command, options->draft);
  command
      .option("--draft-max", options->draft_max,
              "draft tokens of every round, at most; 0: by load, as many as pay by the measured costs of passes and by "
              "what was accepted")
      .range(0, 1024)
      .show_default();
  command
      .option("--draft-pool TOKENS", options->pool_tokens,
              "keep so many tokens of earlier answers, of every API key its own, and draft what followed there before "
              "the draft is asked; 0: none")
      .range(0, SuffixCorpus::max_tokens)
      .show_default();
  command.group("HTTP");
  command.option("--host", options->host, "address to listen on; 0.0.0.0 is every one of this machine").show_default();
  command.option("--port", options->port, "port to listen on; 0 is any that is free").range(0, 65535).show_default();
  command.option("--api-key-file FILE", options->api_key_file,
                 "file with one API key in each line; left out: anyone may ask who reaches the address");
  command
      .option("--cors ORIGIN", options->cors,
              "origin whose pages may ask and read, https://example.org; * is all; may be given several times")
      .one_each_time();
  command.option("--log-format", options->log_format, "lines of the log on standard error")
      .choices({"text", "json", "none"})
      .show_default();
  command.option("--drain-seconds", options->drain_seconds, "time that answers have to end after SIGTERM")
      .range(0, 86400)
      .show_default();
  command.group("Scheduling");
  command.option("--parallel", options->parallel, "answers that are decoded together, at most")
      .range(1, 1024)
      .show_default();
  command.option("--waiting-max", options->waiting_max, "answers that wait, at most; more are told to come back")
      .range(0, 65536)
      .show_default();
  command.option("--max-new-tokens,-n", options->max_new_tokens, "tokens of an answer whose request does not say")
      .range(1, 1 << 30)
      .show_default();
  command.option("--rows-per-pass", options->rows_per_pass, "rows of a forward pass, at most")
      .range(1, 65536)
      .show_default();
  command
      .option("--reading-rows", options->reading_rows,
              "rows of a pass that read prompts, at most, while others are decoded: fewer keep the time between their "
              "tokens short, more begin answers sooner")
      .range(1, 65536)
      .show_default();
  command.option("--kv-budget", options->kv_budget,
                 "memory for the KV caches of all answers together; left out: what is available");
  command.option("--prefix-cache DIR", options->prefix_folder,
                 "keep the KV caches of prompts in this folder from one run to the next");
  command
      .option("--prefix-cache-size", options->prefix_cache_size,
              "memory for the KV caches of what was read; what was used least recently is dropped")
      .show_default();
  command.action([options, &command] {
    std::vector<ServeOptions> all = {*options};
    for (const std::string& target : options->also) {
      ServeOptions more = *options;
      more.target = target;
      more.template_file.clear();  // as --draft and --lora, it is of the first model
      const Pair pair = read_pair(target).value_or(Pair());
      more.draft = pair.draft.value_or("none");
      more.layout.lora = pair.lora;
      all.push_back(std::move(more));
    }
    for (ServeOptions& one : all) use_pair(command, one.target, one.draft, one.layout);
    return serve_models(all);
  });
}

}  // namespace draftproof

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
/// one file for each target, draft and numerics class, so servers of different models may share a folder.
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
    const std::string file = (folder / (name_of_model(options.target) + "-" + key.hex().substr(0, 8) + ".h5")).string();
    saved_.emplace(PrefixCacheOptions{file, {bytes}}, std::vector{options.target});
    try {
      saved_->load(engine, options.target, draft);
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
  model.draft = parse_draft_spec(draft).name_with_paths([](const auto& path) { return name_of_model(path); });
  model.fingerprint = engine.numerics();
  model.weights = weights_fingerprint(options.target);
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

Exit serve_model(const ServeOptions& options) {
  const EndSignals signals;
  const std::vector<std::string> keys = read_api_keys(options.api_key_file);
  OpenedModel opened({options.target, options.layout, options.threads});
  opened.tokenizer();  // refuses one that cannot be built before the target is loaded
  const std::optional<ChatTemplate> chat = template_of(options, opened.files().target());
  Engine& engine = opened.load({options.draft}, request_of_size(1, options.max_new_tokens), options.draft_max);
  const std::string draft =
      opened.draft_to_write(options.draft, request_of_size(1, engine.target().context() - 1)).name;

  const std::uint64_t room =
      room_beside_pools(options, keys.size(),
                        engine.cache_budget(std::span(&draft, 1), options.rows_per_pass, engine.target().context()));
  const std::uint64_t for_prefixes = std::min(options.prefix_cache_size.bytes, room / 4);
  const std::uint64_t for_answers = options.kv_budget.bytes > 0 ? options.kv_budget.bytes : room - for_prefixes;
  const serve::ServiceOptions service_options = service_options_of(options, draft, engine, for_answers);
  const serve::ServedModel model = served_model_of(options, draft, opened, engine, chat ? &*chat : nullptr);

  const serve::Log events(log_format_of(options));
  ServedPrefixes prefixes(options, for_prefixes, engine, draft, events);
  std::vector<std::string> stages;
  for (const DraftStage& stage : parse_draft_spec(draft).stages) stages.push_back(stage.name_with({}));
  serve::Metrics metrics(stages);
  serve::Service service(engine, model.tokenizer, prefixes.cache(), metrics, service_options);
  serve::Server server(service, model, metrics, events,
                       {options.host, options.port, keys, options.parallel + options.waiting_max + 32, options.cors});
  const int port = server.start();
  const std::jthread watcher = signals.watch([&] {
    events.write("draining");
    service.drain();
  });
  if (keys.empty() && !server.on_loopback()) {
    complain("anyone who reaches this machine may ask; give --api-key-file, or --host 127.0.0.1 for itself alone");
  }
  const bool is_v6 = options.host.find(':') != std::string::npos;
  fmt::print("listening on http://{}{}{}:{}\n", is_v6 ? "[" : "", options.host, is_v6 ? "]" : "", port);
  if (std::fflush(stdout) != 0) throw Error("standard output cannot be written, so nobody learns of the port");
  events.write("ready", {{"model", model.name}, {"draft", draft}, {"numerics", model.fingerprint}, {"port", port}});
  service.run();
  server.stop();
  prefixes.save();
  events.write("stopped");
  return Exit::pass;
}

}  // namespace

void add_serve(Command& app) {
  auto options = std::make_shared<ServeOptions>();
  Command& command = app.subcommand("serve", "answer requests of OpenAI's API over HTTP");
  command.group("Model");
  add_target_option(command, options->target, TakesPair::yes);
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
    use_pair(command, options->target, options->draft, options->layout);
    return serve_model(*options);
  });
}

}  // namespace draftproof

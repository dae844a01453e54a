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
#include "ref/models/memory.h"
#include "ref/ranks/process_ranks.h"
#include "serve/server.h"
#include "tools/commands.h"
#include "tools/complaint.h"
#include "tools/model_host.h"
#include "tools/pair.h"

namespace draftproof {
namespace {

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

/// The signals that end a server are for the thread that waits for them. Made before all other threads, which inherit
/// the mask.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&signals_);
    if (process_ranks() == nullptr) sigaddset(&signals_, SIGTERM);  // of several, one that ends ends all
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

serve::LogFormat log_format_of(const ServeOptions& options) {
  return options.log_format == "json"   ? serve::LogFormat::json
         : options.log_format == "none" ? serve::LogFormat::none
                                        : serve::LogFormat::text;
}

using Hosts = std::vector<std::unique_ptr<ModelHost>>;

/// Throws Error for two models of one name.
Hosts open_files(const std::vector<ServeOptions>& all) {
  Hosts models;
  for (const ServeOptions& options : all) {
    models.push_back(std::make_unique<ModelHost>(options));
    const std::string& name = models.back()->name();
    const auto of_it = std::ranges::count_if(models, [&](const auto& one) { return one->name() == name; });
    if (of_it > 1) throw Error("two models have the name " + name + ", by which requests choose; rename one");
  }
  return models;
}

/// What the loaded models may take together. Throws Error where that is not enough for one of them.
std::uint64_t memory_of(const Hosts& models, const ByteCount& given) {
  std::uint64_t all = 0;
  for (const auto& model : models) {
    all += model->bytes();
    if (given.bytes > 0 && model->bytes() > given.bytes) {
      throw Error(fmt::format("--model-memory {}: {} alone takes {}; give more", shown_bytes(given.bytes),
                              model->name(), shown_bytes(model->bytes())));
    }
  }
  return given.bytes > 0 ? std::min(given.bytes, all) : all;
}

/// Loads each of them once, the first one last, so that it is loaded where not all are in the end.
void open_models(const Hosts& models, std::uint64_t memory, std::size_t keys, serve::Wakeup& wakeup,
                 const serve::Log& events) {
  std::uint64_t loaded = 0;
  for (std::size_t i = models.size(); i-- > 0;) {
    if (loaded + models[i]->bytes() > memory) {
      for (std::size_t j = i + 1; j < models.size(); ++j) {
        if (models[j]->service().loaded()) models[j]->drop();
      }
      loaded = 0;
    }
    loaded += models[i]->bytes();
    models[i]->open({models.size(), keys, memory - loaded, wakeup, events});
  }
}

Exit serve_models(const std::vector<ServeOptions>& all) {
  const EndSignals signals;
  const ServeOptions& options = all.front();
  const std::vector<std::string> keys = read_api_keys(options.api_key_file);
  if (!options.lookup_file.empty() && keys.size() > 1) {
    throw Error("--lookup-update counts all answers into one file, from which later ones are drafted, and " +
                options.api_key_file +
                " has several API keys, whose texts stay apart; leave it out, or give each key "
                "a server and a file of its own");
  }
  if (!options.prefix_folder.empty() && keys.size() > 1 && !options.share_prefixes) {
    throw Error("--prefix-cache saves texts of all clients in one file, and " + options.api_key_file +
                " has several API keys, whose texts stay apart; leave it out, or add --share-prefixes");
  }
  const serve::Log events(log_format_of(options));
  serve::Wakeup wakeup;
  const Hosts models = open_files(all);
  const std::uint64_t memory = memory_of(models, options.model_memory);
  open_models(models, memory, keys.size(), wakeup, events);
  std::vector<serve::HostedModel> hosted;
  std::vector<serve::ModelRotation::Member> members;
  for (const auto& model : models) {
    hosted.push_back(model->hosted());
    members.push_back({model->service(), model->bytes(), [&model] { model->load(); }, [&model] { model->drop(); }});
  }
  serve::ModelRotation rotation(members, memory);
  const int answers = static_cast<int>(models.size()) * (options.parallel + options.waiting_max);
  serve::Server server(hosted, events, {options.host, options.port, keys, answers + 32, options.cors});
  const int port = server.start();
  const std::jthread watcher = signals.watch([&] {
    events.write("draining");
    for (const auto& model : models) model->service().drain();
  });
  if (keys.empty() && !server.on_loopback()) {
    complain("anyone who reaches this machine may ask; give --api-key-file, or --host 127.0.0.1 for itself alone");
  }
  const bool is_v6 = options.host.find(':') != std::string::npos;
  fmt::print("listening on http://{}{}{}:{}\n", is_v6 ? "[" : "", options.host, is_v6 ? "]" : "", port);
  if (std::fflush(stdout) != 0) throw Error("standard output cannot be written, so nobody learns of the port");
  for (const auto& model : models) model->tell_ready(port);
  rotation.run(wakeup);
  server.stop();
  for (const auto& model : models) {
    if (model->service().loaded()) model->drop();
  }
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
  command.option("--model-memory SIZE", options->model_memory,
                 "memory for the models that are loaded at a time: a request loads its model, and those that were not "
                 "asked for the longest time are dropped; left out: all are loaded at the start");
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
  command.option("--lookup-update FILE", options->lookup_file,
                 "count what followed every two tokens of prompts and answers into this lookup file, which the draft "
                 "ngram-cache:FILE of the next run reads; for one API key, or none");
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
  command.flag("--share-prefixes", options->share_prefixes,
               "reuse for every API key what was read for any; then the count of reused tokens and the time tell a "
               "client that another one's prompt begins like its own");
  command.action([options, &command] {
    std::vector<ServeOptions> all = {*options};
    for (const std::string& target : options->also) {
      ServeOptions more = *options;
      more.target = target;
      more.template_file.clear();  // as --draft, --lora and --lookup-update, it is of the first model
      more.lookup_file.clear();
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

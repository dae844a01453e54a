// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/caches/prefix_cache.h"
#include "ref/decoding/engine.h"
#include "ref/formats/json.h"
#include "ref/formats/printable.h"
#include "ref/models/models.h"
#include "tools/commands.h"
#include "tools/complaint.h"
#include "tools/conversation.h"
#include "tools/interrupt.h"
#include "tools/line_editor.h"
#include "tools/opened_model.h"
#include "tools/pair.h"
#include "tools/statistics.h"

namespace draftproof {
namespace {

constexpr const char* help_of_chat =
    "/help          print these commands\n"
    "/stats         print tokens, speed, accepted draft tokens, and how much the prefix cache found\n"
    "/system TEXT   replace the system message; without TEXT, remove it\n"
    "/clear         forget the conversation, but not the system message\n"
    "/save FILE     write the conversation as JSON\n"
    "/quit          end; so does Ctrl-D. Ctrl-C ends an answer\n";

struct ChatOptions {
  CommonOptions common;
  std::string draft = "none";
  std::string system;
  std::string template_file;  // empty: the model's own
  std::string variables = "{}";
  ByteCount prefix_cache_size = {std::uint64_t{4} << 30};
};

/// Sums over the answers of a chat.
struct ChatTotals {
  int answers = 0;
  std::size_t tokens = 0;
  std::size_t prompt_tokens = 0;
  std::size_t reused = 0;
  int drafted = 0;
  int accepted = 0;
  double seconds = 0;

  void add(const Trace& trace) {
    ++answers;
    tokens += trace.output.size();
    prompt_tokens += trace.request.prompt.size();
    reused += static_cast<std::size_t>(trace.reused);
    drafted += trace.statistics.drafted;
    accepted += trace.statistics.accepted;
    seconds += trace.statistics.decode_seconds();
  }

  std::string text() const {
    return fmt::format(
        "{} answers of {} tokens, {:.1f} tokens/s\n"
        "{} draft tokens verified, {} accepted\n"
        "{} prompt positions: {} found in the prefix cache, {} read\n",
        answers, tokens, seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0, drafted, accepted, prompt_tokens,
        reused, prompt_tokens - reused);
  }
};

ChatTemplate template_for(const ChatOptions& options, const Checkpoint& files) {
  if (!options.template_file.empty()) return ChatTemplate::read(options.template_file, files);
  if (auto found = ChatTemplate::find(files)) return std::move(*found);
  throw Error(options.common.target + " has no chat template; give one with --template FILE");
}

const Tokenizer& load_tokenizer(const ChatOptions& options, OpenedModel& model) {
  if (const Tokenizer* const found = model.tokenizer()) return *found;
  throw Error(options.common.target + " has no tokenizer (tokenizer.json or tokenizer.model), which a chat needs");
}

jinja::Dict variables_of(const ChatOptions& options) {
  const Json json = Json::parse(options.variables, "--chat-template-kwargs");
  if (!json.is_object()) json.fail("is not an object like {\"enable_thinking\": false}");
  jinja::Dict variables;
  for (const std::string& name : json.fields()) variables.set(name, jinja::Value::from_json(json.at(name), true));
  return variables;
}

class ChatLoop {
 public:
  /// Everything outlives the loop.
  ChatLoop(const ChatOptions& options, Engine& engine, const ChatTemplate& text, const Tokenizer& tokenizer,
           std::vector<Token> stops)
      : options_(options),
        engine_(engine),
        tokenizer_(tokenizer),
        stops_(std::move(stops)),
        sampling_(sampling_of(options.common)),
        conversation_(text, tokenizer, options.system, variables_of(options)),
        prefixes_(options.prefix_cache_size.bytes) {
    set_dry_breakers(sampling_, options.common, &tokenizer);
  }

  void run() {
    LineEditor lines;
    while (!ended_) {
      const auto line = lines.next();
      if (!line) break;
      try {
        read(*line);
      } catch (const Error& wrong) {
        if (!lines.on_terminal()) throw;
        complain(wrong.what());
      }
    }
    if (lines.on_terminal() && !ended_) std::cout << std::endl;
  }

 private:
  void read(const std::string& line) {
    if (!utf8::is_valid(line)) throw Error("the line is not UTF-8; set the terminal to UTF-8");
    if (line.starts_with('/')) {
      const std::size_t end = std::min(line.find(' '), line.size());
      command(line.substr(0, end), end < line.size() ? line.substr(end + 1) : "");
    } else if (!line.empty()) {
      answer(line);
    }
  }

  void command(const std::string& name, const std::string& argument) {
    if (name == "/quit") {
      ended_ = true;
    } else if (name == "/help") {
      std::cout << help_of_chat << std::flush;
    } else if (name == "/stats") {
      std::cout << totals_.text() << std::flush;
    } else if (name == "/clear") {
      conversation_.clear();
    } else if (name == "/system") {
      conversation_.set_system(argument);
    } else if (name == "/save") {
      save(argument);
    } else {
      throw Error("there is no command " + in_quotes(name) + "; /help lists them");
    }
  }

  void save(const std::string& file) const {
    if (file.empty()) throw Error("/save needs the name of a file");
    auto messages = nlohmann::ordered_json::array();
    for (const Message& message : conversation_.messages()) {
      messages.push_back({{"role", message.role}, {"content", message.content}});
    }
    OutputFile(file, {options_.common.target, options_.template_file}).write(dumped({{"messages", messages}}));
  }

  /// Answers a message. When that fails, it is as if the message had not been written.
  void answer(const std::string& message) {
    conversation_.add("user", message);
    try {
      conversation_.add("assistant", decoded(request()));
    } catch (...) {
      stop_watching_for_interrupt();
      conversation_.drop_last();
      throw;
    }
  }

  Request request() const {
    Request request;
    request.prompt = conversation_.tokens();
    request.sampling = sampling_;
    request.stops = stops_;
    const int room = engine_.target().context() - static_cast<int>(request.prompt.size());
    if (room < 1) {
      throw Error(fmt::format("the conversation has {} tokens, and the target has {} positions; /clear begins another",
                              request.prompt.size(), engine_.target().context()));
    }
    request.max_new_tokens = std::min(options_.common.max_new_tokens, room);
    if (const std::string why = request_error(request, engine_.target()); !why.empty()) throw Error(why);
    return request;
  }

  /// Prints the answer while it is decoded, and returns it. Ctrl-C ends it.
  std::string decoded(Request request) {
    const StopStrings none;
    TextStream stream(tokenizer_, none, true, TextPlace::continuation);
    std::string text;
    const auto show = [&](const std::string& more) {
      std::cout << more << std::flush;
      text += more;
    };
    const auto on_round = [&](const Trace& so_far) {
      for (const Token token : so_far.rounds.back().emitted) {
        if (!so_far.request.stops_at(token)) show(stream.push(token));
      }
      return Next::go_on;
    };
    const CommonOptions& common = options_.common;
    PhiloxSource random(common.seed);
    const Execution execution = execution_to_write(common, options_.draft);
    const Trace trace = engine_.decode({.request = std::move(request),
                                        .execution = execution,
                                        .draft = options_.draft,
                                        .rule = rule_by_name(common.rule),
                                        .random = random,
                                        .watch = {on_round, false},
                                        .cancelled = watch_for_interrupt()},
                                       &prefixes_);
    stop_watching_for_interrupt();
    show(stream.finish());
    std::cout << std::endl;
    totals_.add(trace);
    if (!std::cout) throw Error("standard output cannot be written to");
    return text;
  }

  const ChatOptions& options_;
  Engine& engine_;
  const Tokenizer& tokenizer_;
  std::vector<Token> stops_;
  Sampling sampling_;
  Conversation conversation_;
  PrefixCache prefixes_;
  ChatTotals totals_;
  bool ended_ = false;
};

Exit chat(const ChatOptions& options) {
  const CommonOptions& common = options.common;
  if (!utf8::is_valid(options.system)) throw Error("--system: the text is not UTF-8");
  OpenedModel model({common.target, common.load_options, common.threads, common.quiet});
  const Checkpoint& files = model.files().target();
  const Tokenizer& tokenizer = load_tokenizer(options, model);
  const ChatTemplate text = template_for(options, files);
  variables_of(options);  // refuses what is none before the target is loaded
  Engine& engine = model.load({options.draft}, request_of_size(1, common.max_new_tokens), common.draft_max.number);
  ChatOptions opened = options;
  opened.draft = model.draft_to_write(options.draft, request_of_size(1, engine.target().context() - 1)).name;
  ChatLoop(opened, engine, text, tokenizer, read_stop_tokens(files)).run();
  return Exit::pass;
}

}  // namespace

void add_chat(Command& app) {
  auto options = std::make_shared<ChatOptions>();
  options->common.max_new_tokens = 512;
  Command& command = app.subcommand("chat", "answer the lines of standard input; /help lists its commands");
  command.group("Model");
  add_target_option(command, options->common.target, TakesPair::yes);
  command.group("Conversation");
  command.option("--system", options->system, "the system message");
  command.option("--template FILE", options->template_file, "chat template (Jinja); left out: the model's own");
  command.option("--chat-template-kwargs JSON", options->variables,
                 "variables of the chat template, as {\"enable_thinking\": false}");
  add_max_new_tokens_option(command, options->common.max_new_tokens);
  command
      .option("--prefix-cache-size", options->prefix_cache_size,
              "memory for the KV caches of what was read; what was used least recently is dropped")
      .show_default();
  add_decoding_options(command, options->common);
  add_one_draft_option(command, options->draft);
  add_verification_option(command, options->common.verification);
  command.group("Output");
  command.flag("--quiet", options->common.quiet, "do not show how much is loaded");
  command.action([options, &command] {
    use_pair(command, options->common.target, options->draft, options->common.load_options);
    return chat(*options);
  });
}

}  // namespace draftproof

// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/caches/prefix_cache.h"
#include "ref/decoding/engine.h"
#include "ref/formats/json.h"
#include "ref/formats/printable.h"
#include "ref/models/models.h"
#include "tools/commands.h"
#include "tools/complaint.h"
#include "tools/constraint_options.h"
#include "tools/conversation.h"
#include "tools/interrupt.h"
#include "tools/line_editor.h"
#include "tools/opened_model.h"
#include "tools/pair.h"
#include "tools/statistics.h"
#include "tools/tool_command.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

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
  std::string tools_file;    // empty: there are none
  std::string tool_command;  // empty: the user answers calls
  std::string tool_choice = "auto";
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

ordered_json variables_of(const ChatOptions& options) {
  const Json json = Json::parse(options.variables, "--chat-template-kwargs");
  if (!json.is_object()) json.fail("is not an object like {\"enable_thinking\": false}");
  return ordered_json::parse(json.text());
}

/// null: there are none.
ordered_json tools_of(const ChatOptions& options) {
  if (options.tools_file.empty()) return {};
  const Json json = Json::read(options.tools_file);
  if (!json.is_array() || json.size() == 0) json.fail("is not a list of tools, as in OpenAI's API");
  return ordered_json::parse(json.text());
}

class ChatLoop {
 public:
  /// Everything outlives the loop.
  ChatLoop(const ChatOptions& options, Engine& engine, const ChatTemplate& text, const Tokenizer& tokenizer,
           const Checkpoint& files)
      : options_(options),
        engine_(engine),
        tokenizer_(tokenizer),
        files_(files),
        stops_(read_stop_tokens(files)),
        sampling_(sampling_of(options.common)),
        conversation_(text, tokenizer, variables_of(options), tools_of(options),
                      options.tools_file.empty() ? "the chat" : options.tools_file),
        prefixes_(options.prefix_cache_size.bytes) {
    set_dry_breakers(sampling_, options.common, &tokenizer);
    conversation_.set_system(options.system);
  }

  void run() {
    while (!ended_) {
      const auto line = lines_.next();
      if (!line) break;
      try {
        read(*line);
      } catch (const Error& wrong) {
        if (!lines_.on_terminal()) throw;
        complain(wrong.what());
      }
    }
    if (lines_.on_terminal() && !ended_) std::cout << std::endl;
  }

 private:
  static void require_text(const std::string& line) {
    if (!utf8::is_valid(line)) throw Error("the line is not UTF-8; set the terminal to UTF-8");
  }

  void read(const std::string& line) {
    require_text(line);
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
    OutputFile(file, {options_.common.target, options_.template_file, options_.tools_file})
        .write(dumped({{"messages", conversation_.messages()}}));
  }

  /// Answers a message, with what the tools return that the model calls. When that fails, it is as if the message had
  /// not been written.
  void answer(const std::string& message) {
    const std::size_t before = conversation_.size();
    conversation_.ask(message);
    try {
      bool demanded = options_.tool_choice == "required";
      for (int answers = 0;; ++answers) {
        const ChatAnswer told = decoded(conversation_.request(std::exchange(demanded, false)));
        conversation_.add(told);
        if (told.calls.empty()) return;
        if (answers == answers_max) {
          throw Error(fmt::format("the model has only called tools, {} times in a row", answers));
        }
        for (const MadeCall& call : told.calls) conversation_.add_returned(call, returned(call));
      }
    } catch (...) {
      stop_watching_for_interrupt();
      conversation_.drop_behind(before);
      throw;
    }
  }

  /// What a tool returns: the next line, or what the command prints.
  std::string returned(const MadeCall& call) {
    if (options_.tool_command.empty()) {
      if (lines_.on_terminal()) std::cout << call.name << " returns:" << std::endl;
      const auto line = lines_.next();
      if (!line) throw Error("the input has ended where it should say what " + call.name + " returns");
      require_text(*line);
      return *line;
    }
    ordered_json arguments = call.arguments;
    if (ordered_json::accept(call.arguments)) arguments = ordered_json::parse(call.arguments);
    watch_for_interrupt();  // it ends the command, which tells so
    std::string text = utf8::replace_broken(output_of_command(
        options_.tool_command, ordered_json({{"name", call.name}, {"arguments", arguments}}).dump() + "\n"));
    stop_watching_for_interrupt();
    if (text.ends_with('\n')) text.pop_back();
    std::cout << call.name << " returns: " << text << std::endl;
    return text;
  }

  Request request_of(const serve::ChatRequest& asked) const {
    Request request;
    request.prompt = asked.prompt;
    request.sampling = sampling_;
    request.stops = stops_;
    if (const auto gbnf = answer_gbnf(asked.format, asked.terms.thinking, asked.calls, {}, tokenizer_)) {
      constrain(request, {*gbnf, options_.tools_file}, files_, &tokenizer_, options_.common.target);
    }
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
  ChatAnswer decoded(const serve::ChatRequest& asked) {
    Request request = request_of(asked);
    const StopStrings none;
    TextStream stream(tokenizer_, none, false, TextPlace::continuation);
    AnswerTerms terms = asked.terms;
    terms.thoughts = terms.calls;  // else the answer is one text, as it is written
    const std::vector<Token> shown = terms.calls ? shown_tokens(asked.format, tokenizer_) : std::vector<Token>();
    const auto reader = PartReader::open(asked.format, terms);
    ChatAnswer told;
    const auto show = [&](const std::vector<AnswerPart>& parts) {
      for (const AnswerPart& part : parts) print(part, told);
      std::cout << std::flush;
    };
    const auto on_round = [&](const Trace& so_far) {
      for (const Token token : so_far.rounds.back().emitted) {
        const bool is_text = !tokenizer_.is_special(token) || std::ranges::find(shown, token) != shown.end();
        if (is_text && !so_far.request.stops_at(token)) show(reader->push(stream.push(token)));
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
    show(reader->push(stream.finish()));
    show(reader->finish());
    std::cout << std::endl;
    if (reader->cut_off()) told.calls.clear();  // nobody is to act on them
    totals_.add(trace);
    if (!std::cout) throw Error("standard output cannot be written to");
    return told;
  }

  /// Prints a part of an answer and adds it.
  void print(const AnswerPart& part, ChatAnswer& told) {
    switch (part.kind) {
      case AnswerPart::Kind::thought: told.thought += part.text; break;
      case AnswerPart::Kind::content:
        if (told.content.empty() && !told.thought.empty()) std::cout << "\n\n";
        told.content += part.text;
        break;
      case AnswerPart::Kind::call:
        if (!told.content.empty() || !told.thought.empty() || !told.calls.empty()) std::cout << '\n';
        told.calls.push_back({std::to_string(first_id + calls_++), part.text, ""});
        std::cout << "calls " << part.text << ' ';
        return;
      case AnswerPart::Kind::arguments: told.calls.back().arguments += part.text; break;
    }
    std::cout << part.text;
  }

  static constexpr int answers_max = 32;        // to one message
  static constexpr int first_id = 100'000'000;  // of calls: nine digits, as some templates demand

  const ChatOptions& options_;
  Engine& engine_;
  const Tokenizer& tokenizer_;
  const Checkpoint& files_;
  std::vector<Token> stops_;
  Sampling sampling_;
  Conversation conversation_;
  PrefixCache prefixes_;
  ChatTotals totals_;
  LineEditor lines_;
  int calls_ = 0;  // of all answers
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
  tools_of(options);
  Engine& engine = model.load({options.draft}, request_of_size(1, common.max_new_tokens), common.draft_max.number);
  ChatOptions opened = options;
  opened.draft = model.draft_to_write(options.draft, request_of_size(1, engine.target().context() - 1)).name;
  ChatLoop(opened, engine, text, tokenizer, files).run();
  return Exit::pass;
}

void define(Command& command) {
  auto options = std::make_shared<ChatOptions>();
  options->common.max_new_tokens = 512;
  command.group("Model");
  add_target_option(command, options->common.target, TakesPair::yes);
  command.group("Conversation");
  command.option("--system", options->system, "the system message");
  command.option("--template FILE", options->template_file, "chat template (Jinja); left out: the model's own");
  command.option("--chat-template-kwargs JSON", options->variables,
                 "variables of the chat template, as {\"enable_thinking\": false}");
  Option& tools = command.option("--tools FILE", options->tools_file,
                                 "tools that the model may call, a list as in OpenAI's API; what a call returns is the "
                                 "next line");
  command
      .option("--tool-command CMD", options->tool_command,
              "a program, and its arguments with blanks between them, that answers calls: {\"name\": ..., "
              "\"arguments\": ...} on its standard input, on standard output what the call returns; no shell runs it")
      .needs(tools);
  command
      .option("--tool-choice", options->tool_choice,
              "auto: the model decides; required: it answers each message with a call first")
      .choices({"auto", "required"})
      .show_default()
      .needs(tools);
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

}  // namespace

void add_chat(Command& app) {
  define(app.subcommand("chat", "answer the lines of standard input; /help lists its commands"));
  define(app.subcommand("run", "the same as chat"));
}

}  // namespace draftproof

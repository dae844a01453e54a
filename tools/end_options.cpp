// SPDX-License-Identifier: MIT
#include "tools/end_options.h"

#include <charconv>
#include <memory>

#include "ref/acceptance/bans.h"
#include "ref/base/error.h"
#include "ref/formats/printable.h"
#include "ref/models/models.h"
#include "ref/text/word_tokens.h"

namespace draftproof {

void add_end_options(Command& command, EndOptions& options) {
  command.group("Prompt");
  command.flag("--ignore-eos", options.ignore_eos, "the model's stop tokens do not end the text");
  command
      .option("--stop-token ID", options.stop_tokens,
              "a token that ends the text, beside the model's own; may be given several times")
      .one_each_time();
  command.option("--min-tokens N", options.min_tokens, "stop tokens do not end a text of fewer tokens")
      .range(0, Request::text_max)
      .show_default();
  command
      .option("--bad-word TEXT", options.bad_words,
              "the text does not have this word, as its tokens are spelled with a space before it and without; may be "
              "given several times")
      .one_each_time();
}

void set_stop_tokens(Request& request, const EndOptions& options, const Checkpoint& files) {
  if (options.ignore_eos) request.stops.clear();
  const int vocabulary = describe(files.config()).vocabulary;
  for (const std::string& text : options.stop_tokens) {
    Token token = -1;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), token);
    if (failure != std::errc{} || end != text.data() + text.size() || token < 0 || token >= vocabulary) {
      throw Error("--stop-token " + in_quotes(text) + ": give a token id below " + std::to_string(vocabulary));
    }
    request.stops.push_back(token);
  }
}

void add_bans(Request& request, const EndOptions& options, const Checkpoint& files, const Tokenizer* tokenizer,
              const std::string& target) {
  if (!options.bans()) return;
  std::vector<std::vector<Token>> words;
  for (const std::string& word : options.bad_words) {
    if (tokenizer == nullptr) {
      throw Error("--bad-word needs the text of tokens, and " + target + " has no tokenizer; leave it out");
    }
    add_word_tokens(*tokenizer, word, words);
  }
  request.constraint = std::make_shared<Bans>(request.constraint, describe(files.config()).vocabulary, request.stops,
                                              options.min_tokens, std::move(words));
}

}  // namespace draftproof

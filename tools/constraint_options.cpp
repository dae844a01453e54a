// SPDX-License-Identifier: MIT
#include "tools/constraint_options.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "ref/base/error.h"
#include "ref/formats/json.h"
#include "ref/formats/printable.h"
#include "ref/grammar/grammar_constraint.h"
#include "ref/grammar/json_schema.h"
#include "ref/models/models.h"
#include "tools/options.h"

namespace draftproof {
namespace {

template <class Number>
bool parse_whole(std::string_view text, Number& number) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc{} && end == text.data() + text.size();
}

}  // namespace

void add_constraint_options(Command& command, ConstraintOptions& options) {
  command.group("Prompt");
  Option& grammar = command.option("--grammar FILE", options.grammar_file,
                                   "the output has to follow this grammar, in the notation GBNF of llama.cpp");
  command.option("--json-schema FILE", options.schema_file, "the output has to be JSON of this schema")
      .excludes(grammar);
  command.group("Sampling");
  command
      .option("--logit-bias TOKEN=BIAS", options.logit_biases,
              "add BIAS, -100 to 100, to the logit of the token with this id; may be given several times")
      .one_each_time();
}

GrammarText grammar_of(const ConstraintOptions& options) {
  if (!options.grammar_file.empty()) return {read_text_file(options.grammar_file), options.grammar_file};
  if (options.schema_file.empty()) return {};
  return {schema_to_gbnf(Json::read(options.schema_file)), options.schema_file};
}

void constrain(Request& request, const GrammarText& grammar, const Checkpoint& files, const Tokenizer* tokenizer,
               const std::string& target) {
  if (grammar.gbnf.empty()) return;
  if (tokenizer == nullptr) {
    throw Error("a grammar needs the text of tokens, and " + target + " has no tokenizer; leave it out");
  }
  request.constraint = std::make_shared<GrammarConstraint>(
      std::make_shared<const Grammar>(Grammar::from_gbnf(grammar.gbnf, grammar.name)),
      std::make_shared<const TokenTrie>(*tokenizer, describe(files.config()).vocabulary), request.stops);
}

void add_logit_biases(Request& request, const ConstraintOptions& options, const Checkpoint& files) {
  if (options.logit_biases.empty()) return;
  const int vocabulary = describe(files.config()).vocabulary;
  for (const std::string& text : options.logit_biases) {
    const std::size_t sign = std::min(text.find('='), text.size());
    LogitBias one;
    const bool right = sign < text.size() && parse_whole(std::string_view(text).substr(0, sign), one.token) &&
                       parse_whole(std::string_view(text).substr(sign + 1), one.bias) && one.token >= 0 &&
                       one.token < vocabulary && one.bias >= -LogitBias::max && one.bias <= LogitBias::max;
    if (!right) {
      throw Error("--logit-bias " + in_quotes(text) + ": give a token id below " + std::to_string(vocabulary) +
                  " and a bias from -100 to 100, like 12=-5.5");
    }
    request.sampling.logit_bias.push_back(one);
  }
}

}  // namespace draftproof

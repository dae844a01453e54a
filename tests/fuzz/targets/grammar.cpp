// SPDX-License-Identifier: MIT
// Grammars: GBNF, and JSON schemas, whose grammar must be one. Both then read some texts.
#include <stdexcept>
#include <string>
#include <vector>

#include "ref/acceptance/token_set.h"
#include "ref/base/error.h"
#include "ref/grammar/grammar.h"
#include "ref/grammar/grammar_states.h"
#include "ref/grammar/json_schema.h"
#include "tests/fuzz/target.h"

namespace draftproof::fuzz {
namespace {

/// What masks ask of a state (ref/grammar/rule_masks.cpp).
void ask(GrammarStates& states, int state) {
  states.accepts(state);
  states.complete(state);
  states.description(state);
  states.reads_any_plain(state, 3);
  const std::vector<int> stacks = states.stacks(state);
  if (stacks.empty()) return;
  for (const int stack : stacks) states.breadth(stack);
  const GrammarStates::Part part = states.part(stacks, 1);
  states.either(part.within, part.behind);
  states.state_of(part.others);
}

/// The state after the last token of eight that the grammar names and that may come; dead where none may.
int after_named_token(GrammarStates& states, int state) {
  constexpr int vocabulary = 8;
  TokenSet named(vocabulary);
  states.add_named_tokens(state, vocabulary, named);
  int after = GrammarStates::dead;
  for (Token token = 0; token < vocabulary; ++token) {
    const int next = states.next_token(state, token);
    if (named.has(token) != (next != GrammarStates::dead)) throw std::runtime_error("a named token that cannot come");
    if (next != GrammarStates::dead) after = next;
  }
  return after;
}

/// Bytes and tokens that may come, at most a few steps, and texts of JSON.
void read_texts(const Grammar& compiled) {
  GrammarStates states(compiled);
  accepted([&] {
    int state = states.start();
    for (int step = 0; step < 24 && state != GrammarStates::dead; ++step) {
      int next = GrammarStates::dead;
      for (int byte = 0; byte < 256 && next == GrammarStates::dead; ++byte) {
        next = states.next(state, static_cast<unsigned char>(step * 37 + byte));
      }
      const int named = after_named_token(states, state);
      if (step % 8 == 0) ask(states, state);  // takes longer than all else
      state = next != GrammarStates::dead ? next : named;
    }
  });
  for (const std::string text : {R"({"a": 1, "b": [true, "x\u00e4"]})", "aab", "\xF0\x9F\x98\x80"}) {
    accepted([&] {
      int state = states.start();
      for (const char byte : text) state = states.next(state, static_cast<unsigned char>(byte));
    });
  }
}

bool run_grammar(const std::string& input) {
  return accepted([&] { read_texts(Grammar::from_gbnf(input, "it")); });
}

bool run_schema(const std::string& input) {
  return accepted([&] {
    const std::string gbnf = schema_to_gbnf(Json::parse(input, "it"));
    try {
      read_texts(Grammar::from_gbnf(gbnf, "of a schema"));
    } catch (const Error& error) {
      const std::string why = error.what();
      for (const char* const known : {"too large", "longer than", "left recursion", "nests too deep", "too often"}) {
        if (why.find(known) != std::string::npos) throw;
      }
      const bool has_itself = gbnf.find("ref0 ::=") != std::string::npos;  // and may ask for itself without end
      if (has_itself && why.find("go on for ever") != std::string::npos) throw;
      throw std::runtime_error("the grammar of a schema is none: " + why);
    }
  });
}

std::vector<std::string> seeds_of_grammar() {
  return {
      "root ::= (\"a\" | [b-d]+ x?){2,3}\nx ::= \"\\u00e4\" | \"e\" root\n",
      "root ::= object\nvalue ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
      "object ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? \"}\" ws\n"
      "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"
      "string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4}))* \"\\\"\" ws\n"
      "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws\n"
      "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n",
      "root ::= [^\\n]* \"\\n\" # a line\nroot2 ::= root{,5} | .{1,}\n",
      "root ::= <[5]> !<[7]> \"\\U0001F600\" (\"b\"? \"c\")+\n"};
}

std::vector<std::string> seeds_of_schema() {
  std::vector<std::string> all = {
      R"({"type":"object","properties":{"a":{"type":"integer","minimum":-5,"maximum":70},"b":{"anyOf":[)"
      R"({"enum":["p","q"]},)"
      R"({"$ref":"#/$defs/t"}]}},"required":["a"],"$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"},)"
      R"("maxItems":3}}})",
      R"({"type":"string","pattern":"^(a|[b-d]+){2,3}\\d\\w*$","minLength":2,"maxLength":9,"format":"date-time"})",
      R"({"oneOf":[{"const":1.5},{"type":"number","multipleOf":2,"exclusiveMinimum":3}],"not":{"enum":[4,"x",null]}})",
      R"({"type":["object","null"],"patternProperties":{"^k":{"type":"boolean"}},"additionalProperties":false,)"
      R"("minProperties":1,"maxProperties":2,"propertyNames":{"maxLength":3},"dependentRequired":{"ka":["kb"]}})"};
  for (const auto& file : files_of(fixtures() / "external" / "json-schema-suite", {".json"})) {
    const Json suite = Json::read(file);
    accepted([&] {
      for (std::size_t i = 0; i < suite.size(); ++i) all.push_back(suite[i].at("schema").text());
    });
  }
  return all;
}

}  // namespace

const Target grammar = {"grammar", run_grammar, seeds_of_grammar};
const Target schema = {"schema", run_schema, seeds_of_schema};

}  // namespace draftproof::fuzz

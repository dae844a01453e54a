// SPDX-License-Identifier: MIT
// Schemas with documents, as MaskBench of JSONSchemaBench has them, through our grammars. For each file a line of JSON:
//
//   schema_masks VOCABULARY FILE...
//
// `error` why the schema is refused, or `compile_us`; for each test `valid`, `accepted`, its `tokens` and `masks_us`,
// the time that each mask took. Every document has a reader of its own, as every answer has. VOCABULARY is a model or
// a GGUF file of a vocabulary alone; the first line has its tokens, as bytes in hexadecimal, empty for special ones.
// bench/schemas.py calls it and compares. Not part of our build:
//
//   g++ -std=c++20 -O3 -I. -o schema_masks bench/schema_masks.cpp -Lbuild -ldraftproof_grammar -ldraftproof_acceptance
//     -ldraftproof_text -ldraftproof_formats -ldraftproof_kernels -ldraftproof_base -lpcre2-8 -licuuc -ldl
//     $(pkg-config --libs hdf5)
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "ref/base/error.h"
#include "ref/grammar/grammar_constraint.h"
#include "ref/grammar/json_schema.h"
#include "ref/text/tokenizer.h"

namespace {

using namespace draftproof;

/// Of this thread's own, so that other programs do not count.
double microseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

std::string hexadecimal(std::string_view bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += digits[static_cast<unsigned char>(c) >> 4];
    text += digits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

template <class Values>
std::string list_of(const Values& values) {
  std::string text = "[";
  for (const auto& value : values) text += (text.size() == 1 ? "" : ",") + std::to_string(value);
  return text + "]";
}

/// Whether the document is accepted, and what the masks of its tokens took.
std::string test_of(const Json& test, const Constraint* constraint, const Tokenizer& tokenizer, Token stop) {
  const std::vector<Token> tokens = tokenizer.encode(test.member("data")->text(), false, false);
  std::vector<double> times;
  bool accepted = constraint != nullptr;
  if (accepted) {
    const auto reader = constraint->reader();
    for (std::size_t i = 0; i <= tokens.size() && accepted; ++i) {
      const std::span<const Token> output(tokens.data(), i);
      if (i == tokens.size() && reader->complete(output)) break;
      const double begin = microseconds();
      const TokenSet& allowed = reader->allowed(output);
      times.push_back(microseconds() - begin);
      accepted = allowed.has(i < tokens.size() ? tokens[i] : stop);
    }
  }
  return std::string(R"({"valid":)") + (test.at("valid").boolean() ? "true" : "false") + R"(,"accepted":)" +
         (accepted ? "true" : "false") + R"(,"tokens":)" + list_of(tokens) + R"(,"masks_us":)" + list_of(times) + "}";
}

void run(const std::string& file, const Tokenizer& tokenizer, const std::shared_ptr<const TokenTrie>& trie,
         Token stop) {
  const Json json = Json::read(file);
  std::unique_ptr<Constraint> constraint;
  std::string result;
  const double begin = microseconds();
  try {
    const std::string gbnf = schema_to_gbnf(*json.member("schema"));
    auto grammar = std::make_shared<const Grammar>(Grammar::from_gbnf(gbnf, "the grammar"));
    constraint = std::make_unique<GrammarConstraint>(std::move(grammar), trie, std::vector<Token>{stop});
    result = R"("compile_us":)" + std::to_string(microseconds() - begin);
  } catch (const Error& wrong) {
    result = R"("error":)" + json_string(wrong.what());
  }
  const auto tests = json.find("tests");
  result += R"(,"tests":[)";
  for (std::size_t i = 0; tests && i < tests->size(); ++i) {
    result += (i == 0 ? "" : ",") + test_of((*tests)[i], constraint.get(), tokenizer, stop);
  }
  std::cout << R"({"file":)" << json_string(file) << "," << result << "]}" << std::endl;
}

}  // namespace

int main(int count, char** values) {
  if (count < 3) return std::puts("schema_masks VOCABULARY FILE..."), 1;
  const Tokenizer tokenizer = Tokenizer::load(values[1]);
  const auto trie = std::make_shared<const TokenTrie>(tokenizer, tokenizer.vocabulary());
  std::cout << R"({"vocabulary":[)";
  Token stop = 0;
  for (Token token = 0; token < trie->vocabulary(); ++token) {
    std::cout << (token == 0 ? "\"" : ",\"") << hexadecimal(trie->bytes(token)) << '"';
    if (trie->bytes(token).empty()) stop = token;
  }
  std::cout << R"(],"stop":)" << stop << "}" << std::endl;
  for (int i = 2; i < count; ++i) {
    try {
      run(values[i], tokenizer, trie, stop);
    } catch (const std::exception& wrong) {
      std::cout << R"({"file":)" << json_string(values[i]) << R"(,"failure":)" << json_string(wrong.what()) << "}"
                << std::endl;
    }
  }
}

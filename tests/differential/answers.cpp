// SPDX-License-Identifier: MIT
// What our readers make of inputs, for run.py to compare with what others make of them.
//
//     differential json | safetensors | gguf | tokens FILE | tokens-of-text FILE | template JINJA_JSON | schema
//
// An input is its length in four bytes and its bytes; so is an answer, in the order of the inputs. It begins with '+'
// where the input is accepted, and says what it means, or with '-', and says why it is refused.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ref/base/error.h"
#include "ref/formats/gguf.h"
#include "ref/formats/gguf_types.h"
#include "ref/formats/json.h"
#include "ref/formats/safetensors.h"
#include "ref/grammar/grammar_states.h"
#include "ref/grammar/json_schema.h"
#include "ref/grammar/schema_reader.h"
#include "ref/text/tokenizer.h"
#include "tests/chat/answers.h"
#include "tests/folder.h"

namespace draftproof::differential {
namespace {

using Answerer = std::function<std::string(const std::string&)>;

std::string hex(const std::string& bytes) {
  std::string digits;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    digits += {"0123456789abcdef"[value / 16], "0123456789abcdef"[value % 16]};
  }
  return '"' + digits + '"';
}

template <class Items, class Text>
std::string list_of(const Items& items, const Text& text_of) {
  std::string list;
  for (const auto& item : items) list += (list.empty() ? "" : ", ") + text_of(item);
  return "[" + list + "]";
}

/// Numbers as they are, those with a point as the integer of their 64 bits; strings as the digits of their bytes.
struct ValueText {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::uint64_t value) const { return std::to_string(value); }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return std::to_string(std::bit_cast<std::uint64_t>(value)); }
  std::string operator()(const std::string& value) const { return hex(value); }
  std::string operator()(const GgufElement& element) const { return std::visit(*this, element.value); }
  template <class Item>
  std::string operator()(const std::vector<Item>& items) const {
    return list_of(items, *this);
  }
};

/// {"TENSOR": [TYPE, SHAPE, BYTES]}; `type_of` names a tensor's type.
template <class Type>
std::string text_of_tensors(const std::map<std::string, StoredTensor>& tensors, const Type& type_of) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    std::string bytes(tensor.bytes, '\0');
    tensor.file->read(tensor.offset, bytes.size(), bytes.data());
    text += (text.empty() ? "" : ", ") + json_string(name) + ": [" + type_of(tensor) + ", " +
            ValueText()(tensor.shape) + ", " + hex(bytes) + "]";
  }
  return "{" + text + "}";
}

/// The input as a file, in a folder of its own.
std::filesystem::path file_of(const std::string& input, const char* name) {
  static const test::Folder folder;
  test::put(folder.path() / name, input);
  return folder.path() / name;
}

std::string safetensors_in(const std::string& input) {
  const SafeTensors file(file_of(input, "x.safetensors"));
  return text_of_tensors(file.tensors(), [](const StoredTensor& tensor) { return json_string(tensor.type_name); });
}

/// [{"KEY": VALUE}, {"TENSOR": [NUMBER OF ITS TYPE, SHAPE, BYTES]}].
std::string gguf_in(const std::string& input) {
  const Gguf file(file_of(input, "x.gguf"));
  std::string keys;
  for (const auto& [key, value] : file.metadata()) {
    keys += (keys.empty() ? "" : ", ") + json_string(key) + ": " + std::visit(ValueText(), value);
  }
  const auto number_of_type = [](const StoredTensor& tensor) {
    return std::to_string(std::ranges::find(gguf_tensor_types, tensor.type_name, &GgufTensorType::name)->id);
  };
  return "[{" + keys + "}, " + text_of_tensors(file.tensors(), number_of_type) + "]";
}

/// The tokens of a text and, behind a line feed, the text of the tokens. `special`: those that the file puts around a
/// text, and those that a text spells.
std::string tokens_of(const Tokenizer& tokenizer, const std::string& input, bool special) {
  const std::vector<Token> tokens = tokenizer.encode(input, special, special);
  std::string text;
  for (const Token token : tokens) text += (text.empty() ? "" : " ") + std::to_string(token);
  return text + "\n" + tokenizer.decode(tokens, true);
}

bool allows(GrammarStates& states, const std::string& text) {
  int state = states.start();
  for (const char byte : text) state = states.next(state, static_cast<unsigned char>(byte));
  return states.accepts(state);
}

/// Of {"schema": SCHEMA, "texts": [DOCUMENT, ...]}, for each document two characters: whether the grammar of the schema
/// allows the text, and whether the schema is satisfied: 1, 0, or - where that is not supported.
std::string judgments_of(const std::string& input) {
  const Json pairs = Json::parse(input, "it");
  const Json schema = *pairs.member("schema");
  const Json texts = pairs.at("texts");
  const Grammar grammar = Grammar::from_gbnf(schema_to_gbnf(schema), "its grammar");
  GrammarStates states(grammar);
  std::string judgments;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string text = texts[i].string();
    judgments += allows(states, text) ? '1' : '0';
    const auto satisfied = test::answer_of(
        [&] { return std::string(SchemaReader(schema).satisfies(schema, Json::parse(text, "document")) ? "1" : "0"); });
    judgments += satisfied.text.value_or("-");
  }
  return judgments;
}

/// Of templates with the variables of fixtures/external/chat-templates/jinja.json.
Answerer template_answerer(const std::string& file) {
  jinja::Dict variables = test::dict_in(Json::read(file).at("variables"), true);
  variables.set("messages", jinja::Value::list({}));
  variables.set("tools", jinja::Value());
  variables.set("documents", jinja::Value());
  variables.set("add_generation_prompt", false);
  return [variables](const std::string& source) {
    return jinja::Template(source, "t").render(variables, test::fixture_time()).bytes();
  };
}

std::optional<Answerer> answerer(const std::vector<std::string>& arguments) {
  const std::string kind = arguments.empty() ? "" : arguments[0];
  if (kind == "json") return [](const std::string& input) { return Json::parse(input, "it").text(); };
  if (kind == "safetensors") return safetensors_in;
  if (kind == "gguf") return gguf_in;
  if (kind == "schema") return judgments_of;
  if (arguments.size() != 2) return std::nullopt;
  if (kind == "template") return template_answerer(arguments[1]);
  if (kind != "tokens" && kind != "tokens-of-text") return std::nullopt;
  const auto tokenizer = std::make_shared<const Tokenizer>(Tokenizer::load(arguments[1]));
  return [tokenizer, special = kind == "tokens"](const std::string& input) {
    return tokens_of(*tokenizer, input, special);
  };
}

bool read_input(std::string& input) {
  std::uint32_t size = 0;
  if (std::fread(&size, sizeof size, 1, stdin) != 1) return false;
  input.resize(size);
  return std::fread(input.data(), 1, size, stdin) == size;
}

void answer(const Answerer& answer_to) {
  for (std::string input; read_input(input);) {
    const test::Answer made = test::answer_of([&] { return answer_to(input); });
    const std::string text = made.text ? "+" + *made.text : "-" + made.error;
    const auto size = static_cast<std::uint32_t>(text.size());
    std::fwrite(&size, sizeof size, 1, stdout);
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
}

}  // namespace
}  // namespace draftproof::differential

int main(int count, char** arguments) {
  const auto answer_to = draftproof::differential::answerer({arguments + 1, arguments + count});
  if (!answer_to) {
    return std::fputs("the kinds of inputs are listed in tests/differential/answers.cpp\n", stderr), 2;
  }
  draftproof::differential::answer(*answer_to);
}

// SPDX-License-Identifier: MIT
#include "tools/other_flags.h"

#include <algorithm>

#include "tools/command_line.h"

namespace draftproof {
namespace {

using enum OtherFlag::Use;
using enum OtherFlag::Value;

constexpr std::string_view on_cpu = "draftproof computes on the CPU";
constexpr std::string_view own_rows = "the rows of a pass are draftproof's to choose";
constexpr std::string_view one_pool = "target and draft take turns on the threads of --threads";
constexpr std::string_view whole_context = "a text may be as long as the model's context";
constexpr std::string_view always = "draftproof does so always";
constexpr std::string_view mapped = "draftproof packs weights into memory of its own";
constexpr std::string_view no_conversation = "draftproof generate holds none; draftproof chat does";
constexpr std::string_view behind_draft = "write it behind the draft: --draft PATH?min_prob=P";
constexpr std::string_view what_pays = "rounds have as many draft tokens as pay; --draft-max N asks for N";
constexpr std::string_view kv = "the format of the KV cache is --kv f32, bf16 or q8";

constexpr OtherFlag table[] = {
    {"-md", obeyed, one, "--draft"},
    {"--model-draft", obeyed, one, "--draft"},
    {"--draft-model", obeyed, one, "--draft"},
    {"--spec-draft-model", obeyed, one, "--draft"},
    {"--draft-n", obeyed, one, "--draft-max"},
    {"--spec-draft-n-max", obeyed, one, "--draft-max"},
    {"-s", obeyed, one, "--seed"},
    {"--predict", obeyed, one, "--max-new-tokens"},
    {"--n-predict", obeyed, one, "--max-new-tokens"},
    {"--max-tokens", obeyed, one, "--max-new-tokens"},
    {"--grammar-file", obeyed, one, "--grammar"},
    {"-jf", obeyed, one, "--json-schema"},
    {"--json-schema-file", obeyed, one, "--json-schema"},
    {"-np", obeyed, one, "--parallel"},
    {"-hf", obeyed, one, "--model"},
    {"-hfr", obeyed, one, "--model"},
    {"--hf-repo", obeyed, one, "--model"},
    {"-sys", obeyed, one, "--system"},
    {"--system-prompt", obeyed, one, "--system"},
    {"--chat-template-file", obeyed, one, "--template"},
    {"-ngl", moot, one, {}, on_cpu},
    {"--gpu-layers", moot, one, {}, on_cpu},
    {"--n-gpu-layers", moot, one, {}, on_cpu},
    {"-ngld", moot, one, {}, on_cpu},
    {"--gpu-layers-draft", moot, one, {}, on_cpu},
    {"-dev", moot, one, {}, on_cpu},
    {"--device", moot, one, {}, on_cpu},
    {"-fa", moot, maybe, {}, "attention has one form here, and its bits never change"},
    {"--flash-attn", moot, maybe, {}, "attention has one form here, and its bits never change"},
    {"-c", moot, one, {}, whole_context},
    {"--ctx-size", moot, one, {}, whole_context},
    {"-cd", moot, one, {}, whole_context},
    {"--ctx-size-draft", moot, one, {}, whole_context},
    {"-b", moot, one, {}, own_rows},
    {"--batch-size", moot, one, {}, own_rows},
    {"-ub", moot, one, {}, own_rows},
    {"--ubatch-size", moot, one, {}, own_rows},
    {"-tb", moot, one, {}, one_pool},
    {"--threads-batch", moot, one, {}, one_pool},
    {"-td", moot, one, {}, one_pool},
    {"--threads-draft", moot, one, {}, one_pool},
    {"--mlock", moot, none, {}, mapped},
    {"--no-mmap", moot, none, {}, mapped},
    {"-cb", moot, none, {}, always},
    {"--cont-batching", moot, none, {}, always},
    {"--jinja", moot, none, {}, always},
    {"--no-warmup", moot, none, {}, "there is no warm-up"},
    {"-no-cnv", moot, none, {}, no_conversation},
    {"--no-conversation", moot, none, {}, no_conversation},
    {"--no-display-prompt", moot, none, {}, always},
    {"-cnv", refused, none, {}, "draftproof chat holds conversations"},
    {"-i", refused, none, {}, "draftproof chat holds conversations"},
    {"--draft-min", refused, one, {}, what_pays},
    {"--draft-n-min", refused, one, {}, what_pays},
    {"--spec-draft-n-min", refused, one, {}, what_pays},
    {"--draft-p-min", refused, one, {}, behind_draft},
    {"--spec-draft-p-min", refused, one, {}, behind_draft},
    {"-j", refused, one, {}, "write the schema to a file: --json-schema FILE"},
    {"-ctk", refused, one, {}, kv},
    {"--cache-type-k", refused, one, {}, kv},
    {"-ctv", refused, one, {}, kv},
    {"--cache-type-v", refused, one, {}, kv},
    {"--api-key", refused, one, {}, "keys come from a file: --api-key-file FILE"},
    {"--mmproj", refused, one, {}, "draftproof reads text only"},
    {"-mm", refused, one, {}, "draftproof reads text only"},
    {"--lora-scaled", refused, one, {}, "write the scale behind the path: --lora PATH=SCALE"},
    {"--chat-template", refused, one, {}, "give the template as a file: --template FILE"},
};

const OtherFlag* find_flag(std::string_view name) {
  const auto* const found = std::ranges::find(table, name, &OtherFlag::name);
  return found == std::end(table) ? nullptr : found;
}

const Option* find_option(const Command& command, std::string_view flag) {
  for (const Option& option : command.options()) {
    if (std::ranges::count(option.text().flags, flag) > 0) return &option;
  }
  return nullptr;
}

}  // namespace

std::span<const OtherFlag> other_flags() { return table; }

std::vector<std::string> translate_flags(const Command& command, std::vector<std::string>& words) {
  std::vector<std::string> notes;
  std::vector<std::string> result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      result.insert(result.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    const std::size_t equals = words[i].starts_with("--") ? words[i].find('=') : std::string::npos;
    const std::string name = words[i].substr(0, equals);
    const bool joined = equals != std::string::npos;
    if (const Option* const own = find_option(command, name)) {
      result.push_back(words[i]);
      if (!joined && !own->text().value.empty() && i + 1 < words.size()) result.push_back(words[++i]);
      continue;
    }
    const OtherFlag* const flag = find_flag(name);
    if (flag == nullptr || flag->use == refused ||
        (flag->use == obeyed && find_option(command, flag->ours) == nullptr)) {
      result.push_back(words[i]);
    } else if (flag->use == obeyed) {
      result.push_back(std::string(flag->ours) + (joined ? words[i].substr(equals) : ""));
      if (!joined && i + 1 < words.size()) result.push_back(words[++i]);
    } else {
      notes.push_back(name + " is passed over: " + std::string(flag->text));
      const auto is_state = [](const std::string& word) { return word == "on" || word == "off" || word == "auto"; };
      const std::string next = i + 1 < words.size() ? words[i + 1] : "";
      const bool is_value = !next.empty() && (next[0] != '-' || (next.size() > 1 && next[1] >= '0' && next[1] <= '9'));
      const bool takes_next = flag->value == one ? is_value : flag->value == maybe && is_state(next);
      if (!joined && takes_next) ++i;
    }
  }
  words = std::move(result);
  return notes;
}

std::string_view instead_of(std::string_view flag) {
  const OtherFlag* const found = find_flag(flag);
  return found != nullptr && found->use == refused ? found->text : std::string_view();
}

}  // namespace draftproof

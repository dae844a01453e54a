// SPDX-License-Identifier: MIT
#include "tools/pair.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/drafts/draft_spec.h"
#include "ref/formats/hub_cache.h"
#include "ref/formats/json.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

constexpr std::size_t bytes_max = std::size_t{1} << 16;

/// A path of the file in this folder.
std::filesystem::path placed(const std::filesystem::path& folder, const std::filesystem::path& path) {
  const std::filesystem::path beside = folder / path;
  if (is_present(beside)) return beside;
  const auto name = read_hub_name(path.generic_string());
  return name ? find_in_hub_cache(hub_cache(), *name).value_or(beside) : beside;
}

std::string draft_of(const Json& field, const std::filesystem::path& folder) {
  const std::string& name = field.string();
  try {
    const DraftSpec spec = parse_draft_spec(name);
    return spec.name_with_paths([&](const std::filesystem::path& path) { return placed(folder, path); });
  } catch (const Error& wrong) {
    field.fail(wrong.what());
  }
}

std::vector<std::string> adapters_of(const Json& field, const std::filesystem::path& folder) {
  std::vector<std::string> adapters;
  for (std::size_t i = 0; i < field.size(); ++i) {
    const std::string text = field[i].string();
    try {
      const std::string path = read_lora_source(text).path.string();
      adapters.push_back(placed(folder, path).string() + text.substr(path.size()));
    } catch (const Error& wrong) {
      field[i].fail(wrong.what());
    }
  }
  return adapters;
}

/// The text of a field that `read` takes or throws Error for.
template <class Read>
std::optional<std::string> word_of(const Json& json, const char* name, const Read& read) {
  const auto field = json.find(name);
  if (!field) return std::nullopt;
  const std::string& word = field->string();
  try {
    read(word);
  } catch (const Error& wrong) {
    field->fail(wrong.what());
  }
  return word;
}

}  // namespace

std::optional<Pair> read_pair(const std::filesystem::path& target) {
  if (target.extension() != ".json" || !std::filesystem::is_regular_file(target)) return std::nullopt;
  const Json json = Json::read(target, bytes_max);
  if (!json.is_object()) json.fail("is not a pair; write {\"target\": PATH, \"draft\": KIND:PATH}");
  for (const std::string& field : json.fields()) {
    constexpr std::string_view known[] = {"target", "draft", "quantize", "kv", "lora"};
    if (std::ranges::find(known, field) != std::end(known)) continue;
    json.fail("a pair has no field " + in_quotes(field) + "; there are target, draft, quantize, kv and lora");
  }
  const std::filesystem::path folder = target.parent_path();
  const Json of_target = json.at("target");
  if (of_target.string().empty()) of_target.fail("is empty");
  Pair pair = {.target = placed(folder, of_target.string()).string(), .draft = {}, .quantize = {}, .kv = {}};
  if (const auto field = json.find("draft")) pair.draft = draft_of(*field, folder);
  pair.quantize = word_of(json, "quantize", quantization_by_name);
  pair.kv = word_of(json, "kv", kv_format_by_name);
  if (const auto field = json.find("lora")) pair.lora = adapters_of(*field, folder);
  return pair;
}

void use_pair(const Command& command, std::string& target, std::string& draft, LayoutOptions& layout) {
  const std::optional<Pair> pair = read_pair(target);
  if (!pair) return;
  target = pair->target;
  const auto put = [&](const char* option, const std::optional<std::string>& stated, std::string& value) {
    if (stated && !command.given(option)) value = *stated;
  };
  put("--draft", pair->draft, draft);
  put("--quantize", pair->quantize, layout.quantize);
  put("--kv", pair->kv, layout.kv);
  if (!command.given("--lora")) layout.lora = pair->lora;
}

}  // namespace draftproof

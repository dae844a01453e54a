// SPDX-License-Identifier: MIT
#include "serve/request_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/foreign_json.h"

namespace draftproof::serve {
namespace {

using enum FieldUse;

constexpr std::string_view plainly = "leave it out";
constexpr std::string_view sampler = "there is no such sampler; docs/serve.md lists those that are there";
constexpr std::string_view schema = "response_format.json_schema.schema";

std::vector<ApiField> make_fields() {
  std::vector<ApiField> fields;
  const auto add = [&](FieldUse use, std::string_view note, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) fields.push_back({name, use, note});
  };
  // clang-format off
  add(obeyed, "",
      {
       "messages", "prompt", "max_tokens", "temperature", "top_p", "top_k", "min_p", "presence_penalty",
       "frequency_penalty", "repetition_penalty", "repeat_last_n", "logit_bias", "n", "stop", "stop_token_ids",
       "seed", "logprobs", "top_logprobs", "stream", "stream_options", "response_format", "structured_outputs",
       "grammar", "prediction", "ignore_eos", "chat_template_kwargs", "speculative", "return_tokens", "samplers",
       "sampler_order", "top_n_sigma", "typical_p", "dynatemp_range", "dynatemp_exponent", "xtc_probability",
       "xtc_threshold", "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n",
       "dry_sequence_breakers", "mirostat", "mirostat_tau", "mirostat_eta", "adaptive_target", "adaptive_decay",
       "min_tokens", "bad_words", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort",
       "reasoning_format", "include_reasoning", "thinking_budget_tokens", "continue_final_message",
       "add_generation_prompt", "echo", "prompt_logprobs", "parse_special", "cache_salt"
  });
  add(alias, "max_tokens", {"max_completion_tokens", "n_predict", "max_new_tokens", "max_length"});
  add(alias, "repetition_penalty", {"repeat_penalty", "rep_pen"});
  add(alias, "typical_p", {"typical", "typ_p"});
  add(alias, "top_n_sigma", {"nsigma"});
  add(alias, "min_tokens", {"min_new_tokens"});
  add(alias, "stop", {"stop_sequence", "stop_sequences"});
  add(alias, "grammar", {"guided_grammar"});
  add(alias, schema, {"json_schema", "guided_json"});
  // They name, order, charge, cache, time or route an answer, or show what it is made of.
  add(harmless, "",
      {
       "model", "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
       "prompt_cache_retention", "cache_prompt", "id_slot", "slot_id", "n_keep", "n_cache_reuse",
       "priority", "request_id", "rid", "session_id", "timings_per_token", "return_progress", "keep_alive", "verbose",
       "guided_decoding_backend", "genkey", "quiet",
       "spaces_between_special_tokens"
  });
  const auto refuse = [&](std::string_view name, std::string_view note, std::vector<double> off = {},
                          std::vector<std::string> off_words = {}, bool off_true = false) {
    fields.push_back({name, refused, note, std::move(off), std::move(off_words), off_true});
  };
  for (const char* const name : {
       "functions", "audio", "web_search_options", "suffix", "images", "image_data",
       "multi_modal_data", "mm_processor_kwargs", "documents", "lora", "truncate_prompt_tokens",
       "add_special_tokens", "guided_regex", "guided_choice",
       "guided_whitespace_pattern", "regex", "ebnf", "structural_tag", "banned_tokens",
       "allowed_token_ids", "logits_processors", "sampler_seed", "input_prefix",
       "input_suffix", "input_extra", "memory", "template", "chat_template", "thinking_forced_open",
       "return_tokens_as_token_ids", "return_token_ids",
       "response_fields", "post_sampling_probs", "include_stop_str_in_output", "use_beam_search", "early_stopping",
       "embedding_overrides", "kv_transfer_params", "custom_params", "vllm_xargs", "extra_body", "watermark",
       "verbosity", "reasoning", "return_full_text",
       "decoder_input_details", "do_sample"
  }) {
    refuse(name, plainly);
  }
  // clang-format on
  refuse("skip_special_tokens", plainly, {}, {}, true);
  refuse("trim_stop", plainly, {}, {}, true);
  refuse("detokenize", "ask with return_tokens for ids", {}, {}, true);
  refuse("t_max_predict_ms", plainly, {0, -1});
  refuse("min_keep", sampler, {0, 1});
  refuse("best_of", "ask for n answers", {1});
  refuse("n_probs", "ask for logprobs", {0});
  refuse("function_call", "use tool_choice", {}, {"none", "auto"});
  for (const char* const name : {"tfs", "tfs_z", "length_penalty", "encoder_repetition_penalty"}) {
    refuse(name, sampler, {1});
  }
  for (const char* const name : {"top_a", "smoothing_factor", "penalty_alpha", "no_repeat_ngram_size", "epsilon_cutoff",
                                 "eta_cutoff", "rep_pen_range", "rep_pen_slope", "typicality"}) {
    refuse(name, sampler, {0});
  }
  refuse("num_beams", sampler, {0, 1});
  refuse("modalities", "this server answers with text", {}, {"text"});
  return fields;
}

const ApiField* find_field(std::string_view name) {
  const auto fields = api_fields();
  const auto found = std::ranges::find(fields, name, &ApiField::name);
  return found == fields.end() ? nullptr : &*found;
}

/// Whether the value of a refused field asks for nothing.
bool says_nothing(const ApiField& field, const Json& value) {
  if (value.is_boolean()) return value.boolean() == field.off_true;
  if (value.is_number()) return std::ranges::count(field.off, value.number()) > 0;
  const auto is_off = [&](const Json& one) {
    return one.is_string() && (one.string().empty() || std::ranges::count(field.off_words, one.string()) > 0);
  };
  if (value.is_string()) return is_off(value);
  if (value.is_object()) return value.fields().empty();
  if (!value.is_array()) return true;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (!is_off(value[i])) return false;
  }
  return true;
}

}  // namespace

std::span<const ApiField> api_fields() {
  static const std::vector<ApiField> fields = make_fields();
  return fields;
}

Json parse_request(const std::string& body, std::map<std::string, std::string> names) {
  const Json json = Json::parse(body, "the request", names);
  if (!json.is_object()) json.fail("is not a JSON object");
  std::map<std::string, std::string> aliases;  // by the field that is named
  for (const std::string& name : json.fields()) {
    const auto value = json.find(name);
    if (!value) continue;
    const ApiField* const field = find_field(name);
    if (field == nullptr) value->fail("is not known to this server; leave it out");
    if (field->use == refused && !says_nothing(*field, *value)) {
      value->fail("is not supported by this server; " + std::string(field->note));
    }
    if (field->use != alias) continue;
    const std::string of(field->note);
    const std::string top = of.substr(0, of.find('.'));
    const auto [other, first] = aliases.emplace(of, name);
    if (!first || json.find(top)) value->fail("and " + (first ? top : other->second) + " say the same; leave one out");
  }
  if (aliases.empty()) return json;
  require_few(json);
  auto renamed = nlohmann::ordered_json::parse(body);
  for (const auto& [of, name] : aliases) {
    const auto known = names.find(name);
    names[of] = known == names.end() ? name : known->second;
    auto value = std::move(renamed[name]);
    renamed.erase(name);
    if (of == schema) {
      if (value.is_string()) {
        const auto text = value.get<std::string>();
        Json::parse(text, "the request: field " + name);  // refuses what is no JSON or nests too deep
        value = nlohmann::ordered_json::parse(text);
      }
      renamed["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"schema", std::move(value)}}}};
    } else {
      renamed[of] = std::move(value);
    }
  }
  return Json::parse(renamed.dump(), "the request", std::move(names));
}

}  // namespace draftproof::serve

// SPDX-License-Identifier: MIT
// Bad input of every kind, given to the command as a user would: one sentence that names file and field, status 3, no
// crash, and nothing on standard output that could be taken for a result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/tools/command.h"

namespace draftproof::test {
namespace {

using nlohmann::ordered_json;
using Words = std::vector<std::string>;

/// A copy of a fixture folder that a case may damage.
struct Damaged {
  Folder folder;
  files::path target = folder.path() / "target";
  files::path draft = folder.path() / "draft";
  Damaged() {
    files::copy(fixture("external/qwen3-tiny-tied"), target);
    files::copy(fixture("external/dflash-full"), draft);
  }
};

void edit_json(const files::path& file, const std::function<void(ordered_json&)>& edit) {
  ordered_json json = ordered_json::parse(text_of(file));
  edit(json);
  put(file, json.dump());
}

/// The header's JSON of a safetensors file, edited, its length corrected.
void edit_header(const files::path& file, const std::function<void(ordered_json&)>& edit) {
  const std::string bytes = text_of(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  ordered_json header = ordered_json::parse(bytes.substr(8, length));
  edit(header);
  const std::string text = header.dump();
  const std::uint64_t edited_length = text.size();
  std::string edited(8, '\0');
  std::memcpy(edited.data(), &edited_length, sizeof edited_length);
  put(file, edited + text + bytes.substr(8 + length));
}

void edit_bytes(const files::path& file, const std::function<void(std::string&)>& edit) {
  std::string bytes = text_of(file);
  edit(bytes);
  put(file, bytes);
}

struct BadCase {
  const char* name;
  std::function<void(Damaged&)> damage;
  Words extra;                // words after "generate TARGET"; {draft} and {target} become the folders
  std::vector<const char*> said;  // all of these stand in the sentence
};

void PrintTo(const BadCase& c, std::ostream* out) { *out << c.name; }

const Words continue_it{"--prompt-tokens", "1,2,3", "--max-new-tokens", "4"};
const Words with_draft{"--prompt-tokens", "1,2,3", "--max-new-tokens", "4", "--draft", "dflash:{draft}"};

std::function<void(Damaged&)> config(std::function<void(ordered_json&)> edit) {
  return [edit](Damaged& d) { edit_json(d.target / "config.json", edit); };
}
std::function<void(Damaged&)> draft_config(std::function<void(ordered_json&)> edit) {
  return [edit](Damaged& d) { edit_json(d.draft / "config.json", edit); };
}
std::function<void(Damaged&)> weights(std::function<void(std::string&)> edit) {
  return [edit](Damaged& d) { edit_bytes(d.target / "model.safetensors", edit); };
}
std::function<void(Damaged&)> header(std::function<void(ordered_json&)> edit) {
  return [edit](Damaged& d) { edit_header(d.target / "model.safetensors", edit); };
}
void leave(Damaged&) {}

void set_length(std::string& bytes, std::uint64_t length) { std::memcpy(bytes.data(), &length, sizeof length); }

const std::vector<BadCase>& bad_cases() {
  static const std::vector<BadCase> cases = {
      // flags and requests
      {"no_prompt", leave, {}, {"--prompt"}},
      {"empty_prompt", leave, {"--prompt", ""}, {"--prompt"}},
      {"prompt_without_tokenizer", leave, {"--prompt", "hello"}, {"tokenizer.json"}},
      {"prompt_file_missing", leave, {"--prompt-file", "/nonexistent/file"}, {"--prompt-file", "/nonexistent/file"}},
      {"tokens_not_numbers", leave, {"--prompt-tokens", "1,x"}, {"--prompt-tokens", "'x'"}},
      {"tokens_negative", leave, {"--prompt-tokens", "1,-2"}, {"--prompt-tokens", "-2"}},
      {"tokens_huge", leave, {"--prompt-tokens", "99999999999"}, {"--prompt-tokens"}},
      {"token_outside_vocabulary", leave, {"--prompt-tokens", "1,160"}, {"160", "vocabulary"}},
      {"longer_than_context", leave, {"--prompt-tokens", "1,2", "--max-new-tokens", "511"}, {"513", "512"}},
      {"new_tokens_negative", leave, {"--prompt-tokens", "1", "--max-new-tokens", "-1"}, {"max-new-tokens"}},
      {"new_tokens_no_number", leave, {"--prompt-tokens", "1", "--max-new-tokens", "many"}, {"max-new-tokens"}},
      {"temperature_negative", leave, {"--prompt-tokens", "1", "--temperature", "-1"}, {"temperature"}},
      {"temperature_nan", leave, {"--prompt-tokens", "1", "--temperature", "nan"}, {"temperature"}},
      {"top_p_two", leave, {"--prompt-tokens", "1", "--top-p", "2"}, {"top-p"}},
      {"threads_zero", leave, {"--prompt-tokens", "1", "--threads", "0"}, {"threads"}},
      {"unknown_flag", leave, {"--prompt-tokens", "1", "--no-such-flag"}, {"no-such-flag"}},
      {"unknown_rule", leave, {"--prompt-tokens", "1", "--rule", "typical"}, {"typical", "matching", "rejection"}},
      {"unknown_kernels", leave, {"--prompt-tokens", "1", "--kernels", "cuda"}, {"cuda", "scalar"}},
      {"unknown_draft", leave, {"--prompt-tokens", "1", "--draft", "medusa"}, {"medusa", "dflash:PATH"}},
      {"draft_without_path", leave, {"--prompt-tokens", "1", "--draft", "dflash"}, {"dflash:PATH"}},
      {"draft_missing", leave, {"--prompt-tokens", "1", "--draft", "model:/nonexistent"}, {"/nonexistent"}},
      {"top_p_nan", leave, {"--prompt-tokens", "1", "--top-p", "nan"}, {"top-p"}},
      {"seed_negative", leave, {"--prompt-tokens", "1", "--seed", "-1"}, {"seed"}},
      {"threads_many", leave, {"--prompt-tokens", "1", "--threads", "4096"}, {"threads"}},
      {"prompt_file_a_folder", leave, {"--prompt-file", "/"}, {"--prompt-file"}},
      {"prompt_file_endless", leave, {"--prompt-file", "/dev/zero"}, {"--prompt-file"}},
      {"json_over_the_weights", leave, {"--prompt-tokens", "1", "--json", "{target}/model.safetensors"}, {"overwrite"}},
      {"json_not_writable",
       leave,
       {"--prompt-tokens", "1", "--max-new-tokens", "1", "--quiet", "--json", "/nonexistent/o"},
       {"/nonexistent/o"}},
      // config.json
      {"config_missing", [](Damaged& d) { files::remove(d.target / "config.json"); }, continue_it, {"config.json"}},
      {"config_not_json",
       [](Damaged& d) { put(d.target / "config.json", "{\"hidden_size\": "); },
       continue_it,
       {"config.json"}},
      {"config_a_list", [](Damaged& d) { put(d.target / "config.json", "[]"); }, continue_it, {"config.json"}},
      {"config_not_utf8",
       [](Damaged& d) { put(d.target / "config.json", "{\"model_type\": \"\xff\"}"); },
       continue_it,
       {"config.json"}},
      {"config_deep",
       [](Damaged& d) { put(d.target / "config.json", std::string(100000, '[')); },
       continue_it,
       {"config.json"}},
      {"hidden_absent", config([](auto& c) { c.erase("hidden_size"); }), continue_it, {"config.json", "hidden_size"}},
      {"hidden_negative", config([](auto& c) { c["hidden_size"] = -48; }), continue_it, {"config.json", "hidden_size"}},
      {"hidden_text", config([](auto& c) { c["hidden_size"] = "48"; }), continue_it, {"config.json", "hidden_size"}},
      {"layers_huge", config([](auto& c) { c["num_hidden_layers"] = 1e15; }), continue_it, {"num_hidden_layers"}},
      {"heads_not_divided",
       config([](auto& c) { c["num_key_value_heads"] = 3; }),
       continue_it,
       {"config.json", "num_key_value_heads"}},
      {"activation_unknown",
       config([](auto& c) { c["hidden_act"] = "relu6"; }),
       continue_it,
       {"config.json", "hidden_act", "relu6"}},
      {"rope_unknown",
       config([](auto& c) { c["rope_parameters"]["rope_type"] = "yarn"; }),
       continue_it,
       {"config.json", "rope_type", "yarn"}},
      {"epsilon_zero", config([](auto& c) { c["rms_norm_eps"] = 0; }), continue_it, {"config.json", "rms_norm_eps"}},
      {"architecture_unknown",
       config([](auto& c) { c["architectures"] = {"OtherForCausalLM"}; }),
       continue_it,
       {"config.json", "OtherForCausalLM"}},
      {"layer_types_short",
       config([](auto& c) { c["layer_types"] = {"full_attention"}; }),
       continue_it,
       {"config.json", "layer_types"}},
      {"quantised",
       config([](auto& c) {
         c["quantization_config"] = {{"bits", 4}};
       }),
       continue_it,
       {"config.json", "quantization_config"}},
      {"stop_id_text",
       config([](auto& c) { c["eos_token_id"] = "two"; }),
       continue_it,
       {"config.json", "eos_token_id"}},
      // model.safetensors
      {"weights_missing",
       [](Damaged& d) { files::remove(d.target / "model.safetensors"); },
       continue_it,
       {"model.safetensors"}},
      {"weights_empty", weights([](auto& b) { b.clear(); }), continue_it, {"model.safetensors"}},
      {"weights_five_bytes", weights([](auto& b) { b.resize(5); }), continue_it, {"model.safetensors"}},
      {"weights_half", weights([](auto& b) { b.resize(b.size() / 2); }), continue_it, {"model.safetensors"}},
      {"weights_one_byte_short", weights([](auto& b) { b.pop_back(); }), continue_it, {"model.safetensors"}},
      {"weights_one_byte_long", weights([](auto& b) { b.push_back('x'); }), continue_it, {"model.safetensors"}},
      {"header_length_zero", weights([](auto& b) { set_length(b, 0); }), continue_it, {"model.safetensors"}},
      {"header_length_huge",
       weights([](auto& b) { set_length(b, ~std::uint64_t{0}); }),
       continue_it,
       {"model.safetensors"}},
      {"header_not_json", weights([](auto& b) { b[8] = '}'; }), continue_it, {"model.safetensors"}},
      {"offset_huge",
       header([](auto& h) { h["model.norm.weight"]["data_offsets"][1] = std::uint64_t{1} << 62; }),
       continue_it,
       {"model.safetensors", "model.norm.weight"}},
      {"offsets_reversed",
       header([](auto& h) {
         h["model.norm.weight"]["data_offsets"] = {192, 0};
       }),
       continue_it,
       {"model.safetensors", "model.norm.weight"}},
      {"offsets_overlap",
       header([](auto& h) {
         auto& o = h["model.norm.weight"]["data_offsets"];
         const std::uint64_t begin = o[0];
         const std::uint64_t end = o[1];
         o = {begin - 4, end - 4};
       }),
       continue_it,
       {"model.safetensors"}},
      {"shape_wrong",
       header([](auto& h) {
         h["model.norm.weight"]["shape"] = {2, 24};
       }),
       continue_it,
       {"model.safetensors", "model.norm.weight"}},
      {"shape_negative",
       header([](auto& h) { h["model.norm.weight"]["shape"] = {-48}; }),
       continue_it,
       {"model.safetensors", "model.norm.weight"}},
      {"dtype_wrong",
       header([](auto& h) { h["model.norm.weight"]["dtype"] = "I32"; }),
       continue_it,
       {"model.safetensors", "model.norm.weight", "I32"}},
      {"tensor_absent",
       header([](auto& h) {
         auto tensor = h["model.norm.weight"];
         h.erase("model.norm.weight");
         h["model.other.weight"] = tensor;
       }),
       continue_it,
       {"model.norm.weight"}},
      {"weight_nan",
       [](Damaged& d) {
         edit_bytes(d.target / "model.safetensors", [](std::string& b) {
           const float nan = __builtin_nanf("");
           std::memcpy(b.data() + b.size() - sizeof nan, &nan, sizeof nan);
         });
       },
       continue_it,
       {"model.safetensors"}},
      {"index_names_missing_shard",
       [](Damaged& d) {
         files::remove(d.target / "model.safetensors");
         put(d.target / "model.safetensors.index.json", R"({"weight_map": {"model.norm.weight": "gone.safetensors"}})");
       },
       continue_it,
       {"gone.safetensors"}},
      {"index_escapes_folder",
       [](Damaged& d) {
         files::remove(d.target / "model.safetensors");
         put(d.target / "model.safetensors.index.json", R"({"weight_map": {"model.norm.weight": "../x.safetensors"}})");
       },
       continue_it,
       {"../x.safetensors"}},
      // tokenizer.json
      {"tokenizer_not_json",
       [](Damaged& d) { put(d.target / "tokenizer.json", "<html>"); },
       {"--prompt", "hi"},
       {"tokenizer.json"}},
      {"tokenizer_of_another_kind",
       [](Damaged& d) { put(d.target / "tokenizer.json", R"({"model": {"type": "Unigram", "vocab": []}})"); },
       {"--prompt", "hi"},
       {"tokenizer.json", "Unigram"}},
      {"tokenizer_negative_id",
       [](Damaged& d) {
         put(d.target / "tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}})");
       },
       {"--prompt", "hi"},
       {"tokenizer.json"}},
      // drafts
      {"draft_hidden_size",
       draft_config([](auto& c) { c["hidden_size"] = 64; }),
       with_draft,
       {"config.json", "hidden_size", "48"}},
      {"draft_vocabulary",
       draft_config([](auto& c) { c["vocab_size"] = 161; }),
       with_draft,
       {"config.json", "vocab_size", "160"}},
      {"draft_layer_id",
       draft_config([](auto& c) {
         c["dflash_config"]["target_layer_ids"] = {0, 3};
       }),
       with_draft,
       {"config.json", "target_layer_ids"}},
      {"draft_layer_ids_descend",
       draft_config([](auto& c) {
         c["dflash_config"]["target_layer_ids"] = {1, 0};
       }),
       with_draft,
       {"config.json", "target_layer_ids"}},
      {"draft_layer_ids_empty",
       draft_config([](auto& c) { c["dflash_config"]["target_layer_ids"] = ordered_json::array(); }),
       with_draft,
       {"config.json", "target_layer_ids"}},
      {"draft_mask_out_of_range",
       draft_config([](auto& c) { c["dflash_config"]["mask_token_id"] = 160; }),
       with_draft,
       {"config.json", "mask_token_id"}},
      {"draft_mask_absent",
       draft_config([](auto& c) { c["dflash_config"].erase("mask_token_id"); }),
       with_draft,
       {"config.json", "mask_token_id"}},
      {"draft_for_other_depth",
       draft_config([](auto& c) { c["num_target_layers"] = 36; }),
       with_draft,
       {"config.json", "num_target_layers"}},
      {"draft_block_size_contradicts",
       draft_config([](auto& c) { c["dflash_config"]["block_size"] = 8; }),
       with_draft,
       {"config.json", "block_size"}},
      {"draft_block_size_one",
       draft_config([](auto& c) { c["block_size"] = 1; }),
       with_draft,
       {"config.json", "block_size"}},
      {"draft_with_bias",
       [](Damaged& d) {
         edit_header(d.draft / "model.safetensors", [](ordered_json& h) {
           h["layers.0.self_attn.q_proj.bias"] = {{"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
         });
       },
       with_draft,
       {"q_proj.bias"}},
      {"draft_shorter_than_the_text",
       draft_config([](auto& c) { c["max_position_embeddings"] = 5; }),
       with_draft,
       {"5", "7"}},
      {"draft_weights_missing",
       [](Damaged& d) { files::remove(d.draft / "model.safetensors"); },
       with_draft,
       {"model.safetensors"}},
      {"draft_config_missing", [](Damaged& d) { files::remove(d.draft / "config.json"); }, with_draft, {"config.json"}},
      {"model_draft_of_other_vocabulary",
       leave,
       {"--prompt-tokens", "1", "--draft", "model:" + fixture("external/qwen3-tiny-odd")},
       {"vocabulary", "97", "160"}},
  };
  return cases;
}

class BadInput : public testing::TestWithParam<BadCase> {};

TEST_P(BadInput, GetsOneSentenceThatNamesItAndStatusThree) {
  const BadCase& bad = GetParam();
  Damaged damaged;
  bad.damage(damaged);
  Words words{"generate", damaged.target.string()};
  for (const std::string& word : bad.extra) {
    std::string replaced = word;
    for (const auto& [hole, path] : {std::pair("{draft}", damaged.draft), {"{target}", damaged.target}}) {
      if (const std::size_t at = replaced.find(hole); at != std::string::npos) {
        replaced.replace(at, std::string_view(hole).size(), path.string());
      }
    }
    words.push_back(replaced);
  }
  const Outcome outcome = run_command(words);
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_FALSE(outcome.err.empty());
  EXPECT_LE(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 2) << outcome.err;
  for (const char* words_said : bad.said) EXPECT_THAT(outcome.err, testing::HasSubstr(words_said));
}

INSTANTIATE_TEST_SUITE_P(Command, BadInput, testing::ValuesIn(bad_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(BadInputTable, HoldsFarMoreThanFortyCases) { EXPECT_GE(bad_cases().size(), 60U); }

TEST(BadInputTable, TheUndamagedFoldersWork) {
  Damaged damaged;
  const Outcome outcome = run_command({"generate", damaged.target.string(), "--prompt-tokens", "1,2,3",
                                       "--max-new-tokens", "4", "--draft", "dflash:" + damaged.draft.string()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out, "");
}

}  // namespace
}  // namespace draftproof::test

// SPDX-License-Identifier: MIT
// Bad input of every kind, given to the command as a user would: one message that names file and field, exit code 3, no
// crash, and nothing on standard output that could be mistaken for a result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "ref/formats/printable.h"
#include "tests/tools/command.h"

namespace draftproof::test::bad_input_test {
namespace {

using nlohmann::ordered_json;

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
  Words extra;                    // words after "generate TARGET"; {draft} and {target} become the folders
  std::vector<const char*> said;  // the message contains all of these
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
/// A target and a draft with the same tokenizer.
void tales(Damaged& d) {
  for (const auto& [to, from] : {std::pair(d.target, "models/tale-target"), {d.draft, "models/tale-small"}}) {
    files::remove_all(to);
    files::copy(fixture(from), to);
  }
}

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
      {"unknown_draft", leave, {"--prompt-tokens", "1", "--draft", "hydra"}, {"hydra", "dflash:PATH"}},
      {"draft_without_path", leave, {"--prompt-tokens", "1", "--draft", "dflash"}, {"dflash:PATH"}},
      {"chain_with_mtp_heads_that_are_not_there",
       leave,
       {"--prompt-tokens", "1", "--draft", "ngram-simple+mtp"},
       {"has no MTP heads", "mtp:PATH"}},
      {"target_without_mtp_heads", leave, {"--prompt-tokens", "1", "--draft", "mtp"}, {"has no MTP heads", "mtp:PATH"}},
      {"mtp_heads_of_a_dflash_draft", leave, {"--prompt-tokens", "1", "--draft", "mtp:{draft}"},
       {"of the kind mtp", "dflash:"}},
      {"assistant_of_another_target",
       leave,
       {"--prompt-tokens", "1", "--draft", "mtp:" + fixture("external/gemma4-assistant")},
       {"gemma4-assistant: is an assistant of a Gemma 4, and the target is another model"}},
      {"draft_missing", leave, {"--prompt-tokens", "1", "--draft", "model:/nonexistent"}, {"/nonexistent"}},
      {"top_p_nan", leave, {"--prompt-tokens", "1", "--top-p", "nan"}, {"top-p"}},
      {"seed_negative", leave, {"--prompt-tokens", "1", "--seed", "-1"}, {"seed"}},
      {"threads_neither_number_nor_auto", leave, {"--prompt-tokens", "1", "--threads", "most"}, {"threads", "auto"}},
      {"threads_many", leave, {"--prompt-tokens", "1", "--threads", "4096"}, {"threads"}},
      {"prompt_file_a_folder", leave, {"--prompt-file", "/"}, {"--prompt-file"}},
      {"prompt_file_endless", leave, {"--prompt-file", "/dev/zero"}, {"--prompt-file"}},
      {"json_over_the_weights", leave, {"--prompt-tokens", "1", "--json", "{target}/model.safetensors"}, {"overwrite"}},
      {"json_not_writable",
       leave,
       {"--prompt-tokens", "1", "--max-new-tokens", "1", "--quiet", "--json", "/nonexistent/o"},
       {"/nonexistent/o"}},
      {"kernels_empty", leave, {"--prompt-tokens", "1", "--kernels", ""}, {"--kernels", "empty"}},
      {"prompt_file_empty_path", leave, {"--prompt-file", ""}, {"--prompt-file", "empty"}},
      {"json_empty_path", leave, {"--prompt-tokens", "1", "--json", ""}, {"--json", "empty"}},
      {"json_empty_path_assigned", leave, {"--prompt-tokens", "1", "--json="}, {"--json"}},
      {"trace_empty_path", leave, {"--prompt-tokens", "1", "--trace", ""}, {"--trace", "empty"}},
      {"json_a_long_path",
       leave,
       {"--prompt-tokens", "1", "--json", std::string(5000, 'x')},
       {"xxx...xxx", "cannot be written: File name too long"}},
      {"flags_that_exclude_each_other", leave, {"--prompt", "a", "--prompt-tokens", "1"}, {"--prompt", "excludes"}},
      {"flag_without_its_value", leave, {"--prompt-tokens"}, {"--prompt-tokens"}},
      {"new_tokens_too_many",
       leave,
       {"--prompt-tokens", "1", "--max-new-tokens", "99999999999999999999"},
       {"'99999999999999999999' is not a whole number from 0 to 2147483647"}},
      {"top_k_negative",
       leave,
       {"--prompt-tokens", "1", "--top-k", "-1"},
       {"--top-k", "'-1' is not a whole number from 0 to 2147483647"}},
      {"seed_beyond_the_largest",
       leave,
       {"--prompt-tokens", "1", "--seed", "18446744073709551616"},
       {"'18446744073709551616' is not a whole number from 0 to 18446744073709551615"}},
      {"seed_octal", leave, {"--prompt-tokens", "1", "--seed", "010"}, {"'010' is not a whole number"}},
      {"top_p_with_a_tail", leave, {"--prompt-tokens", "1", "--top-p", "0.5x"}, {"'0.5x' is not a number from 0 to 1"}},
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
       config([](auto& c) { c["rope_parameters"]["rope_type"] = "spiral"; }),
       continue_it,
       {"config.json", "rope_type", "spiral"}},
      {"epsilon_zero", config([](auto& c) { c["rms_norm_eps"] = 0; }), continue_it, {"config.json", "rms_norm_eps"}},
      {"architecture_unknown",
       config([](auto& c) { c["architectures"] = {"OtherForCausalLM"}; }),
       continue_it,
       {"config.json", "OtherForCausalLM"}},
      {"layer_types_short",
       config([](auto& c) { c["layer_types"] = {"full_attention"}; }),
       continue_it,
       {"config.json", "layer_types"}},
      {"quantized",
       config([](auto& c) {
         c["quantization_config"] = {{"bits", 4}};
       }),
       continue_it,
       {"config.json", "quantization_config"}},
      {"stop_id_text",
       [](Damaged& d) {
         edit_json(d.target / "generation_config.json", [](ordered_json& c) { c["eos_token_id"] = "two"; });
       },
       continue_it,
       {"generation_config.json", "eos_token_id"}},
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
       [](Damaged& d) { put(d.target / "tokenizer.json", R"({"model": {"type": "WordPiece", "vocab": {}}})"); },
       {"--prompt", "hi"},
       {"tokenizer.json", "WordPiece"}},
      {"tokenizer_model_cut",
       [](Damaged& d) {
         files::remove(d.target / "tokenizer.json");
         put(d.target / "tokenizer.model", "\x0A\x10");
       },
       {"--prompt", "hi"},
       {"tokenizer.model", "the message ends inside a field"}},
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
      {"draft_weights_missing",
       [](Damaged& d) { files::remove(d.draft / "model.safetensors"); },
       with_draft,
       {"model.safetensors"}},
      {"draft_config_missing", [](Damaged& d) { files::remove(d.draft / "config.json"); }, with_draft, {"config.json"}},
      {"model_draft_of_other_vocabulary",
       leave,
       {"--prompt-tokens", "1", "--draft", "model:" + fixture("external/qwen3-tiny-odd")},
       {"vocabulary", "97", "160"}},
      {"model_draft_of_another_tokenizer",
       tales,
       {"--prompt-tokens", "1", "--draft", "model:" + fixture("models/tale-llama")},
       {"BPE of bytes", "BPE of characters", "model:PATH?translate=1"}},
      {"model_draft_of_a_tokenizer_with_another_token",
       [](Damaged& d) {
         tales(d);
         edit_json(d.draft / "tokenizer.json", [](ordered_json& t) { t["added_tokens"][2]["content"] = "<|stop|>"; });
       },
       {"--prompt-tokens", "1", "--draft", "model:{draft}"},
       {"draft: the draft's vocabulary", "token 2046 is '<|im_end|>' in the target and '<|stop|>' in the draft",
        "model:PATH?translate=1"}},
      {"model_draft_of_a_damaged_tokenizer",
       [](Damaged& d) {
         tales(d);
         edit_json(d.draft / "tokenizer.json", [](ordered_json& t) { t["model"]["type"] = "WordPiece"; });
       },
       {"--prompt-tokens", "1", "--draft", "model:{draft}"},
       {"draft/tokenizer.json", "WordPiece"}},
      {"translation_without_a_tokenizer",
       leave,
       {"--prompt-tokens", "1", "--draft", "model:{target}?translate=1"},
       {"translate=1 needs the tokenizers of draft and target", "tokenizer.json"}},
      {"translation_by_no_flag",
       leave,
       {"--prompt-tokens", "1", "--draft", "model:{target}?translate=2"},
       {"option translate of model is an integer from 0 to 1, not '2'"}},
  };
  return cases;
}

/// The message is one printable line, whatever the input was.
void expect_one_message(const Outcome& outcome) {
  EXPECT_THAT(outcome.err, testing::StartsWith("draftproof: "));
  EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  EXPECT_LE(outcome.err.size(), 1000U);
  EXPECT_EQ(printable(outcome.err, outcome.err.size()), outcome.err.substr(0, outcome.err.size() - 1) + "\\x0a");
}

class BadInput : public testing::TestWithParam<BadCase> {};

TEST_P(BadInput, IsRefusedWithOneMessageNamingItAndExitCode3) {
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
  expect_one_message(outcome);
  for (const char* words_said : bad.said) EXPECT_THAT(outcome.err, testing::HasSubstr(words_said));
}

INSTANTIATE_TEST_SUITE_P(Command, BadInput, testing::ValuesIn(bad_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

/// Ten thousand characters, control characters, newlines, bytes that are no UTF-8: in every kind of flag.
TEST(BadInputValueSlow, IsQuotedAndShortenedToOneLine) {
  const std::string target = fixture("external/qwen3-tiny-tied");
  for (const std::string& value : {std::string(10000, 'x'), std::string("a\nb\r\x1b[2Jc\x07"),
                                   std::string("\xff\xfe\xc3("), std::string(3000, '\n'),
                                   std::string("\xc2\x9b"
                                               "2J")}) {
    for (const Words& words : std::vector<Words>{{value},
                                                 {"generate", value, "--prompt-tokens", "1"},
                                                 {"generate", target, value},
                                                 {"generate", target, "--prompt-tokens", value},
                                                 {"generate", target, "--prompt-file", value},
                                                 {"generate", target, "--prompt-tokens", "1", "--draft", value},
                                                 {"generate", target, "--prompt", "a", "--draft", "model:" + value},
                                                 {"generate", target, "--prompt-tokens", "1", "--rule", value},
                                                 {"generate", target, "--prompt-tokens", "1", "--kernels", value},
                                                 {"generate", target, "--prompt-tokens", "1", "--kv", value},
                                                 {"generate", target, "--prompt-tokens", "1", "--seed", value},
                                                 {"generate", target, "--prompt-tokens", "1", "--top-p", value},
                                                 {"generate", target, "--prompt-tokens", "1", "--" + value},
                                                 {"generate", target, "--prompt-tokens", "1", "--json", value + "/x"},
                                                 {"generate", target, "--prompt-tokens", "1", "--trace", value + "/x"},
                                                 {"inspect", value},
                                                 {"signature", "--models", value},
                                                 {"synth", "--shape", value, "--type", "f32", "x.gguf"},
                                                 {"synth", "--shape", "tiny", "--type", "f32", value + "/x"},
                                                 {"bench", "decode", value},
                                                 {"fixture", "replay", value},
                                                 {"fixture", "review", value},
                                                 {"fixture", "diff", value, value},
                                                 {"trace", "show", value},
                                                 {"trace", "diff", value, value},
                                                 {"reproduce", value},
                                                 {"zoo", "--only", value},
                                                 {"zoo", "--only", "A01", "--reproducer", value + "/x/y"}}) {
      const Outcome outcome = run_command(words);
      EXPECT_EQ(outcome.status, 3) << words[0];
      EXPECT_EQ(outcome.out, "") << words[0];
      expect_one_message(outcome);
    }
  }
}

struct OutputFlag {
  Words words;
  std::string flag;
};

/// Every flag of every command that names a file to write.
std::vector<OutputFlag> output_flags(const Folder& folder) {
  const std::string target = fixture("external/qwen3-tiny-tied");
  const std::string recorded = fixture("snapshots/llama-q5_k.h5");
  const std::string trace = folder.path() / "t.jsonl";
  put(trace, R"({"type":"header","schema":"spectrace/2","engine":"e","vocabulary":9,"rule":"greedy","prompt":[1],)"
             R"("temperature":"0x0p+0"})"
             "\n");
  const std::string text = folder.path() / "text";
  put(text, "Once upon a time");
  files::create_directory(folder.path() / "case");
  put(folder.path() / "case/case.json",
      R"({"schema":"draftproof-case/2","command":"build","check":"exhaustive_small_cases","rule":"matching"})");
  const std::pair<Words, Words> flags_of[] = {
      {{"generate", target, "--prompt-tokens", "1"}, {"--json", "--trace"}},
      {{"verify", target, "--prompt-tokens", "1", "--draft", "perfect"}, {"--json", "--junit", "--html", "--trace"}},
      {{"corpus", fixture("models/tale-target"), text, "--for", "suffix"}, {"--out"}},
      {{"fixture", "diff", recorded, recorded}, {"--json"}},
      {{"fixture", "replay", recorded}, {"--json"}},
      {{"trace", "check", trace}, {"--json", "--junit", "--html", "--sarif"}},
      {{"reproduce", folder.path() / "case"}, {"--json", "--junit", "--html"}},
      {{"zoo", "--only", "A01"}, {"--json", "--junit", "--html"}},
      {{"bench", "decode", target}, {"--json"}},
      {{"bench", "sampling"}, {"--json"}}};
  std::vector<OutputFlag> list;
  for (const auto& [words, flags] : flags_of) {
    for (const std::string& flag : flags) list.push_back({words, flag});
  }
  return list;
}

/// Ends a hanging command with exit code 124.
const std::string limited = "timeout 20";

TEST(BadOutput, IsAPipeWithoutAReader) {
  const Folder folder;
  const std::string pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (auto [words, flag] : output_flags(folder)) {
    words.insert(words.end(), {flag, pipe});
    const Outcome outcome = run_command(words, limited);
    EXPECT_EQ(outcome.status, 3) << words[0] << " " << flag;
    EXPECT_EQ(outcome.out, "") << "no work was done";
    EXPECT_THAT(outcome.err, testing::HasSubstr("cannot write '" + pipe + "': nobody reads this pipe"));
    expect_one_message(outcome);
    EXPECT_TRUE(files::is_fifo(pipe));
  }
}

TEST(BadOutput, IsAnEmptyPath) {
  const Folder folder;
  for (auto [words, flag] : output_flags(folder)) {
    words.insert(words.end(), {flag, ""});
    const Outcome outcome = run_command(words, limited);
    EXPECT_EQ(outcome.status, 3) << words[0] << " " << flag;
    EXPECT_THAT(outcome.err, testing::HasSubstr(flag + ": is empty"));
    expect_one_message(outcome);
  }
}

TEST(BadOutput, IsAPipeAtThePathOfTraceRowsOrOfThePartialFile) {
  const Folder folder;
  const std::string target = fixture("external/qwen3-tiny-tied");
  const std::string trace = folder.path() / "t.jsonl";
  const std::vector<std::string> words{"generate", target, "--prompt-tokens", "1",      "--max-new-tokens", "2",
                                       "--trace",  trace,  "--trace-rows",    "--quiet"};
  ASSERT_EQ(mkfifo((trace + ".rows.h5").c_str(), 0600), 0);
  const Outcome refused = run_command(words, limited);
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.err, testing::HasSubstr("cannot write '" + trace + ".rows.h5': it is not a regular file"));
  expect_one_message(refused);
  EXPECT_TRUE(files::is_fifo(trace + ".rows.h5"));

  files::remove(trace + ".rows.h5");
  ASSERT_EQ(mkfifo((trace + ".partial-1-1").c_str(), 0600), 0);
  const Outcome written = run_command(words, limited);
  EXPECT_EQ(written.status, 0) << written.err;
  EXPECT_TRUE(files::is_regular_file(trace));
}

TEST(BadOutput, IsAPipeAtThePathOfAModel) {
  const Folder folder;
  const std::string pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const Outcome refused = run_command({"synth", "--shape", "tiny", "--type", "f32", pipe}, limited);
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.err, testing::HasSubstr("cannot write '" + pipe + "': it is not a regular file"));
  expect_one_message(refused);
  EXPECT_TRUE(files::is_fifo(pipe));
}

/// What the tests above refuse, in forms that must be accepted.
TEST(GoodOutput, IsAPipeWithAReaderOrStandardOutputByAnyName) {
  const Folder folder;
  const std::string got = folder.path() / "got";
  const std::string pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string command = "timeout 20 " + quoted(DRAFTPROOF_BINARY) + " generate " +
                              quoted(fixture("external/qwen3-tiny-tied")) +
                              " --prompt-tokens 1,2 --max-new-tokens 4 --json ";
  for (const std::string& line :
       {"cat " + quoted(pipe) + " >" + quoted(got) + " & " + command + quoted(pipe) +
            " >/dev/null; status=$?; wait; exit $status",
        command + "- >" + quoted(got), command + "/dev/stdout >" + quoted(got),
        command + "/dev/stdout | cat >" + quoted(got), command + quoted(got) + " >" + quoted(got),
        command + "/dev/fd/3 3>&1 >/dev/null | cat >" + quoted(got), command + quoted(got) + " --quiet >&-"}) {
    EXPECT_EQ(std::system(line.c_str()), 0) << line;
    const auto json = ordered_json::parse(text_of(got), nullptr, false);
    EXPECT_EQ(json.value("tokens", ordered_json()).size(), 4U) << line << "\n" << text_of(got);
    put(got, "");
  }
}

TEST(BadOutput, IsAFullDeviceWhateverIsPrinted) {
  const Folder folder;
  const std::string err = folder.path() / "err";
  const std::string model = fixture("external/qwen3-tiny-tied");
  for (const std::string& words :
       std::vector<std::string>{"--help", "--version", "help", "generate --help", "inspect", "inspect " + quoted(model),
                                "inspect --json " + quoted(model), "man", "completion bash",
                                "generate " + quoted(model) + " --prompt-tokens 1,2 -n 2"}) {
    const std::string line = quoted(DRAFTPROOF_BINARY) + " " + words + " >/dev/full 2>" + quoted(err);
    EXPECT_EQ(WEXITSTATUS(std::system(line.c_str())), 3) << words;
    EXPECT_EQ(text_of(err), "draftproof: standard output cannot be written to\n") << words;
  }
}

TEST(BadOutput, IsClosedStandardOutputAndNoFileReceivesItsText) {
  const Folder folder;
  const std::string err = folder.path() / "err";
  const std::string json = folder.path() / "json";
  const std::string line = quoted(DRAFTPROOF_BINARY) + " generate " + quoted(fixture("external/qwen3-tiny-tied")) +
                           " --prompt-tokens 1,2 --max-new-tokens 4 --json " + quoted(json) + " >&- 2>" + quoted(err);
  EXPECT_EQ(WEXITSTATUS(std::system(line.c_str())), 3);
  EXPECT_EQ(text_of(err), "draftproof: standard output cannot be written to\n");
  EXPECT_TRUE(ordered_json::accept(text_of(json))) << text_of(json);
}

TEST(BadFile, IsNamedWithTheErrorOfTheSystem) {
  const Outcome outcome = run_command({"generate", std::string(300, 'd') + "/x", "--prompt-tokens", "1"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, testing::Not(testing::HasSubstr("filesystem error")));
  EXPECT_THAT(outcome.err, testing::HasSubstr("File name too long"));
  expect_one_message(outcome);
}

TEST(BadInputTable, HasAtLeastSixtyCases) { EXPECT_GE(bad_cases().size(), 60U); }

TEST(BadInputTable, UndamagedFoldersAreAccepted) {
  Damaged damaged;
  const Outcome outcome = run_command({"generate", damaged.target.string(), "--prompt-tokens", "1,2,3",
                                       "--max-new-tokens", "4", "--draft", "dflash:" + damaged.draft.string()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out, "");
}

}  // namespace
}  // namespace draftproof::test::bad_input_test

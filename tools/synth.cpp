// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "kernels/kernels.h"
#include "kernels/math64.h"
#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/formats/gguf_writer.h"
#include "ref/formats/stored_tensor.h"
#include "ref/text/byte_alphabet.h"
#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/synthetic.h"

namespace draftproof {
namespace {

struct SynthOptions {
  std::string shape;
  std::string type;
  std::uint64_t seed = 0;
  std::string file;
  int threads = 0;
  bool quiet = false;
};

void describe(const SyntheticShape& shape, Format format, std::uint64_t seed, GgufFields& fields) {
  const std::string prefix = std::string(shape.architecture) + ".";
  const auto number = [&](const char* key, int value) { fields.size(prefix + key, static_cast<std::uint32_t>(value)); };
  fields.text("general.architecture", shape.architecture);
  fields.text("general.name", fmt::format("{} {}, random weights, seed {}", shape.name, traits(format).name, seed));
  fields.size("general.file_type", gguf_file_type(format));
  fields.size("general.quantization_version", 2);
  number("block_count", shape.layers);
  number("context_length", shape.context);
  number("embedding_length", shape.hidden);
  number("feed_forward_length", shape.intermediate);
  number("attention.head_count", shape.heads);
  number("attention.head_count_kv", shape.kv_heads);
  number("attention.key_length", shape.head_dim);
  number("attention.value_length", shape.head_dim);
  number("rope.dimension_count", shape.head_dim);
  number("vocab_size", shape.vocabulary);
  if (shape.experts > 0) {
    number("expert_count", shape.experts);
    number("expert_used_count", shape.experts_chosen);
    number("expert_feed_forward_length", shape.intermediate);
  }
  fields.number(prefix + "rope.freq_base", shape.rope_base);
  fields.number(prefix + "attention.layer_norm_rms_epsilon", shape.epsilon);
}

/// Adds a byte-level tokenizer of the right vocabulary size: every byte, a few merges and an end of text; the remaining
/// tokens are unused.
void add_tokenizer(const SyntheticShape& shape, GgufFields& fields) {
  constexpr std::array<std::pair<const char*, const char*>, 8> pairs = {
      {{" ", "t"}, {"h", "e"}, {" t", "he"}, {"i", "n"}, {" ", "a"}, {"e", "r"}, {"o", "n"}, {"r", "e"}}};
  constexpr std::int32_t normal = 1;
  constexpr std::int32_t control = 3;
  constexpr std::int32_t unused = 5;
  const auto size = static_cast<std::size_t>(shape.vocabulary);
  std::vector<std::string> tokens;
  std::vector<std::string> merges;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(byte_alphabet::spelling(static_cast<unsigned char>(byte)));
  for (const auto& [left, right] : pairs) {
    merges.push_back(byte_alphabet::spell(left) + " " + byte_alphabet::spell(right));
    tokens.push_back(byte_alphabet::spell(left) + byte_alphabet::spell(right));
  }
  std::vector<std::int32_t> types(tokens.size(), normal);
  while (tokens.size() + 1 < size) tokens.push_back("<unused_" + std::to_string(tokens.size()) + ">");
  types.resize(tokens.size(), unused);
  tokens.emplace_back("<|endoftext|>");
  types.push_back(control);

  fields.text("tokenizer.ggml.model", "gpt2");
  fields.text("tokenizer.ggml.pre", shape.architecture == std::string("llama") ? "llama-bpe" : "qwen2");
  fields.texts("tokenizer.ggml.tokens", tokens);
  fields.integers("tokenizer.ggml.token_type", types);
  fields.texts("tokenizer.ggml.merges", merges);
  const auto last = static_cast<std::uint32_t>(shape.vocabulary - 1);
  for (const char* role : {"bos", "eos", "padding"}) fields.size(fmt::format("tokenizer.ggml.{}_token_id", role), last);
  fields.truth("tokenizer.ggml.add_bos_token", false);
}

/// Returns the divisor of each RoPE frequency, as a GGUF of Llama 3.2 stores its RoPE scaling: 32 for long waves, 1 for
/// short ones, and a transition in between ("llama3" scaling: factor 32, limits 1 and 4, 8192 positions).
std::vector<float> rope_divisors(const SyntheticShape& shape) {
  constexpr double two_pi = 6.283185307179586;
  std::vector<float> divisors;
  for (int j = 0; j < shape.head_dim / 2; ++j) {
    const double wave = two_pi * power64(shape.rope_base, 2.0 * j / shape.head_dim);
    const double transition = std::clamp((8192.0 / wave - 1) / (4 - 1), 0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / ((1 - transition) / 32 + transition)));
  }
  return divisors;
}

Exit synth(const SynthOptions& options) {
  if (options.threads > 0) set_threads(options.threads);
  const SyntheticShape& shape = synthetic_shape(options.shape);
  const Format format = format_named(options.type, FormatChoice::stored);
  require_replaceable_gguf(options.file, {});
  GgufFields fields;
  describe(shape, format, options.seed, fields);
  add_tokenizer(shape, fields);

  const std::atomic<bool>* const interrupted = watch_for_interrupt();
  Progress progress(options.quiet);
  std::vector<GgufTensor> tensors;
  std::uint64_t bytes = 0;
  if (shape.architecture == std::string("llama")) {
    const std::vector<float> divisors = rope_divisors(shape);
    const auto read = [divisors](int, int, void* to) {
      std::memcpy(to, divisors.data(), divisors.size() * sizeof(float));
    };
    tensors.push_back({"rope_freqs.weight", {Format::f32, 1, static_cast<int>(divisors.size()), read}});
  }
  for (const SyntheticTensor& tensor : synthetic_tensors(shape, format, options.seed)) {
    const std::size_t width = row_bytes(tensor.format, tensor.inputs);
    const auto read = [&options, &progress, interrupted, tensor, width](int first, int rows, void* to) {
      if (interrupted->load()) throw Error(options.file + ": interrupted; the file is not written");
      progress.show(tensor.name);
      for_rows(rows, 1.0 * rows * tensor.inputs, [&](int begin, int end) {
        synthesize(tensor, first + begin, end - begin,
                   static_cast<std::byte*>(to) + width * static_cast<std::size_t>(begin));
      });
    };
    tensors.push_back({tensor.name, {tensor.format, tensor.outputs, tensor.inputs, read}, tensor.matrices});
    bytes += width * static_cast<std::uint64_t>(tensor.outputs);
  }
  with_workers([&] { write_gguf(options.file, fields, tensors); });
  progress.show("");
  if (!options.quiet) fmt::print("{}: {} {}, {} bytes of weights\n", options.file, shape.name, options.type, bytes);
  return Exit::pass;
}

}  // namespace

void add_synth(Command& app) {
  auto options = std::make_shared<SynthOptions>();
  Command& command = app.subcommand("synth", "write a GGUF file of a real model's shape with random weights");
  command.option("--shape", options->shape, "shape of the model: " + shape_names()).required();
  command.option("--type", options->type, "type of the weights: " + format_names(FormatChoice::stored)).required();
  add_seed_option(command, options->seed, "equal seeds give equal bytes");
  command.option("file", options->file, "the file to write, NAME.gguf").required();
  add_threads_option(command, options->threads);
  command.group("Output");
  command.flag("--quiet", options->quiet, "print nothing but errors");
  command.action([options] { return synth(*options); });
}

}  // namespace draftproof

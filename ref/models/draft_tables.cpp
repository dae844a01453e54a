// SPDX-License-Identifier: MIT
#include "ref/models/draft_tables.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "kernels/operations.h"
#include "kernels/packed_activations.h"
#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/models/transformer.h"

namespace draftproof {
namespace {

constexpr float never = -std::numeric_limits<float>::infinity();

/// Reads a tensor of integers or of truth values, which are not weights. Throws Error when it has another shape or
/// another type.
template <class Value>
std::vector<Value> read_values(const Checkpoint& files, const std::string& name, const char* type, int count) {
  const auto found = files.tensors().find(name);
  if (found == files.tensors().end()) throw Error(files.path().string() + ": has no tensor " + name);
  const StoredTensor& tensor = found->second;
  if (tensor.type_name != type || tensor.shape != std::vector<std::int64_t>{count}) {
    throw Error(tensor.file->file().string() + ": tensor " + tensor.name + " is " + tensor.type_name + " of shape " +
                shown(tensor.shape) + ", but " + type + " of shape " + shown({count}) + " is needed");
  }
  std::vector<Value> values(static_cast<std::size_t>(count));
  tensor.file->read(tensor.offset, tensor.bytes, values.data());
  return values;
}

/// The format of a copy of the target's head, or of its part, when these options ask for one and its width allows it.
std::optional<Format> copy_format(const LoadOptions& options, const DraftTablesShape& shape) {
  const Format format = options.small_tables ? Format::q4_0 : Format::q8_0;
  const bool part = tokens_of_head(options, shape.draft_vocabulary) < shape.draft_vocabulary;
  if (shape.hidden % traits(format).block_inputs != 0 || (!options.small_tables && !part)) return {};
  return format;
}

/// Throws Error when the checkpoint has no table of its own and the target's has another width.
void require_fitting(const WeightLoader& from, bool own, const char* name, int hidden, const Model& target) {
  if (own || hidden == target.hidden()) return;
  throw Error(from.weights.path().string() + ": has no " + name +
              ", and the target's does not fit: its hidden_size is " + std::to_string(target.hidden()) +
              ", the draft's " + std::to_string(hidden));
}

}  // namespace

Json layer_config(const Json& config) { return config.find("transformer_layer_config").value_or(config); }

std::vector<Token> read_token_map(const Checkpoint& files, const std::string& name, bool offsets, int tokens,
                                  int vocabulary) {
  const std::vector<std::int64_t> stored = read_values<std::int64_t>(files, name, "I64", tokens);
  std::vector<Token> map(stored.size());
  std::vector<bool> known(static_cast<std::size_t>(vocabulary));
  for (std::size_t i = 0; i < map.size(); ++i) {
    const std::int64_t from = offsets ? static_cast<std::int64_t>(i) : 0;
    const std::string element =
        files.path().string() + ": element " + std::to_string(i) + " of " + name + ", " + std::to_string(stored[i]);
    if (stored[i] < -from || stored[i] >= vocabulary - from) {
      throw Error(element + ", makes a token outside of the target's vocabulary of " + std::to_string(vocabulary));
    }
    map[i] = static_cast<Token>(from + stored[i]);
    if (known[static_cast<std::size_t>(map[i])]) {
      throw Error(element + ", makes token " + std::to_string(map[i]) + " a second time");
    }
    known[static_cast<std::size_t>(map[i])] = true;
  }
  return map;
}

std::vector<Token> read_draft_vocabulary(const Checkpoint& files, int draft_vocabulary, int vocabulary) {
  const std::string origin = files.path().string();
  std::vector<Token> tokens(static_cast<std::size_t>(draft_vocabulary));
  std::iota(tokens.begin(), tokens.end(), 0);
  if (files.has("d2t")) {
    tokens = read_token_map(files, "d2t", files.metadata() == nullptr, draft_vocabulary, vocabulary);
  } else if (draft_vocabulary != vocabulary) {
    throw Error(origin + ": has a vocabulary of " + std::to_string(draft_vocabulary) + " of the target's " +
                std::to_string(vocabulary) + " tokens, but no tensor d2t that says which");
  }
  if (!files.has("t2d")) return tokens;
  std::vector<bool> drafted(static_cast<std::size_t>(vocabulary));
  for (const Token token : tokens) drafted[static_cast<std::size_t>(token)] = true;
  const std::vector<std::uint8_t> stated = read_values<std::uint8_t>(files, "t2d", "BOOL", vocabulary);
  for (std::size_t token = 0; token < drafted.size(); ++token) {
    if ((stated[token] != 0) == drafted[token]) continue;
    throw Error(origin + ": token " + std::to_string(token) +
                " is in the draft's vocabulary by one of d2t and t2d "
                "only; the checkpoint is damaged");
  }
  return tokens;
}

DraftLmHead::DraftLmHead(const WeightLoader& from, const std::string& name, const DraftTablesShape& shape,
                         std::vector<Token> tokens, const Model& target)
    : kernels_(from.options.kernels),
      target_(target),
      shape_(shape),
      own_(from.weights.has(name)),
      tokens_(std::move(tokens)) {
  REQUIRE(target.embeddings() != nullptr, "a draft may borrow the target's head");
  require_fitting(from, own_, "lm_head.weight", shape.hidden, target);
  shape_.draft_vocabulary = tokens_of_head(from.options, shape.draft_vocabulary);
  tokens_.resize(static_cast<std::size_t>(shape_.draft_vocabulary));
  std::vector<bool> known(static_cast<std::size_t>(shape.vocabulary));
  for (const Token token : tokens_) known[static_cast<std::size_t>(token)] = true;
  first_tokens_ = std::ranges::is_sorted(tokens_) && tokens_.back() + 1 == shape_.draft_vocabulary;
  for (Token token = 0; token < shape.vocabulary; ++token) {
    if (!known[static_cast<std::size_t>(token)]) unknown_.push_back(token);
  }
  if (own_) {
    const std::vector<std::int64_t> whole = {shape.draft_vocabulary, shape.hidden};
    head_ = load_table(from, {name, shape_.draft_vocabulary, 0, whole}, shape.hidden);
  } else if (const std::optional<Format> copied = copy_format(from.options, shape)) {
    copy_head(from, *copied);
  }
}

void DraftLmHead::copy_head(const WeightLoader& to, Format format) {
  const int hidden = shape_.hidden;
  const MatrixSource source = {format, shape_.draft_vocabulary, hidden,
                               [this, hidden, format](int first, int count, void* rows) {
                                 std::vector<float> row(static_cast<std::size_t>(hidden));
                                 auto* to = static_cast<std::byte*>(rows);
                                 for (int i = first; i < first + count; ++i, to += row_bytes(format, hidden)) {
                                   target_.embeddings()->head_row(tokens_[static_cast<std::size_t>(i)], row.data());
                                   quantize_row(format, row.data(), hidden, to);
                                 }
                               }};
  head_ = to.pack(std::span(&source, 1));
  own_ = true;
}

bool DraftLmHead::unembed(const float* rows, int count, PackedActivations& scratch, std::vector<float>& logits) {
  const auto vocabulary = static_cast<std::size_t>(shape_.vocabulary);
  const std::size_t own = tokens_.size();
  logits.resize(static_cast<std::size_t>(count) * vocabulary);
  if (!own_) {
    const bool numbers = target_.embeddings()->unembed(rows, count, scratch, logits.data());
    for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
      for (const Token token : unknown_) logits[row * vocabulary + static_cast<std::size_t>(token)] = never;
    }
    return numbers;
  }
  pack_activations(kernels_, head_, rows, shape_.hidden, count, scratch);
  if (first_tokens_) {
    if (unknown_.size() > 0) leave_out_tokens(shape_.draft_vocabulary, shape_.vocabulary, logits);
    return matmul_of_numbers(kernels_, head_, scratch, logits.data(), shape_.vocabulary);
  }
  draft_logits_.resize(static_cast<std::size_t>(count) * own);
  const bool numbers = matmul_of_numbers(kernels_, head_, scratch, draft_logits_.data(), shape_.draft_vocabulary);
  std::ranges::fill(logits, never);
  for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
    const float* const from = draft_logits_.data() + row * own;
    float* const to = logits.data() + row * vocabulary;
    for (std::size_t i = 0; i < own; ++i) to[tokens_[i]] = from[i];
  }
  return numbers;
}

namespace {

/// Of a loader that counts only their number matters.
std::vector<Token> tokens_of_draft(const WeightLoader& from, const DraftTablesShape& shape) {
  from.loaded("d2t");
  from.loaded("t2d");
  if (from.counts()) return std::vector<Token>(static_cast<std::size_t>(shape.draft_vocabulary));
  return read_draft_vocabulary(from.weights, shape.draft_vocabulary, shape.vocabulary);
}

}  // namespace

DraftTables::DraftTables(const WeightLoader& from, const std::string& prefix, const DraftTablesShape& shape,
                         const Model& target)
    : kernels_(from.options.kernels),
      target_(target),
      vocabulary_(shape.vocabulary),
      own_embedding_(from.weights.has(prefix + "embed_tokens.weight")),
      head_(from, "lm_head.weight", shape, tokens_of_draft(from, shape), target) {
  require_fitting(from, own_embedding_, "embed_tokens.weight", shape.hidden, target);
  if (own_embedding_) embedding_ = load_table(from, {prefix + "embed_tokens.weight", shape.vocabulary}, shape.hidden);
}

void DraftTables::embed(std::span<const Token> tokens, float* rows) const {
  if (!own_embedding_) return target_.embeddings()->embed(tokens, rows);
  for (const Token token : tokens) {
    REQUIRE(token >= 0 && token < vocabulary_, "a token lies in the vocabulary");
  }
  unpack_rows(kernels_, embedding_, tokens, rows);
}

}  // namespace draftproof

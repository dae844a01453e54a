// SPDX-License-Identifier: MIT
#include "ref/models/weight_loader.h"

#include <algorithm>
#include <utility>

#include "ref/base/error.h"

namespace draftproof {
namespace {

MatrixSource source_of(const WeightLoader& from, const NamedMatrix& matrix, int inputs, bool table) {
  WeightSource stored = matrix.within.empty() ? from.weights.weight(matrix.name, matrix.outputs, inputs)
                                              : from.weights.weight(matrix.name, matrix.within);
  if (matrix.first != 0) {
    stored.read = [read = std::move(stored.read), before = matrix.first](int first, int count, void* rows) {
      read(before + first, count, rows);
    };
  }
  const Format format = packed_format(stored.format, inputs, from.options.quantize, table);
  if (format == stored.format) return {format, matrix.outputs, inputs, stored.read};
  const std::string where = from.weights.path().string() + ": tensor " + from.weights.tensors().at(matrix.name).name;
  return {format, matrix.outputs, inputs, [stored, format, inputs, where](int first, int count, void* rows) {
            const std::size_t bytes = row_bytes(format, inputs);
            std::vector<std::byte> wide(stored.bytes_per_row() * static_cast<std::size_t>(count));
            std::vector<float> values(static_cast<std::size_t>(inputs));
            stored.read(first, count, wide.data());
            const std::byte* row = wide.data();
            auto* to = static_cast<std::byte*>(rows);
            for (int i = 0; i < count; ++i, row += stored.bytes_per_row(), to += bytes) {
              dequantize_row(stored.format, row, inputs, values.data());
              quantize_row(format, values.data(), inputs, to);
              if (first_not_finite(format, to, values.size()) != values.size()) {
                throw Error(where + " has values too large for " + traits(format).name + "; leave --quantize out");
              }
            }
          }};
}

PackedMatrix load(const WeightLoader& from, const std::vector<NamedMatrix>& parts, int inputs, bool table) {
  std::vector<MatrixSource> sources;
  for (const NamedMatrix& part : parts) sources.push_back(source_of(from, part, inputs, table));
  PackedMatrix matrix(from.options.kernels, sources);
  for (const NamedMatrix& part : parts) from.loaded(part.name);
  return matrix;
}

}  // namespace

LoadOptions with_kernels(const Kernels& kernels, const LoadOptions& like) {
  LoadOptions options(kernels, like.quantize, like.kv);
  options.observer = like.observer;
  return options;
}

WeightLoader::WeightLoader(const Checkpoint& from, const LoadOptions& as) : weights(from), options(as) {
  if (options.observer) options.observer(weights.path(), 0, weights.bytes());
}

WeightLoader::~WeightLoader() {
  if (options.observer) options.observer(weights.path(), weights.bytes(), weights.bytes());
}

std::vector<float> WeightLoader::floats(const std::string& name, const std::vector<std::int64_t>& shape) const {
  std::vector<float> values = weights.floats(name, shape);
  loaded(name);
  return values;
}

void WeightLoader::loaded(const std::string& name) const {
  const auto tensor = weights.tensors().find(name);
  if (tensor == weights.tensors().end() || !loaded_.insert(name).second) return;
  done_ += tensor->second.bytes;
  if (options.observer) options.observer(weights.path(), done_, weights.bytes());
}

void WeightLoader::refuse_others(std::span<const std::string> unused) const {
  for (const auto& [name, tensor] : weights.tensors()) {
    if (loaded_.contains(name) || name.ends_with("rotary_emb.inv_freq")) continue;  // old exports store the frequencies
    if (std::ranges::any_of(unused, [&](const std::string& prefix) { return name.starts_with(prefix); })) continue;
    throw Error(weights.path().string() + ": tensor " + tensor.name +
                " is not part of the architecture as implemented; ignoring it would compute something else");
  }
}

const char* name_of(Quantization quantize) noexcept {
  switch (quantize) {
    case Quantization::none: return "none";
    case Quantization::q8: return "q8";
    case Quantization::q4: return "q4";
  }
  return "none";
}

Quantization quantization_by_name(const std::string& name) {
  for (const Quantization quantize : {Quantization::none, Quantization::q8, Quantization::q4}) {
    if (name == name_of(quantize)) return quantize;
  }
  throw Error("there is no quantization named '" + name + "'; there are: none q8 q4");
}

KvFormat kv_format_by_name(const std::string& name) {
  for (int i = 0; i < kv_formats; ++i) {
    if (name == kv_traits[i].name) return static_cast<KvFormat>(i);
  }
  throw Error("keys and values have no format named '" + name + "'; there are: f32 bf16 q8");
}

Format packed_format(Format stored, int inputs, Quantization quantize, bool table) {
  const auto fits = [inputs](Format format) { return inputs % traits(format).block_inputs == 0; };
  if (quantize == Quantization::none || traits(stored).block_inputs > 1 || !fits(Format::q8_0)) return stored;
  if (quantize == Quantization::q8) return Format::q8_0;
  if (!table) return Format::q4_0;
  return fits(Format::q6_k) ? Format::q6_k : Format::q8_0;
}

PackedMatrix load_matrix(const WeightLoader& from, const std::vector<NamedMatrix>& parts, int inputs) {
  return load(from, parts, inputs, false);
}

PackedMatrix load_table(const WeightLoader& from, const NamedMatrix& matrix, int inputs) {
  return load(from, {matrix}, inputs, true);
}

}  // namespace draftproof

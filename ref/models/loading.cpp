// SPDX-License-Identifier: MIT
#include "ref/models/loading.h"

#include "ref/base/error.h"

namespace draftproof {
namespace {

MatrixSource source_of(const Loading& from, const NamedMatrix& matrix, int inputs, bool table) {
  const WeightSource stored = from.weights.weight(matrix.name, matrix.outputs, inputs);
  const Format format = packed_format(stored.format, inputs, from.layout.quantise, table);
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
              widen_row(stored.format, row, inputs, values.data());
              narrow_row(format, values.data(), inputs, to);
              if (first_not_finite(format, to, values.size()) != values.size()) {
                throw Error(where + " has values too large for " + traits(format).name + "; leave --quantize out");
              }
            }
          }};
}

PackedMatrix load(const Loading& from, const std::vector<NamedMatrix>& parts, int inputs, bool table) {
  std::vector<MatrixSource> sources;
  for (const NamedMatrix& part : parts) sources.push_back(source_of(from, part, inputs, table));
  PackedMatrix matrix(from.layout.kernels, sources);
  for (const NamedMatrix& part : parts) from.loaded(from.weights.tensors().at(part.name).bytes);
  return matrix;
}

}  // namespace

Layout with_table(const Kernels& kernels, const Layout& like) {
  Layout layout(kernels, like.quantise, like.kv);
  layout.observer = like.observer;
  return layout;
}

Loading::Loading(const Checkpoint& from, const Layout& as) : weights(from), layout(as) {
  if (layout.observer) layout.observer(weights.path(), 0, weights.bytes());
}

Loading::~Loading() {
  if (layout.observer) layout.observer(weights.path(), weights.bytes(), weights.bytes());
}

void Loading::loaded(std::uint64_t bytes) const {
  done_ += bytes;
  if (layout.observer) layout.observer(weights.path(), done_, weights.bytes());
}

const char* name_of(Quantisation quantise) noexcept {
  switch (quantise) {
    case Quantisation::none: return "none";
    case Quantisation::q8: return "q8";
    case Quantisation::q4: return "q4";
  }
  return "none";
}

Quantisation quantisation_by_name(const std::string& name) {
  for (const Quantisation quantise : {Quantisation::none, Quantisation::q8, Quantisation::q4}) {
    if (name == name_of(quantise)) return quantise;
  }
  throw Error("there is no quantisation named '" + name + "'; there are: none q8 q4");
}

KvFormat kv_format_by_name(const std::string& name) {
  for (int i = 0; i < kv_formats; ++i) {
    if (name == kv_traits[i].name) return static_cast<KvFormat>(i);
  }
  throw Error("keys and values have no format named '" + name + "'; there are: f32 bf16 q8");
}

Format packed_format(Format stored, int inputs, Quantisation quantise, bool table) {
  const auto fits = [inputs](Format format) { return inputs % traits(format).block_inputs == 0; };
  if (quantise == Quantisation::none || traits(stored).block_inputs > 1 || !fits(Format::q8_0)) return stored;
  if (quantise == Quantisation::q8) return Format::q8_0;
  if (!table) return Format::q4_0;
  return fits(Format::q6_k) ? Format::q6_k : Format::q8_0;
}

PackedMatrix load_matrix(const Loading& from, const std::vector<NamedMatrix>& parts, int inputs) {
  return load(from, parts, inputs, false);
}

PackedMatrix load_table(const Loading& from, const NamedMatrix& matrix, int inputs) {
  return load(from, {matrix}, inputs, true);
}

}  // namespace draftproof

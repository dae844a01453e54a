// SPDX-License-Identifier: MIT
#include "ref/models/weight_loader.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "ref/base/error.h"

namespace draftproof {
namespace {

/// More than a real checkpoint lacks, if it has only the heads of a model with many experts.
constexpr int left_out_max = 1 << 18;
/// More matrices than any real model has, rows of a matrix that are taken one by one included.
constexpr int stated_max = 1 << 20;

std::vector<std::int64_t> shape_of(const NamedMatrix& matrix, int inputs) {
  return matrix.within.empty() ? std::vector<std::int64_t>{matrix.outputs, inputs} : matrix.within;
}

/// The same values. Blocks of a quantized tensor lie along its rows, so its columns are in no format but this.
WeightSource as_floats(WeightSource tensor) {
  WeightSource result = {Format::f32, tensor.outputs, tensor.inputs, {}};
  result.read = [tensor = std::move(tensor)](int first, int rows, void* to) {
    tensor.read_values(first, rows, static_cast<float*>(to));
  };
  return result;
}

MatrixSource source_of(const WeightLoader& from, const NamedMatrix& matrix, int inputs, bool table) {
  WeightSource whole = from.weight(matrix.name, shape_of(matrix, inputs));
  if (matrix.transposed && !is_float(whole.format)) whole = as_floats(std::move(whole));
  const WeightSource stored = rows_of(std::move(whole), matrix, inputs);
  const Format format = packed_format(stored.format, inputs, from.options, table);
  if (format == stored.format) return {format, matrix.outputs, inputs, stored.read};
  const auto tensor = from.weights.tensors().find(matrix.name);
  const std::string where = from.weights.path().string() + ": tensor " +
                            (tensor == from.weights.tensors().end() ? matrix.name : tensor->second.name);
  return {format, matrix.outputs, inputs, [stored, format, inputs, where](int first, int count, void* rows) {
            const std::size_t bytes = row_bytes(format, inputs);
            const auto width = static_cast<std::size_t>(inputs);
            std::vector<float> values(width * static_cast<std::size_t>(count));
            stored.read_values(first, count, values.data());
            auto* to = static_cast<std::byte*>(rows);
            for (int i = 0; i < count; ++i, to += bytes) {
              const float* const row = values.data() + width * static_cast<std::size_t>(i);
              quantize_row(format, row, inputs, to);
              if (first_not_finite(format, to, width) != width) {
                throw Error(where + " has values too large for " + traits(format).name + "; leave --quantize out");
              }
            }
          }};
}

/// The rows of a matrix whose tensor has them as columns.
struct Columns {
  std::once_flag once;
  std::vector<std::byte> rows;
};

WeightSource columns_of(WeightSource tensor, const NamedMatrix& matrix, int inputs) {
  const auto columns = std::make_shared<Columns>();
  const auto value = tensor.bytes_per_row() / static_cast<std::size_t>(tensor.inputs);  // bytes
  WeightSource result = {tensor.format, matrix.outputs, inputs, {}};
  const auto gather = [tensor = std::move(tensor), columns, matrix, inputs, value] {
    constexpr int together = 64;
    const int width = tensor.inputs;
    std::vector<std::byte> read(tensor.bytes_per_row() * together);
    columns->rows.resize(value * static_cast<std::size_t>(matrix.outputs) * static_cast<std::size_t>(inputs));
    for (int begin = 0; begin < inputs; begin += together) {
      const int count = std::min(together, inputs - begin);
      tensor.read(matrix.first / width * inputs + matrix.before + begin, count, read.data());
      for (int row = 0; row < matrix.outputs; ++row) {
        const std::ptrdiff_t column = matrix.first % width + row * matrix.step;
        std::byte* to = columns->rows.data() + (std::ptrdiff_t{row} * inputs + begin) * value;
        for (std::ptrdiff_t i = 0; i < count; ++i, to += value) {
          std::memcpy(to, read.data() + (i * width + column) * value, value);
        }
      }
    }
  };
  result.read = [columns, gather, bytes = value * static_cast<std::size_t>(inputs)](int first, int count, void* rows) {
    std::call_once(columns->once, gather);
    std::memcpy(rows, columns->rows.data() + bytes * static_cast<std::size_t>(first),
                bytes * static_cast<std::size_t>(count));
  };
  return result;
}

PackedMatrix load(const WeightLoader& from, const std::vector<NamedMatrix>& parts, int inputs, bool table) {
  std::vector<MatrixSource> sources;
  for (const NamedMatrix& part : parts) {
    if (!from.leaves_out(part.name, shape_of(part, inputs))) sources.push_back(source_of(from, part, inputs, table));
  }
  PackedMatrix matrix = from.pack(sources);
  for (const NamedMatrix& part : parts) from.loaded(part.name);
  return matrix;
}

}  // namespace

WeightSource rows_of(WeightSource tensor, const NamedMatrix& matrix, int inputs) {
  if (matrix.transposed) return columns_of(std::move(tensor), matrix, inputs);
  if (matrix.first == 0 && matrix.step == 1) return tensor;
  /// Reads these rows by what reads those of the tensor, each of which takes `width` numbers or bytes.
  const auto picked = [before = matrix.first, step = matrix.step](auto read, std::size_t width) {
    return [=](int first, int count, auto* rows) {
      if (step == 1) {
        read(before + first, count, rows);
        return;
      }
      using Part = std::conditional_t<std::is_same_v<decltype(rows), void*>, std::byte, float>;
      auto* to = static_cast<Part*>(rows);
      for (int i = first; i < first + count; ++i, to += width) read(before + i * step, 1, to);
    };
  };
  tensor.read = picked(std::move(tensor.read), tensor.bytes_per_row());
  if (tensor.read_exact) tensor.read_exact = picked(std::move(tensor.read_exact), static_cast<std::size_t>(inputs));
  return tensor;
}

int tokens_of_head(const LoadOptions& options, int vocabulary) {
  return options.head_tokens > 0 ? std::min(options.head_tokens, vocabulary) : vocabulary;
}

LoadOptions with_kernels(const Kernels& kernels, const LoadOptions& like) {
  LoadOptions options(kernels, like.quantize, like.kv);
  options.observer = like.observer;
  options.requantize = like.requantize;
  options.small_tables = like.small_tables;
  options.long_context = like.long_context;
  options.layers = like.layers;
  options.head_tokens = like.head_tokens;
  return options;
}

WeightLoader::WeightLoader(const Checkpoint& from, const LoadOptions& as, Mode mode)
    : weights(from), options(as), mode_(mode) {
  if (!from.has_weights()) require_known_weights(from.config());
  tell(0);
}

WeightLoader::~WeightLoader() { tell(weights.bytes()); }

void WeightLoader::tell(std::uint64_t done) const {
  if (options.observer && !counts()) options.observer(weights.path(), done, weights.bytes());
}

bool WeightLoader::leaves_out(const std::string& name, const std::vector<std::int64_t>& shape) const {
  if (!counts() || weights.has(name, shape)) return false;
  if (!weights.has_weights()) {
    if (++left_out_ > stated_max || !elements(shape))
      weights.config().fail("states more weights than any real model's");
    return false;
  }
  if (++left_out_ > left_out_max) throw Error(weights.path().string() + ": lacks most tensors of its config");
  return true;
}

std::vector<float> WeightLoader::floats(const std::string& name, const std::vector<std::int64_t>& shape) const {
  if (leaves_out(name, shape)) return {};
  if (!counts() && !weights.has(name)) return std::vector<float>(note_missing(name, shape));
  bytes_.by_format[traits(Format::f32).name] += sizeof(float) * elements(shape).value_or(0);
  bytes_.values += elements(shape).value_or(0);
  if (counts()) return {};
  std::vector<float> values = weights.floats(name, shape);
  loaded(name);
  return values;
}

PackedMatrix WeightLoader::pack(std::span<const MatrixSource> parts) const {
  const Kernels& kernels = options.kernels;
  Ranks* const ranks = holding_ == Holding::cut ? options.ranks : nullptr;
  PackedMatrix matrix = counts() ? PackedMatrix::counted(kernels, parts, ranks) : PackedMatrix(kernels, parts, ranks);
  for (const auto& [view, first] : matrix.parts()) {
    bytes_.by_format[traits(view.format).name] += kernels.packed_bytes(view.format, view.outputs, view.inputs);
    bytes_.values += static_cast<std::uint64_t>(view.outputs) * static_cast<std::uint64_t>(view.inputs);
    int& widest = bytes_.widest[static_cast<std::size_t>(kernels.activation_format(view.format))];
    widest = std::max(widest, view.inputs);
  }
  return matrix;
}

WeightSource WeightLoader::weight(const std::string& name, const std::vector<std::int64_t>& shape) const {
  WeightSource source;
  if (counts() && !weights.has_weights()) {
    const std::uint64_t rows = elements(shape).value_or(0) / static_cast<std::uint64_t>(shape.back());
    if (rows > std::numeric_limits<int>::max()) weights.config().fail("states more weights than any real model's");
    return {stated_format(weights.config()), static_cast<int>(rows), static_cast<int>(shape.back()), {}};
  }
  if (weights.has(name)) {
    source = weights.weight(name, shape);
    if (missing_.empty()) return source;
  } else {
    const std::size_t values = note_missing(name, shape);
    source = {Format::f32,
              static_cast<int>(values / static_cast<std::size_t>(shape.back())),
              static_cast<int>(shape.back()),
              {}};
  }
  source.read = [bytes = source.bytes_per_row()](int, int rows, void* to) {
    std::memset(to, 0, bytes * static_cast<std::size_t>(rows));
  };
  source.read_exact = {};
  return source;
}

/// Returns the elements of a tensor that is missing. The search for others ends where the zeros in their place would
/// take more memory than the file.
std::size_t WeightLoader::note_missing(const std::string& name, const std::vector<std::int64_t>& shape) const {
  missing_.push_back(weights.expected(name, shape));
  const std::uint64_t max = std::max<std::uint64_t>(weights.bytes(), 1 << 20) / sizeof(float);
  const std::optional<std::uint64_t> values = elements(shape);
  if (!values || *values > max - missing_values_) finish();
  missing_values_ += *values;
  return *values;
}

void WeightLoader::loaded(const std::string& name) const {
  const auto tensor = weights.tensors().find(name);
  if (tensor == weights.tensors().end() || !loaded_.insert(name).second) return;
  done_ += tensor->second.bytes;
  tell(done_);
}

void WeightLoader::finish(std::span<const std::string> unused) const {
  if (counts()) return;
  if (!missing_.empty()) {
    constexpr std::size_t shown_max = 20;
    std::string names = missing_[0];
    for (std::size_t i = 1; i < std::min(missing_.size(), shown_max); ++i) names += ", " + missing_[i];
    if (missing_.size() > shown_max) names += ", and " + std::to_string(missing_.size() - shown_max) + " more";
    throw Error(weights.path().string() + ": the weights have no tensor " + names);
  }
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
    case Quantization::f32: return "f32";
    case Quantization::q8: return "q8";
    case Quantization::q4: return "q4";
  }
  return "none";
}

Quantization quantization_by_name(const std::string& name) {
  for (const Quantization quantize : {Quantization::none, Quantization::f32, Quantization::q8, Quantization::q4}) {
    if (name == name_of(quantize)) return quantize;
  }
  throw Error("there is no quantization named '" + name + "'; there are: none f32 q8 q4");
}

Format stated_format(const Json& config) {
  for (const Json& part : {config, config.find("text_config").value_or(config)}) {
    for (const char* field : {"dtype", "torch_dtype"}) {
      const auto type = part.find(field);
      if (!type) continue;
      if (type->string() == "float32") return Format::f32;
      if (type->string() == "float16") return Format::f16;
      return Format::bf16;
    }
  }
  return Format::bf16;
}

KvFormat kv_format_by_name(const std::string& name) {
  for (int i = 0; i < kv_formats; ++i) {
    if (name == kv_traits[i].name) return static_cast<KvFormat>(i);
  }
  throw Error("keys and values have no format named '" + name + "'; there are: f32 bf16 q8");
}

Format packed_format(Format stored, int inputs, const LoadOptions& options, bool table) {
  const auto fits = [inputs](Format format) { return inputs % traits(format).block_inputs == 0; };
  const auto chosen = [&] {
    if (options.quantize == Quantization::q8) return Format::q8_0;
    if (!table || options.small_tables) return Format::q4_0;
    return fits(Format::q6_k) ? Format::q6_k : Format::q8_0;
  };
  if (options.quantize == Quantization::f32) return is_float(stored) ? Format::f32 : stored;
  if (options.quantize == Quantization::none || !fits(Format::q8_0)) return stored;
  if (is_float(stored)) return chosen();
  const bool smaller = fits(stored) && row_bytes(chosen(), inputs) < row_bytes(stored, inputs);
  return options.requantize && smaller ? chosen() : stored;
}

PackedMatrix load_matrix(const WeightLoader& from, const std::vector<NamedMatrix>& parts, int inputs) {
  return load(from, parts, inputs, false);
}

PackedMatrix load_table(const WeightLoader& from, const NamedMatrix& matrix, int inputs) {
  return load(from, {matrix}, inputs, true);
}

}  // namespace draftproof

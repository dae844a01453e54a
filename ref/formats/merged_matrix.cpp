// SPDX-License-Identifier: MIT
#include "ref/formats/merged_matrix.h"

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/formats.h"
#include "ref/base/error.h"
#include "ref/formats/tensor_values.h"

namespace draftproof {
namespace {

/// The factors of a product as floats.
struct ReadFactors {
  std::once_flag once;
  std::vector<float> left;   // [outputs][rank]
  std::vector<float> right;  // [rank][inputs]
};

std::vector<float> values_of_factor(const LoraFactor& factor) {
  std::vector<float> stored = floats_of(factor.stored);
  if (!factor.transposed) return stored;
  const auto rows = static_cast<std::size_t>(factor.rows());
  const auto columns = static_cast<std::size_t>(factor.columns());
  std::vector<float> values(stored.size());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      values[row * columns + column] = stored[column * rows + row];
    }
  }
  return values;
}

/// Adds scale * (left * right) to a row of `sums.size()` values, of which `left` is a row.
void add_product(const float* left, std::size_t rank, const float* right, float scale, std::vector<float>& sums,
                 float* row) {
  const std::size_t inputs = sums.size();
  sums.assign(inputs, 0);
  for (std::size_t k = 0; k < rank; ++k) {
    const float factor = left[k];
    const float* const values = right + k * inputs;
    for (std::size_t i = 0; i < inputs; ++i) sums[i] += factor * values[i];
  }
  for (std::size_t i = 0; i < inputs; ++i) row[i] += scale * sums[i];
}

}  // namespace

StoredTensor merged(const StoredTensor& base, const LoraProduct& product) {
  const std::string target = where(base) + " of shape " + shown(base.shape);
  if (!base.format || base.shape.size() != 2) {
    throw Error(where(product.right.stored) + " changes " + target + " and type " + base.type_name +
                ", which is no matrix of weights");
  }
  const bool fits = product.left.rows() == base.shape[0] && product.right.columns() == base.shape[1];
  if (!fits) {
    throw Error(where(product.left.stored) + " has shape " + shown(product.left.stored.shape) + " and its partner " +
                shown(product.right.stored.shape) + ", which does not fit " + target +
                "; give an adapter of this model");
  }
  StoredTensor result = base;
  if (!is_float(*base.format)) result.format = Format::bf16;
  result.unpacking = nullptr;
  result.quantized = nullptr;
  result.rows_per_head = 0;
  result.merged = std::make_shared<const MergedMatrix>(MergedMatrix{base, product});
  return result;
}

WeightSource merged_rows(const StoredTensor& tensor, int outputs, int inputs) {
  const Format format = *tensor.format;
  WeightSource result = {format, outputs, inputs, {}};
  result.read = [base = weight_of(tensor.merged->base, outputs, inputs), product = tensor.merged->product,
                 factors = std::make_shared<ReadFactors>(), format,
                 place = where(tensor)](int first, int rows, void* to) {
    std::call_once(factors->once, [&] {
      factors->left = values_of_factor(product.left);
      factors->right = values_of_factor(product.right);
    });
    const auto width = static_cast<std::size_t>(base.inputs);
    const auto rank = static_cast<std::size_t>(product.left.columns());
    std::vector<float> values(width * static_cast<std::size_t>(rows));
    std::vector<float> sums(width);
    base.read_values(first, rows, values.data());
    auto* at = static_cast<std::byte*>(to);
    for (int r = 0; r < rows; ++r, at += row_bytes(format, base.inputs)) {
      float* const row = values.data() + width * static_cast<std::size_t>(r);
      add_product(factors->left.data() + rank * static_cast<std::size_t>(first + r), rank, factors->right.data(),
                  product.scale, sums, row);
      quantize_row(format, row, base.inputs, at);
      if (first_not_finite(format, at, width) != width) {
        throw Error(place + " has values too large for " + traits(format).name + " after adding " +
                    where(product.left.stored) + "; give a smaller scale");
      }
    }
  };
  return result;
}

}  // namespace draftproof

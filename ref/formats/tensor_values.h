// SPDX-License-Identifier: MIT
// The values of a stored tensor: read, unpacked, put in order and checked to be finite.
#pragma once

#include <vector>

#include "ref/formats/stored_tensor.h"

namespace draftproof {

/// Returns the tensor, whose format is known, as a matrix of this shape, which has as many elements. Reads nothing yet.
WeightSource weight_of(const StoredTensor& tensor, int outputs, int inputs);

/// Returns all values of the tensor, whose format is known. Throws Error as WeightSource::read does.
std::vector<float> floats_of(const StoredTensor& tensor);

/// Whether both have equal types, shapes and bytes.
bool same_values(const StoredTensor& a, const StoredTensor& b);

}  // namespace draftproof

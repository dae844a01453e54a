// SPDX-License-Identifier: MIT
// Gemma 4, the text model. Besides what Gemma 3 has: heads of two sizes, those of full layers turned in a part of their
// pairs; values that are normalized, in some models those of the key's projection; last layers that read the keys and
// values of an earlier one; what each token has of its own for each layer; a mixture of experts beside the MLP; and a
// factor of the whole stream after each layer. Here is what its assistants have, too.
#pragma once

#include <string>

#include "ref/formats/json.h"
#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

/// Describes a text_config, as if every layer had keys and values of its own.
TransformerConfig describe_gemma4_layers(const Json& json);

/// Loads the factor of the stream after a layer, 1 where it has none. `prefix` is that of the layer.
float load_layer_scalar(const WeightLoader& from, const std::string& prefix);

}  // namespace draftproof

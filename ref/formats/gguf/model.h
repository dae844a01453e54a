// SPDX-License-Identifier: MIT
// What a GGUF can say of a model. Whoever writes a file makes it of the model's description; families make keys of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ref/formats/json.h"

namespace draftproof {

struct GgufModel {
  struct Attention {
    int heads = 0;
    int kv_heads = 0;
    int head_dim = 0;
    int value_dim = 0;   // of a value
    int window = 0;      // 0: the layer sees everything
    float scale = 0;     // of scores
    float cap = 0;       // of scores; 0: none
    bool turned = true;  // by RoPE
  };
  struct Recurrence {
    int conv_width = 0;
    int key_dim = 0;         // of Mamba the size of a state
    int key_heads = 0;       // of Mamba-2 its groups, of Mamba-1 the rank of its steps
    int value_heads = 0;     // its heads
    std::int64_t inner = 0;  // values of all heads
  };
  struct Experts {
    int count = 0;  // 0: the layer has none
    int chosen = 0;
    int intermediate = 0;
    int shared = 0;  // of the MLP that every row goes through as well; 0: there is none
    bool normalized = false;
  };
  struct Layer {
    std::optional<Attention> attention;      // or else it recurs
    int intermediate = 0;                    // of the MLP
    std::optional<double> gate_cutoff = {};  // in deviations of its gates
    Experts experts = {};
    bool slides() const { return attention && attention->window > 0; }
  };
  struct Rope {
    std::string kind;
    double theta = 0;
    int turned = 0;        // dimensions of a head
    double factor = 1;     // of the kind "linear": how much longer wavelengths are
    double magnitude = 1;  // of cosine and sine
    int context = 0;       // of the kind "longrope": the longest text that the short factors are for
  };

  Json config;  // of the text model, for errors and for what is copied
  /// Finds a field of it; of a draft wherever published configs have it.
  std::function<std::optional<Json>(std::string_view name)> find;

  int vocabulary = 0;
  int hidden = 0;
  int context = 0;
  float epsilon = 0;
  bool subtracts_mean = false;  // in norms
  float logit_scale = 1;
  float logit_cap = 0;      // 0: none
  int layer_embedding = 0;  // values that a token has of its own for each layer
  int streams = 1;          // of each position
  int shared_layers = 0;    // the last ones, which read the keys and values of others
  int mtp_heads = 0;        // blocks behind the layers
  /// One number of each layer: of the tensor of this name, or of the list that the config of a GGUF has in its place.
  std::function<std::vector<float>(const std::string& tensor, const std::string& field)> layer_numbers = {};
  std::vector<Rope> ropes = {};
  std::vector<Layer> layers = {};
  std::optional<Recurrence> recurrence = {};     // of all layers that recur
  std::vector<std::int32_t> target_layers = {};  // of an EAGLE-3 draft: those whose inputs it reads
  /// Of a draft: how many values of the target it reads for a token. Throws Error when its tensors do not tell.
  std::function<std::int64_t()> target_features = {};

  struct DSpark {
    bool from_anchor;
    bool markov_head;
    bool confidence_head;
  };
  /// Of a DFlash draft that has any of these.
  std::optional<DSpark> dspark = {};
  int target_hidden = 0;  // of an assistant

  int depth() const { return static_cast<int>(layers.size()); }
};

}  // namespace draftproof

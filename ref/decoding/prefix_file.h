// SPDX-License-Identifier: MIT
// The prefix cache as one HDF5 file, sealed (ref/formats/hdf5_seal.h). Root attributes: schema, model, numerics,
// sha256. With n nodes and, for part number p, m layers:
//
//     /nodes               int64 [n][3]: index of the parent or -1, tokens of the edge, use
//     /tokens              int32: the tokens of all edges, one edge after the other
//     /parts               int64 [parts]: the layers of each part
//     /p/present           int64 [n]: whether the node has the part. Attribute name.
//     /p/snapshots         int64 [n][m][5]: 1 rows, 2 state; from; to; shortest; bytes. Nothing: five zeros.
//     /p/l/data            uint8: the bytes of layer l, one node after the other. Attribute layout.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "ref/caches/prefix_cache.h"

namespace draftproof {

/// 1 held rows of bf16 weights in another order of summation.
inline constexpr const char* prefix_schema = "draftproof.prefix_cache/2";

/// What the rows of a prefix cache depend on besides the tokens. Neither is empty.
struct PrefixOrigin {
  std::string model;     // identifies the checkpoints, of drafts too
  std::string numerics;  // numerics class
};

/// Replaces the file completely or not at all. Throws Error when it cannot be written.
void save_prefix_cache(const PrefixCache& prefixes, const PrefixOrigin& origin, const std::filesystem::path& file);

/// Fills an empty prefix cache, which evicts what is beyond its budget. `parts` are caches of the same models, of any
/// capacity and content; only the kinds of their layers matter. Parts of the file that are not among them are not
/// loaded. The HDF5 library reads the file in a process of its own, because a hostile file can crash it; memory is
/// allocated in proportion to what the file really holds. Throws Error naming the file, and leaves the prefix cache
/// empty, when the file is not whole, or of another schema, model or numerics, or when its content is not a prefix
/// cache of these parts.
void load_prefix_cache(PrefixCache& prefixes, const PrefixOrigin& origin, const PrefixCache::Parts& parts,
                       const std::filesystem::path& file);

}  // namespace draftproof

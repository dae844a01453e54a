// SPDX-License-Identifier: MIT
#include "ref/decoding/prefix_file.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/base/subprocess.h"
#include "ref/formats/hdf5.h"
#include "ref/formats/hdf5_reader.h"
#include "ref/formats/hdf5_seal.h"
#include "ref/formats/printable.h"
#include "ref/formats/whole_file.h"

namespace draftproof {
namespace {

using Nodes = std::vector<PrefixCache::Node>;
using Integers = std::vector<std::int64_t>;

constexpr std::size_t node_fields = 3;
constexpr std::size_t snapshot_fields = 5;
enum SnapshotForm : std::int64_t { rows = 1, state };

template <class T>
Array<T> list_of(std::vector<T> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return {{count}, std::move(values)};
}

std::string path_of(std::size_t part, const std::string& name) { return std::to_string(part) + "/" + name; }

std::string path_of(std::size_t part, std::size_t layer) { return path_of(part, std::to_string(layer) + "/data"); }

/// The layers of a part, or no part: no node has it.
std::size_t layers_of(const Nodes& nodes, const std::string& name) {
  for (const PrefixCache::Node& node : nodes) {
    if (const auto part = node.parts.find(name); part != node.parts.end()) return part->second.layers.size();
  }
  return 0;
}

void write_part(Hdf5& file, const Nodes& nodes, const std::string& name, std::size_t part) {
  // Hdf5::read takes no more.
  constexpr std::size_t layer_bytes_max = std::size_t{1} << 33;
  const std::size_t layers = layers_of(nodes, name);
  std::vector<std::int64_t> present;
  Integers table;
  std::vector<std::string> layouts(layers);
  for (const PrefixCache::Node& node : nodes) {
    const auto found = node.parts.find(name);
    present.push_back(found != node.parts.end());
    for (std::size_t layer = 0; layer < layers; ++layer) {
      const LayerSnapshotPtr snapshot = present.back() != 0 ? found->second.layers[layer] : nullptr;
      if (snapshot == nullptr) {
        table.insert(table.end(), snapshot_fields, 0);
        continue;
      }
      table.insert(table.end(), {snapshot->form == LayerSnapshot::Form::rows ? rows : state, snapshot->from,
                                 snapshot->to, snapshot->shortest, static_cast<std::int64_t>(snapshot->data.size())});
      layouts[layer] = snapshot->layout;
    }
  }
  file.write(path_of(part, "present"), list_of(std::move(present)));
  file.write_string_attribute(path_of(part, "present"), "name", name);
  file.write(path_of(part, "snapshots"), list_of(std::move(table)));
  for (std::size_t layer = 0; layer < layers; ++layer) {
    Array<std::uint8_t> data;
    for (const PrefixCache::Node& node : nodes) {
      const auto found = node.parts.find(name);
      if (found == node.parts.end() || found->second.layers[layer] == nullptr) continue;
      const auto& bytes = found->second.layers[layer]->data;
      const std::size_t end = data.values.size();
      data.values.resize(end + bytes.size());
      if (!bytes.empty()) std::memcpy(data.values.data() + end, bytes.data(), bytes.size());
    }
    if (data.values.size() > layer_bytes_max) throw Error("a layer has more than 8 GiB; lower the budget");
    data.shape = {static_cast<std::int64_t>(data.values.size())};
    file.write(path_of(part, layer), data);
    file.write_string_attribute(path_of(part, layer), "layout", layouts[layer]);
  }
}

class PrefixReader {
 public:
  explicit PrefixReader(const std::filesystem::path& path) : path_(path), file_(path) {}

  [[noreturn]] void fail(const std::string& what) const { throw Error(path_.string() + ": " + what); }

  std::string text(const std::string& path, const std::string& name) { return file_.read_string_attribute(path, name); }
  template <class T>
  std::vector<T> values(const std::string& path) {
    return file_.read<T>(path).values;
  }

  void expect(const std::string& name, const std::string& expected) {
    const std::string found = text("/", name);
    if (found != expected) {
      fail("attribute '" + name + "' is " + in_quotes(found) + ", and this run needs " + in_quotes(expected) +
           "; delete the file or name another");
    }
  }

 private:
  std::filesystem::path path_;
  Hdf5Reader file_;
};

Nodes read_nodes(PrefixReader& reader) {
  const Integers table = reader.values<std::int64_t>("nodes");
  const auto tokens = reader.values<Token>("tokens");
  if (table.size() % node_fields != 0) reader.fail("'nodes' has not three numbers for each node");
  Nodes nodes(table.size() / node_fields);
  auto token = tokens.begin();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::int64_t parent = table[node_fields * i];
    const std::int64_t count = table[node_fields * i + 1];
    const std::int64_t used = table[node_fields * i + 2];
    if (parent < -1 || parent >= static_cast<std::int64_t>(i) || parent > std::numeric_limits<int>::max() ||
        count < 0 || count > tokens.end() - token || used < 0) {
      reader.fail("node " + std::to_string(i) + " has no earlier parent, or more tokens than there are");
    }
    nodes[i].parent = static_cast<int>(parent);
    nodes[i].tokens.assign(token, token + count);
    nodes[i].used = static_cast<std::uint64_t>(used);
    token += count;
  }
  if (token != tokens.end()) reader.fail("'tokens' has more tokens than the nodes");
  return nodes;
}

/// Returns where each node begins and ends; the ends are within an int, or those of hostile nodes are 0.
std::vector<std::pair<int, int>> ranges_of(const Nodes& nodes) {
  std::vector<std::pair<int, int>> ranges;
  for (const PrefixCache::Node& node : nodes) {
    const std::int64_t begin = node.parent < 0 ? 0 : ranges[static_cast<std::size_t>(node.parent)].second;
    const std::int64_t end = begin + static_cast<std::int64_t>(node.tokens.size());
    ranges.emplace_back(static_cast<int>(begin), end > std::numeric_limits<int>::max() ? 0 : static_cast<int>(end));
  }
  return ranges;
}

void read_part(PrefixReader& reader, std::size_t part, const std::string& name, const Cache& cache, std::size_t layers,
               Nodes& nodes) {
  const std::string title = "part " + in_quotes(name);
  const Integers present = reader.values<std::int64_t>(path_of(part, "present"));
  const Integers table = reader.values<std::int64_t>(path_of(part, "snapshots"));
  if (present.size() != nodes.size() || layers > table.size() + 1 ||
      table.size() != nodes.size() * layers * snapshot_fields) {
    reader.fail(title + " has not one line for each node and layer");
  }
  const auto ranges = ranges_of(nodes);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (present[i] == 0) continue;
    Snapshot& snapshot = nodes[i].parts[name];
    std::tie(snapshot.from, snapshot.to) = ranges[i];
    snapshot.layers.resize(layers);
  }
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const auto data = reader.values<std::uint8_t>(path_of(part, layer));
    const std::string layout = reader.text(path_of(part, layer), "layout");
    auto place = data.begin();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::int64_t* const line = table.data() + (i * layers + layer) * snapshot_fields;
      if (std::all_of(line, line + snapshot_fields, [](std::int64_t number) { return number == 0; })) continue;
      const auto in_int = [](std::int64_t value) { return value >= 0 && value <= std::numeric_limits<int>::max(); };
      if (present[i] == 0 || (line[0] != rows && line[0] != state) || !in_int(line[1]) || !in_int(line[2]) ||
          !in_int(line[3]) || line[4] < 0 || line[4] > data.end() - place) {
        reader.fail(title + ", node " + std::to_string(i) + ", layer " + std::to_string(layer) + " is no snapshot");
      }
      LayerSnapshot snapshot{.layout = layout,
                             .form = line[0] == rows ? LayerSnapshot::Form::rows : LayerSnapshot::Form::state,
                             .from = static_cast<int>(line[1]),
                             .to = static_cast<int>(line[2]),
                             .shortest = static_cast<int>(line[3])};
      const auto bytes =
          std::as_bytes(std::span(data))
              .subspan(static_cast<std::size_t>(place - data.begin()), static_cast<std::size_t>(line[4]));
      snapshot.data.assign(bytes.begin(), bytes.end());
      nodes[i].parts.at(name).layers[layer] = std::make_shared<LayerSnapshot>(std::move(snapshot));
      place += line[4];
    }
    if (place != data.end()) reader.fail(title + ", layer " + std::to_string(layer) + " has bytes of no node");
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (present[i] == 0 || cache.fits(nodes[i].parts.at(name))) continue;
    reader.fail(title + ", node " + std::to_string(i) + " does not fit the caches of this model; delete the file");
  }
}

}  // namespace

void save_prefix_cache(const PrefixCache& prefixes, const PrefixOrigin& origin, const std::filesystem::path& path) {
  REQUIRE(!origin.model.empty() && !origin.numerics.empty(), "a saved prefix cache has an origin");
  const Nodes nodes = prefixes.nodes();
  std::set<std::string> names;
  for (const PrefixCache::Node& node : nodes) {
    for (const auto& [name, snapshot] : node.parts) names.insert(name);
  }
  Integers table;
  std::vector<Token> tokens;
  for (const PrefixCache::Node& node : nodes) {
    table.insert(table.end(),
                 {node.parent, static_cast<std::int64_t>(node.tokens.size()), static_cast<std::int64_t>(node.used)});
    tokens.insert(tokens.end(), node.tokens.begin(), node.tokens.end());
  }
  Integers layers;
  for (const std::string& name : names) layers.push_back(static_cast<std::int64_t>(layers_of(nodes, name)));
  replace_whole(path, [&](const std::filesystem::path& partial) {
    write_in_subprocess(path.string(), [&] {
      Hdf5 file = Hdf5::create(partial);
      prepare_seal(file);
      file.write_string_attribute("/", "schema", prefix_schema);
      file.write_string_attribute("/", "model", origin.model);
      file.write_string_attribute("/", "numerics", origin.numerics);
      file.write("nodes", list_of(std::move(table)));
      file.write("tokens", list_of(std::move(tokens)));
      file.write("parts", list_of(std::move(layers)));
      std::size_t part = 0;
      for (const std::string& name : names) write_part(file, nodes, name, part++);
    });
    seal(partial);
  });
}

void load_prefix_cache(PrefixCache& prefixes, const PrefixOrigin& origin, const PrefixCache::Parts& parts,
                       const std::filesystem::path& path) {
  PrefixReader reader(path);
  reader.expect("schema", prefix_schema);
  reader.expect("model", origin.model);
  reader.expect("numerics", origin.numerics);
  Nodes nodes = read_nodes(reader);
  const Integers layers = reader.values<std::int64_t>("parts");
  std::set<std::string> seen;
  for (std::size_t part = 0; part < layers.size(); ++part) {
    const std::string name = reader.text(path_of(part, "present"), "name");
    if (!seen.insert(name).second) reader.fail("has two parts " + in_quotes(name));
    const auto known = parts.find(name);
    if (known == parts.end()) continue;
    if (layers[part] < 0) reader.fail("part " + in_quotes(name) + " has less than no layers");
    read_part(reader, part, name, *known->second, static_cast<std::size_t>(layers[part]), nodes);
  }
  try {
    prefixes.take(std::move(nodes));
  } catch (const Error& error) {
    reader.fail(error.what());
  }
}

}  // namespace draftproof

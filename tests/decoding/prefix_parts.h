// SPDX-License-Identifier: MIT
// A prefix cache of a few texts, and the parts of its file, from which wrong files are made: the hash is right, the
// content is not.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ref/decoding/prefix_file.h"
#include "ref/formats/hdf5.h"
#include "ref/formats/hdf5_seal.h"
#include "tests/caches/texts.h"

namespace draftproof::prefix_parts {

using texts::Both;
using texts::Text;

inline const PrefixOrigin& origin() {
  static const PrefixOrigin value = {"some model", "canonical q8"};
  return value;
}

inline std::vector<Text> sample_texts() {
  return {{1, 2, 3, 4, 5, 6}, {1, 2, 3, 9, 9}, {7, 7}, {1, 2, 3, 4, 5, 6, 8, 8, 8, 8}};
}

inline void fill(PrefixCache& prefixes) {
  for (const Text& text : sample_texts()) {
    Both both(text);
    prefixes.insert(text, both.parts());
  }
  Cache alone = texts::target_cache();  // a text that the draft has not read
  const Text text = {1, 2, 5, 5, 5};
  texts::read_text(alone, text, true);
  prefixes.insert(text, {{"target", &alone}});
}

inline void load(PrefixCache& prefixes, const std::filesystem::path& file) {
  Both both;
  load_prefix_cache(prefixes, origin(), both.parts(), file);
}

struct FileParts {
  using AnyArray = std::variant<Array<double>, Array<std::int32_t>, Array<std::int64_t>, Array<std::uint8_t>>;
  std::map<std::string, AnyArray> arrays;                            // by path
  std::map<std::pair<std::string, std::string>, std::string> texts;  // by path and name of the attribute

  explicit FileParts(const std::filesystem::path& path) {
    const Hdf5 file = open_sealed(path);
    for (const char* name : {"schema", "model", "numerics"}) texts[{"/", name}] = file.read_string_attribute("/", name);
    for (const char* name : {"nodes", "parts"}) arrays[name] = file.read<std::int64_t>(name);
    arrays["tokens"] = file.read<std::int32_t>("tokens");
    for (const std::string& part : file.children("/")) {
      if (!file.has(part + "/present")) continue;
      for (const char* name : {"/present", "/snapshots"}) arrays[part + name] = file.read<std::int64_t>(part + name);
      texts[{part + "/present", "name"}] = file.read_string_attribute(part + "/present", "name");
      for (const std::string& layer : file.children(part)) {
        const std::string data = part + "/" + layer + "/data";
        if (layer == "present" || layer == "snapshots") continue;
        arrays[data] = file.read<std::uint8_t>(data);
        texts[{data, "layout"}] = file.read_string_attribute(data, "layout");
      }
    }
  }

  void write(const std::filesystem::path& path) const {
    {
      Hdf5 file = Hdf5::create(path);
      prepare_seal(file);
      for (const auto& [name, any] : arrays) {
        std::visit([&, &where = name](const auto& content) { file.write(where, content); }, any);
      }
      for (const auto& [place, text] : texts) {
        if (place.first == "/" || file.has(place.first)) file.write_string_attribute(place.first, place.second, text);
      }
    }
    seal(path);
  }

  std::vector<std::int64_t>& integers(const std::string& path) {
    return std::get<Array<std::int64_t>>(arrays.at(path)).values;
  }
};

}  // namespace draftproof::prefix_parts

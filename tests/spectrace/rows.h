// SPDX-License-Identifier: MIT
// Traces with rows in a file beside them, and the content of such files, for writing wrong ones.
#pragma once

#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "oracle/spectrace/rows_file.h"
#include "ref/formats/hdf5_seal.h"
#include "tests/folder.h"
#include "tests/spectrace/support.h"

namespace draftproof::spectrace {

/// The content of a file of rows. A file written from it has its own, correct hash.
struct RowsParts {
  using AnyArray = std::variant<Array<float>, Array<double>, Array<std::int32_t>, Array<std::int64_t>,
                                Array<std::uint8_t>, Array<std::uint64_t>>;
  std::map<std::string, AnyArray> arrays = {{"offsets", Array<std::uint64_t>{{1}, {0}}},
                                            {"tokens", Array<std::int32_t>{{0}, {}}},
                                            {"weights", Array<std::uint64_t>{{0}, {}}}};
  std::string schema = rows_schema;

  RowsParts() = default;
  RowsParts(const std::filesystem::path& path, bool reals) {
    const Hdf5 file = open_sealed(path);
    read<std::uint64_t>(file, "offsets");
    read<std::int32_t>(file, "tokens");
    if (reals) read<double>(file, "weights");
    else read<std::uint64_t>(file, "weights");
    schema = file.read_string_attribute("/", "schema");
  }

  template <class T>
  void read(const Hdf5& file, const std::string& name) {
    Hdf5List<T> list(file, name);
    std::vector<T> values(list.size());
    list.read(0, values);
    set(name, std::move(values));
  }
  template <class T>
  Array<T>& of(const std::string& name) {
    return std::get<Array<T>>(arrays[name]);
  }
  template <class T>
  void set(const std::string& name, std::vector<T> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    arrays[name] = Array<T>{{count}, std::move(values)};
  }
  std::vector<std::uint64_t>& offsets() { return of<std::uint64_t>("offsets").values; }
  std::vector<std::int32_t>& tokens() { return of<std::int32_t>("tokens").values; }
  std::vector<std::uint64_t>& weights() { return of<std::uint64_t>("weights").values; }

  void write(const std::filesystem::path& path) const {
    {
      Hdf5 file = Hdf5::create(path);
      prepare_seal(file);
      file.write_string_attribute("/", "schema", schema);
      for (const auto& [name, any] : arrays) {
        std::visit([&, &where = name](const auto& content) { file.write(where, content); }, any);
      }
    }
    seal(path);
  }
};

/// A trace in a folder of its own, and the file of rows that its header names.
struct Beside {
  test::Folder folder;
  std::string trace = (folder.path() / "t.jsonl").string();
  std::string rows = trace + ".rows.h5";

  void put(const std::string& text) const { test::put(trace, text); }
  std::string text() const { return test::text_of(trace); }

  /// Records a run by our writer.
  void record(Recorded& recorded, const Case& c) const {
    RowsWriter writer(rows);
    std::string text;
    Writer lines([&](std::string_view line) { text += line; }, "the loop", "sha256:01", recorded.model().vocabulary(),
                 *c.rule, seed, &writer);
    recorded.write(lines, c);
    writer.finish();
    put(text);
  }

  /// Writes the same trace with its rows moved from the lines to a file, without our writer.
  void move_out(const std::string& text) const {
    std::vector<std::string> lines = lines_of(text);
    Json header = Json::parse(lines[0]);
    const bool reals = !header.contains("total_weight");
    header["rows_file"] = "t.jsonl.rows.h5";
    lines[0] = header.dump();
    RowsParts parts;
    if (reals) parts.set<double>("weights", {});
    for (std::string& line : lines) {
      Json step = Json::parse(line);
      for (const char* field : {"p_rows", "q_rows"}) {
        if (!step.contains(field)) continue;
        step[field] = reals ? moved<double>(step[field], parts) : moved<std::uint64_t>(step[field], parts);
      }
      line = step.dump();
    }
    parts.of<std::uint64_t>("offsets").shape = {static_cast<std::int64_t>(parts.offsets().size())};
    parts.of<std::int32_t>("tokens").shape = {static_cast<std::int64_t>(parts.tokens().size())};
    std::visit([](auto& array) { array.shape = {static_cast<std::int64_t>(array.values.size())}; },
               parts.arrays["weights"]);
    parts.write(rows);
    put(sealed(lines));
  }

 private:
  template <class Value>
  static void add(Sha256& digest, const std::vector<Value>& values) {
    digest.add({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)});
  }
  template <class Weight>
  static Json moved(const Json& rows, RowsParts& parts) {
    Sha256 digest;
    const std::size_t first = parts.offsets().size() - 1;
    auto& weights = parts.of<Weight>("weights").values;
    for (const Json& row : rows) {
      std::vector<std::int32_t> row_tokens;
      std::vector<Weight> row_weights;
      for (std::size_t i = 0; i < row.size(); i += 2) {
        row_tokens.push_back(row[i].get<std::int32_t>());
        if constexpr (std::is_same_v<Weight, double>) {
          row_weights.push_back(std::strtod(row[i + 1].get<std::string>().c_str(), nullptr));
        } else {
          row_weights.push_back(row[i + 1].get<std::uint64_t>());
        }
      }
      add(digest, std::vector<std::uint64_t>{row_tokens.size()});
      add(digest, row_tokens);
      add(digest, row_weights);
      parts.tokens().insert(parts.tokens().end(), row_tokens.begin(), row_tokens.end());
      weights.insert(weights.end(), row_weights.begin(), row_weights.end());
      parts.offsets().push_back(parts.tokens().size());
    }
    return {{"row", first}, {"count", rows.size()}, {"sha256", digest.hex()}};
  }
};

}  // namespace draftproof::spectrace

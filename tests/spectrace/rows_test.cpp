// SPDX-License-Identifier: MIT
// Rows in a file beside their trace: every reader gets the same rows as from the lines, every change to the file is
// found, and a hostile file is INVALID_TRACE, never a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <limits>

#include "oracle/spectrace/reader.h"
#include "oracle/spectrace/show.h"
#include "tests/spectrace/float_engine.h"
#include "tests/spectrace/rows.h"
#include "tests/tools/command.h"

namespace draftproof::spectrace::rows_test {
namespace {

using testing::HasSubstr;

const std::string target = test::fixture("external/llama-tiny-plain");

Case sampled(const Rule& rule = rejection) {
  return {rule.name, &rule, {.temperature = 1}, "perturbed", Verification::batched, {}, 12};
}

struct AllRows {
  std::vector<Distribution> distributions;
  std::vector<RealRow> reals;
  long rounds = 0;
};

AllRows rows_of(const std::string& trace) {
  Reader reader(trace);
  AllRows all;
  while (const auto event = reader.next()) {
    const auto* round = std::get_if<RoundEvent>(&event->what);
    if (round == nullptr) continue;
    ++all.rounds;
    for (const auto* rows : {&round->p_rows, &round->q_rows}) {
      all.distributions.insert(all.distributions.end(), rows->begin(), rows->end());
    }
    for (const auto* rows : {&round->p_reals, &round->q_reals}) {
      all.reals.insert(all.reals.end(), rows->begin(), rows->end());
    }
  }
  return all;
}

void expect_same_rows(const std::string& a, const std::string& b) {
  const AllRows in_a = rows_of(a);
  const AllRows in_b = rows_of(b);
  EXPECT_EQ(in_a.rounds, in_b.rounds);
  EXPECT_GE(in_a.distributions.size() + in_a.reals.size(), static_cast<std::size_t>(in_a.rounds));
  EXPECT_TRUE(in_a.distributions == in_b.distributions);
  ASSERT_EQ(in_a.reals.size(), in_b.reals.size());
  for (std::size_t i = 0; i < in_a.reals.size(); ++i) {
    EXPECT_EQ(in_a.reals[i].tokens, in_b.reals[i].tokens);
    EXPECT_EQ(in_a.reals[i].weights, in_b.reals[i].weights);
  }
}

/// Returns the file that a killed process left when it wrote `file`; empty when there is none.
std::string partial_of(const std::filesystem::path& file) {
  for (const auto& entry : std::filesystem::directory_iterator(file.parent_path())) {
    if (entry.path().string().starts_with(file.string() + ".partial-")) return entry.path();
  }
  return "";
}

/// Returns the report without the name of the file.
std::string said(const TraceReport& report) {
  Report shown = make_report(report);
  shown.subject.clear();
  return report_text(shown);
}

TEST(RowsSlow, RowsInAFileEqualRowsInTheLines) {
  Recorded recorded;
  for (const Case& c : cases()) {
    const File inside(recorded.text(c));
    Beside written, moved;
    written.record(recorded, c);
    moved.move_out(recorded.text(c));
    for (const Beside* beside : {&written, &moved}) {
      expect_same_rows(inside.path(), beside->trace);
      EXPECT_EQ(beside->text().find("\"p_rows\":["), std::string::npos);
      for (const TraceTarget& model : {TraceTarget{}, recorded.target()}) {
        const TraceReport report = replay(beside->trace, model);
        EXPECT_EQ(report.verdict(), model.vocabulary > 0 ? ReportVerdict::pass_exact : ReportVerdict::pass_stat)
            << c.name << "\n"
            << said(report);
        EXPECT_EQ(said(report), said(replay(inside.path(), model))) << c.name;
        const bool by_draw = c.rule == &matching && c.draft == tree_draft;  // trees say nothing of how good a draft is
        EXPECT_TRUE(by_draw || !report.depths.empty()) << c.name;
      }
      EXPECT_NO_THROW(show(beside->trace, {}, [](const std::string&) {}));
      EXPECT_TRUE(compare(inside.path(), beside->trace).same());
    }
  }
}

TEST(Rows, RealRowsInAFileEqualRowsInTheLines) {
  for (const char* rule : {"rejection", "matching"}) {
    const std::string text = FloatEngine(3).trace(rule, 40);
    const File inside(text);
    Beside beside;
    beside.move_out(text);
    expect_same_rows(inside.path(), beside.trace);
    const TraceReport report = replay(beside.trace);
    EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << said(report);
    EXPECT_EQ(said(report), said(replay(inside.path())));
  }
}

/// Checks a trace whose file of rows was replaced, and returns why it is refused.
std::string refusal(const Beside& beside) {
  const TraceReport report = replay(beside.trace);
  EXPECT_EQ(report.verdict(), ReportVerdict::invalid_trace) << said(report);
  EXPECT_THAT(report.invalid, HasSubstr(beside.trace + ":"));
  EXPECT_THAT(report.invalid, HasSubstr(beside.rows));
  EXPECT_LT(report.invalid.size(), 800U);
  EXPECT_THROW(show(beside.trace, {}, [](const std::string&) {}), InvalidTrace);
  EXPECT_THROW(compare(beside.trace, beside.trace), InvalidTrace);
  return report.invalid;
}

TEST(Rows, RowsWrittenByH5pyAreRead) {
  const std::string folder = std::string(DRAFTPROOF_SOURCE_DIR) + "/tests/spectrace/files/";
  for (const char* name : {"h5py.jsonl", "h5py_reals.jsonl"}) {
    const TraceReport report = replay(folder + name);
    EXPECT_EQ(report.verdict(), ReportVerdict::undecided) << "twenty stated coins are too few\n" << said(report);
    EXPECT_EQ(report.examined.draws, 20);
    const AllRows rows = rows_of(folder + name);
    EXPECT_EQ(rows.distributions.size() + rows.reals.size(), 20U);
    std::string other = test::text_of(folder + name);
    const std::size_t at = other.find("\"position\":20") - 40;
    const std::size_t emitted = other.find("\"emitted\":[", at) + 11;
    other[emitted] = other[emitted] == '5' ? '4' : static_cast<char>(other[emitted] + 1);
    Beside changed;
    std::vector<std::string> lines = lines_of(other);
    Json header = Json::parse(lines[0]);
    header["rows_file"] = "t.jsonl.rows.h5";
    lines[0] = header.dump();
    changed.put(sealed(lines));
    std::filesystem::copy_file(folder + name + ".rows.h5", changed.rows);
    EXPECT_EQ(replay(changed.trace).verdict(), ReportVerdict::bug_proven) << "a draw is compared with its row";
  }
}

/// Copies of h5py.jsonl.rows.h5 with bytes changed until HDF5 1.10 ended with signal 11, and with 8; their seals are
/// right.
TEST(Rows, AFileThatCrashesTheLibraryDoesNotCrashTheCheck) {
  const std::string folder = std::string(DRAFTPROOF_SOURCE_DIR) + "/tests/spectrace/files/";
  for (const char* name : {"crash_11.h5", "crash_8.h5"}) {
    Beside beside;
    std::vector<std::string> lines = lines_of(test::text_of(folder + "h5py.jsonl"));
    Json header = Json::parse(lines[0]);
    header["rows_file"] = "t.jsonl.rows.h5";
    lines[0] = header.dump();
    beside.put(sealed(lines));
    std::filesystem::copy_file(folder + name, beside.rows);
    EXPECT_NO_THROW(expect_seal(beside.rows));
    EXPECT_THAT(refusal(beside), HasSubstr(":1: field rows_file: "));
  }
}

TEST(Rows, RowsOfManyChunksAreReadInAnyOrder) {
  const test::Folder folder;
  const auto path = folder.path() / "x.h5";
  Numbers numbers(5);
  std::vector<Distribution> rows;
  for (int i = 0; i < 60; ++i) {  // from one token to a few chunks
    std::vector<Token> tokens;
    std::vector<std::uint64_t> weights;
    std::uint64_t left = Distribution::total;
    for (Token token = static_cast<Token>(numbers.below(3)); token < (i % 7 == 0 ? 40000 : 1 + i); ++token) {
      if (numbers.below(3) == 0) continue;
      tokens.push_back(token);
      weights.push_back(1 + numbers.below(Distribution::total >> 20));
      left -= weights.back();
    }
    tokens.push_back(50000);
    weights.push_back(left);
    rows.push_back(Distribution::exact(tokens, weights));
  }
  RowsWriter writer(path);
  std::vector<RowsPlace> places;
  for (std::size_t i = 0; i < rows.size(); i += 3) places.push_back(writer.append({rows[i], rows[i + 1], rows[i + 2]}));
  EXPECT_EQ(writer.append({}).count, 0U);
  EXPECT_FALSE(std::filesystem::exists(path)) << "before it is whole";
  writer.finish();
  Header header;
  header.vocabulary = 50001;
  header.total = Distribution::total;
  RowsReader reader(path, header);
  for (std::size_t i = places.size(); i-- > 0;) {
    EXPECT_TRUE(reader.distributions(places[i]) == (std::vector{rows[3 * i], rows[3 * i + 1], rows[3 * i + 2]}));
  }
  EXPECT_TRUE(reader.distributions({60, 0, Sha256().hex()}).empty());
}

template <class T>
void change_every_value(const Beside& beside, const RowsParts& good, const std::string& name, bool reals) {
  const std::size_t count = std::get<Array<T>>(good.arrays.at(name)).values.size();
  ASSERT_GT(count, 10U);
  for (std::size_t i = 0; i < count; ++i) {
    for (const int by : {-1, 1}) {
      RowsParts parts(beside.rows, reals);
      parts = good;
      T& value = parts.of<T>(name).values[i];
      if constexpr (std::is_same_v<T, double>) {
        value = std::nextafter(value, by < 0 ? 0.0 : 2.0);
      } else {
        value = static_cast<T>(value + static_cast<T>(by));
      }
      std::filesystem::remove(beside.rows);
      parts.write(beside.rows);
      const std::string why = replay(beside.trace).invalid;
      EXPECT_TRUE(why.find("field p_rows") != std::string::npos || why.find("field q_rows") != std::string::npos)
          << name << "[" << i << "]: " << why;
    }
  }
}

TEST(RowsSlow, NoRowsFilePassesWithAnyValueChanged) {
  Recorded recorded;
  Beside whole;
  whole.record(recorded, sampled());
  const RowsParts good(whole.rows, false);
  change_every_value<std::uint64_t>(whole, good, "offsets", false);
  change_every_value<std::int32_t>(whole, good, "tokens", false);
  change_every_value<std::uint64_t>(whole, good, "weights", false);
  Beside real;
  real.move_out(FloatEngine(3).trace("rejection", 3));
  const RowsParts good_reals(real.rows, true);
  change_every_value<double>(real, good_reals, "weights", true);
  good.write(whole.rows);
  EXPECT_EQ(replay(whole.trace).verdict(), ReportVerdict::pass_stat) << "the unchanged file is good";
}

TEST(Rows, NoRowsFilePassesWithAnyByteChanged) {
  Recorded recorded;
  Beside beside;
  beside.record(recorded, sampled());
  const std::string good = test::text_of(beside.rows);
  for (std::size_t at = 0; at < good.size(); at += 1 + at % 97) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1 << at % 8);
    test::put(beside.rows, bad);
    EXPECT_THAT(refusal(beside), HasSubstr(":1: field rows_file: ")) << at;
    test::put(beside.rows, good.substr(0, at));
    EXPECT_THAT(refusal(beside), HasSubstr(":1: field rows_file: ")) << at;
  }
}

TEST(Rows, RowsOfAnotherRunAreRefused) {
  Recorded recorded;
  Beside one, other;
  one.record(recorded, sampled());
  Case c = sampled();
  c.sampling.temperature = 1.5F;
  other.record(recorded, c);
  std::filesystem::copy_file(other.rows, one.rows, std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(refusal(one), HasSubstr("they are not those that the trace was written with"));
}

TEST(Rows, RowsThatNoRoundNamesAreNoEvidence) {
  Recorded recorded;
  Beside beside;
  beside.record(recorded, sampled());
  RowsParts parts(beside.rows, false);
  parts.set<std::uint64_t>("offsets", [&] {
    auto offsets = parts.offsets();
    offsets.push_back(offsets.back() + 1);
    return offsets;
  }());
  parts.set<std::int32_t>("tokens", [&] {
    auto tokens = parts.tokens();
    tokens.push_back(99);
    return tokens;
  }());
  parts.set<std::uint64_t>("weights", [&] {
    auto weights = parts.weights();
    weights.push_back(1);
    return weights;
  }());
  parts.write(beside.rows);
  EXPECT_EQ(replay(beside.trace).verdict(), ReportVerdict::pass_stat);
  // A trace cut after a line does not need its last rows either.
  std::vector<std::string> lines = lines_of(beside.text());
  lines.resize(4);
  beside.put(joined(lines));
  EXPECT_EQ(replay(beside.trace).verdict(), ReportVerdict::undecided);
}

/// A list with properties that the writer never uses.
struct Odd {
  hid_t type = H5T_STD_I32LE;
  std::vector<hsize_t> shape = {4};
  hsize_t chunk = 0;
  std::vector<int> filters = {};
  bool filled = true;
  bool compact = false;
  const char* external = nullptr;
};

void make_odd(hid_t file, const char* name, const Odd& odd) {
  const std::vector<hsize_t> unlimited(odd.shape.size(), H5S_UNLIMITED);
  const hid_t space = H5Screate_simple(static_cast<int>(odd.shape.size()), odd.shape.data(),
                                       odd.chunk > 0 ? unlimited.data() : nullptr);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  if (odd.chunk > 0) H5Pset_chunk(creation, 1, &odd.chunk);
  for (const int filter : odd.filters) {
    const unsigned level = 9;
    if (filter == H5Z_FILTER_DEFLATE) H5Pset_filter(creation, filter, H5Z_FLAG_OPTIONAL, 1, &level);
    else if (filter == H5Z_FILTER_SCALEOFFSET) H5Pset_scaleoffset(creation, H5Z_SO_INT, 0);
    else H5Pset_filter(creation, filter, H5Z_FLAG_OPTIONAL, 0, nullptr);
  }
  if (odd.compact) H5Pset_layout(creation, H5D_COMPACT);
  if (odd.external != nullptr) H5Pset_external(creation, odd.external, 0, 16);
  const hid_t dataset = H5Dcreate2(file, name, odd.type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  ASSERT_GE(dataset, 0);
  if (odd.filled) {
    hsize_t count = 1;
    for (const hsize_t extent : odd.shape) count *= extent;
    const std::vector<double> zeros(count);
    H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data());
  }
  H5Dclose(dataset);
  H5Pclose(creation);
  H5Sclose(space);
}

/// Writes the good file with one list replaced by what `make` creates.
void replace_list(const Beside& beside, const RowsParts& good, const char* name,
                  const std::function<void(hid_t file)>& make) {
  RowsParts parts = good;
  parts.arrays.erase(name);
  parts.write(beside.rows);
  const hid_t file = H5Fopen(beside.rows.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  make(file);
  H5Fclose(file);
  seal(beside.rows);
}

struct Hostile {
  const char* name;
  std::function<void(const Beside&, const RowsParts&)> make;
  std::string words;
};

std::vector<Hostile> hostile_files() {
  constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();
  using Change = std::function<void(RowsParts&)>;
  const auto parts = [](const Change& change) {
    return [change](const Beside& beside, const RowsParts& good) {
      RowsParts bad = good;
      change(bad);
      bad.write(beside.rows);
    };
  };
  const auto bytes = [](const std::function<std::string(const std::string&)>& change) {
    return [change](const Beside& beside, const RowsParts&) {
      test::put(beside.rows, change(test::text_of(beside.rows)));
    };
  };
  const auto list = [](const char* name, const Odd& odd) {
    return [name, odd](const Beside& beside, const RowsParts& good) {
      replace_list(beside, good, name, [&](hid_t file) { make_odd(file, name, odd); });
    };
  };
  const hid_t u64 = H5T_STD_U64LE;
  return {
      // The file.
      {"missing", [](const Beside& beside, const RowsParts&) { std::filesystem::remove(beside.rows); }, "no such file"},
      {"empty", bytes([](const std::string&) { return std::string(); }), "not an HDF5 file"},
      {"text", bytes([](const std::string&) { return std::string("{\"type\":\"header\"}\n"); }), "not an HDF5 file"},
      {"cut short", bytes([](const std::string& good) { return good.substr(0, good.size() / 2); }), "sha256"},
      {"twice", bytes([](const std::string& good) { return good + good; }), "damaged or edited"},
      {"a folder",
       [](const Beside& beside, const RowsParts&) {
         std::filesystem::remove(beside.rows);
         std::filesystem::create_directory(beside.rows);
       },
       "not a file"},
      {"a pipe",
       [](const Beside& beside, const RowsParts&) {
         std::filesystem::remove(beside.rows);
         ASSERT_EQ(mkfifo(beside.rows.c_str(), 0600), 0);
       },
       "not a file"},
      {"a link",
       [](const Beside& beside, const RowsParts&) {
         std::filesystem::rename(beside.rows, beside.rows + ".elsewhere");
         std::filesystem::create_symlink(beside.rows + ".elsewhere", beside.rows);
       },
       "a link"},
      {"never sealed",
       [](const Beside& beside, const RowsParts&) {
         Hdf5 file = Hdf5::create(beside.rows);
         file.write_string_attribute("/", "schema", rows_schema);
       },
       "'sha256' is missing"},
      {"another schema", parts([](RowsParts& p) { p.schema = "spectrace.rows/2"; }), "'schema' is 'spectrace.rows/2'"},
      {"a fixture", parts([](RowsParts& p) { p.schema = "draftproof.fixture/2"; }), "'schema'"},
      // The lists.
      {"no offsets", parts([](RowsParts& p) { p.arrays.erase("offsets"); }), "'offsets' is missing"},
      {"no tokens", parts([](RowsParts& p) { p.arrays.erase("tokens"); }), "'tokens' is missing"},
      {"no weights", parts([](RowsParts& p) { p.arrays.erase("weights"); }), "'weights' is missing"},
      {"offsets are signed", parts([](RowsParts& p) {
         p.set<std::int64_t>("offsets", {0, 1});
       }),
       "'offsets' is not of"},
      {"tokens are reals", parts([](RowsParts& p) {
         p.set<double>("tokens", {0, 1});
       }),
       "'tokens' is not of"},
      {"tokens are long", parts([](RowsParts& p) {
         p.set<std::int64_t>("tokens", {0, 1});
       }),
       "'tokens' is not of"},
      {"tokens are bytes", parts([](RowsParts& p) {
         p.set<std::uint8_t>("tokens", {0, 1});
       }),
       "'tokens' is not of"},
      {"weights are reals", parts([](RowsParts& p) {
         p.set<double>("weights", {0.5, 0.5});
       }),
       "'weights' is not of"},
      {"weights are floats", parts([](RowsParts& p) { p.set<float>("weights", {1}); }), "'weights' is not of"},
      {"tokens the other way round", list("tokens", {.type = H5T_STD_I32BE}), "'tokens' is not of"},
      {"tokens are text", list("tokens", {.type = H5T_C_S1, .filled = false}), "'tokens' is not of"},
      {"tokens are a table", list("tokens", {.shape = {2, 2}}), "not a list"},
      {"tokens are one number", list("tokens", {.shape = {}}), "not a list"},
      {"tokens are a group",
       [](const Beside& beside, const RowsParts& good) {
         RowsParts bad = good;
         bad.arrays.erase("tokens");
         bad.arrays["tokens/tokens"] = good.arrays.at("tokens");
         bad.write(beside.rows);
       },
       "'tokens' is not a dataset"},
      {"offsets are empty", parts([](RowsParts& p) { p.set<std::uint64_t>("offsets", {}); }), "'offsets' is empty"},
      {"more tokens than weights", parts([](RowsParts& p) {
         auto weights = p.weights();
         weights.pop_back();
         p.set("weights", weights);
       }),
       "values, 'weights'"},
      {"compact", list("tokens", {.compact = true}), "neither chunked nor one piece"},
      {"chunks too large", list("tokens", {.chunk = 1 << 20}), "chunks of more than 65536 bytes"},
      {"chunks beyond memory", list("weights", {.type = u64, .chunk = hsize_t{1} << 28, .filled = false}), "chunks of"},
      {"another filter", list("tokens", {.chunk = 64, .filters = {H5Z_FILTER_SCALEOFFSET}}), "uses filters other than"},
      {"deflated twice", list("tokens", {.chunk = 64, .filters = {H5Z_FILTER_DEFLATE, H5Z_FILTER_DEFLATE}}),
       "uses filters other than"},
      {"in other files", list("tokens", {.filled = false, .external = "/etc/hostname"}),
       "neither chunked nor one piece"},
      {"a link within",
       [](const Beside& beside, const RowsParts& good) {
         replace_list(beside, good, "tokens",
                      [](hid_t file) { H5Lcreate_soft("/weights", file, "tokens", H5P_DEFAULT, H5P_DEFAULT); });
       },
       "'tokens' is a link"},
      {"a link to another file",
       [](const Beside& beside, const RowsParts& good) {
         replace_list(beside, good, "tokens", [](hid_t file) {
           H5Lcreate_external("/etc/passwd", "/tokens", file, "tokens", H5P_DEFAULT, H5P_DEFAULT);
         });
       },
       "'tokens' is a link"},
      {"values in other files",
       [](const Beside& beside, const RowsParts& good) {
         replace_list(beside, good, "tokens", [](hid_t file) {
           const hsize_t extent = 4;
           const hid_t space = H5Screate_simple(1, &extent, nullptr);
           const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
           H5Pset_virtual(creation, space, "/etc/passwd", "/tokens", space);
           H5Dclose(H5Dcreate2(file, "tokens", H5T_STD_I32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
           H5Pclose(creation);
           H5Sclose(space);
         });
       },
       "neither chunked nor one piece"},
      {"a size of 2^60 that was never written",
       [](const Beside& beside, const RowsParts& good) {
         RowsParts bad = good;
         for (const char* name : {"tokens", "weights"}) bad.arrays.erase(name);
         auto offsets = bad.offsets();
         for (std::size_t i = 1; i < offsets.size(); ++i) offsets[i] = i << 40;
         bad.set("offsets", offsets);
         bad.write(beside.rows);
         const hid_t file = H5Fopen(beside.rows.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
         const hsize_t size = hsize_t{1} << 60;
         make_odd(file, "tokens", {.shape = {size}, .chunk = 4096, .filled = false});
         make_odd(file, "weights", {.type = H5T_STD_U64LE, .shape = {size}, .chunk = 4096, .filled = false});
         H5Fclose(file);
         seal(beside.rows);
       },
       "one field may have"},
      {"chunks that were never written",
       [](const Beside& beside, const RowsParts& good) {
         const auto& tokens = std::get<Array<std::int32_t>>(good.arrays.at("tokens"));
         replace_list(beside, good, "tokens", [&](hid_t file) {
           make_odd(file, "tokens", {.shape = {static_cast<hsize_t>(tokens.shape[0])}, .chunk = 64, .filled = false});
         });
       },
       "was never written"},
      {"one piece that was never written",
       [](const Beside& beside, const RowsParts& good) {
         const auto& tokens = std::get<Array<std::int32_t>>(good.arrays.at("tokens"));
         replace_list(beside, good, "tokens", [&](hid_t file) {
           make_odd(file, "tokens", {.shape = {static_cast<hsize_t>(tokens.shape[0])}, .filled = false});
         });
       },
       "never filled"},
      {"a chunk that is a bomb",
       [](const Beside& beside, const RowsParts& good) {
         const auto& tokens = std::get<Array<std::int32_t>>(good.arrays.at("tokens"));
         replace_list(beside, good, "tokens", [&](hid_t file) {
           make_odd(file, "tokens",
                    {.shape = {static_cast<hsize_t>(tokens.shape[0])},
                     .chunk = 64,
                     .filters = {H5Z_FILTER_DEFLATE},
                     .filled = false});
           const hid_t dataset = H5Dopen2(file, "tokens", H5P_DEFAULT);
           const std::vector<char> bomb(1 << 20);
           const hsize_t at = 0;
           H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &at, bomb.size(), bomb.data());
           H5Dclose(dataset);
         });
       },
       "than its values need"},
      {"a chunk that gives back a thousand times its bytes",
       [](const Beside& beside, const RowsParts& good) {
         const auto& tokens = std::get<Array<std::int32_t>>(good.arrays.at("tokens"));
         replace_list(beside, good, "tokens", [&](hid_t file) {
           // Zeros, deflated by the library as one chunk of 64 MiB, as a chunk of 64 KiB.
           const Odd large = {.shape = {1 << 24}, .chunk = 1 << 24, .filters = {H5Z_FILTER_DEFLATE}};
           make_odd(file, "large", large);
           make_odd(file, "tokens",
                    {.shape = {static_cast<hsize_t>(tokens.shape[0])},
                     .chunk = 1 << 14,
                     .filters = {H5Z_FILTER_DEFLATE},
                     .filled = false});
           const hid_t from = H5Dopen2(file, "large", H5P_DEFAULT);
           const hid_t to = H5Dopen2(file, "tokens", H5P_DEFAULT);
           const hsize_t at = 0;
           hsize_t size = 0;
           ASSERT_GE(H5Dget_chunk_storage_size(from, &at, &size), 0);
           ASSERT_LT(size, 1 << 16);
           std::vector<char> bytes(size);
           std::uint32_t mask = 0;
           ASSERT_GE(H5Dread_chunk(from, H5P_DEFAULT, &at, &mask, bytes.data()), 0);
           ASSERT_GE(H5Dwrite_chunk(to, H5P_DEFAULT, mask, &at, bytes.size(), bytes.data()), 0);
           H5Dclose(from);
           H5Dclose(to);
         });
       },
       "must ascend"},
      {"a chunk that is no deflated one",
       [](const Beside& beside, const RowsParts& good) {
         const auto& tokens = std::get<Array<std::int32_t>>(good.arrays.at("tokens"));
         replace_list(beside, good, "tokens", [&](hid_t file) {
           make_odd(file, "tokens",
                    {.shape = {static_cast<hsize_t>(tokens.shape[0])},
                     .chunk = 64,
                     .filters = {H5Z_FILTER_DEFLATE},
                     .filled = false});
           const hid_t dataset = H5Dopen2(file, "tokens", H5P_DEFAULT);
           const std::vector<char> junk(100, 'x');
           const hsize_t at = 0;
           H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &at, junk.size(), junk.data());
           H5Dclose(dataset);
         });
       },
       "it is damaged"},
      // The values.
      {"offsets go backwards", parts([](RowsParts& p) { std::swap(p.offsets()[0], p.offsets()[1]); }),
       "'offsets' gives it"},
      {"offsets beyond the end", parts([](RowsParts& p) { p.offsets()[1] = p.tokens().size() + 1; }),
       "'offsets' gives it"},
      {"offsets beyond everything", parts([](RowsParts& p) { p.offsets()[1] = huge; }), "'offsets' gives it"},
      {"offsets of nothing", parts([](RowsParts& p) { p.offsets()[1] = 0; }), "row 0: has no token"},
      {"too few rows", parts([](RowsParts& p) {
         p.set<std::uint64_t>("offsets", {0, p.offsets()[1]});
       }),
       "holds 1 rows"},
      {"tokens in another order", parts([](RowsParts& p) { std::swap(p.tokens()[0], p.tokens()[1]); }), "must ascend"},
      {"a token twice", parts([](RowsParts& p) { p.tokens()[1] = p.tokens()[0]; }), "must ascend"},
      {"a token beyond the vocabulary", parts([](RowsParts& p) { p.tokens()[p.offsets()[1] - 1] = 6; }),
       "is not a token of the vocabulary"},
      {"a token below 0", parts([](RowsParts& p) { p.tokens()[0] = -1; }), "is not a token of the vocabulary"},
      {"a weight of 0", parts([](RowsParts& p) { p.weights()[0] = 0; }), "must be positive"},
      {"a weight too small", parts([](RowsParts& p) { --p.weights()[0]; }), "add up to less than total_weight"},
      {"a weight too large", parts([](RowsParts& p) { ++p.weights()[0]; }), "add up to more than total_weight"},
      {"a weight beyond everything", parts([](RowsParts& p) { p.weights()[0] = huge; }),
       "add up to more than total_weight"},
      {"weights that change places", parts([](RowsParts& p) {
         ASSERT_NE(p.weights()[0], p.weights()[1]);
         std::swap(p.weights()[0], p.weights()[1]);
       }),
       "they are not those that the trace was written with"},
      {"rows that change places", parts([](RowsParts& p) {
         // The first row again in place of the second.
         const std::uint64_t first = p.offsets()[1];
         ASSERT_EQ(p.offsets()[2], 2 * first);
         std::copy_n(p.weights().begin(), first, p.weights().begin() + static_cast<std::ptrdiff_t>(first));
       }),
       "they are not those that the trace was written with"},
  };
}

TEST(RowsSlow, EveryHostileRowsFileIsRefusedWithLineAndField) {
  Recorded recorded;
  const std::vector<Hostile> list = hostile_files();
  EXPECT_GE(list.size(), 40U);
  for (const Hostile& hostile : list) {
    Beside beside;
    beside.record(recorded, sampled());
    ASSERT_EQ(replay(beside.trace).verdict(), ReportVerdict::pass_stat);
    const RowsParts good(beside.rows, false);
    hostile.make(beside, good);
    const std::string why = refusal(beside);
    EXPECT_THAT(why, HasSubstr(hostile.words)) << hostile.name;
    EXPECT_THAT(why, testing::ContainsRegex(":1: field rows_file: |:3: field [pq]_rows: ")) << hostile.name;
  }
}

TEST(Rows, RealRowsThatAreNoProbabilitiesAreRefused) {
  const std::pair<double, const char*> bad[] = {{std::numeric_limits<double>::quiet_NaN(), "must be positive"},
                                                {-0.5, "must be positive"},
                                                {0, "must be positive"},
                                                {-0.0, "must be positive"},
                                                {std::numeric_limits<double>::infinity(), "must not be above 1"},
                                                {1.5, "must not be above 1"},
                                                {1e-300, "which is not 1"}};
  Beside beside;
  beside.move_out(FloatEngine(3).trace("rejection", 3));
  const RowsParts good(beside.rows, true);
  for (const auto& [value, words] : bad) {
    RowsParts parts = good;
    parts.of<double>("weights").values[0] = value;
    parts.write(beside.rows);
    EXPECT_THAT(refusal(beside), HasSubstr(words)) << value;
  }
}

TEST(Rows, ARowsFileOutsideTheFolderOfTheTraceIsRefused) {
  Recorded recorded;
  for (const Json& name : {Json("/etc/hostname"), Json("../t.jsonl.rows.h5"), Json("a/b.h5"), Json(""), Json("."),
                           Json(".."), Json(std::string("a\0b", 3)), Json(7), Json::array(), Json::object()}) {
    Beside beside;
    beside.record(recorded, sampled());
    std::vector<std::string> lines = lines_of(beside.text());
    Json header = Json::parse(lines[0]);
    header["rows_file"] = name;
    lines[0] = header.dump();
    beside.put(sealed(lines));
    EXPECT_THAT(replay(beside.trace).invalid, HasSubstr(":1: field rows_file: ")) << name;
  }
}

TEST(Rows, AWrongReferenceToRowsIsRefused) {
  Recorded recorded;
  Beside beside;
  beside.record(recorded, sampled());
  const std::vector<std::string> lines = lines_of(beside.text());
  const auto refused = [&](std::size_t line, const char* field, const std::function<void(Json&)>& change) {
    std::vector<std::string> changed = lines;
    Json json = Json::parse(changed[line]);
    change(json);
    changed[line] = json.dump();
    beside.put(sealed(changed));
    const TraceReport report = replay(beside.trace);
    EXPECT_EQ(report.verdict(), ReportVerdict::invalid_trace) << said(report);
    EXPECT_THAT(report.invalid, HasSubstr(":3: field " + std::string(field))) << report.invalid;
  };
  ASSERT_GT(Json::parse(lines[2])["draft_tokens"].size(), 0U);
  refused(2, "p_rows.row", [](Json& step) { step["p_rows"].erase("row"); });
  refused(2, "p_rows.row", [](Json& step) { step["p_rows"]["row"] = -1; });
  refused(2, "p_rows.row", [](Json& step) { step["p_rows"]["row"] = 0.5; });
  refused(2, "p_rows", [](Json& step) { step["p_rows"]["row"] = std::int64_t{1} << 53; });
  refused(2, "p_rows", [](Json& step) { step["p_rows"]["row"] = 1; });
  refused(2, "p_rows.count", [](Json& step) { step["p_rows"]["count"] = 0; });
  refused(2, "p_rows.count", [](Json& step) { step["p_rows"]["count"] = step["draft_tokens"].size() + 2; });
  refused(2, "p_rows.count", [](Json& step) { step["p_rows"].erase("count"); });
  refused(2, "q_rows.count", [](Json& step) { step["q_rows"]["count"] = step["draft_tokens"].size() + 1; });
  refused(2, "q_rows.sha256", [](Json& step) { step["q_rows"].erase("sha256"); });
  refused(2, "q_rows", [](Json& step) { step["q_rows"]["sha256"] = std::string(64, '0'); });
  refused(2, "q_rows", [](Json& step) { step["q_rows"]["sha256"] = ""; });
  refused(2, "p_rows", [](Json& step) { std::swap(step["p_rows"]["sha256"], step["q_rows"]["sha256"]); });
  refused(2, "q_rows", [](Json& step) { step["q_rows"]["bytes"] = 1; });
  refused(2, "q_rows", [](Json& step) { step["q_rows"] = 7; });
  Json header = Json::parse(lines[0]);
  header.erase("rows_file");
  std::vector<std::string> without = lines;
  without[0] = header.dump();
  beside.put(sealed(without));
  EXPECT_THAT(replay(beside.trace).invalid, HasSubstr(":3: field p_rows: names rows in a file beside the trace, but"));
}

TEST(Rows, AKilledWriterLeavesTheOldRowsOrCompleteNewOnes) {
  Recorded recorded;
  Beside beside;
  beside.record(recorded, sampled());
  const std::string old = test::text_of(beside.rows);
  const pid_t child = fork();
  if (child == 0) {
    RowsWriter writer(beside.rows);
    const std::vector<std::uint64_t> all{Distribution::total};
    for (int i = 0; i < 100; ++i) writer.append({Distribution::exact(std::vector<Token>{i}, all)});
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(test::text_of(beside.rows), old);
  EXPECT_EQ(replay(beside.trace).verdict(), ReportVerdict::pass_stat);
  std::filesystem::rename(partial_of(beside.rows), beside.rows);
  refusal(beside);
}

TEST(RowsCommand, RowsOfGenerateAndVerifyAreReplayedWithoutTheModel) {
  const test::Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  for (const std::string rule : {"matching", "rejection"}) {
    const auto generated = test::run_command({"generate", target, "--draft", "always-reject", "--rule", rule, "--seed",
                                              "3", "--temperature", "1", "--max-new-tokens", "24", "--prompt-tokens",
                                              "1,2,3", "--trace", trace, "--trace-rows"});
    ASSERT_EQ(generated.status, 0) << generated.err;
    EXPECT_EQ(partial_of(trace + ".rows.h5"), "");
    const auto held = test::run_command({"trace", "check", trace, "--quiet", "--json", "-"});
    EXPECT_EQ(held.status, 0) << held.out << held.err;
    const Json report = Json::parse(held.out);
    EXPECT_EQ(report["verdict"], "PASS_STAT");
    EXPECT_FALSE(report["token_tests"].empty()) << "p is known without the model";
    EXPECT_EQ(test::run_command({"trace", "check", trace, "--target", target}).status, 0);
  }
}

TEST(RowsCommand, RowsOfARoundStandInTheFileInTheOrderOfTheirFieldsWhateverTheCompiler) {
  const test::Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  ASSERT_EQ(test::run_command({"generate", target, "--draft", "always-reject", "--rule", "rejection", "--temperature",
                               "1", "--max-new-tokens", "12", "--prompt-tokens", "1,2,3", "--trace", trace, "--quiet"})
                .status,
            0);
  std::uint64_t rows = 0;
  for (const std::string& text : lines_of(test::text_of(trace))) {
    const Json line = Json::parse(text);
    for (const char* field : {"p_rows", "q_rows"}) {
      if (!line.contains(field)) continue;
      EXPECT_EQ(line[field]["row"], rows) << line << ' ' << field;
      rows += line[field]["count"].get<std::uint64_t>();
    }
  }
  EXPECT_GT(rows, 12u);
}

TEST(RowsCommand, RowsAreWrittenWhereResidualsNeedThemEvenWithoutTheFlag) {
  const std::pair<std::vector<std::string>, bool> table[] = {{{"--rule", "rejection", "--temperature", "1"}, true},
                                                             {{"--rule", "rejection", "--temperature", "0"}, false},
                                                             {{"--rule", "matching", "--temperature", "1"}, false}};
  for (const auto& [how, needed] : table) {
    const test::Folder folder;
    const std::string trace = folder.path() / "t.jsonl";
    std::vector<std::string> words{"generate",         target, "--draft", "always-reject", "--prompt-tokens", "1,2,3",
                                   "--max-new-tokens", "12",   "--trace", trace,           "--quiet"};
    words.insert(words.end(), how.begin(), how.end());
    ASSERT_EQ(test::run_command(words).status, 0);
    EXPECT_EQ(std::filesystem::exists(trace + ".rows.h5"), needed) << how[1] << how[3];
    EXPECT_THAT(test::run_command({"trace", "check", trace, "--target", target}).out, HasSubstr("PASS_EXACT"))
        << how[1] << how[3];
  }
}

TEST(RowsCommandSlow, RowsOfEveryRunOfVerifyAreReplayedWithoutTheModel) {
  const test::Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  const auto verified = test::run_command({"verify", target, "--draft", "perfect", "--max-new-tokens", "12",
                                           "--prompt-tokens", "1,2,3", "--rule", "rejection", "--temperature", "1",
                                           "--effort", "full", "--trace", trace, "--trace-rows", "--quiet"});
  ASSERT_NE(verified.status, 3) << verified.err;
  const auto held = test::run_command({"trace", "check", trace});
  EXPECT_EQ(held.status, 0) << held.out << held.err;
  EXPECT_THAT(held.out, HasSubstr("PASS_STAT"));
}

TEST(RowsCommandSlow, AKilledCommandLeavesRowsOfTheOldTraceOrOfTheNewOne) {
  const test::Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  const std::string generate = " " + test::quoted(DRAFTPROOF_BINARY) + " generate " + test::quoted(target) +
                               " --draft always-reject --temperature 1 --prompt-tokens 1,2,3 --max-new-tokens 100"
                               " --quiet --trace " +
                               test::quoted(trace) + " --trace-rows --seed ";
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(std::system((generate + "0").c_str()), 0);
  const double whole = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  int killed = 0, old = 0;
  std::string last = test::text_of(trace);
  for (int i = 1; i <= 40; ++i) {
    const std::string delay = std::to_string(whole * 0.05 * i);
    const std::string line = "timeout -s KILL " + delay + generate + std::to_string(i) + " >/dev/null 2>&1";
    killed += std::system(line.c_str()) != 0;
    const bool between = test::run_command({"trace", "check", trace}).status != 0;
    if (between) {
      EXPECT_EQ(test::run_command({"trace", "check", partial_of(trace)}).status, 0) << "the new one, whole";
      std::filesystem::rename(partial_of(trace), trace);
    }
    old += test::text_of(trace) == last;
    last = test::text_of(trace);
  }
  std::printf("killed %d times, %d times it was the old one\n", killed, old);
  EXPECT_GT(killed, 0);
  EXPECT_GT(old, 0);
}

TEST(RowsCommand, RowsNeedAFileOfTheirOwn) {
  const test::Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  const auto generate = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", target, "--prompt-tokens", "1,2,3", "--max-new-tokens", "2"});
    return test::run_command(more);
  };
  EXPECT_EQ(generate({"--trace-rows"}).status, 3);
  for (const char* no_file : {"-", "/dev/null"}) {
    const auto refused = generate({"--trace", no_file, "--trace-rows"});
    EXPECT_EQ(refused.status, 3);
    EXPECT_THAT(refused.err, HasSubstr("--trace has to name a file"));
  }
  std::filesystem::create_directory(trace + ".rows.h5");
  EXPECT_THAT(generate({"--trace", trace, "--trace-rows"}).err, HasSubstr("it is not a regular file"));
  std::filesystem::remove(trace + ".rows.h5");
  EXPECT_THAT(generate({"--trace", trace, "--trace-rows", "--json", trace + ".rows.h5"}).err, HasSubstr("overwrite"));
  EXPECT_FALSE(std::filesystem::exists(trace));
}

TEST(RowsCommand, TheReproducerOfAFailureIncludesTheRows) {
  const test::Folder folder;
  const std::string trace = folder.path() / "t.jsonl";
  const auto generated = test::run_command({"generate", target, "--draft", "always-reject", "--rule", "rejection",
                                            "--seed", "3", "--temperature", "1", "--max-new-tokens", "24",
                                            "--prompt-tokens", "1,2,3", "--trace", trace, "--trace-rows"});
  ASSERT_EQ(generated.status, 0) << generated.err;
  std::vector<std::string> lines = lines_of(test::text_of(trace));
  Json round = Json::parse(lines[5]);
  round["p_digests"][0] = std::string(32, '0');  // which only the row shows to be wrong
  lines[5] = round.dump();
  test::put(trace, sealed(lines));
  const std::string reproducer = folder.path() / "case";
  EXPECT_EQ(test::run_command({"trace", "check", trace, "--reproducer", reproducer}).status, 1);
  std::filesystem::remove(trace + ".rows.h5");
  EXPECT_EQ(test::run_command({"reproduce", reproducer}).status, 1);
}

}  // namespace
}  // namespace draftproof::spectrace::rows_test

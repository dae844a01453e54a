// SPDX-License-Identifier: MIT
#include "oracle/fixture_file.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>

#include "ref/acceptance/sampling.h"
#include "ref/base/error.h"
#include "ref/formats/hdf5_seal.h"
#include "ref/formats/printable.h"
#include "ref/formats/whole_file.h"

namespace draftproof {
namespace {

constexpr std::size_t text_bytes_max = 4096;

/// Puts fields into the group /request.
class FieldWriter {
 public:
  explicit FieldWriter(Hdf5& file) : file_(file) {}

  void operator()(const char* name, const std::string& text, const std::vector<std::string>&) {
    texts_.emplace_back(name, text);
  }
  template <class T>
  void operator()(const char* name, const T& number, T, T) {
    file_.write<T>(path(name), {{}, {number}});
  }
  void operator()(const char* name, const std::vector<Token>& tokens, Token, Token) {
    file_.write<Token>(path(name), {{static_cast<std::int64_t>(tokens.size())}, tokens});
  }
  /// Attributes need the group, which the first array makes.
  void finish() {
    for (const auto& [name, text] : texts_) file_.write_string_attribute("/request", name, text);
  }

 private:
  static std::string path(const char* name) { return std::string("/request/") + name; }
  Hdf5& file_;
  std::vector<std::pair<std::string, std::string>> texts_;
};

class FieldReader {
 public:
  FieldReader(const std::filesystem::path& path, const Hdf5& file) : path_(path), file_(file) {}

  void operator()(const char* name, std::string& text, const std::vector<std::string>& allowed) const {
    text = file_.read_string_attribute("/request", name);
    const bool known = allowed.empty() ? !text.empty() && text.find('\0') == std::string::npos
                                       : std::find(allowed.begin(), allowed.end(), text) != allowed.end();
    if (known) return;
    std::string list;
    for (const std::string& word : allowed) list += (list.empty() ? "" : " or ") + word;
    fail("/request", "attribute '" + std::string(name) + "' is " + in_quotes(text) + ", not " +
                         (allowed.empty() ? "a name" : list));
  }
  template <class T>
  void operator()(const char* name, T& number, T least, T most) const {
    const auto values = read<T>(name);
    if (values.size() != 1) fail(where(name), "holds " + std::to_string(values.size()) + " values, not one");
    number = values[0];
    check(name, number, least, most);
  }
  void operator()(const char* name, std::vector<Token>& tokens, Token least, Token most) const {
    tokens = read<Token>(name);
    for (const Token token : tokens) check(name, token, least, most);
  }

  [[noreturn]] void fail(const std::string& field, const std::string& what) const {
    throw Error(path_.string() + ": '" + field + "' " + what);
  }

 private:
  static std::string where(const char* name) { return std::string("/request/") + name; }
  template <class T>
  std::vector<T> read(const char* name) const {
    return file_.read<T>(where(name)).values;
  }
  template <class T>
  void check(const char* name, T value, T least, T most) const {
    if (value >= least && value <= most) return;  // not so for what is no number
    fail(where(name), "is " + std::to_string(value) + ", not between " + std::to_string(least) + " and " +
                          std::to_string(most));
  }
  const std::filesystem::path& path_;
  const Hdf5& file_;
};

/// Reads the arrays of /run and holds their shapes to each other.
class RunReader {
 public:
  RunReader(const FieldReader& fields, const Hdf5& file) : fields_(fields), file_(file) {}

  std::vector<FixtureArray> read() const {
    const auto rounds = array<std::int32_t>("rounds", {unknown, 6});
    std::int64_t guesses = 0;
    std::int64_t rows = 0;
    std::int64_t emitted = 0;
    for (std::size_t i = 0; i < rounds.values.size(); i += 6) {
      if (std::any_of(rounds.values.begin() + static_cast<std::ptrdiff_t>(i),
                      rounds.values.begin() + static_cast<std::ptrdiff_t>(i) + 6, [](int v) { return v < 0; })) {
        fields_.fail("/run/rounds", "has a negative number in round " + std::to_string(i / 6));
      }
      guesses += rounds.values[i + 1];
      rows += rounds.values[i + 2];
      emitted += rounds.values[i + 5];
    }
    std::vector<FixtureArray> arrays;
    if (file_.has("/run/rows")) {
      auto values = array<float>("rows", {emitted, unknown});
      constexpr std::int64_t vocabulary_max = 1 << 23;
      if (values.shape[1] < 1 || values.shape[1] > vocabulary_max) {
        fields_.fail("/run/rows", "is as wide as no vocabulary, " + std::to_string(values.shape[1]));
      }
      // What a model says: numbers, or minus infinity.
      if (std::any_of(values.values.begin(), values.values.end(),
                      [](float v) { return !(v <= std::numeric_limits<float>::max()); })) {
        fields_.fail("/run/rows", "holds a value that is no logit: NaN or infinity");
      }
      arrays.push_back({"rows", std::move(values)});
    }
    arrays.push_back({"logits", array<std::uint64_t>("logits", {rows, 2})});
    arrays.push_back({"targets", array<std::uint64_t>("targets", {rows, 2})});
    arrays.push_back({"rounds", rounds});
    arrays.push_back({"guesses", tokens("guesses", guesses)});
    arrays.push_back({"tokens", tokens("tokens", emitted)});
    auto finish = array<std::int32_t>("finish", {1});
    if (finish.values[0] != static_cast<int>(Finish::stop) && finish.values[0] != static_cast<int>(Finish::length)) {
      fields_.fail("/run/finish", "is " + std::to_string(finish.values[0]) + ", not 1 (stop) or 2 (length)");
    }
    arrays.push_back({"finish", std::move(finish)});
    arrays.push_back({"cache", array<std::uint64_t>("cache", {rounds.shape[0], 2})});
    arrays.push_back({"draft", array<std::uint64_t>("draft", {rounds.shape[0], 2})});
    return arrays;
  }

 private:
  static constexpr std::int64_t unknown = -1;

  static std::string text_of(const std::vector<std::int64_t>& shape) {
    std::string text;
    for (const std::int64_t extent : shape) {
      text += (text.empty() ? "" : ", ") + (extent == unknown ? std::string("any") : std::to_string(extent));
    }
    return "[" + text + "]";
  }

  template <class T>
  Array<T> array(const std::string& name, const std::vector<std::int64_t>& shape) const {
    Array<T> result = file_.read<T>("/run/" + name);
    const auto fits = [](std::int64_t is, std::int64_t wanted) { return wanted == unknown || is == wanted; };
    if (!std::equal(result.shape.begin(), result.shape.end(), shape.begin(), shape.end(), fits))
      fields_.fail("/run/" + name, "has shape " + text_of(result.shape) + ", not " + text_of(shape));
    return result;
  }

  Array<std::int32_t> tokens(const std::string& name, std::int64_t count) const {
    auto result = array<std::int32_t>(name, {count});
    for (const std::int32_t token : result.values) {
      if (token < 0) fields_.fail("/run/" + name, "holds " + std::to_string(token) + ", which is no token");
    }
    return result;
  }

  const FieldReader& fields_;
  const Hdf5& file_;
};

/// A row after its text has a distribution, by which two fixtures are compared.
void expect_distributions(const Fixture& fixture, const FieldReader& fields) {
  const auto* const rows = fixture.find<float>("rows");
  if (rows == nullptr) return;
  const auto vocabulary = static_cast<std::size_t>(rows->shape[1]);
  std::vector<Token> text = fixture.request.prompt;
  std::size_t at = 0;
  for (const Token token : fixture.find<std::int32_t>("tokens")->values) {
    try {
      distribution_of(std::span(rows->values).subspan(at * vocabulary, vocabulary), fixture.request.sampling,
                      {text, {}});
    } catch (const Error& wrong) {
      fields.fail("/run/rows", "has no distribution in row " + std::to_string(at) + ": " + wrong.what());
    }
    text.push_back(token);
    ++at;
  }
}

}  // namespace

Fixture read_fixture(const std::filesystem::path& path) {
  const Hdf5 file = open_sealed(path);
  if (const std::string schema = file.read_string_attribute("/", "schema"); schema != fixture_schema) {
    throw Error(path.string() + ": attribute 'schema' is " + in_quotes(schema) + ", this program reads " +
                fixture_schema);
  }
  Fixture fixture;
  fixture.generator = file.read_string_attribute("/", "generator");
  fixture.version = file.read_string_attribute("/", "version");
  fixture.reason = file.read_string_attribute("/", "reason");
  const FieldReader fields(path, file);
  visit_request(fixture, fields);
  std::string verification;
  fields("verification", verification, {"batched", "serial"});
  fixture.request.verification = verification == "serial" ? Verification::serial : Verification::batched;
  if (fixture.request.prompt.empty()) fields.fail("/request/prompt", "holds no token");
  fixture.arrays = RunReader(fields, file).read();
  expect_distributions(fixture, fields);
  return fixture;
}

void expect_reason(const std::filesystem::path& path, const std::string& reason) {
  if (reason.empty()) throw Error(path.string() + ": a fixture needs a reason; say why it is what it is");
  if (reason.size() > text_bytes_max) throw Error(path.string() + ": the reason is longer than 4096 bytes");
}

void write_fixture(const std::filesystem::path& path, const Fixture& fixture) {
  expect_reason(path, fixture.reason);
  replace_whole(path, [&](const std::filesystem::path& partial) {
    {
      Hdf5 file = Hdf5::create(partial);
      prepare_seal(file);
      FieldWriter fields(file);
      visit_request(fixture, fields);
      fields("verification", name_of(fixture.request.verification), {});
      fields.finish();
      for (const FixtureArray& array : fixture.arrays) {
        std::visit([&](const auto& content) { file.write("/run/" + array.name, content); }, array.content);
      }
      file.write_string_attribute("/", "schema", fixture_schema);
      file.write_string_attribute("/", "generator", fixture.generator);
      file.write_string_attribute("/", "version", fixture.version);
      file.write_string_attribute("/", "reason", fixture.reason);
    }
    seal(partial);
  });
}

}  // namespace draftproof

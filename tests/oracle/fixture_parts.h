// SPDX-License-Identifier: MIT
// A fixture for tests, and parts of fixture files from which wrong files are made: the hash is right, the content is
// not.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <variant>

#include "oracle/fixtures/fixture_file.h"
#include "ref/formats/hdf5_seal.h"

namespace draftproof {

struct FixtureParts {
  using AnyArray = std::variant<Array<float>, Array<double>, Array<std::int32_t>, Array<std::int64_t>,
                                Array<std::uint8_t>, Array<std::uint64_t>>;
  std::map<std::string, AnyArray> arrays;                            // by path
  std::map<std::pair<std::string, std::string>, std::string> texts;  // by path and name of the attribute

  explicit FixtureParts(const Fixture& fixture) {
    visit_request(fixture, *this);
    (*this)("verification", std::string(name_of(fixture.execution.verification)), {});
    for (const FixtureArray& array : fixture.arrays) {
      std::visit([&](const auto& content) { arrays["/run/" + array.name] = content; }, array.content);
    }
    texts[{"/", "schema"}] = fixture_schema;
    texts[{"/", "generator"}] = fixture.generator;
    texts[{"/", "version"}] = fixture.version;
    texts[{"/", "reason"}] = fixture.reason;
  }

  // For visit_request.
  void operator()(const char* name, const std::string& text, const std::vector<std::string>&) {
    texts[{"/request", name}] = text;
  }
  template <class T>
  void operator()(const char* name, const T& number, T, T) {
    arrays[std::string("/request/") + name] = Array<T>{{}, {number}};
  }
  void operator()(const char* name, const std::vector<Token>& tokens, Token, Token) {
    arrays[std::string("/request/") + name] = Array<Token>{{static_cast<std::int64_t>(tokens.size())}, tokens};
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
};

/// Returns two rounds, four tokens over a vocabulary of three; no array is empty.
inline Fixture small_fixture() {
  Trace trace;
  trace.request.prompt = {1, 2};
  trace.request.stops = {0};
  trace.request.sampling.temperature = 0.75F;
  trace.request.max_new_tokens = 4;
  trace.execution.draft_max = 2;
  trace.output = {2, 1, 1, 2};
  trace.finish = Finish::length;
  for (int i = 0; i < 2; ++i) {
    const auto n = static_cast<std::uint64_t>(i) + 1;
    Round round;
    round.position = 2 + 2 * i;
    round.proposal.tokens = {2, 1};
    round.verdict = {1, 1 + i};
    round.emitted = {trace.output[2 * n - 2], trace.output[2 * n - 1]};
    round.logits = {{n, 1}, {n, 2}};
    round.targets = {{n, 3}, {n, 4}};
    round.cache = {n, 5};
    round.draft = {n, 6};
    trace.rounds.push_back(round);
  }
  Fixture fixture;
  fixture.generator = "a test";
  fixture.version = "0";
  fixture.reason = "größer";
  fixture.target = "models/some";
  fixture.draft = "model:models/other";
  fixture.seed = 1ULL << 63;
  fixture.request = trace.request;
  fixture.arrays = make_arrays(trace, {{4, 3}, {0, 1, 2, -3, 4.5F, 5, 6, 7, 8, 9, 10, 11}});
  return fixture;
}

}  // namespace draftproof

// SPDX-License-Identifier: MIT
// A fixture: one run, recorded to be held against later ones. What was asked, and arrays of what came out, the causes
// before their effects, so that the first array that differs is where to look.
//
// The arrays, for T tokens in R rounds, N rows that the rule asked for and G guesses:
//
//   rows             float32 [T, V]  logits of the row that decided each token; only when recorded with them
//   logits, targets  uint64  [N, 2]  digests of each row and of the distribution read from it
//   rounds           int32   [R, 6]  position, guesses, rows asked for, guesses accepted, next token, tokens emitted
//   guesses          int32   [G]
//   tokens           int32   [T]
//   finish           int32   [1]     1 by a stop token, 2 by length
//   cache, draft     uint64  [R, 2]  digests of the target's cache and the draft's memory after each round
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ref/decoding/trace.h"
#include "ref/formats/hdf5.h"

namespace draftproof {

struct FixtureArray {
  std::string name;
  std::variant<Array<float>, Array<std::uint64_t>, Array<std::int32_t>> content;
};

struct Fixture {
  std::string generator;  // what wrote it
  std::string version;    // ... of this version
  std::string reason;     // why it says what it says

  std::string target;  // a checkpoint, and a draft's name; paths as seen from the fixture's folder
  std::string draft = "none";
  std::string rule = "matching";
  std::string quantise = "none";
  std::string kv = "f32";
  std::string numerics = "canonical";
  std::uint64_t seed = 0;
  Request request;

  std::vector<FixtureArray> arrays;

  /// nullptr when there is none of that name or it has another type.
  template <class T>
  const Array<T>* find(const std::string& name) const {
    for (const FixtureArray& array : arrays) {
      if (array.name == name) return std::get_if<Array<T>>(&array.content);
    }
    return nullptr;
  }
};

/// What came out of a run recorded with digests. `rows`: see above; no values when they were not wanted.
std::vector<FixtureArray> arrays_of(const Trace& trace, Array<float> rows);

/// How two arrays of one name differ; an array that only one of them has differs as a whole.
struct ArrayDifference {
  std::string name;
  std::string index;     // "[3, 117]": the first place where they differ; "" when only the shapes can be compared
  std::string recorded;  // what stands there
  std::string found;
  std::optional<std::uint64_t> ulps;  // between the two, for floats; nothing when one of them is not a number
  std::uint64_t differing = 0;        // values, of those that both have; digests count as one value
  std::uint64_t compared = 0;
  std::uint64_t only_recorded = 0;  // values past the end of the other
  std::uint64_t only_found = 0;
  std::uint64_t ulps_max = 0;

  std::string sentence() const;
};

struct FixtureDifference {
  std::vector<std::pair<std::string, std::string>> asked;  // fields of the request that differ: name, "this, not that"
  std::vector<ArrayDifference> arrays;                     // in the order above
  std::optional<std::size_t> first_token;                  // where the texts part
  /// Exact: the largest total variation between distributions of rows that follow the same text, in units of 2^-53,
  /// and its row; nothing without rows.
  std::optional<std::pair<std::uint64_t, std::size_t>> variation;

  bool empty() const { return asked.empty() && arrays.empty(); }
  std::string text() const;  // a line for each thing that differs
};

FixtureDifference difference(const Fixture& recorded, const Fixture& found);

/// Floats between the two, both numbers; neighbours are 1 apart, as are -0 and +0.
std::uint64_t ulps_between(float a, float b);

/// What may not change a result (table, threads, in what pieces the prompt is read) is not part of what was asked.
///
/// Shows every field of the request to `visit(name, field, least, most)`, `visit(name, text, allowed)`, the one list of
/// them: files and differences are made from it. `allowed` empty: any text but none.
template <class AnyFixture, class Visit>
void visit_request(AnyFixture& fixture, Visit&& visit) {
  using Words = std::vector<std::string>;
  constexpr std::int32_t many = 0x7fffffff;
  auto& request = fixture.request;
  auto& sampling = request.sampling;
  visit("target", fixture.target, Words{});
  visit("draft", fixture.draft, Words{});
  visit("rule", fixture.rule, Words{"matching", "rejection"});
  visit("quantize", fixture.quantise, Words{"none", "q8", "q4"});
  visit("kv", fixture.kv, Words{"f32", "bf16", "q8"});
  visit("numerics", fixture.numerics, Words{});
  visit("seed", fixture.seed, std::uint64_t{0}, ~std::uint64_t{0});
  visit("prompt", request.prompt, 0, many);
  visit("stops", request.stops, 0, many);
  visit("max_new_tokens", request.max_new_tokens, 0, many);
  visit("draft_max", request.draft_max, 0, 1024);
  visit("sequence", request.sequence, 0, many);
  visit("temperature", sampling.temperature, 0.0F, 1000.0F);
  visit("top_k", sampling.top_k, 0, many);
  visit("top_p", sampling.top_p, 0.0F, 1.0F);
  visit("min_p", sampling.min_p, 0.0F, 1.0F);
  visit("repeat_penalty", sampling.repeat_penalty, 0.0F, 100.0F);
  visit("presence_penalty", sampling.presence_penalty, -100.0F, 100.0F);
  visit("frequency_penalty", sampling.frequency_penalty, -100.0F, 100.0F);
  visit("repeat_last_n", sampling.repeat_last_n, -1, many);
}

}  // namespace draftproof

// SPDX-License-Identifier: MIT
// Traces of the production loop over hash models, for tests that check, damage and tamper with them.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "oracle/spectrace/replay.h"
#include "oracle/spectrace/traced_subject.h"
#include "ref/base/sha256.h"
#include "ref/decoding/decoder.h"
#include "zoo/zoo_subject.h"

namespace draftproof::spectrace {

using Json = nlohmann::ordered_json;

inline constexpr std::uint64_t seed = 3;

/// A temporary file that is removed afterwards.
class File {
 public:
  explicit File(const std::string& text = "")
      : path_((std::filesystem::temp_directory_path() /
               ("draftproof-trace-" + std::to_string(getpid()) + "-" + std::to_string(count()++) + ".jsonl"))
                  .string()) {
    put(text);
  }
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  void put(const std::string& text) const {
    std::filesystem::remove(path_);
    std::ofstream(path_, std::ios::binary) << text;
  }
  const std::string& path() const { return path_; }

 private:
  static int& count() {
    static int count = 0;
    return count;
  }
  std::string path_;
};

inline Sampling every_parameter() {
  return {.temperature = 0.8F,
          .top_k = 4,
          .top_p = 0.9F,
          .min_p = 0.1F,
          .repeat_penalty = 1.2F,
          .presence_penalty = 0.25F,
          .frequency_penalty = 0.125F,
          .repeat_last_n = 6};
}

struct Case {
  std::string name;
  const Rule* rule = &matching;
  Sampling sampling;
  std::string draft = "perturbed";
  Verification verification = Verification::batched;
  std::vector<Token> stops = {};
  int max_new_tokens = 24;
  std::optional<ContextShift> context_shift = {};
  std::shared_ptr<const Constraint> constraint = {};
  std::string grammar = {};  // as the trace states it
};

/// A draft that proposes trees: with a drawn branch and siblings, or with several branches.
inline constexpr const char* tree_draft = "scripted:~&*+&*/-<*<**/+&*~&*-";

inline std::vector<Case> cases() {
  std::vector<Case> list;
  const std::pair<const char*, Sampling> samplings[] = {
      {"greedy", {}}, {"free", {.temperature = 1}}, {"every parameter", every_parameter()}};
  for (const Rule* rule : {&matching, &rejection}) {
    for (const auto& [name, sampling] : samplings) {
      for (const Verification verification : {Verification::batched, Verification::serial}) {
        for (const bool stops : {false, true}) {
          for (const char* draft : {"perturbed", tree_draft}) {
            list.push_back({std::string(rule->name) + ", " + name + ", " + name_of(verification) +
                                (stops ? ", stops, " : ", runs to its length, ") + draft,
                            rule, sampling, draft, verification, stops ? std::vector<Token>{0} : std::vector<Token>{},
                            24});
          }
        }
      }
    }
  }
  return list;
}

class Recorded {
 public:
  explicit Recorded(const HashShape& shape = {.vocabulary = 6, .levels = 4, .seed = 5}, const zoo::Parts& parts = {})
      : subject_(shape, parts, true) {}

  /// Writes one run as a sequence of the writer's trace.
  Trace write(Writer& writer, const Case& c, int sequence = 0) {
    Request request;
    request.prompt = {1, 2, 3};
    request.sampling = c.sampling;
    request.stops = c.stops;
    request.max_new_tokens = c.max_new_tokens;
    request.context_shift = c.context_shift;
    request.constraint = c.constraint;
    request.sequence = sequence;
    PhiloxSource random(seed);
    return TracedSubject(subject_, writer, c.grammar).run(request, variation(c), random);
  }
  static Variation variation(const Case& c) {
    Variation variation;
    variation.draft = c.draft;
    variation.draft_max = c.draft == tree_draft ? 5 : 3;
    variation.rule = c.rule;
    variation.verification = c.verification;
    return variation;
  }
  std::string text(const Case& c) {
    return text(*c.rule, [&](Writer& writer) { write(writer, c); });
  }
  /// Returns the trace that `write` produces.
  std::string text(const Rule& rule, const std::function<void(Writer&)>& write) {
    std::string text;
    Writer writer([&](std::string_view line) { text += line; }, "the loop", "sha256:01", model().vocabulary(), rule,
                  seed);
    write(writer);
    return text;
  }
  Model& model() { return subject_.target({}); }
  TraceTarget target() {
    TraceTarget target;
    target.vocabulary = model().vocabulary();
    target.computing_in = [this](const std::string& numerics) -> std::shared_ptr<Model> {
      if (numerics != "hash") return nullptr;
      return {std::shared_ptr<Model>(), &model()};  // the subject's
    };
    target.weights = [] { return "sha256:01"; };
    return target;
  }

 private:
  zoo::ZooSubject subject_;
};

struct Decoded {
  std::string text;
  Trace trace;
};

/// Decodes with this draft. Its target is the one of `Recorded`.
inline Decoded decoded(Draft& draft, const Rule& rule, std::vector<Token> stops = {}, int max_new_tokens = 300) {
  const auto target = make_hash_model({.vocabulary = 6, .levels = 4, .seed = 5});
  PhiloxSource random(seed);
  std::string text;
  Writer writer([&](std::string_view line) { text += line; }, "the loop", "", 6, rule, seed);
  writer.begin({"a draft", "", "hash"});
  Request request;
  request.prompt = {1, 2, 3};
  request.sampling = {.temperature = 1};
  request.max_new_tokens = max_new_tokens;
  request.stops = std::move(stops);
  Decoder decoder(*target, draft, rule, random, request, {.draft_max = draft.draft_max()}, Recording::counts);
  decoder.run({[&](const Trace& trace) { return writer.add_round(trace), Next::go_on; }, true});
  writer.end(decoder.trace());
  return {text, decoder.trace()};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

/// Joins the lines, with the digests of the lines as they now are, so that only other checks can find a change.
inline std::string sealed(std::vector<std::string> lines) {
  Sha256 digest;
  for (std::string& line : lines) {
    if (line.starts_with("{\"type\":\"end\"")) {
      Json ending = Json::parse(line);
      if (ending.contains("sha256")) ending["sha256"] = digest.hex();
      line = ending.dump();
    }
    digest.add(line);
    digest.add("\n");
  }
  return joined(lines);
}

}  // namespace draftproof::spectrace

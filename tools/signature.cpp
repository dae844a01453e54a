// SPDX-License-Identifier: MIT
// Prints one line per numerics class: a digest of all tokens and logits over the shipped models, decoded with every
// draft and rule. Every kernel table of a class, with one thread or two, must give the same line. The openblas class
// names its core type, because its bits depend on it.
#include <fmt/format.h>

#include <filesystem>
#include <istream>
#include <map>

#include "kernels/kernels.h"
#include "kernels/openblas.h"
#include "kernels/threads.h"
#include "ref/base/digest.h"
#include "ref/base/error.h"
#include "ref/base/incoming.h"
#include "tools/commands.h"
#include "tools/engine_subject.h"

namespace draftproof {
namespace {

struct SignatureOptions {
  std::string models = "fixtures/models";
};

constexpr int prompts_used = 2;
constexpr int new_tokens = 16;

std::vector<std::string> read_prompts(const std::string& path) {
  Incoming bytes(path);
  std::istream file(&bytes);
  std::vector<std::string> prompts;
  for (std::string line; prompts.size() < prompts_used && std::getline(file, line);) prompts.push_back(line);
  if (prompts.size() < prompts_used) throw Error(path + ": holds fewer than two prompts");
  return prompts;
}

std::string compute_signature(const std::string& models, const Kernels& kernels, int threads) {
  set_threads(threads);
  const std::string target = models + "/tale-target";
  ModelFiles files(target);
  const auto tokenizer = Tokenizer::load(files.target());
  Engine engine(files, kernels);
  Digest digest;
  for (const std::string& prompt : read_prompts(models + "/prompts.txt")) {
    for (const auto& draft : {"dflash:" + models + "/tale-dflash", "model:" + models + "/tale-small"}) {
      for (const auto& [temperature, rule] : {std::pair{0.0F, &matching}, {1.0F, &matching}, {1.0F, &rejection}}) {
        Request request;
        request.prompt = tokenizer.encode(prompt);
        request.sampling.temperature = temperature;
        request.max_new_tokens = new_tokens;
        PhiloxSource random(1);
        const Trace trace = engine.decode({.request = std::move(request),
                                           .draft = draft,
                                           .rule = *rule,
                                           .random = random,
                                           .recording = Recording::digests});
        digest.add(std::span(trace.output));
        const auto add = [&](const Fingerprint& fingerprint) {
          digest.add(fingerprint.high);
          digest.add(fingerprint.low);
        };
        for (const Round& round : trace.rounds) {
          for (const Fingerprint& row : round.logits) add(row);
          for (const Fingerprint& row : round.targets) add(row);
          add(round.cache);
          add(round.draft);
          for (const Token draft_token : round.proposal.tokens) digest.add(draft_token);
        }
      }
    }
  }
  return digest.value().hex();
}

Exit signature(const SignatureOptions& options) {
  std::map<std::string, std::string> lines;  // by numerics class
  Exit exit = Exit::pass;
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (!(*table)->supported() || self_test(**table)[0] != '\0') continue;
    for (const int threads : {1, 2}) {
      const std::string found = compute_signature(options.models, **table, threads);
      const auto [place, fresh] = lines.try_emplace(numerics_of(**table), found);
      if (place->second != found) {
        fmt::print(stderr, "{} with {} threads gives {}, but {} was expected\n", (*table)->name, threads, found,
                   place->second);
        exit = Exit::divergence;
      }
    }
  }
  for (const auto& [numerics, line] : lines) fmt::print("{} {}\n", numerics, line);
  return exit;
}

}  // namespace

void add_signature(Command& app) {
  auto options = std::make_shared<SignatureOptions>();
  Command& command = app.subcommand("signature", "print a digest of all tokens and logits of the shipped models");
  command.option("--models FOLDER", options->models, "folder of the shipped models").show_default();
  command.action([options] { return signature(*options); });
}

}  // namespace draftproof

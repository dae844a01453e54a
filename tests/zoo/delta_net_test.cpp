// SPDX-License-Identifier: MIT
// A target of gated delta net layers under every check of a trial: its rejected rows are rolled back by a replay.
#include <gtest/gtest.h>

#include "oracle/checks/checks.h"
#include "ref/decoding/decoder.h"
#include "ref/models/delta_net.h"
#include "zoo/zoo_subject.h"

namespace draftproof::zoo::delta_net_test {
namespace {

std::unique_ptr<Model> delta_net(Model& sound, int) {
  return make_delta_net_model({.vocabulary = sound.vocabulary()}, best_kernels());
}

TEST(DeltaNet, DecodesSpeculativelyWithBatchedVerificationAndEveryCheckPasses) {
  for (const float temperature : {0.0F, 1.0F}) {
    for (const bool trees : {false, true}) {
      std::vector<Variation> variations;
      for (const Rule* const rule : {&matching, &rejection}) {
        for (const Verification verification : {Verification::batched, Verification::serial}) {
          for (const char* const draft : {"none", "perturbed", "always-reject", "scripted:+&*+&*-"}) {
            if (std::string_view(draft).starts_with("scripted") != trees && draft != std::string_view("none")) continue;
            Variation variation;
            variation.draft = draft;
            variation.draft_max = draft == std::string_view("none") ? 0 : 5;
            variation.rule = rule;
            variation.verification = verification;
            variations.push_back(variation);
          }
        }
      }
      Request request;
      request.prompt = {1, 2, 3, 1};
      request.sampling.temperature = temperature;
      request.max_new_tokens = 16;
      ZooSubject subject({.vocabulary = 6}, {.target = delta_net, .trees = trees});
      Trial trial(subject, request, 5, variations);
      long accepted = 0, rejected = 0;
      for (const draftproof::Run& run : trial.runs) {
        const Statistics& counts = run.trace.statistics;
        EXPECT_EQ(run.variation.verification == Verification::batched ? counts.serial : counts.batched, 0);
        accepted += counts.accepted;
        rejected += counts.drafted - counts.accepted;
      }
      EXPECT_GT(accepted, 0);
      EXPECT_GT(rejected, 0);
      for (const Check* const check : all_checks()) {
        const Finding finding = check->examine(trial);
        EXPECT_EQ(finding.outcome, Outcome::pass) << check->name << ": " << finding.message;
      }
    }
  }
}

}  // namespace
}  // namespace draftproof::zoo::delta_net_test

// SPDX-License-Identifier: MIT
// Compares a PARD draft with AMD's own steps around transformers (float32), and with the float64 twins.
#include "ref/drafts/pard.h"

#include <fmt/format.h>

#include <cmath>

#include "ref/acceptance/sampler.h"
#include "ref/models/parallel_drafting.h"
#include "tests/models/fixtures.h"
#include "tests/models/float64_twin.h"
#include "tests/models/stored_answers.h"

namespace draftproof::test::pard_fixture_test {
namespace {

enum class Slip { none, no_masks, masks_before_the_anchor, other_mask, masks_kept };

class PardFixture : public testing::Test {
 protected:
  const std::filesystem::path folder_ = external_dir / "pard-tiny";
  const Hdf5 file_ = Hdf5::open(folder_ / "answers.h5");
  const TwinCheckpoint twin_{folder_};
  const std::vector<Token> text_ = stored_tokens(file_, "tokens");
  const std::vector<Token> committed_ = stored_tokens(file_, "committed");  // tokens before each round
  const int vocabulary_ = twin_.head().rows();
  const Token mask_ = *find_mask_token(twin_.config(), vocabulary_);
  const int rows_ = static_cast<int>(stored<double>(file_, "float64/rows").size()) / vocabulary_ /
                    static_cast<int>(committed_.size());  // of a round

  /// The rows of all rounds, each from the whole text and the masks.
  Rows rows_of(Rounding round, Slip slip = Slip::none) const {
    Rows rows(rows_ * static_cast<int>(committed_.size()), vocabulary_);
    int begin = 0;
    int at = 0;
    std::vector<Token> before;  // of rounds whose masks are kept
    for (const Token count : committed_) {
      before.insert(before.end(), text_.begin() + begin, text_.begin() + begin + count);
      begin += count;
      std::vector<Token> read = before;
      const Token mask = slip == Slip::other_mask ? mask_ - 1 : mask_;
      const auto behind = slip == Slip::masks_before_the_anchor ? read.end() - 1 : read.end();
      read.insert(behind, static_cast<std::size_t>(rows_) - 1, mask);
      if (slip == Slip::no_masks) std::fill(read.end() - rows_ + 1, read.end(), read[before.size() - 1]);
      if (slip == Slip::masks_kept) before = read;
      const Rows logits = target_answers(twin_, read, round).back();
      for (int row = 0; row < rows_; ++row, ++at) {
        std::copy_n(logits.row(logits.rows() - rows_ + row), vocabulary_, rows.row(at));
      }
    }
    return rows;
  }

  /// The logarithms of the distributions that the draft draws from: those of its rows at temperature 1.
  std::vector<float> drawn(const Kernels& kernels) const {
    LoadOptions options = in_floats(kernels);
    PardDrafter drafter(load_model(Checkpoint(folder_), options), {.mask = mask_});
    const auto draft = drafter.open(static_cast<int>(text_.size()) + rows_, rows_);
    PhiloxSource random(1);
    Sampler sampler;
    std::vector<float> logs;
    std::size_t begin = 0;
    for (const Token count : committed_) {
      const std::size_t end = begin + static_cast<std::size_t>(count);
      const std::size_t first = begin == 0 ? 0 : begin - 1;  // the last anchor is read with this round
      if (end - 1 > first) draft->observe(std::span(text_).subspan(first, end - 1 - first), {});
      begin = end;
      const auto read = std::span(text_).first(end);
      const Sampling sampling = {.temperature = 1};
      ProposalBuilder builder(sampling, read, 0, static_cast<int>(end), Purpose::draft, random, sampler);
      draft->propose(read.back(), rows_, builder);
      EXPECT_EQ(builder.size(), rows_);
      for (const Distribution& row : builder.proposal().drawn_from) {
        for (Token token = 0; token < vocabulary_; ++token) {
          logs.push_back(static_cast<float>(
              std::log(static_cast<double>(row.weight(token)) / static_cast<double>(Distribution::total))));
        }
      }
    }
    return logs;
  }

  /// The logarithm of the softmax of every row.
  static std::vector<double> log_softmax(const std::vector<double>& logits, int width) {
    std::vector<double> logs = logits;
    for (std::size_t at = 0; at < logs.size(); at += static_cast<std::size_t>(width)) {
      double sum = 0;
      for (int i = 0; i < width; ++i) sum += std::exp(logits[at + static_cast<std::size_t>(i)]);
      for (int i = 0; i < width; ++i) logs[at + static_cast<std::size_t>(i)] -= std::log(sum);
    }
    return logs;
  }

  std::vector<double> exact(const char* which) const { return log_softmax(stored<double>(file_, which), vocabulary_); }
};

TEST_F(PardFixture, TheFloat64TwinEqualsTheStoredReference) {
  const Rows got = rows_of({});
  const auto want = stored<double>(file_, "float64/rows");
  double largest = 0;
  for (const double v : want) largest = std::max(largest, std::abs(v));
  const std::vector<double> tolerance(static_cast<std::size_t>(got.rows()), 1e-12 * largest);
  EXPECT_LE(worst_ratio(got.at, want, got.width, tolerance), 1);
}

/// A logarithm of a probability is off by the errors of two logits at most, and by those of exp and of rounding it to
/// an integer, which are less than 2e-6 where the probability is above e^-12; tokens with a smaller one are not
/// compared.
TEST_F(PardFixture, DrawsFromTheRowsOfThePublishedProgramWithEveryTableAndEverySlipIsFarOutside) {
  const Bounds bounds = bounds_of([&](Rounding round) { return std::vector<Rows>{rows_of(round)}; });
  std::vector<double> bound;
  for (const double of_logits : bounds[0]) bound.push_back(2 * of_logits + 2e-6);
  const std::vector<float> single = stored<float>(file_, "float32/rows");
  const std::vector<double> of64 = exact("float64/rows");
  const std::vector<double> of32 = log_softmax({single.begin(), single.end()}, vocabulary_);
  for (const char* numerics : {"canonical", "openblas"}) {
    for (const Kernels* kernels : usable_kernels(numerics)) {
      std::vector<float> ours = drawn(*kernels);
      long compared = 0;
      for (std::size_t i = 0; i < ours.size(); ++i) {
        if (of64[i] > -12) ++compared;
        else ours[i] = static_cast<float>(of64[i]);
      }
      EXPECT_GT(compared, 500);
      const double against64 = worst_ratio(ours, of64, vocabulary_, bound);
      const double against32 = worst_ratio(ours, of32, vocabulary_, bound) / 2;
      EXPECT_LE(against64, 1) << kernels->name;
      EXPECT_LE(against32, 1) << kernels->name;
      if (kernels != &best_kernels()) continue;
      fmt::print("pard-tiny {}: observed/bound {:.2f} of float64, {:.2f} of float32; bound {:.1e}\n", kernels->name,
                 against64, against32, *std::ranges::max_element(bound));
      for (const Slip slip : {Slip::no_masks, Slip::masks_before_the_anchor, Slip::other_mask, Slip::masks_kept}) {
        const Rows wrong = rows_of({}, slip);
        EXPECT_GT(worst_ratio(ours, log_softmax(wrong.at, vocabulary_), vocabulary_, bound), 100)
            << static_cast<int>(slip);
      }
    }
  }
}

}  // namespace
}  // namespace draftproof::test::pard_fixture_test

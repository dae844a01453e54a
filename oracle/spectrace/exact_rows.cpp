// SPDX-License-Identifier: MIT
#include "oracle/spectrace/exact_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/math64.h"
#include "ref/base/error.h"

namespace draftproof::spectrace {
namespace {

std::vector<double> probabilities(std::span<const double> logits, double temperature) {
  const double best = *std::ranges::max_element(logits);
  std::vector<double> p;
  double sum = 0;
  for (const double logit : logits) {
    p.push_back(exp64((logit - best) / temperature));
    sum += p.back();
  }
  for (double& value : p) value /= sum;
  return p;
}

}  // namespace

const Twin* ExactRows::twin() {
  if (asked_) return twin_.get();
  asked_ = true;
  if (target_.exact || !target_.twin) return nullptr;
  try {
    twin_ = target_.twin();
  } catch (const Error& wrong) {
    report_.from_exact.unknown = wrong.what();
  }
  return twin_.get();
}

/// Lets the twin read the text, unless that takes more multiplications than there may be. Returns whether it did.
bool ExactRows::read(const OpenSequence& sequence, double& multiplications, double max) {
  if (twin() == nullptr || sequence.dropped > 0) return false;
  const std::span<const Token> text = sequence.text;
  const auto read = text_ ? text_->tokens() : std::span<const Token>();
  const bool continues = read.size() <= text.size() && std::ranges::equal(read, text.first(read.size()));
  if (continues && read.size() == text.size()) return true;
  const double cost =
      static_cast<double>(text.size() - (continues ? read.size() : 0)) * static_cast<double>(twin_->weights());
  if (multiplications + cost > max) return false;
  multiplications += cost;
  if (!text_ || !continues) text_ = std::make_unique<TwinText>(*twin_);
  try {
    logits_ = text_->read(text.subspan(text_->tokens().size()));
  } catch (const Error& wrong) {
    report_.from_exact.unknown = wrong.what();
    twin_.reset();
    return false;
  }
  return true;
}

/// Returns the largest difference of a logit.
double ExactRows::compare(const OpenSequence& sequence, std::span<const double> logits) {
  const Sampling& sampling = sequence.declared.sampling;
  const double temperature = sequence.greedy() || sampling.greedy() ? 1 : sampling.temperature;
  const std::vector<double> p = probabilities(logits_, temperature);
  const std::vector<double> q = probabilities(logits, temperature);
  double logit = 0;
  double apart = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    logit = std::max(logit, std::fabs(logits_[i] - logits[i]));
    apart += std::fabs(p[i] - q[i]) / 2;
  }
  DistanceFromExact& exact = report_.from_exact;
  ++exact.rows;
  exact.logit = std::max(exact.logit, logit);
  exact.variation = std::max(exact.variation, apart);
  return logit;
}

void ExactRows::sample(const OpenSequence& sequence, std::span<const double> logits) {
  const auto emitted = static_cast<std::uint64_t>(sequence.text.size() - sequence.declared.prompt.size());
  if (sampled_ == rows_max || (emitted != 0 && !std::has_single_bit(emitted)) || twin() == nullptr) return;
  const std::size_t held = text_ ? text_->tokens().size() : 0;
  const bool other = held > 0 && !(held <= sequence.text.size() &&
                                   std::ranges::equal(text_->tokens(), std::span(sequence.text).first(held)));
  if (other && emitted != 0) return;  // one sequence after another
  const double tokens = static_cast<double>(sequence.text.size() - (other ? 0 : held));
  if (tokens_ + tokens > tokens_max || !read(sequence, for_sample_, sample_multiplications_max)) return;
  tokens_ += tokens;
  ++sampled_;
  compare(sequence, logits);
}

const std::vector<double>* ExactRows::after(const OpenSequence& sequence, std::span<const double> logits) {
  if (!read(sequence, for_found_, found_multiplications_max)) return nullptr;
  compare(sequence, logits);
  return &logits_;
}

double ExactRows::error_of_logit(const OpenSequence& sequence, std::span<const double> logits) {
  if (read(sequence, for_found_, found_multiplications_max)) return compare(sequence, logits);
  return report_.from_exact.logit;
}

}  // namespace draftproof::spectrace

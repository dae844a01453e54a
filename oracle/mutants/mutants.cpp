// SPDX-License-Identifier: MIT
#include "oracle/mutants/mutants.h"

#include "ref/decoding/decoder.h"
#include "ref/drafts/model_draft.h"
#include "ref/drafts/none.h"
#include "ref/drafts/oracular.h"

namespace draftproof::mutants {
namespace {

constexpr std::string_view tokens = "tokens_equal";
constexpr std::string_view logits = "logits_equal";
constexpr std::string_view verdicts = "verdict_justified";
constexpr std::string_view forgetting = "forgetting";
constexpr std::string_view causality = "causality";
constexpr std::string_view independence = "independence";
constexpr std::string_view budget = "budget";
constexpr std::string_view law = "distribution_exact";

const Mutant zoo[] = {
    // Rules.
    {"A01 accept all", "every guess is accepted", {verdicts, law}, {.rule = &accepts_all}},
    {"A01b accept the possible", "a guess stands when p gives it anything at all", {verdicts, law},
     {.rule = &accepts_what_is_possible}},
    {"A03 first guess unchecked", "the first guess is committed without a look", {tokens, verdicts, law},
     {.rule = &first_guess_unchecked}},
    {"A08 refused token only", "after a refusal only the refused token is subtracted from p", {verdicts, law},
     {.rule = &refused_token_subtracted_only}},
    {"A09 coin of zero accepts", "<= in place of <, one part in 2^52", {law}, {.rule = &zero_coin_accepts}},
    {"A14 row too late", "guess j is judged by row j + 1", {logits, verdicts, law}, {.rule = &row_too_late}},
    {"A19 always the best", "temperature is ignored", {tokens, verdicts, law}, {.rule = &always_best}},
    {"A23 refusal a row late", "the replacement is drawn from the row after the refused guess", {verdicts, law},
     {.rule = &replacement_from_next_row}},
    {"residual is p", "q is not subtracted after a refusal", {verdicts, law}, {.rule = &replacement_from_whole_target}},
    {"bonus from q", "after the last guess the draft speaks, not the target", {verdicts, law},
     {.rule = &bonus_from_draft}},

    // Random answers.
    {"B01 draft noise as residual", "draft and replacement draw with one key", {verdicts, law},
     {.rule = &draft_noise_of_replacement}},
    {"B02 one purpose", "draft, acceptance, replacement and target draw with one key", {tokens, verdicts, law},
     {.chance = purposes_collapse}},
    {"B03 one number twice", "the number that refused picks the replacement", {verdicts, law},
     {.rule = &replacement_with_accept_key}},
    {"B03b one position", "every position draws with one key", {tokens, verdicts, law}, {.chance = positions_collapse}},
    {"B04 seed ignored", "a generator shared by all requests answers", {tokens, verdicts, independence},
     {.chance = seed_ignored}},
    {"B07 numbered by call", "answers belong to the count of questions, not to a position",
     {tokens, verdicts, independence}, {.chance = numbered_by_call}},

    // q.
    {"A04 best stated as drawn", "the guess is q's best token, q is stated", {verdicts, law},
     {.loop = Fault::best_stated_as_drawn}},
    {"A10 q without temperature", "q is stated as it was before sampling parameters", {verdicts, law},
     {.loop = Fault::flat_q_stated}},
    {"A11 q in eight bits", "q is stated with less precision than it was drawn with", {law},
     {.loop = Fault::short_q_stated}},
    {"A22 one buffer for q", "every q is stated as the last of the round", {verdicts, law},
     {.loop = Fault::last_q_stated}},
    {"N05b cut after drawing", "guesses that their own q thought unlikely are dropped", {law},
     {.loop = Fault::cut_after_drawing}},

    // Sampling parameters.
    {"A12 default sampling", "guesses are judged with default sampling parameters", {tokens, verdicts, law},
     {.loop = Fault::default_sampling_on_guesses}},
    {"C01 min-p on bonus only", "min-p is not applied to rows that judge a guess", {tokens, verdicts, law},
     {.loop = Fault::min_p_on_bonus_only}},
    {"C13 bonus unmasked", "after the last guess the target draws with default sampling parameters",
     {tokens, verdicts, law}, {.loop = Fault::default_sampling_on_bonus}},
    {"C04 window off by one", "penalties see a token too many on rows after a guess", {tokens, verdicts, law},
     {.loop = Fault::penalty_window_too_long}},
    {"C06 guesses not counted", "penalties do not see the guesses before a row", {tokens, verdicts, law},
     {.loop = Fault::penalties_blind_to_guesses}},
    {"C07 penalties off", "penalties are not applied in rounds with guesses", {tokens, verdicts, law},
     {.loop = Fault::penalties_off_with_guesses}},
    {"C18 stop masked", "stop tokens are masked on rows that judge a guess", {tokens, verdicts, law},
     {.loop = Fault::stops_masked_on_guesses}},

    // The end.
    {"D01 stop inside a block", "only the last token of a block is compared with the stop tokens",
     {tokens, budget, law}, {.loop = Fault::stop_only_at_block_end}},
    {"D03 budget before stop", "a block that fills the budget is not searched for a stop token", {tokens, budget, law},
     {.loop = Fault::budget_before_stop}},
    {"D06 budget overrun", "a block may run past the budget", {tokens, budget, law},
     {.loop = Fault::budget_ignored_by_block}},
    {"D07 block charged whole", "refused guesses are charged to the budget", {tokens, budget, law},
     {.loop = Fault::block_charged_whole}},

    // Memory.
    {"E01 nothing forgotten", "refused guesses stay in the cache", {logits, forgetting, causality},
     {.target = forgets_nothing}},
    {"E02 window wraps", "past eight tokens refused guesses stay in the cache", {logits, forgetting},
     {.target = forgets_nothing_past_the_window}},
    {"E04 stale commit", "as many rows are kept as in the round before", {logits, forgetting, budget},
     {.loop = Fault::stale_commit}},
    {"E06 all forgotten", "a refusal empties the cache", {logits, forgetting, causality},
     {.target = forgets_everything}},
    {"E07 block committed", "refused rows are kept with the others", {logits, forgetting, budget},
     {.loop = Fault::block_committed}},
    {"E18 guesses unseen", "a row of a verification does not see the guesses before it", {logits, causality},
     {.target = guesses_unseen}},
    {"E19 positions run on", "after a refusal positions are off by one", {logits, causality},
     {.target = positions_run_on}},
    {"E28 residue", "what was refused leaves a trace that no row reads yet", {forgetting}, {.target = unread_residue}},
    {"F03 all refused", "nothing is forgotten when every guess was refused", {logits, forgetting, causality},
     {.target = forgets_unless_all_was_refused}},
    {"F04 second refusal", "the second refusal in a row forgets one token too few", {logits, forgetting, causality},
     {.target = forgets_once}},
    {"G09 stale anchor", "after a round without guesses the anchor is an older one", {tokens, logits, verdicts},
     {.loop = Fault::stale_anchor}},

    // Rows.
    {"row law: even passes", "a row has other bits when it travels with an odd number of others", {logits, causality},
     {.target = even_passes_differ}},
    {"row law: threads", "two threads compute other bits than one", {logits, independence}, {.target = threads_differ}},
    {"causal law: look ahead", "a row sees the token after it", {logits, causality}, {.target = looks_ahead}},

    // Drafts: the text stays right, what the draft remembers does not.
    {"E11 hole in the draft", "the draft is not told the last guess when all stood", {independence},
     {.loop = Fault::draft_hole}},
    {"E12 draft forgets nothing", "the draft's own guesses stay in its cache", {independence},
     {.draft = never_forgets}},

    // Counts.
    {"S01 bonus counted", "the target's token counts as an accepted guess", {budget},
     {.loop = Fault::bonus_counted_as_accepted}},
    {"S03 all were accepted", "only accepted guesses count as guesses", {budget},
     {.loop = Fault::drafted_counted_as_accepted}},
    {"S04 limit counted", "a round counts as many guesses as it might have made", {budget},
     {.loop = Fault::drafted_counted_as_limit}},
};

const Mutant controls[] = {
    {"production loop", "the loop that ships", {}, {}},
    {"small loop", "the loop of the mutants, without a fault", {}, {.loop = Fault::none}},
    {"N01 sample match", "a draft with noise of its own, kept while it equals the target's draw", {},
     {.rule = &sample_match, .declared = &sample_match}},
    {"N02 point q", "the draft names its best token and q is a point", {}, {.draft = names_the_best}},
    {"N03 another q", "the draft has a temperature and a top-k of its own", {}, {.draft = hotter_and_narrower}},
    {"N05 cut before drawing", "the draft looks at its row and stops before it draws", {},
     {.draft = stops_when_unsure}},
    {"N06 useless draft", "always the same token", {}, {.draft = constant}},
    {"N07 no guesses", "as many guesses as the draft feels like, often none", {}, {.draft = moody}},
    {"H03 wrong row in the draft", "the draft goes on from the wrong row: slower, not wrong", {},
     {.draft = continues_the_wrong_row}},
};

HashShape dialect_of(HashShape shape) {
  shape.dialect = 77;
  shape.disagreement = 2;
  return shape;
}

bool same_name(const Rule* rule, const Rule& other) {
  return rule != nullptr && rule->name == std::string_view(other.name);
}

/// Both rules; lengths 0 to 3, both ways to verify, two threads, drafts that are right, wrong and capricious.
std::vector<Variation> variations(const Parts& parts) {
  struct Row {
    const char* draft;
    int draft_max;
    Verification verification = Verification::batched;
    int threads = 1;
  };
  std::vector<Variation> list;
  for (const Rule* rule : {&matching, &rejection}) {
    for (const Row& row :
         {Row{"none", 0}, Row{"dialect", 1}, Row{"dialect", 3}, Row{"dialect", 3, Verification::serial},
          Row{"dialect", 3, Verification::batched, 2}, Row{"hostile", 2}, Row{"oracular", 3}, Row{"moody", 2},
          Row{"moody", 2, Verification::serial}}) {
      Variation variation;
      variation.draft = row.draft;
      variation.draft_max = row.draft_max;
      variation.rule = same_name(parts.declared, *rule) ? parts.declared : rule;
      variation.threads = row.threads;
      variation.verification = row.verification;
      list.push_back(variation);
    }
  }
  return list;
}

std::vector<Request> requests() {
  const Sampling samplings[] = {
      {},
      {.temperature = 0, .repeat_penalty = 2, .presence_penalty = 0.5F, .repeat_last_n = 4},
      {.temperature = 1},
      {.temperature = 0.7F, .top_k = 4, .min_p = 0.3F},
      {.temperature = 1.5F, .repeat_penalty = 1.5F, .frequency_penalty = 0.5F, .repeat_last_n = 3},
  };
  std::vector<Request> list;
  struct Row {
    std::vector<Token> stops;
    int max_new_tokens;
  };
  const Row rows[] = {{{}, 12}, {{0}, 12}, {{0, 5}, 4}};
  for (const Sampling& sampling : samplings) {
    for (const Row& row : rows) {
      Request request;
      request.prompt = {1, 2, 3, 1};
      request.sampling = sampling;
      request.stops = row.stops;
      request.max_new_tokens = row.max_new_tokens;
      list.push_back(request);
    }
  }
  return list;
}

std::vector<LawQuestion> questions(const Parts& parts) {
  const Sampling plain{.temperature = 1};
  const Sampling cut{.temperature = 0.7F, .min_p = 0.3F};
  const Sampling penalised{.temperature = 1, .repeat_penalty = 1.5F, .frequency_penalty = 0.5F, .repeat_last_n = 2};
  struct Row {
    const Rule& rule;
    const Sampling& sampling;
    const char* draft = "dialect";
    Verification verification = Verification::batched;
  };
  std::vector<LawQuestion> list;
  for (const Row& row : {Row{rejection, plain}, Row{rejection, cut, "dialect", Verification::serial},
                         Row{rejection, penalised}, Row{rejection, plain, "moody"}, Row{matching, plain},
                         Row{matching, penalised}}) {
    Request request;
    request.prompt = {1, 2, 1};
    request.sampling = row.sampling;
    request.stops = {0};
    request.max_new_tokens = 3;
    Variation variation;
    variation.draft = row.draft;
    variation.draft_max = 2;
    variation.rule = same_name(parts.declared, row.rule) ? parts.declared : &row.rule;
    variation.verification = row.verification;
    list.push_back({request, variation});
  }
  return list;
}

}  // namespace

std::span<const Mutant> all_mutants() { return zoo; }
std::span<const Mutant> all_controls() { return controls; }

MutantSubject::MutantSubject(const HashShape& shape, const Parts& parts)
    : parts_(parts), sound_(make_hash_model(shape)), dialect_(make_hash_model(dialect_of(shape))) {}

Model& MutantSubject::target(const Variation& variation) {
  if (parts_.target == nullptr) return *sound_;
  target_ = parts_.target(*sound_, variation.threads);
  return *target_;
}

std::unique_ptr<Draft> MutantSubject::new_draft(const std::string& name, int capacity, int draft_max) {
  if (draft_max == 0 || name == "none") return std::make_unique<NoDraft>();
  if (name == "hostile") return std::make_unique<HostileDraft>(*sound_, capacity, draft_max);
  if (name == "oracular") return std::make_unique<OracularDraft>(*sound_, capacity, draft_max);
  if (name == "moody") return moody(*dialect_, capacity, draft_max);
  if (parts_.draft != nullptr) return parts_.draft(*dialect_, capacity, draft_max);
  return std::make_unique<ModelDraft>(*dialect_, capacity, draft_max);
}

Trace MutantSubject::run(const Request& request, const Variation& variation, Chance& sound_chance) {
  Request asked = request;
  asked.draft_max = variation.draft_max;
  asked.verification = variation.verification;
  const int capacity = static_cast<int>(asked.prompt.size()) + asked.max_new_tokens + slack;
  const auto draft = new_draft(variation.draft, capacity, asked.draft_max);
  const auto own_chance = parts_.chance == nullptr ? nullptr : parts_.chance(sound_chance);
  Chance& chance = own_chance ? *own_chance : sound_chance;
  const Rule& rule = same_name(parts_.rule, *variation.rule) ? *parts_.rule : *variation.rule;
  Model& own_target = target(variation);
  if (parts_.loop) return run_loop(own_target, *draft, rule, chance, asked, *parts_.loop);
  Decoder decoder(own_target, *draft, rule, chance, asked, Recording::digests);
  decoder.run();
  return decoder.trace();
}

std::vector<std::string> check_names() {
  std::vector<std::string> names;
  for (const Check* check = all_checks(); check->examine != nullptr; ++check) names.emplace_back(check->name);
  names.emplace_back("distribution_exact");
  return names;
}

std::map<std::string, Finding> examined(const Parts& parts) {
  std::map<std::string, Finding> worst;
  const auto weigh = [&](const Finding& finding) {
    Finding& so_far = worst.try_emplace(finding.check, finding).first->second;
    const auto weight = [](const Finding& f) { return f.outcome == Outcome::fail ? 2 : f.outcome == Outcome::pass; };
    if (weight(finding) > weight(so_far)) so_far = finding;
  };
  for (const Request& request : requests()) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      MutantSubject subject({.vocabulary = 6, .levels = 3, .seed = seed}, parts);
      Trial trial(subject, request, seed, variations(parts));
      for (const Check* check = all_checks(); check->examine != nullptr; ++check) weigh(check->examine(trial));
    }
  }
  MutantSubject small({.vocabulary = 3, .levels = 3, .seed = 5}, parts);
  weigh(check_distribution_exact(small, questions(parts)));
  return worst;
}

}  // namespace draftproof::mutants

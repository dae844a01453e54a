// SPDX-License-Identifier: MIT
// The list. A new mutant is a part in the files beside this one and a row here.
#include "zoo/zoo.h"

namespace draftproof::zoo {
namespace {

constexpr std::string_view tokens = "tokens_equal";
constexpr std::string_view logits = "logits_equal";
constexpr std::string_view verdicts = "acceptance_correct";
constexpr std::string_view forgetting = "cache_rollback";
constexpr std::string_view causality = "batch_invariance";
constexpr std::string_view independence = "config_invariance";
constexpr std::string_view budget = "termination_and_counters";
constexpr std::string_view rng = "rng_accounting";
constexpr std::string_view repeatable = "repeatable";
constexpr std::string_view pieces = "chunked_prefill_and_resume";
constexpr std::string_view together = "sequence_isolation";
constexpr std::string_view logprobs = "log_probabilities";
constexpr std::string_view exact = "distribution_exact";
constexpr std::string_view small = "exhaustive_small_cases";

const Mutant mutants[] = {
    // Rules.
    {"A01", "accept all", "A1", "huggingface/transformers PR#28508", Harm::lossy, "every draft token is accepted",
     {verdicts, exact, small}, {.rule = &accepts_all}},
    {"A01b", "accept the possible", "A1", "", Harm::lossy, "a draft token stands when p gives it anything at all",
     {verdicts, exact, small}, {.rule = &accepts_what_is_possible}},
    {"A03", "first draft token unchecked", "V4", "ohdearquant/lattice #243", Harm::lossy,
     "the first draft token is committed without a look", {tokens, verdicts, exact, small}, {.rule = &first_draft_token_unchecked}},
    {"A08", "refused token only", "R1", "SafeAILab/EAGLE #20", Harm::lossy,
     "after a refusal only the refused token is subtracted from p", {verdicts, exact, small},
     {.rule = &refused_token_subtracted_only}},
    {"A09", "coin of zero accepts", "A1", "sgl-project/sglang #35771", Harm::lossy,
     "<= in place of <, one part in 2^52", {exact, small}, {.rule = &zero_coin_accepts}},
    {"A14", "row too late", "V4", "NVIDIA/TensorRT-LLM PR#15098", Harm::lossy, "draft token j is judged by row j + 1",
     {logits, verdicts, exact, small}, {.rule = &row_too_late}},
    {"A19", "always the best", "W1", "EricLBuehler/mistral.rs PR#2424", Harm::lossy, "temperature is ignored",
     {tokens, verdicts, exact, small}, {.rule = &always_best}},
    {"A23", "refusal a row late", "R1", "openvinotoolkit/openvino.genai #4190", Harm::lossy,
     "the replacement is drawn from the row after the refused draft token", {verdicts, exact, small},
     {.rule = &replacement_from_next_row}},
    {"X01", "residual is p", "R1", "", Harm::lossy, "q is not subtracted after a refusal", {verdicts, exact, small},
     {.rule = &replacement_from_whole_target}},
    {"X02", "bonus from q", "B1", "", Harm::lossy, "after the last draft token the draft speaks, not the target",
     {verdicts, exact, small}, {.rule = &bonus_from_draft}},
    {"A15", "block, token replaced", "R1", "vllm-project/vllm-ascend #7807", Harm::lossy,
     "draft tokens stand or fall as a block, what falls is replaced as a token", {verdicts, exact},
     {.rule = &block_with_replacement_of_token}},
    {"R09", "draft token removed first", "A1", "vllm-project/vllm-ascend #2881", Harm::lossy,
     "p of the draft token is cleared in place before the draft token is judged by it", {verdicts, exact, small},
     {.rule = &draft_token_removed_from_target}},
    {"R11", "drawn again", "R1", "ml-explore/mlx-swift-lm #459", Harm::lossy,
     "a draft token that is not the target's draw is replaced by another draw, not by that one",
     {tokens, verdicts, exact, small}, {.rule = &drawn_again}},
    {"R15", "lenient by a hundredth", "A1", "", Harm::lossy, "a draft token stands with 1.01 p / q", {exact, small},
     {.rule = &lenient}},

    // Trees.
    {"A27", "longest of the branches", "A1", "foundation-model-stack/fms-extras #12", Harm::lossy,
     "each branch is judged with numbers of its own, and that of which most stands is taken",
     {tokens, verdicts, rng, exact, small}, {.rule = &longest_of_the_branches, .trees = true}},
    {"X08", "sibling with whole p", "R1", "", Harm::lossy,
     "after a refusal the next draft token of the place stands with p, not with what is left of it",
     {verdicts, rng, exact, small}, {.rule = &sibling_judged_by_whole_target, .trees = true}},
    {"X09", "row of the first sibling", "V4", "", Harm::lossy,
     "what follows another draft token of a place is judged by the row after the first one there",
     {logits, verdicts, exact, small}, {.rule = &row_of_the_first_sibling, .trees = true}},
    {"X10", "no mask between branches", "V3", "", Harm::lossy, "a row sees the branches written before its own",
     {tokens, logits, verdicts, exact}, {.target = sees_other_branches, .trees = true}},
    {"E15b", "first branch kept", "K1", "sgl-project/sglang PR#31215", Harm::lossy,
     "what is kept of a tree are its first rows, whichever branch stands", {tokens, logits, verdicts, forgetting, exact},
     {.target = keeps_the_first_branch, .trees = true}},

    // Random answers.
    {"B01", "draft noise as residual", "Q1", "vllm-project/vllm PR#47386", Harm::lossy,
     "draft and replacement draw with one key", {verdicts, rng, exact, small}, {.rule = &draft_noise_of_replacement}},
    {"B02", "one purpose", "Q1", "local-inference-lab/vllm #205", Harm::lossy,
     "draft, acceptance, replacement and target draw with one key", {tokens, verdicts, rng, exact},
     {.random = purposes_collapse}},
    {"B03", "one number twice", "Q1", "vllm-project/vllm-ascend PR#16370", Harm::lossy,
     "the number that refused picks the replacement", {verdicts, rng, exact, small},
     {.rule = &replacement_with_accept_key}},
    {"B03b", "one position", "Q1", "ggml-org/llama.cpp PR#27694", Harm::lossy, "every position draws with one key",
     {tokens, verdicts, rng, exact}, {.random = positions_collapse}},
    {"B04", "seed ignored", "Q1", "vllm-project/vllm #6038", Harm::lossy,
     "a generator shared by all requests answers", {tokens, verdicts, independence, rng, repeatable},
     {.random = seed_ignored}},
    {"B07", "numbered by call", "Q1", "vllm-project/vllm-ascend #13608", Harm::lossy,
     "answers belong to the count of questions, not to a position", {tokens, verdicts, independence, rng},
     {.random = numbered_by_call}},
    {"B07b", "drawn in advance", "Q1", "vllm-project/vllm-ascend PR#13755", Harm::latent,
     "a replacement is drawn for every draft token and thrown away where it stands", {rng},
     {.rule = &replacement_in_advance}},
    {"X15", "draft that remembers", "D1", "", Harm::lossy,
     "q depends on what was drawn behind a refusal, with the number that is now drawn with again", {exact},
     {.draft = remembers_draft_tokens}},
    {"B09", "numbered by row", "Q1", "vllm-project/vllm PR#35398", Harm::lossy,
     "answers belong to the row of a verification, not to a position", {verdicts, rng, exact},
     {.rule = &numbered_by_row}},
    {"G11", "one sequence", "B2", "turbo-tan/llama.cpp-tq3 PR#79", Harm::lossy,
     "every sequence draws as sequence 0", {tokens, rng, together}, {.random = sequences_collapse}},

    // q.
    {"A04", "best stated as drawn", "D1", "jaymody/speculative-sampling #3", Harm::lossy,
     "the draft token is q's best token, q is stated", {verdicts, exact}, {.loop = Fault::best_stated_as_drawn}},
    {"A10", "q without temperature", "D2", "huggingface/transformers #47932", Harm::lossy,
     "q is stated as it was before sampling parameters", {verdicts, exact}, {.loop = Fault::flat_q_stated}},
    {"A11", "q in eight bits", "D2", "deepseek-ai/DeepSpec #31", Harm::lossy,
     "q is stated with less precision than it was drawn with", {exact}, {.loop = Fault::short_q_stated}},
    {"A22", "one buffer for q", "D2", "sgl-project/sglang PR#37134", Harm::lossy,
     "every q is stated as the last of the round", {verdicts, exact}, {.loop = Fault::last_q_stated}},
    {"N05b", "cut after drawing", "D1", "ggml-org/llama.cpp PR#22506", Harm::lossy,
     "draft tokens that their own q thought unlikely are dropped", {rng, exact}, {.loop = Fault::cut_after_drawing}},
    {"R08", "q not yet written", "D2", "sgl-project/sglang #12561", Harm::lossy,
     "the q that is stated is that of the round before", {verdicts, exact}, {.loop = Fault::q_of_round_before_stated}},
    {"G08", "q gathered twice", "D2", "NVIDIA/TensorRT-LLM PR#12588", Harm::lossy,
     "the q that is stated is that of the draft token before", {verdicts, exact}, {.loop = Fault::q_of_row_before_stated}},

    // Sampling parameters.
    {"A12", "default sampling", "W1", "vllm-project/vllm PR#10198", Harm::lossy,
     "draft tokens are judged with default sampling parameters", {tokens, verdicts, exact},
     {.loop = Fault::default_sampling_on_draft_rows}},
    {"C01", "min-p on bonus only", "W1", "vllm-project/vllm #42744", Harm::lossy,
     "min-p is not applied to rows that judge a draft token", {tokens, verdicts, exact}, {.loop = Fault::min_p_on_bonus_only}},
    {"X11", "bonus by default", "W1", "", Harm::lossy,
     "after the last draft token the target draws with default sampling parameters", {tokens, verdicts, exact},
     {.loop = Fault::default_sampling_on_bonus}},
    {"X12", "window off by one", "W1", "", Harm::lossy,
     "penalties see a token too many on rows after a draft token", {tokens, verdicts, exact},
     {.loop = Fault::penalty_window_too_long}},
    {"C06", "draft tokens not counted", "P1", "sgl-project/sglang PR#33643", Harm::lossy,
     "penalties do not see the draft tokens before a row", {tokens, verdicts, exact},
     {.loop = Fault::penalties_blind_to_draft}},
    {"C07", "penalties off", "W1", "sgl-project/sglang #28180", Harm::lossy,
     "penalties are not applied in rounds with draft tokens", {tokens, verdicts, exact},
     {.loop = Fault::penalties_off_with_draft}},
    {"C18", "stop masked", "W1", "vllm-project/vllm PR#41493", Harm::lossy,
     "stop tokens are masked on rows that judge a draft token", {tokens, verdicts, exact},
     {.loop = Fault::stops_masked_on_draft_rows}},
    {"A20", "greedy with draft tokens", "W1", "sgl-project/sglang PR#31214", Harm::lossy,
     "rounds with draft tokens take the best token, whatever the temperature", {tokens, verdicts, exact},
     {.loop = Fault::greedy_with_draft}},
    {"A26", "softmax with draft tokens", "W1", "vllm-project/vllm PR#3951", Harm::lossy,
     "greedy is not told to rounds with draft tokens", {tokens, verdicts, exact}, {.loop = Fault::softmax_with_draft}},
    {"A24", "ranks for tokens", "W1", "vllm-project/vllm-ascend #16396", Harm::lossy,
     "places in the order that top-k makes are taken for tokens", {tokens, verdicts, exact},
     {.loop = Fault::ranks_for_tokens}},
    {"R14", "padded row", "W1", "vllm-project/vllm GHSA-8wr5-jm2h-8r4f", Harm::lossy,
     "zeros behind the end of a row can win", {tokens, verdicts, exact}, {.loop = Fault::row_padded}},
    {"X13", "penalties need draft tokens", "P1", "", Harm::lossy,
     "penalties are not applied in rounds without draft tokens", {tokens, verdicts, exact},
     {.loop = Fault::penalties_off_without_draft}},
    {"C06b", "one token counted", "P1", "sgl-project/sglang PR#33643", Harm::lossy,
     "of a round only the last token is counted", {tokens, verdicts, exact},
     {.loop = Fault::penalties_see_last_of_round}},

    // The end.
    {"D01", "stop inside a block", "T1", "huggingface/transformers #47912", Harm::lossy,
     "only the last token of a block is compared with the stop tokens", {tokens, budget, exact},
     {.loop = Fault::stop_only_at_block_end}},
    {"D03", "budget before stop", "T1", "sgl-project/sglang #31599", Harm::lossy,
     "a block that fills the budget is not searched for a stop token", {tokens, budget, exact},
     {.loop = Fault::budget_before_stop}},
    {"D06", "budget overrun", "T1", "ohdearquant/lattice #242", Harm::lossy, "a block may run past the budget",
     {tokens, budget, exact}, {.loop = Fault::budget_ignored_by_block}},
    {"D07", "block charged whole", "S1", "ikawrakow/ik_llama.cpp PR#2358", Harm::lossy,
     "refused draft tokens are charged to the budget", {tokens, budget, exact}, {.loop = Fault::block_charged_whole}},
    {"A18", "unused slots", "A1", "flashinfer-ai/flashinfer #879", Harm::lossy,
     "when all draft tokens stand, a slot without a draft token stands as well", {tokens, verdicts, budget, exact},
     {.loop = Fault::unused_slots_accepted}},
    {"D04", "tokens after the stop", "T1", "vllm-project/vllm PR#47616", Harm::lossy,
     "a stop inside a block ends the text, but what follows it in the block is kept", {tokens, budget, exact},
     {.loop = Fault::stop_noticed_only}},
    {"X06", "stop told as length", "S1", "", Harm::counts, "a text that ends in a stop token is said to be cut",
     {budget}, {.loop = Fault::stop_finishes_by_length}},

    // Memory.
    {"E01", "nothing forgotten", "K1", "ml-explore/mlx-lm PR#1109", Harm::lossy,
     "refused draft tokens stay in the cache", {logits, forgetting, causality}, {.target = forgets_nothing}},
    {"E02", "window wraps", "K4", "ml-explore/mlx-swift-lm #424", Harm::lossy,
     "past eight tokens refused draft tokens stay in the cache", {logits, forgetting, exact},
     {.target = forgets_nothing_past_the_window}},
    {"E04", "stale commit", "K1", "ml-explore/mlx-lm PR#1528", Harm::lossy,
     "as many rows are kept as in the round before", {logits, forgetting, budget}, {.loop = Fault::stale_commit}},
    {"E06", "all forgotten", "K1", "paiml/aprender PR#2014", Harm::lossy, "a refusal empties the cache",
     {logits, forgetting, causality}, {.target = forgets_everything}},
    {"E07", "block committed", "K1", "Blaizzy/mlx-vlm #1144", Harm::lossy, "refused rows are kept with the others",
     {logits, forgetting, budget}, {.loop = Fault::block_committed}},
    {"E04b", "block kept on cancel", "K1", "ml-explore/mlx-lm PR#1528", Harm::latent,
     "a run that is cancelled keeps the refused rows of its last round", {pieces},
     {.loop = Fault::block_committed_on_cancel}},
    {"E27", "prefix by its beginning", "K5", "vllm-project/vllm #41838", Harm::lossy,
     "a text is taken for an earlier one that begins alike", {repeatable}, {.target = prefixes_by_their_beginning}},
    {"G11b", "one memory for all", "B2", "turbo-tan/llama.cpp-tq3 PR#79", Harm::lossy,
     "what is carried from pass to pass is that of whichever sequence began last", {together},
     {.target = last_cache_only}},
    {"X07", "pieces overlap", "K1", "", Harm::lossy,
     "a later piece of the prompt begins with the last token of the piece before", {pieces, exact},
     {.loop = Fault::pieces_overlap}},
    {"E18", "draft tokens unseen", "V3", "sgl-project/sglang PR#40214", Harm::lossy,
     "a row of a verification does not see the draft tokens before it", {logits, causality}, {.target = draft_tokens_unseen}},
    {"E19", "positions run on", "V2", "NVIDIA/TensorRT-LLM PR#17110", Harm::lossy,
     "after a refusal positions are off by one", {logits, causality}, {.target = positions_run_on}},
    {"E28", "residue", "K5", "vllm-project/vllm PR#12333", Harm::latent,
     "what was refused leaves a trace that no row reads yet", {forgetting}, {.target = unread_residue}},
    {"F03", "all refused", "K3", "ggml-org/llama.cpp #26695", Harm::lossy,
     "nothing is forgotten when every draft token was refused", {logits, forgetting, causality},
     {.target = forgets_unless_all_was_refused}},
    {"F04", "second refusal", "K3", "ggml-org/llama.cpp #22746", Harm::lossy,
     "the second refusal in a row forgets one token too few", {logits, forgetting, causality, exact},
     {.target = forgets_once}},
    {"G09", "stale anchor", "V1", "jjang-ai/vmlx PR#150", Harm::lossy,
     "after a round without draft tokens the anchor is an older one", {tokens, logits, verdicts},
     {.loop = Fault::stale_anchor}},
    {"E03", "window grows", "K4", "ml-explore/mlx-lm #1914", Harm::lossy,
     "a pass of n rows sees n - 1 tokens beyond its window", {logits, causality, exact},
     {.target = window_grows_with_the_pass}},
    {"E15", "wrong places", "K1", "sgl-project/sglang PR#31215", Harm::lossy,
     "after a refusal the last two rows that are kept change places", {logits, forgetting, causality, exact},
     {.target = moves_to_the_wrong_places}},
    {"E16", "three rows kept", "K1", "sgl-project/sglang PR#33872", Harm::lossy,
     "of a verification at most three rows are kept", {logits, forgetting, exact}, {.target = keeps_three}},
    {"F01", "stale slot", "K3", "vllm-project/vllm #39273", Harm::lossy,
     "a round without draft tokens goes on from the state after the first row of the last verification", {tokens, logits},
     {.target = stale_slot}},
    {"F06", "ring without room", "K3", "vllm-project/vllm PR#50146", Harm::lossy,
     "what draft tokens write overwrites what rows before them still read", {logits, causality, exact},
     {.target = ring_without_room}},

    // Rows.
    {"X03", "row law: even passes", "V4", "", Harm::lossy,
     "a row has other bits when it travels with an odd number of others", {logits, causality},
     {.target = even_passes_differ}},
    {"X04", "row law: threads", "V4", "", Harm::lossy, "two threads compute other bits than one",
     {logits, independence}, {.target = threads_differ}},
    {"X05", "causal law: look ahead", "V3", "", Harm::lossy, "a row sees the token after it", {logits, causality},
     {.target = looks_ahead}},

    // Drafts: the text stays right, what the draft remembers does not.
    {"E11", "hole in the draft", "K2", "vllm-project/vllm PR#3951", Harm::speed,
     "the draft is not told the last draft token when all stood", {independence}, {.loop = Fault::draft_hole}},
    {"E12", "draft forgets nothing", "K2", "mlc-ai/mlc-llm PR#2939", Harm::speed,
     "the draft's own draft tokens stay in its cache", {independence}, {.draft = never_forgets}},
    {"E13", "draft told ahead", "D3", "mlc-ai/mlc-llm PR#2664", Harm::speed,
     "the draft is told every token one place early", {independence}, {.loop = Fault::draft_told_ahead}},

    {"H03", "wrong row in the draft", "D3", "charlie12345/ROCmFPX PR#15", Harm::speed,
     "after more than one token was kept the draft goes on from the text without the last", {independence},
     {.draft = continues_the_wrong_row}},

    // Requests beside each other.
    {"G07", "what the first one asked", "B2", "NVIDIA/TensorRT-LLM PR#12588", Harm::lossy,
     "sampling and stop tokens of the first request are used for all that follow", {repeatable, together},
     {.first_asked = true}},

    // Log-probabilities.
    {"L02", "row before", "L1", "vllm-project/vllm PR#33391", Harm::counts,
     "a log-probability is looked up in the row of the token before", {logprobs},
     {.loop = Fault::logprob_of_row_before}},
    {"X14", "after temperature", "L1", "", Harm::counts,
     "a log-probability is taken after temperature", {logprobs}, {.loop = Fault::logprob_after_temperature}},

    // Counts.
    {"S01", "bonus counted", "S1", "", Harm::counts, "the target's token counts as an accepted draft token", {budget},
     {.loop = Fault::bonus_counted_as_accepted}},
    {"S03", "all were accepted", "S1", "", Harm::counts, "only accepted draft tokens count as draft tokens", {budget},
     {.loop = Fault::drafted_counted_as_accepted}},
    {"S04", "limit counted", "S1", "", Harm::counts, "a round counts as many draft tokens as it might have made",
     {budget}, {.loop = Fault::drafted_counted_as_limit}},
    {"S05", "plain rounds counted", "S1", "", Harm::counts, "rounds without draft tokens count as iterations", {budget},
     {.loop = Fault::plain_rounds_counted}},
};

// Controls that are not on this list. N04, block verification: its odds are products of weights of 2^52, so it is held
// to the law where they fit a pick (tests/zoo/block_test.cpp). N09, N11: about runs that are compared
// (tests/oracle/check_test.cpp). N10 takes two numerics in one run, and there is no such run. N12, typical acceptance,
// is lossy and says so: a rule here says what it promises, so without a promise it could only be a mutant (R15). N13:
// rows that are no numbers are refused (tests/acceptance/sampling_test.cpp).
const Mutant controls[] = {
    {"N00", "production loop", "", "", Harm::none, "the loop that ships", {}, {}},
    {"N00b", "small loop", "", "", Harm::none, "the loop of the mutants, without a fault", {}, {.loop = Fault::none}},
    {"N15", "trees", "", "", Harm::none, "the loop that ships, with drafts that draft token trees", {}, {.trees = true}},
    {"N01", "sample match", "A1", "lablup/mlxcel PR#992", Harm::none,
     "a draft with noise of its own, kept while it equals the target's draw", {},
     {.rule = &sample_match, .declared = &sample_match}},
    {"N02", "point q", "D2", "vllm-project/vllm PR#16899", Harm::none,
     "the draft names its best token and q is a point", {}, {.draft = names_the_best}},
    {"N03", "another q", "D1", "vllm-project/vllm PR#56724", Harm::none,
     "the draft has a temperature and a top-k of its own", {}, {.draft = hotter_and_narrower}},
    {"N05", "cut before drawing", "D1", "ggml-org/llama.cpp PR#22506", Harm::none,
     "the draft looks at its row and stops before it draws", {}, {.draft = stops_when_unsure}},
    {"N06", "useless draft", "D1", "ohdearquant/lattice #1373", Harm::none, "always the same token", {},
     {.draft = constant}},
    {"N07", "no draft tokens", "D1", "vllm-project/vllm #39273", Harm::none,
     "as many draft tokens as the draft feels like, often none", {}, {.draft = variable_length}},
    {"N06b", "wrong vocabulary", "D1", "sgl-project/sglang #24051", Harm::none,
     "the draft's tokens mean others: hardly one is accepted", {}, {.draft = names_the_neighbor}},
    {"N08", "fallback", "R1", "duoan/TorchCode #16", Harm::none, "what is done when nothing is left is never done", {},
     {.rule = &fallback_never_needed}},
    {"N14", "sliding window", "K4", "", Harm::none, "a row sees the last five tokens", {}, {.target = sees_a_window}},
};

}  // namespace

std::span<const Mutant> all_mutants() { return mutants; }
std::span<const Mutant> all_controls() { return controls; }

}  // namespace draftproof::zoo

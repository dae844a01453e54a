// SPDX-License-Identifier: MIT
// What a verification of M rows costs in llama.cpp and ik_llama.cpp: a cache of CONTEXT tokens, then one llama_decode
// of M tokens with the logits of all M, which llama-bench never asks for. The row counts take turns inside one run.
//
//   peer_verify_cost MODEL.gguf [--rows 1,2,4,8,12,16,32] [--context 64] [--turns 5] [--threads 2] [--repack]
//
// prints one line of JSON per row count. --repack is ik_llama.cpp's -rtr, its fast path. The same program asks the peer
// for a greedy answer, with float32 keys and values, without flash attention and without repacked weights, so that only
// the peer's plain matrix products round more than float32:
//
//   peer_verify_cost MODEL.gguf --answer 5,17,3 --generate 16 [--threads 1] --logits FILE
//
// writes the logits of every row, prompt and generated tokens alike, as float32 to FILE, and prints the tokens.
//
// Not part of our build: it needs a peer's headers and library. With a peer in PEER and built with shared libraries in
// BUILD (-DIK for ik_llama.cpp, whose libraries lie in BUILD/src and BUILD/ggml/src instead of BUILD/bin):
//
//   g++ -std=c++20 -O2 [-DIK] -IPEER/include -IPEER/ggml/include bench/peer_verify_cost.cpp -LBUILD/bin
//       -lllama -lggml -lggml-base -Wl,-rpath,BUILD/bin -o peer_verify_cost      (ik_llama.cpp: without -lggml-base)
#include <llama.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct CostOptions {
  std::string model;
  std::vector<int> rows{1, 2, 4, 8, 12, 16, 32};
  int context = 64;
  int turns = 5;
  int threads = 2;
  bool repack = false;
  std::vector<int> prompt;  // given: answer it instead of measuring
  int generate = 16;
  std::string logits;
};

std::vector<int> numbers(const std::string& list) {
  std::vector<int> values;
  std::stringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) values.push_back(std::stoi(item));
  return values;
}

CostOptions read_arguments(const std::vector<std::string>& words) {
  CostOptions wanted;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto value = [&]() -> const std::string& {
      if (i + 1 == words.size()) throw std::runtime_error(words[i] + " needs a value");
      return words[++i];
    };
    if (words[i] == "--rows") wanted.rows = numbers(value());
    else if (words[i] == "--context") wanted.context = std::stoi(value());
    else if (words[i] == "--turns") wanted.turns = std::stoi(value());
    else if (words[i] == "--threads") wanted.threads = std::stoi(value());
    else if (words[i] == "--repack") wanted.repack = true;
    else if (words[i] == "--answer") wanted.prompt = numbers(value());
    else if (words[i] == "--generate") wanted.generate = std::stoi(value());
    else if (words[i] == "--logits") wanted.logits = value();
    else if (wanted.model.empty()) wanted.model = words[i];
    else throw std::runtime_error("unknown argument " + words[i]);
  }
  if (wanted.model.empty()) throw std::runtime_error("name a GGUF file; the first lines of the source say how");
  if (wanted.rows.empty() || *std::min_element(wanted.rows.begin(), wanted.rows.end()) < 1 || wanted.context < 1 ||
      wanted.turns < 1 || wanted.threads < 1) {
    throw std::runtime_error("--rows, --context, --turns and --threads are at least 1");
  }
  return wanted;
}

/// A peer with its weights in memory of its own and one sequence.
class Peer {
 public:
  Peer(const CostOptions& wanted, int capacity) {
    llama_log_set(
        [](ggml_log_level level, const char* text, void*) {
          if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
        },
        nullptr);
    llama_backend_init();
    auto of_model = llama_model_default_params();
    auto of_context = llama_context_default_params();
    of_context.n_ctx = static_cast<unsigned>(capacity);
    of_context.n_batch = of_context.n_ubatch = static_cast<unsigned>(capacity);
    of_context.n_threads = of_context.n_threads_batch = wanted.threads;
    if (!wanted.prompt.empty()) of_context.type_k = of_context.type_v = GGML_TYPE_F32;
#ifdef IK
    of_model.use_mmap = false;
    of_model.repack_tensors = wanted.repack;
    if (!wanted.prompt.empty()) of_context.flash_attn = false;
#else
    if (wanted.repack) throw std::runtime_error("--repack is for ik_llama.cpp; llama.cpp repacks by itself");
    of_model.load_mode = LLAMA_LOAD_MODE_NONE;
    of_model.use_extra_bufts = wanted.prompt.empty();
    if (!wanted.prompt.empty()) of_context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
#endif
    model_ = llama_model_load_from_file(wanted.model.c_str(), of_model);
    if (model_ == nullptr) throw std::runtime_error(wanted.model + ": the peer cannot load it");
    context_ = llama_init_from_model(model_, of_context);
    if (context_ == nullptr) throw std::runtime_error(wanted.model + ": the peer cannot make a context for it");
    batch_ = llama_batch_init(capacity, 0, 1);
  }
  ~Peer() {
    llama_batch_free(batch_);
    llama_free(context_);
#ifdef IK
    llama_free_model(model_);
#else
    llama_model_free(model_);
#endif
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  int vocabulary() const {
#ifdef IK
    return llama_n_vocab(model_);
#else
    return llama_vocab_n_tokens(llama_model_get_vocab(model_));
#endif
  }

  /// Reads `count` tokens at `position`, and computes the logits of each.
  void read(const int* tokens, int count, int position) {
    batch_.n_tokens = count;
    for (int i = 0; i < count; ++i) {
      batch_.token[i] = tokens[i];
      batch_.pos[i] = position + i;
      batch_.n_seq_id[i] = 1;
      batch_.seq_id[i][0] = 0;
      batch_.logits[i] = 1;
    }
    if (llama_decode(context_, batch_) != 0) throw std::runtime_error("llama_decode failed");
    llama_synchronize(context_);
  }

  const float* logits(int row) const { return llama_get_logits_ith(context_, row); }

  void forget_from(int position) {
#ifdef IK
    llama_kv_cache_seq_rm(context_, 0, position, -1);
#else
    llama_memory_seq_rm(llama_get_memory(context_), 0, position, -1);
#endif
  }

 private:
  llama_model* model_ = nullptr;
  llama_context* context_ = nullptr;
  llama_batch batch_{};
};

void measure(const CostOptions& wanted) {
  const int rows_max = *std::max_element(wanted.rows.begin(), wanted.rows.end());
  Peer peer(wanted, wanted.context + rows_max);
  std::vector<int> text;
  for (int i = 0; i < wanted.context + rows_max; ++i) text.push_back((i * 37) % peer.vocabulary());
  peer.read(text.data(), wanted.context, 0);

  std::vector<std::vector<double>> milliseconds(wanted.rows.size());
  for (int turn = -1; turn < wanted.turns; ++turn) {  // the turn before the first warms up
    for (std::size_t i = 0; i < wanted.rows.size(); ++i) {
      for (int again = wanted.rows[i] == 1 ? 3 : 1; again > 0; --again) {  // all ratios hang on one row
        const auto start = std::chrono::steady_clock::now();
        peer.read(text.data() + wanted.context, wanted.rows[i], wanted.context);
        const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
        peer.forget_from(wanted.context);
        if (turn >= 0) milliseconds[i].push_back(passed.count());
      }
    }
  }
  for (std::size_t i = 0; i < wanted.rows.size(); ++i) {
    std::vector<double>& times = milliseconds[i];
    std::sort(times.begin(), times.end());
    std::printf(R"({"rows": %d, "context": %d, "threads": %d, "median_ms": %.4f, "min_ms": %.4f, "max_ms": %.4f, )"
                "\"times\": %zu}\n",
                wanted.rows[i], wanted.context, wanted.threads, times[times.size() / 2], times.front(), times.back(),
                times.size());
  }
}

void answer(const CostOptions& wanted) {
  const int given = static_cast<int>(wanted.prompt.size());
  Peer peer(wanted, given + wanted.generate);
  const auto width = static_cast<std::size_t>(peer.vocabulary());
  for (const int token : wanted.prompt) {
    if (token < 0 || token >= peer.vocabulary()) {
      throw std::runtime_error("--answer: token " + std::to_string(token) + " is outside the vocabulary");
    }
  }
  std::ofstream file(wanted.logits, std::ios::binary);
  const auto write = [&](int count) {
    for (int row = 0; row < count; ++row) {
      file.write(reinterpret_cast<const char*>(peer.logits(row)), static_cast<std::streamsize>(width * sizeof(float)));
    }
    const float* last = peer.logits(count - 1);
    return static_cast<int>(std::max_element(last, last + width) - last);
  };

  peer.read(wanted.prompt.data(), given, 0);
  int next = write(given);
  for (int i = 0; i < wanted.generate; ++i) {
    std::printf("%s%d", i == 0 ? "{\"tokens\": [" : ", ", next);
    peer.read(&next, 1, given + i);
    next = write(1);
  }
  std::printf("%s]}\n", wanted.generate == 0 ? "{\"tokens\": [" : "");
  if (!file.flush()) throw std::runtime_error(wanted.logits + ": cannot be written; give --logits FILE");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const CostOptions wanted = read_arguments({argv + 1, argv + argc});
    wanted.prompt.empty() ? measure(wanted) : answer(wanted);
  } catch (const std::invalid_argument&) {
    std::fprintf(stderr, "peer_verify_cost: a number was expected\n");
    return 3;
  } catch (const std::exception& wrong) {
    std::fprintf(stderr, "peer_verify_cost: %s\n", wrong.what());
    return 3;
  }
}

// SPDX-License-Identifier: MIT
// `draftproof fetch` against a server that behaves like Hugging Face, and misbehaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ref/base/error.h"
#include "tests/fetch/hub_server.h"
#include "tests/tools/command.h"
#include "tools/fetch/fetch_model.h"

namespace draftproof::test::fetch_test {
namespace {

using testing::HasSubstr;

const HubName model = {"owner", "name", ""};
constexpr std::size_t after = 2;  // bytes of the file that is fetched behind the weights
const std::string kept = "what came is kept, run the command again to go on";

/// A hub with a small model, and a cache.
struct Hub {
  Hub() {
    for (const char* file : {"config.json", "model.safetensors"}) {
      server.files[file] = text_of(fixture(std::string("external/qwen3-tiny-tied/") + file));
    }
    server.files["tokenizer_config.json"] = "{}";
    for (const char* file : {"README.md", "pytorch_model.bin", "onnx/model.json", "flax_model.msgpack"}) {
      server.files[file] = "not needed";
    }
  }

  HubAccess access() const { return {.endpoint = server.url(), .token = token, .stall_seconds = stall_seconds}; }
  Fetched fetch(const HubName& name = model) const {
    return fetch_model(name, cache.path(), access(), [](const std::string&, std::uint64_t, std::uint64_t) {});
  }
  /// The sentence of the error.
  std::string refusal(const HubName& name = model) const {
    try {
      fetch(name);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  }
  Outcome run(const Words& words, const std::string& before = "") const {
    return run_command(words, before + " HF_ENDPOINT=" + server.url() + " HF_TOKEN=" + token +
                                  " HF_HUB_CACHE=" + quoted(cache.path().string()));
  }
  files::path in_cache(const std::string& path) const { return cache.path() / "models--owner--name" / path; }
  files::path snapshot(const std::string& file) const { return in_cache("snapshots/" + commit + "/" + file); }
  std::size_t size() const { return server.files.at("model.safetensors").size(); }
  /// The last time that the weights were asked for.
  std::string range_asked_for() const {
    std::string range;
    for (const HubServer::Asked& asked : server.asked()) {
      if (asked.path.ends_with("model.safetensors")) range = asked.range;
    }
    return range;
  }
  files::path partial() const {
    return in_cache("blobs/" + HubServer::digest_of("model.safetensors", server.files.at("model.safetensors")) +
                    ".incomplete");
  }
  void expect_whole() const {
    EXPECT_TRUE(text_of(snapshot("model.safetensors")) == server.files.at("model.safetensors"));
    EXPECT_FALSE(files::exists(partial()));
    EXPECT_EQ(text_of(in_cache("refs/main")), commit);
  }

  HubServer server;
  Folder cache;
  std::string token;
  int stall_seconds = 60;
};

TEST(Fetch, PutsWhatAModelNeedsWhereProgramsOfHuggingFaceLookForIt) {
  Hub hub;
  const Fetched fetched = hub.fetch();
  EXPECT_EQ(fetched.path, hub.in_cache("snapshots/" + commit));
  EXPECT_EQ(fetched.files, 3);
  hub.expect_whole();
  EXPECT_EQ(files::read_symlink(hub.snapshot("config.json")),
            "../../blobs/" + HubServer::digest_of("config.json", hub.server.files["config.json"]));
  for (const char* file : {"README.md", "pytorch_model.bin", "onnx/model.json", "flax_model.msgpack"}) {
    EXPECT_EQ(hub.server.times_asked_for(file), 0) << file;
  }
  const Fetched again = hub.fetch();
  EXPECT_EQ(again.path, fetched.path);
  EXPECT_EQ(again.files, 0);
  EXPECT_EQ(again.bytes, 0U);
}

TEST(Fetch, IsWhatOtherCommandsThenTakeForAModel) {
  Hub hub;
  const Words words = {"generate", "owner/name", "--prompt-tokens", "1,2,3", "-n", "4", "-t", "1"};
  const Outcome before = hub.run(words);
  EXPECT_EQ(before.status, 3);
  EXPECT_THAT(before.err,
              HasSubstr("get it with: draftproof fetch owner/name (or: hf download owner/name), then give"));
  const Outcome fetched = hub.run({"fetch", "owner/name"});
  EXPECT_EQ(fetched.status, 0) << fetched.err;
  EXPECT_EQ(fetched.out, hub.in_cache("snapshots/" + commit).string() + "\n");
  EXPECT_THAT(fetched.err, HasSubstr("owner/name in the cache; 3 files, "));
  const Outcome from_cache = hub.run(words);
  EXPECT_EQ(from_cache.status, 0) << from_cache.err;
  const std::string folder = fixture("external/qwen3-tiny-tied");
  EXPECT_EQ(from_cache.out, run_command({"generate", folder, "--prompt-tokens", "1,2,3", "-n", "4", "-t", "1"}).out);
  const Outcome drafted =
      hub.run({"generate", folder, "--draft", "model:owner/name", "--prompt-tokens", "1,2,3", "-n", "4", "-t", "1"});
  EXPECT_EQ(drafted.out, from_cache.out) << drafted.err;
  EXPECT_EQ(hub.run({"inspect", "owner/name"}).status, 0);
  EXPECT_EQ(hub.run({"fetch", "./name"}).status, 3);
}

TEST(Fetch, GoesOnWhereAnEarlierRunEnded) {
  Hub hub;
  hub.server.faults.ends_at = 5000;
  EXPECT_EQ(hub.refusal(), "owner/name: model.safetensors: the connection ended too early; " + kept);
  EXPECT_EQ(files::file_size(hub.partial()), 5000U);
  EXPECT_FALSE(files::exists(hub.in_cache("refs/main")));
  EXPECT_FALSE(find_in_hub_cache(hub.cache.path(), model)) << "what is there is not a model yet";
  hub.server.faults = {};
  const Fetched fetched = hub.fetch();
  EXPECT_EQ(hub.range_asked_for(), "bytes=5000-");
  EXPECT_EQ(fetched.bytes, hub.size() - 5000 + after);
  hub.expect_whole();
}

TEST(Fetch, BeginsAFileAgainWhereTheServerSendsEverything) {
  Hub hub;
  hub.server.faults.ends_at = 5000;
  hub.refusal();
  hub.server.faults = {.no_ranges = true};
  EXPECT_EQ(hub.fetch().bytes, hub.size() + after);
  hub.expect_whole();
}

TEST(Fetch, BeginsAFileAgainWhereTheServerHasNoSuchRange) {
  Hub hub;
  hub.server.faults.ends_at = 5000;
  hub.refusal();
  hub.server.faults = {.refuses_ranges = true};
  EXPECT_EQ(hub.fetch().bytes, hub.size() + after);
  hub.expect_whole();
}

TEST(Fetch, BeginsAFileAgainThatIsLongerThanItShouldBe) {
  Hub hub;
  hub.server.faults.ends_at = 5000;
  hub.refusal();
  hub.server.faults = {};
  put(hub.partial(), std::string(hub.size() + 1, 'x'));
  hub.fetch();
  hub.expect_whole();
}

TEST(Fetch, KeepsNoFileWithoutTheStatedDigest) {
  Hub hub;
  hub.server.faults.other_bytes = true;
  EXPECT_EQ(hub.refusal(),
            "owner/name: config.json: does not have the digest that the repository states; it was "
            "removed, run the command again");
  hub.server.faults = {};
  hub.server.faults.ends_at = 5000;
  hub.refusal();
  hub.server.faults = {.other_bytes = true};
  EXPECT_THAT(hub.refusal(), HasSubstr("model.safetensors: does not have the digest"));
  EXPECT_FALSE(files::exists(hub.snapshot("model.safetensors")));
  hub.server.faults = {};
  hub.fetch();
  hub.expect_whole();
}

TEST(Fetch, RefusesMoreBytesThanStated) {
  Hub hub;
  hub.server.faults.more_bytes = true;
  EXPECT_THAT(hub.refusal(), testing::MatchesRegex("owner/name: config.json: is longer than the [0-9]+ bytes that the "
                                                   "repository states"));
  hub.server.faults = {};
  hub.fetch();
  hub.expect_whole();
}

TEST(Fetch, SaysWhyAServerRefuses) {
  Hub hub;
  const auto refusal = [&](int status, const std::string& retry_after = "") {
    hub.server.faults = {.status = status, .retry_after = retry_after};
    return hub.refusal();
  };
  EXPECT_EQ(refusal(401), "owner/name: does not exist, or may be read with a token only; set HF_TOKEN (401)");
  hub.token = "secret";
  EXPECT_EQ(refusal(403), "owner/name: does not exist, or the token in HF_TOKEN may not read it (403)");
  EXPECT_EQ(refusal(404), "owner/name: does not exist on " + hub.server.url() + " (404)");
  EXPECT_EQ(refusal(429, "7"),
            "owner/name: " + hub.server.url() + " asks to wait 7 seconds; run the command again later (429)");
  EXPECT_EQ(refusal(503), "owner/name: " + hub.server.url() + " answers with status 503; try again later");
  EXPECT_FALSE(files::exists(hub.in_cache("")));
  const HubAccess nowhere = {.endpoint = "http://127.0.0.1:1", .token = "", .stall_seconds = 5};
  try {
    fetch_model(model, hub.cache.path(), nowhere, {});
    ADD_FAILURE() << "nobody listens there";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("owner/name: http://127.0.0.1:1 cannot be reached: "));
  }
}

TEST(Fetch, SendsTheTokenToTheEndpointOnly) {
  Hub hub;
  HubServer elsewhere;
  elsewhere.files = hub.server.files;
  hub.server.faults.redirect_to = elsewhere.url();
  hub.token = "secret";
  hub.fetch();
  hub.expect_whole();
  for (const HubServer::Asked& asked : hub.server.asked()) EXPECT_EQ(asked.authorization, "Bearer secret");
  ASSERT_EQ(elsewhere.asked().size(), 1U);
  EXPECT_EQ(elsewhere.asked()[0].authorization, "");
}

TEST(Fetch, EndsRedirectionsInACircle) {
  Hub hub;
  hub.server.faults.redirect_to = hub.server.url();
  EXPECT_EQ(hub.refusal(), "owner/name: model.safetensors: " + hub.server.url() + " redirects too often");
}

TEST(FetchSlow, GivesUpAServerThatSendsNothing) {
  Hub hub;
  hub.server.faults = {.ends_at = 5000, .stalls = true};
  hub.stall_seconds = 1;
  EXPECT_EQ(hub.refusal(), "owner/name: model.safetensors: the server sent nothing for 1 seconds; " + kept);
  EXPECT_EQ(files::file_size(hub.partial()), 5000U);
}

TEST(Fetch, KeepsWhatFitsOnAFullDisk) {
  Hub hub;
  const Outcome full = hub.run({"fetch", "owner/name"}, "trap '' XFSZ; ulimit -f 20;");
  EXPECT_EQ(full.status, 3);
  EXPECT_THAT(full.err, HasSubstr("cannot be written: File too large; " + kept));
  EXPECT_GT(files::file_size(hub.partial()), 0U);
  EXPECT_EQ(hub.run({"fetch", "owner/name"}).status, 0);
  EXPECT_NE(hub.range_asked_for(), "");
  hub.expect_whole();
}

TEST(Fetch, LosesNothingWhenItIsKilled) {
  Hub hub;
  hub.server.faults.pause = std::chrono::milliseconds(50);
  hub.run({"fetch", "owner/name"}, "timeout -s KILL 0.6 env");
  EXPECT_FALSE(files::exists(hub.snapshot("model.safetensors")));
  hub.server.faults = {};
  hub.fetch();
  hub.expect_whole();
}

TEST(Fetch, TransfersAFileOnceForTwoAtATime) {
  Hub hub;
  hub.server.faults.pause = std::chrono::milliseconds(5);
  std::thread other([&] { hub.fetch(); });
  hub.fetch();
  other.join();
  EXPECT_EQ(hub.server.times_asked_for("model.safetensors"), 1);
  hub.expect_whole();
}

TEST(Fetch, TakesTheShardsThatTheIndexNames) {
  Hub hub;
  hub.server.files.erase("model.safetensors");
  hub.server.files["model.safetensors.index.json"] =
      R"({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})";
  for (const char* file :
       {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "consolidated.safetensors"}) {
    hub.server.files[file] = std::string("of ") + file;
  }
  hub.fetch();
  EXPECT_EQ(text_of(hub.snapshot("model-00002-of-00002.safetensors")), "of model-00002-of-00002.safetensors");
  EXPECT_EQ(hub.server.times_asked_for("consolidated.safetensors"), 0);
  hub.server.files.erase("model-00002-of-00002.safetensors");
  EXPECT_THAT(hub.refusal(), HasSubstr("names 'model-00002-of-00002.safetensors', which the repository does not have"));
}

TEST(Fetch, TakesTheFileOfMedusaHeads) {
  Hub hub;
  hub.server.files = {{"config.json", "{}"}, {"medusa_lm_head.pt", "PK"}, {"medusa_lm_head.safetensors", "weights"}};
  EXPECT_EQ(hub.fetch().files, 2);
  EXPECT_EQ(text_of(hub.snapshot("medusa_lm_head.safetensors")), "weights");
  EXPECT_EQ(hub.server.times_asked_for("medusa_lm_head.pt"), 0);
}

TEST(Fetch, TakesOneGgufOfSeveral) {
  Hub hub;
  hub.server.files = {{"name-Q4_K_M.gguf", "four"},
                      {"name-Q8_0.gguf", "eight"},
                      {"mmproj-name.gguf", "images"},
                      {"big/name-F16-00001-of-00002.gguf", "one"},
                      {"big/name-F16-00002-of-00002.gguf", "two"}};
  EXPECT_EQ(hub.refusal(),
            "owner/name: has several; name one of its .gguf files, owner/name:FILE: big/name-F16-00001-of-00002.gguf "
            "(0 MB), big/name-F16-00002-of-00002.gguf (0 MB), mmproj-name.gguf (0 MB), name-Q4_K_M.gguf (0 MB), "
            "name-Q8_0.gguf (0 MB)");
  EXPECT_THAT(hub.refusal({"owner", "name", "Q5"}), testing::StartsWith("owner/name: has no 'Q5'; name one of"));
  EXPECT_THAT(hub.refusal({"owner", "name", "Q"}), testing::StartsWith("owner/name: 'Q' names several; name one of"));
  EXPECT_EQ(hub.fetch({"owner", "name", "q4_k_m"}).path, hub.snapshot("name-Q4_K_M.gguf"));
  EXPECT_EQ(hub.fetch({"owner", "name", "name-Q8_0.gguf"}).files, 1);
  EXPECT_EQ(hub.fetch({"owner", "name", "f16"}).path, hub.snapshot("big/name-F16-00001-of-00002.gguf"));
  EXPECT_EQ(text_of(hub.snapshot("big/name-F16-00002-of-00002.gguf")), "two");
  EXPECT_EQ(hub.server.times_asked_for("mmproj-name.gguf"), 0);
  const auto found = find_in_hub_cache(hub.cache.path(), {"owner", "name", "Q4_K_M"});
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, hub.snapshot("name-Q4_K_M.gguf"));
  EXPECT_EQ(find_in_hub_cache(hub.cache.path(), {"owner", "name", "f16"}),
            hub.snapshot("big/name-F16-00001-of-00002.gguf"));
}

TEST(Fetch, TakesAllPartsOfTheOnlyGguf) {
  Hub hub;
  hub.server.files = {
      {"big/name-00002-of-00002.gguf", "two"}, {"big/name-00001-of-00002.gguf", "one"}, {"mmproj-F16.gguf", "images"}};
  const Fetched fetched = hub.fetch();
  EXPECT_EQ(fetched.files, 2);
  EXPECT_EQ(fetched.path, hub.snapshot("big/name-00001-of-00002.gguf"));
  EXPECT_EQ(find_in_hub_cache(hub.cache.path(), model), fetched.path);
}

TEST(Fetch, SaysThatAFolderOfTheSameNameComesFirst) {
  Hub hub;
  const Folder here;
  files::create_directories(here.path() / "owner/name");
  const Outcome fetched = hub.run({"fetch", "owner/name"}, "cd " + quoted(here.path().string()) + ";");
  EXPECT_EQ(fetched.status, 0) << fetched.err;
  EXPECT_THAT(fetched.err, HasSubstr("owner/name is also here, and is what other commands take by these words"));
}

TEST(Fetch, TakesTheTokenWithoutTheEndOfItsLine) {
  const char* const before = std::getenv("HF_TOKEN");
  const std::string kept_token = before == nullptr ? "" : before;
  setenv("HF_TOKEN", " secret\n", 1);
  EXPECT_EQ(HubAccess::of_environment().token, "secret");
  setenv("HF_TOKEN", "secret\r\nX-Other: header", 1);
  EXPECT_THROW(HubAccess::of_environment(), Error);
  setenv("HF_TOKEN", " \n", 1);
  EXPECT_EQ(HubAccess::of_environment().token, "");
  setenv("HF_TOKEN", kept_token.c_str(), 1);
}

TEST(Fetch, WritesNothingOutsideOfItsFolder) {
  Hub hub;
  for (const char* file : {"../outside.json", "/outside.json", "a/../../outside.json", "a\\b.json", "."}) {
    hub.server.files = {{file, "{}"}, {"model.safetensors", "weights"}};
    EXPECT_THAT(hub.refusal(), HasSubstr("rfilename: must be a path in the repository")) << file;
    EXPECT_TRUE(files::is_empty(hub.cache.path()));
  }
  hub.server.files = {{"README.md", ""}};
  EXPECT_THAT(hub.refusal(), HasSubstr("has neither model.safetensors, nor model.safetensors.index.json, nor a .gguf"));
}

TEST(Fetch, ComputesTheDigestsOfGit) {
  Sha1 sha1;
  sha1.add("ab");
  sha1.add("c");
  EXPECT_EQ(sha1.hex(), "a9993e364706816aba3e25717850c26c9cd0d89d");
  sha1.add(std::string(61, 'x'));  // the end of the message begins a block of its own
  EXPECT_EQ(sha1.hex(), "9bea5fbc0dc5905e6b6ac94c271c02e7feff04fd");
  Sha1 longer;
  for (int i = 0; i < 1000; ++i) longer.add(std::string(1000, 'a'));
  EXPECT_EQ(longer.hex(), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");  // FIPS 180-4's own example
  BlobDigest hello("ce013625030ba8dba906f756967f9e9ca394464a", 6);
  hello.add("hello");
  EXPECT_FALSE(hello.fits());
  hello.add("\n");
  EXPECT_TRUE(hello.fits());
}

}  // namespace
}  // namespace draftproof::test::fetch_test

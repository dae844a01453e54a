// SPDX-License-Identifier: MIT
#include "tools/campaign/dealing.h"

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "ref/ranks/message.h"

namespace draftproof {
namespace {

constexpr auto between_looks = std::chrono::milliseconds(5);

Message message_of(const CampaignTrial& trial) {
  Message message;
  message.add(!trial.of_endpoint).add(trial.words.size());
  for (const std::string& word : trial.words) message.add_text(word);
  return message;
}

Message message_of(const TrialResult& result) {
  Message message;
  message.add_text(result.report).add_text(result.reproducer).add_text(result.complaint);
  return message;
}

TrialResult result_in(const Mail::Letter& letter) {
  MessageReader reader(letter.bytes);
  TrialResult result;
  result.report = reader.take_text();
  result.reproducer = reader.take_text();
  result.complaint = reader.take_text();
  return result;
}

void start(TrialProcess& process, const CampaignTrial& trial) { process.start(trial.words, !trial.of_endpoint); }

void start(TrialProcess& process, const Mail::Letter& letter) {
  MessageReader reader(letter.bytes);
  const bool reproduces = reader.take<bool>();
  std::vector<std::string> words(reader.take<std::size_t>());
  for (std::string& word : words) word = reader.take_text();
  process.start(words, reproduces);
}

}  // namespace

void deal(const std::vector<const CampaignTrial*>& trials, Mail* mail,
          const std::function<void(const CampaignTrial&, const TrialResult&)>& take,
          const std::function<bool()>& wait) {
  TrialProcess process;
  std::map<int, const CampaignTrial*> running;  // by rank
  std::deque<int> free = {0};
  for (int rank = 1; mail != nullptr && rank < mail->count(); ++rank) free.push_back(rank);
  auto next = trials.begin();
  const auto finish = [&](int rank, const TrialResult& result) {
    take(*running.at(rank), result);
    running.erase(rank);
    free.push_back(rank);
  };
  while (next != trials.end() || !running.empty()) {
    for (; next != trials.end() && !free.empty(); free.pop_front(), ++next) {
      const int rank = free.front();
      if (rank == 0) start(process, **next);
      else mail->send(rank, message_of(**next).bytes());
      running[rank] = *next;
    }
    if (process.runs()) {
      if (const auto result = process.poll()) finish(0, *result);
    }
    while (mail != nullptr) {
      const auto letter = mail->receive();
      if (!letter) break;
      finish(letter->from, result_in(*letter));
    }
    if (!wait()) return;
    std::this_thread::sleep_for(between_looks);
  }
}

void make_dealt_trials(Mail& mail) {
  TrialProcess process;
  while (true) {
    if (const auto letter = mail.receive()) {
      if (letter->bytes.empty()) return mail.send(0, {});
      start(process, *letter);
    }
    if (process.runs()) {
      if (const auto result = process.poll()) mail.send(0, message_of(*result).bytes());
    }
    std::this_thread::sleep_for(between_looks);
  }
}

void end_dealing(Mail& mail) {
  for (int rank = 1; rank < mail.count(); ++rank) mail.send(rank, {});
  for (int ended = 1; ended < mail.count();) {
    const auto letter = mail.receive();
    if (!letter) std::this_thread::sleep_for(between_looks);
    else if (letter->bytes.empty()) ++ended;  // else a result that comes too late
  }
}

}  // namespace draftproof

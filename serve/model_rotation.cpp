// SPDX-License-Identifier: MIT
#include "serve/model_rotation.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "kernels/threads.h"

namespace draftproof::serve {

ModelRotation::ModelRotation(std::vector<Member> members, std::uint64_t bytes)
    : members_(std::move(members)), bytes_(bytes), states_(members_.size()) {}

bool ModelRotation::finished() const {
  return std::ranges::all_of(members_, [](const Member& one) { return one.service.finished(); });
}

/// The loaded models that have to go for one that is not: idle ones first, and those whose last use is longest ago.
std::vector<std::size_t> ModelRotation::in_the_way_of(std::size_t member) const {
  std::vector<std::size_t> loaded;
  std::uint64_t taken = members_[member].bytes;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!members_[i].service.loaded()) continue;
    loaded.push_back(i);
    taken += members_[i].bytes;
  }
  std::ranges::sort(loaded, {},
                    [&](std::size_t i) { return std::pair(members_[i].service.busy(), states_[i].last_use); });
  std::size_t count = 0;
  while (taken > bytes_ && count < loaded.size()) taken -= members_[loaded[count++]].bytes;
  loaded.resize(count);
  return loaded;
}

/// Of the models that are not loaded, the one whose first job waits longest, once those in its way are idle; until then
/// they are held.
std::optional<std::size_t> ModelRotation::next_to_load() {
  std::optional<std::size_t> next;
  std::optional<Service::Clock::time_point> earliest;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    states_[i].held = false;
    if (members_[i].service.loaded()) continue;
    const auto since = members_[i].service.waiting_since();
    if (!since || (earliest && *since >= *earliest)) continue;
    next = i;
    earliest = since;
  }
  if (!next) return std::nullopt;
  bool ready = true;
  for (const std::size_t one : in_the_way_of(*next)) {
    states_[one].held = true;
    ready = ready && !members_[one].service.busy();
  }
  return ready ? next : std::nullopt;
}

void ModelRotation::load(std::size_t member) {
  for (const std::size_t one : in_the_way_of(member)) {
    members_[one].drop();
    states_[one].held = false;
  }
  members_[member].load();
  states_[member].last_use = ++passes_;
}

/// Runs a pass of each loaded model that has something to do. Returns whether there is more to do.
bool ModelRotation::step() {
  bool more = false;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!members_[i].service.loaded()) continue;
    if (members_[i].service.step(states_[i].held)) {
      more = true;
      states_[i].last_use = ++passes_;
    }
  }
  return more;
}

void ModelRotation::run(Wakeup& wakeup) {
  while (!finished()) {
    wakeup.wait();
    bool more = true;
    while (more) {
      try {
        more = run_passes();
      } catch (const std::bad_alloc&) {  // for the workers; nothing has changed
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
  }
}

/// Until another model is to be loaded, after the one that is. Returns whether there is more to do.
bool ModelRotation::run_passes() {
  if (const auto next = next_to_load()) {
    try {
      load(*next);
    } catch (const std::bad_alloc&) {
      members_[*next].service.fail_waiting("there is not enough memory to load the model now");
    } catch (const std::exception& wrong) {
      members_[*next].service.fail_waiting((std::string("the model cannot be loaded: ") + wrong.what()).c_str());
    }
  }
  bool more = false;
  with_workers([&] {
    do {
      more = step();
    } while (more && !next_to_load());
  });
  return more || next_to_load();
}

}  // namespace draftproof::serve

// SPDX-License-Identifier: MIT
// Which of a server's models are loaded. One is loaded when it is asked; those that were not asked for the longest time
// are dropped where it needs their memory. One that is decoding is not: it takes no more jobs until its answers have
// ended, and then goes. So every model is loaded in time, however much others are asked. Jobs for a model that is not
// loaded wait, and no answer depends on any of that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "serve/service.h"

namespace draftproof::serve {

class ModelRotation {
 public:
  struct Member {
    Service& service;
    std::uint64_t bytes;         // that it takes while it is loaded
    std::function<void()> load;  // calls service.load(); its jobs are told of what it throws
    std::function<void()> drop;  // calls service.unload(), and frees its memory
  };
  /// `bytes`: what the loaded models may take together; no less than any of them. The services outlive the rotation.
  ModelRotation(std::vector<Member> members, std::uint64_t bytes);

  /// Decodes what the services are asked, pass by pass in turn, until all of them have finished. On the thread that
  /// made their engines, whose workers it uses.
  void run(Wakeup& wakeup);

 private:
  struct State {
    bool held = false;           // takes no more jobs
    std::uint64_t last_use = 0;  // the number of the pass
  };

  bool finished() const;
  void load(std::size_t member);
  bool run_passes();
  bool step();
  std::vector<std::size_t> in_the_way_of(std::size_t member) const;
  std::optional<std::size_t> next_to_load();

  std::vector<Member> members_;
  std::uint64_t bytes_;
  std::vector<State> states_;
  std::uint64_t passes_ = 0;
};

}  // namespace draftproof::serve

// SPDX-License-Identifier: MIT
#include "zoo/joint_run.h"

#include <exception>

namespace draftproof {
namespace {

std::string message_of(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

}  // namespace

JointRun run_jointly(Scheduler& scheduler, std::span<const Scheduled> sequences) {
  run_batch(scheduler, sequences);
  JointRun run;
  for (const Scheduled& one : sequences) {
    run.traces.push_back(one.sequence->trace());
    run.errors.push_back(message_of(one.sequence->error()));
  }
  run.passes = scheduler.counts().passes;
  run.shared = scheduler.counts().shared;
  return run;
}

}  // namespace draftproof

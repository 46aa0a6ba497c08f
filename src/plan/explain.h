// A plan for programs and for people.
#pragma once

#include <optional>
#include <string>

#include "plan/planner.h"

namespace tc {

// What this library launches by a plan: not always its first candidate, which may have no kernel yet.
struct Launches {
  std::string kernel;
  tcPlane_t plane = tcPlaneAuto;
  int comm_sms = 0;  // 0: the kernel's own choice
  std::string why;
  std::string staging;  // what becomes of memory that is not registered
};

// The choice, the best alternative of each way and plane with its prediction, what was not considered and why, what was
// assumed, and the reason in words. `all`: every candidate.
std::string ToJson(const PlanRequest& request, const platform::FactTable& table, const Plan& plan,
                   const std::optional<Launches>& launches = {}, bool all = false);

// The same as a table; every line but the rows starts with '#'.
std::string ToText(const PlanRequest& request, const platform::FactTable& table, const Plan& plan, bool all = false);

}  // namespace tc

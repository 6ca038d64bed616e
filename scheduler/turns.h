// Turns: in which order those that wait are served, one place at a time. Pure.
//
// Round robin between jobs, then between the requesters of a job, then between the requests of a requester. Whoever was
// served last is the last of the next round, whatever came and went between.
//
// Thread rule: one thread at a time.
//
// Invariants
//   TUR-1  A request for which `place` says no is not asked about again in this round, should there be more room later
//          in it: the round ends, whatever `place` says.
//   TUR-2  Between two places of one job each other job has one, if `place` says yes to it; so with the requesters of a
//          job, and with the requests of a requester.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include <troupe/options.h>

#include "core/base/ids.h"

namespace troupe::sched {

class Turns {
 public:
  using Request = std::uint64_t;
  struct Candidate {
    JobId job = 0;
    ProcessId requester;
    Request request = 0;
    std::uint64_t served = 0;  ///< its rank among its requester's, the smallest first; ties in the order given
  };

  /// Calls place(request), which says whether the request had a place, until it has said no to each. It may end
  /// requests of this round, and says no to one that is gone.
  template <class Place>
  void serve(std::vector<Candidate> candidates, Place&& place) {
    for (Round round = round_of(std::move(candidates)); !round.empty();)
      for (const auto it : in_turn(round, last_job_)) {
        if (serve_job(it->second, last_requester_[it->first], place)) last_job_ = it->first;
        else round.erase(it);
      }
  }
  void job_ended(JobId job) { last_requester_.erase(job); }

 private:
  using Requesters = std::map<ProcessId, std::deque<Request>>;
  using Round = std::map<JobId, Requesters>;

  static Round round_of(std::vector<Candidate> candidates);

  /// Who comes after `last`, then the others.
  template <class Map, class Key>
  static std::vector<typename Map::iterator> in_turn(Map& map, const Key& last) {
    std::vector<typename Map::iterator> order;
    for (auto it = map.upper_bound(last); it != map.end(); ++it) order.push_back(it);
    for (auto it = map.begin(); it != map.upper_bound(last); ++it) order.push_back(it);
    return order;
  }

  template <class Place>
  static bool serve_job(Requesters& requesters, ProcessId& last, Place& place) {
    for (const auto it : in_turn(requesters, last)) {
      std::deque<Request>& requests = it->second;
      while (!requests.empty() && !place(requests.front())) requests.pop_front();
      if (requests.empty()) {
        requesters.erase(it);
        continue;
      }
      requests.push_back(requests.front());
      requests.pop_front();
      last = it->first;
      return true;
    }
    return false;
  }

  JobId last_job_ = 0;
  std::map<JobId, ProcessId> last_requester_;
};

}  // namespace troupe::sched

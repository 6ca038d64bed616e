// Jobs: the jobs of which this node knows how their processes are started: those of local drivers, and those of other
// nodes as soon as something of them is to run here.
//
//   unknown --a driver of this node registered--> known --ended, and nothing of it runs here--> forgotten
//      `--with(): the daemon that knows it sends its image--^
//   any of them --JobEnded, with nothing to keep--> over: not known again
//
// Thread rule: the loop's thread.
//
// Invariants
//   NJ-1  with() calls its function exactly once; those who ask for the same job meanwhile share one request. Where
//         that fails, those who named another daemon have theirs asked: that one has died is no reason for them to
//         fail.
//   NJ-2  What is over is not known again here: an image that comes late is dropped, and no other one is asked for.
//         Another daemon may not have heard of the end yet, and JobEnded, which would end the job here, has been.
//   NJ-3  Of jobs that are over the last kJobsOverKept are remembered: what was sent in the name of an older one has
//         long arrived.
//   NJ-4  A program that could not be opened, or started, is tried again whenever something of its job is to run here:
//         it may have been copied or mounted since. (Where the driver runs from it, it is there.)
#pragma once
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/node/base/messenger.h"

namespace troupe::node {

struct Job {
  JobId id = 0;
  ProcessId driver;
  std::string name_space, registry_digest;
  wire::Image image;
  /// the very file that the driver runs; closed when no process of the job is to start any more, or it cannot be had
  UniqueFd executable;
  bool ended = false;
  std::set<ActorId> kept;        ///< actors that outlive it
  std::int32_t exit_code = -1;   ///< as the driver said before it left
};

inline constexpr std::size_t kJobsOverKept = 1000;

class Jobs {
 public:
  explicit Jobs(Messenger& messenger) : messenger_(messenger) {}

  Job* find(JobId id);
  Job& add(JobId id);
  void forget(JobId id) { jobs_.erase(id); }
  std::map<JobId, Job>& all() { return jobs_; }

  /// With the job: at once when it is known here, else when the daemon of `who_knows` has sent its image; null: it
  /// cannot be had.
  void with(JobId id, ProcessId who_knows, std::function<void(Job*)> then);
  /// It has ended and leaves nothing behind: whoever waits for it is told null, now (NJ-2).
  void over(JobId id);
  /// The head says that something is kept, after all.
  void not_over(JobId id);
  bool is_over(JobId id) const { return over_.contains(id); }
  /// To a daemon that asks for an image.
  void answer_image(const net::FrameHeader& request, const wire::JobImageRequest& wanted, const std::string& node_id);
  /// A line for the job's driver.
  void warn(JobId id, const std::string& text);

 private:
  struct Waiting { std::uint32_t who_knows; std::function<void(Job*)> then; };
  void ask(JobId id, std::uint32_t node);
  void image_came(JobId id, wire::JobImageReply reply);
  void no_image(JobId id, std::uint32_t node);
  void tell_waiting(JobId id, Job* job);

  Messenger& messenger_;
  std::map<JobId, Job> jobs_;
  std::map<JobId, std::vector<Waiting>> waiting_;
  std::set<JobId> over_;
  std::deque<JobId> over_order_;  // of over_
};

}  // namespace troupe::node

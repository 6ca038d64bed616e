// Amounts of resources, exactly: fixed point in 1/10,000, so that three times 0.1 and back is zero.
//
// ResourceSet is an amount of each resource; ResourceAccount is what a node has and what is left of it. Pure values: no
// thread rule beyond that of any value. Names on the outside are "CPU", "GPU", "memory" (bytes) and the custom ones.
//
// Invariants
//   RS-1  A set names no resource twice, and no custom one with amount 0; custom names are sorted.
//   RS-2  An account never grants what it has not: available stays >= 0 for every resource but CPU.
//   RS-3  CPU may go below zero only by reclaim_cpu (a task that wakes goes on at once); while it is below zero, no
//         request that needs CPU fits.
//   RS-4  available <= total, always: giving back more than was taken is a bug of the caller, and is cut off at total.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <troupe/options.h>

namespace troupe::sched {

/// 1/10,000 of one unit.
using Fixed = std::int64_t;
inline constexpr Fixed kUnit = 10'000;

Fixed to_fixed(double amount);
double from_fixed(Fixed amount);

/// What `cpus` means when the user left it unset.
inline constexpr double kTaskCpus = 1, kActorCpus = 0;

struct ResourceSet {
  Fixed cpu = 0, gpu = 0, memory = 0;
  std::vector<std::pair<std::string, Fixed>> custom;

  bool operator==(const ResourceSet&) const = default;

  /// What a user asked for; default_cpus when cpus is unset (kTaskCpus, kActorCpus).
  static ResourceSet from(const Resources& asked, double default_cpus);
  /// From the form of NodeInfo: "CPU", "GPU", "memory", custom names.
  static ResourceSet from_map(const std::map<std::string, double>& amounts);
  std::map<std::string, double> to_map() const;

  bool empty() const { return cpu == 0 && gpu == 0 && memory == 0 && custom.empty(); }
  /// Every amount asked for is there. A resource that is not asked for does not matter, even when it is below zero
  /// (RS-3).
  bool fits(const ResourceSet& available) const;
  void add(const ResourceSet& other);
  void subtract(const ResourceSet& other);
  Fixed custom_amount(const std::string& name) const;
  /// "{CPU: 1, GPU: 0.5}"
  std::string to_string() const;
};

/// Whether something of `held` is wanting in `room` for `need`. GPUs always are: they come in pieces, which a sum does
/// not show.
bool would_help(const ResourceSet& held, const ResourceSet& need, const ResourceSet& room);

/// Why a request makes no sense (negative, not a number, 1.5 GPUs), or nothing.
std::optional<std::string> resource_problem(const Resources& asked);

/// What a node has and what is left.
class ResourceAccount {
 public:
  ResourceAccount() = default;
  explicit ResourceAccount(ResourceSet total) : total_(std::move(total)), available_(total_) {}

  const ResourceSet& total() const { return total_; }
  const ResourceSet& available() const { return available_; }
  bool can_grant(const ResourceSet& asked) const { return asked.fits(available_); }

  /// Takes it, when it is there.
  [[nodiscard]] bool try_grant(const ResourceSet& asked);
  void give_back(const ResourceSet& granted);
  /// A task waits: its CPUs, and only they, go back.
  void lend_cpu(Fixed cpus);
  /// The task wakes and goes on at once: the account may go below zero (RS-3).
  void reclaim_cpu(Fixed cpus) { available_.cpu -= cpus; }

 private:
  void cap();

  ResourceSet total_, available_;
};

/// Which GPUs a grant is on. A fraction lies on one GPU, whole numbers on whole ones; the fullest GPU that still fits
/// is taken first, so that whole ones stay free.
class GpuSlots {
 public:
  explicit GpuSlots(int count = 0) : free_(static_cast<std::size_t>(count), kUnit) {}
  /// The ids, ascending; nothing when the amount does not fit on the GPUs as they are now. Amount 0: an empty list.
  std::optional<std::vector<int>> take(Fixed amount);
  /// What one request can have: whole ones where there are some, else the largest piece.
  Fixed at_once() const;
  /// These, which somebody has, are not free.
  void taken(const std::vector<int>& ids, Fixed amount);
  void give_back(const std::vector<int>& ids, Fixed amount);

 private:
  std::vector<Fixed> free_;
};

}  // namespace troupe::sched

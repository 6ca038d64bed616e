// Barriers that one process asks of others: membarrier(2), by which a reader that is about to sleep stands for the
// fences of those that publish (collective/shm/segment.h, SG-4).
//
// Any thread. A process that is forked from a registered one is registered.
#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace troupe {

/// This process takes part from now on; false: the kernel has none. Some 5 us while it has one thread: troupe::run does
/// it first of all. With threads the kernel waits for all CPUs to have passed through it, 14 to 30 ms on two of them.
inline bool register_for_barriers() {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

/// A full fence in every thread of every registered process; false: the kernel has none.
inline bool barrier_in_all() { return ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0; }

}  // namespace troupe

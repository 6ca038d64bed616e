#include "objectstore/client/fork_registry.h"

#include <pthread.h>

#include <mutex>
#include <vector>

namespace troupe::store {
namespace {

struct Members {
  std::mutex mutex;
  std::vector<ForkAware*> list;
};

/// Never destroyed: a fork may come while the process ends.
Members& members() {
  static Members& made = *new Members;
  return made;
}

void before() {
  members().mutex.lock();
  for (ForkAware* member : members().list) member->before_fork();
}

void in_parent() {
  for (ForkAware* member : members().list) member->after_fork_in_parent();
  members().mutex.unlock();
}

void in_child() {
  for (ForkAware* member : members().list) member->after_fork_in_child();
  members().mutex.unlock();
}

}  // namespace

void ForkRegistry::add(ForkAware& member) {
  static const int registered = pthread_atfork(&before, &in_parent, &in_child);
  (void)registered;  // ENOMEM: forks are then as unsafe as without this class
  std::lock_guard lock(members().mutex);
  members().list.push_back(&member);
}

void ForkRegistry::remove(ForkAware& member) {
  std::lock_guard lock(members().mutex);
  std::erase(members().list, &member);
}

}  // namespace troupe::store

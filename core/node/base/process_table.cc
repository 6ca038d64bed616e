#include "core/node/base/process_table.h"

#include <sys/wait.h>

#include <cstring>

namespace troupe::node {

NodeProcess& ProcessTable::add(wire::Role role, JobId job) {
  auto process = std::make_unique<NodeProcess>();
  process->id = {node_, next_serial_};
  process->role = role;
  process->job = job;
  return *(processes_[next_serial_++] = std::move(process));
}

NodeProcess* ProcessTable::find(ProcessId id) {
  if (id.node != node_) return nullptr;
  auto it = processes_.find(id.serial);
  return it == processes_.end() ? nullptr : it->second.get();
}

NodeProcess* ProcessTable::find_alive(ProcessId id) {
  NodeProcess* process = find(id);
  return process && process->state == NodeProcess::State::kAlive ? process : nullptr;
}

NodeProcess* ProcessTable::find_pid(int pid) {
  for (auto& [serial, process] : processes_) if (process->pid == pid) return process.get();
  return nullptr;
}

std::unique_ptr<NodeProcess> ProcessTable::remove(ProcessId id) {
  auto it = id.node == node_ ? processes_.find(id.serial) : processes_.end();
  if (it == processes_.end()) return nullptr;
  std::unique_ptr<NodeProcess> process = std::move(it->second);
  processes_.erase(it);
  return process;
}

std::size_t ProcessTable::count(JobId job) const {
  std::size_t count = 0;
  for (const auto& [serial, process] : processes_) count += process->job == job;
  return count;
}

std::size_t ProcessTable::pairs() const {
  std::size_t ends = 0;
  for (const auto& [serial, process] : processes_) ends += process->paired.size();
  return ends / 2;
}

void ProcessTable::remember(wire::ProcessDied death) {
  const ProcessId id = death.process;
  if (!deaths_.insert_or_assign(id, std::move(death)).second) return;
  death_order_.push_back(id);
  if (death_order_.size() <= kDeathsKept) return;
  deaths_.erase(death_order_.front());
  death_order_.pop_front();
}

const wire::ProcessDied* ProcessTable::death(ProcessId id) const {
  auto it = deaths_.find(id);
  return it == deaths_.end() ? nullptr : &it->second;
}

std::string describe_wait_status(int wait_status) {
  if (wait_status < 0) return "ended";
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    const char* name = ::sigabbrev_np(signal);
    return "killed by " + (name ? "SIG" + std::string(name) : "signal") + " (" + std::to_string(signal) + ")" +
           (WCOREDUMP(wait_status) ? ", core dumped" : "");
  }
  return "exited with code " + std::to_string(WEXITSTATUS(wait_status));
}

}  // namespace troupe::node

#include "apps/train/program/joined.h"

#include <unistd.h>

#include <array>
#include <cctype>
#include <chrono>
#include <csignal>

#include <fmt/format.h>
#include <troupe/collective.h>

#include "apps/train/program/rank_loop.h"

namespace troupe::train {
namespace {

using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t g_signalled = 0;  // the one thing that a signal handler may touch

void on_signal(int) { g_signalled = 1; }

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = &on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

/// A name for the address where they meet: two starts on one machine do not meet each other.
std::string group_name(const LaunchedRank& launched) {
  std::string name = "train";
  for (const char c : launched.job) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  return name.substr(0, 60);
}

}  // namespace

int train_joined(const AppCommand& command, const LaunchedRank& launched) {
  watch_signals();
  AppCommand mine = command;
  RunSettings& run = run_of(mine.job);
  run.workers = launched.size;
  if (launched.rank == 0) keep_schedule(run);
  (launched.rank == 0 ? check_command(mine) : check_device(mine)).value();
  const std::unique_ptr<Job> job = make_job(mine.job).value();
  if (launched.rank == 0) remove_checkpoints(mine);
  const auto started = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - started).count(); };
  collective::Group group = collective::join(group_name(launched), launched.rank, launched.size,
                                             {.operation_timeout = seconds(run.step_timeout), .deterministic = true});
  std::array<std::int64_t, 1> decay_steps{run.decay_steps};  // only rank 0 need see the checkpoints
  group.broadcast(decay_steps, 0);
  run.decay_steps = decay_steps[0];
  RunReport report(facts_of(mine.program, mine.job, *job, launched.size), ::isatty(STDERR_FILENO) != 0);
  if (launched.rank == 0 && !job->device().empty()) report.note("rank 0 on " + job->device());
  Notebook notebook;
  RankHooks hooks;
  hooks.on_note = [&] {
    if (g_signalled != 0) notebook.ask_to_stop();
    if (launched.rank == 0) report.add(notebook.take(), elapsed());
    else (void)notebook.take();
  };
  const auto result = train_rank(*job, run, std::move(group), notebook, hooks);
  if (launched.rank != 0) {
    if (!result.ok()) result.error_ptr()->raise();
    return result->outcome.stopped ? 130 : 0;
  }
  RunEnd end{.seconds = elapsed(), .interrupted = result.ok() && result->outcome.stopped};
  if (!result.ok()) end.error = result.error().what();
  if (result.ok() && !end.interrupted && mine.sample.tokens > 0)
    end.sample = job->sample(result->parameters, mine.sample).value();
  return finish(mine, report, std::move(end));
}

}  // namespace troupe::train

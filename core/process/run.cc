#include <troupe/run.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "core/base/barriers.h"
#include "core/base/exception.h"
#include "core/base/log.h"
#include "core/base/output.h"
#include "core/base/thread.h"
#include "core/node/roles/roles.h"
#include "core/runtime/context.h"
#include "core/process/driver.h"
#include "core/process/metrics_report.h"
#include "core/process/process.h"
#include "core/process/run_options.h"
#include "core/runtime/waits.h"
#include <troupe/detail/registry.h>

extern char** environ;

namespace troupe::worker {

namespace {

ProcessOptions worker_options(node::WorkerBoot boot) {
  ProcessOptions options;
  options.hello.role = wire::Role::kWorker;
  options.hello.pid = ::getpid();
  options.hello.serial = boot.serial;
  options.hello.registry_digest = detail::registry_digest();
  options.socket = std::move(boot.socket);
  return options;
}

int worker_main(node::WorkerBoot boot) {
  line_buffer_output();
  ProcessOptions options = worker_options(std::move(boot));
  Result<std::unique_ptr<Process>> started = Process::start(std::move(options));
  if (!started.ok()) {
    // A daemon that let go of its worker knows why (the job ended, the node stops): nobody else needs to read of it.
    if (started.error().code() != ErrorCode::kNodeDied)
      std::fprintf(stderr, "troupe worker: %s\n", started.error().what());
    return 1;
  }
  Process& process = keep_for_good(*std::move(started));  // other threads may still use it while it exits
  set_process_runtime(&process.core());
  set_log_level(log_level_of(process.core().welcome().log_level, LogLevel::kInfo));
  const int code = process.executors().run_main_loop();
  process.await_departure();
  std::fflush(nullptr);
  ::_exit(code);
}

/// A worker that is threads of the driver's process. Its wait status, as of a process.
int local_worker_main(node::WorkerBoot boot) {
  ProcessOptions options = worker_options(std::move(boot));
  options.local = true;
  Result<std::unique_ptr<Process>> started = Process::start(std::move(options));
  if (!started.ok()) {
    if (started.error().code() != ErrorCode::kNodeDied)
      write_log(LogLevel::kError, "a local worker did not start: {}", std::string(started.error().what()));
    return W_EXITCODE(1, 0);
  }
  Process& process = keep_for_good(*std::move(started));
  const int code = process.executors().run_main_loop();
  process.core().host().join_actors();
  process.executors().join_rest();
  process.await_departure();
  process.stop();
  set_thread_runtime(nullptr);
  return process.core().is_cut_off() ? SIGKILL : W_EXITCODE(code, 0);
}

// ------------------------------------------------------------------------------------------------------------- signals

int signal_event = -1;
volatile sig_atomic_t last_signal = 0;

void on_signal(int number) {
  last_signal = number;
  const std::uint64_t one = 1;
  [[maybe_unused]] auto written = ::write(signal_event, &one, sizeof one);
}

/// SIGINT and SIGTERM while the driver runs: first a polite end, then a firm one.
class SignalWatch {
 public:
  SignalWatch(Core& core, CallContext& context, const DriverOptions& options)
      : core_(core), context_(context), options_(options) {
    signal_event = ::eventfd(0, EFD_CLOEXEC);
    struct sigaction action {};
    action.sa_handler = &on_signal;
    ::sigaction(SIGINT, &action, &old_interrupt_);
    ::sigaction(SIGTERM, &action, &old_terminate_);
    // TH-1: the handler on this thread would end its read, and the signal be lost
    thread_ = start_thread([this] { watch(); });
  }
  ~SignalWatch() {
    done_.store(true);
    const std::uint64_t one = 1;
    [[maybe_unused]] auto written = ::write(signal_event, &one, sizeof one);
    thread_.join();
    ::sigaction(SIGINT, &old_interrupt_, nullptr);
    ::sigaction(SIGTERM, &old_terminate_, nullptr);
    ::close(std::exchange(signal_event, -1));
    last_signal = 0;
  }
  int signal() const { return signal_.load(); }

 private:
  void watch() {
    std::uint64_t count = 0;
    if (::read(signal_event, &count, sizeof count) < 0 || done_.load()) return;
    signal_.store(last_signal);
    std::fprintf(stderr, "troupe: %s: ending; once more to end at once\n", strsignal(last_signal));
    {
      CoreLock lock(core_);
      interrupt(context_, make_error<CancelledError>("the driver was told to end by a signal"));
    }
    struct pollfd again = {signal_event, POLLIN, 0};
    const int grace = int(std::min<std::int64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(options_.shutdown_grace).count(), INT_MAX));
    ::poll(&again, 1, grace);  // until the driver is done, a second signal, or the end of its grace
    if (done_.load()) return;
    core_.begin_shutdown(make_error<CancelledError>("the driver did not end within its grace"));
    if (options_.stop_cluster) options_.stop_cluster();
    std::fflush(nullptr);
    ::_exit(128 + signal_.load());
  }

  Core& core_;
  CallContext& context_;
  const DriverOptions& options_;
  struct sigaction old_interrupt_ {}, old_terminate_ {};
  std::atomic<bool> done_{false};
  std::atomic<int> signal_{0};
  std::thread thread_;
};

/// The driver's exception, with what is known of where it came from.
void print_exception() {
  const ErrorRecord record = describe_current_exception();
  std::string text = "troupe: the driver ended with ";
  text += record.code == ErrorCode::kTask && !record.type_name.empty()
              ? record.type_name
              : std::string("troupe::") + error_name(record.code);
  text += ": " + record.message + "\n";
  const ErrorContext& at = record.context;
  if (!at.function.empty())
    text += "  in " + at.function + (at.node.empty() ? "" : ", node " + at.node) +
            (at.pid ? ", pid " + std::to_string(at.pid) : "") + ", attempt " + std::to_string(at.attempt) + "\n";
  for (const std::string& line : at.log_tail) text += "  | " + line + "\n";
  std::fputs(text.c_str(), stderr);
}

wire::Hello driver_hello(const DriverOptions& options) {
  wire::Hello hello;
  hello.role = wire::Role::kDriver;
  hello.pid = ::getpid();
  hello.registry_digest = detail::registry_digest();
  hello.name_space = options.name_space;
  hello.image.digest = hello.registry_digest;
  char path[PATH_MAX] = {};
  if (::readlink("/proc/self/exe", path, sizeof path - 1) > 0) hello.image.executable = path;
  hello.image.argv = options.argv;
  std::error_code none;
  hello.image.working_dir = std::filesystem::current_path(none).string();
  for (char** at = environ; *at; ++at) hello.image.environment.emplace_back(*at);
  return hello;
}

/// What its processes printed is shown before the driver ends; those that do not answer are not waited for.
void await_output(Core& core) {
  constexpr Duration kOutputWait = std::chrono::seconds(2);
  try {
    const wire::JobOutput wanted{core.welcome().job};
    (void)core.requests().call<wire::Empty>(core.daemon(), wire::Method::kJobOutput, wanted, kOutputWait).ok();
  } catch (const Error&) {  // the cluster is gone
  }
}

/// The head lists the job as SUCCEEDED or FAILED by it. A driver that crashes has not said anything: FAILED.
void say_exit_code(Core& core, int code) {
  const wire::JobFinished ended{core.welcome().job, core.self(), code, "its driver has returned"};
  CoreLock lock(core);
  report_metrics(core);
  core.frames().notice(core.daemon(), wire::Method::kJobFinished, ended);
}

/// Of a driver. Kept for good, like the process: a thread that outlives the run may still look at it.
CallContext& kept_context() {
  static std::mutex mutex;
  static auto& kept = *new std::deque<CallContext>;
  std::lock_guard lock(mutex);
  return kept.emplace_back();
}

}  // namespace

int run_driver(const DriverOptions& options, const std::function<int()>& driver) {
  ProcessOptions process_options;
  process_options.hello = driver_hello(options);
  process_options.socket_path = options.socket_path;
  Result<std::unique_ptr<Process>> started = Process::start(std::move(process_options));
  if (!started.ok()) {
    std::fprintf(stderr, "troupe: could not join the cluster: %s\n", started.error().what());
    if (options.stop_cluster) options.stop_cluster();
    return 1;
  }
  Process& process = keep_for_good(*std::move(started));
  Core& core = process.core();
  set_process_runtime(&core);
  CallContext& context = kept_context();
  context.runtime = &core;
  context.is_driver = true;
  context.caller = thread_caller();
  context.name = "driver";
  set_current_context(&context);
  set_driver_context(&context);
  int code = 1;
  int signal = 0;
  {
    SignalWatch watch(core, context, options);
    try {
      code = driver();
    } catch (const CancelledError&) {
      if (!watch.signal()) print_exception();
    } catch (...) {
      print_exception();
    }
    signal = watch.signal();
  }
  set_current_context(nullptr);
  set_driver_context(nullptr);
  if (signal) code = 128 + signal;
  await_output(core);
  say_exit_code(core, code);
  core.begin_shutdown(make_error<CancelledError>("the driver has returned"));
  process.stop();
  set_process_runtime(nullptr);
  if (options.stop_cluster) options.stop_cluster();
  return code;
}

}  // namespace troupe::worker

namespace troupe::detail {

int run_program(int argc, char** argv, const RunOptions& given,
                const std::function<int(std::span<char* const>)>& driver) {
  (void)register_for_barriers();  // before there is a second thread; a launcher's workers have it from it
  freeze_registry();
  node::RoleHooks hooks;
  hooks.worker_main = &worker::worker_main;
  hooks.local_worker_main = &worker::local_worker_main;
  hooks.registry_digest = registry_digest();
  node::enter_internal_role(argc, argv, hooks);
  Result<worker::ParsedRun> parsed = worker::parse_run(argc, argv, given);
  if (!parsed.ok()) {
    std::fprintf(stderr, "troupe: %s\n", parsed.error().message().c_str());
    return 2;
  }
  if (parsed->help) {
    std::fputs(worker::run_help().c_str(), stdout);
    return 0;
  }
  const RunOptions& options = parsed->options;
  if (options.local && !options.address.empty()) {
    std::fputs(
        "troupe: --troupe-local keeps everything in one process and joins no cluster: leave --troupe-address "
        "(TROUPE_ADDRESS) out\n",
        stderr);
    return 2;
  }
  worker::DriverOptions driver_options;
  driver_options.name_space = options.name_space;
  driver_options.log_level = options.log_level;
  driver_options.shutdown_grace = options.shutdown_grace;
  driver_options.argv.assign(argv, argv + argc);
  set_log_level(log_level_of(options.log_level, LogLevel::kInfo));
  std::optional<node::Embedded> embedded;
  if (options.address.empty()) {
    node::EmbeddedOptions node;
    node.node = {.cpus = options.cpus,
                 .gpus = options.gpus,
                 .resources = options.resources,
                 .labels = options.labels,
                 .object_store_memory = options.object_store_memory,
                 .log_level = options.log_level,
                 .call_memory = options.call_memory,
                 .ring_memory = options.ring_memory,
                 .max_suspended_workers = options.max_suspended_workers,
                 .stack_size = options.stack_size};
    Result<node::Embedded> started = options.local ? node::start_local(node, hooks) : node::start_embedded(node);
    if (!started.ok()) {
      std::fprintf(stderr, "troupe: the embedded cluster did not start: %s\n", started.error().what());
      return 1;
    }
    embedded.emplace(*std::move(started));
    driver_options.socket_path = embedded->socket_path();
    driver_options.stop_cluster = [&] { embedded->stop(); };
  } else {
    Result<std::string> socket = node::find_local_daemon(options.address);
    if (!socket.ok()) {
      std::fprintf(stderr, "troupe: %s\n", socket.error().what());
      return 1;
    }
    driver_options.socket_path = *socket;
  }
  parsed->arguments.push_back(nullptr);
  const std::span<char* const> arguments(parsed->arguments.data(), parsed->arguments.size() - 1);
  return worker::run_driver(driver_options, [&] { return driver(arguments); });
}

}  // namespace troupe::detail

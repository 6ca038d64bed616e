#include "apps/datagen/run/dataset_run.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <random>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <troupe/state.h>
#include <troupe/troupe.h>

#include "apps/common/output_file.h"
#include "apps/datagen/config/job.h"
#include "apps/datagen/files/temporaries.h"
#include "apps/datagen/manifest/made_notes.h"
#include "apps/datagen/run/coordinator.h"
#include "apps/datagen/run/run_token.h"
#include "apps/datagen/run/shard_task.h"
#include "apps/datagen/run/window.h"

namespace datagen {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr troupe::Duration kOldTasks = 2s;   // of a run that was killed: they end within moments, or are stopped
// Together below the grace that the runtime gives after Ctrl-C. What is not committed then the next run keeps (CRD-4).
constexpr troupe::Duration kLastCommit = 3s, kOwnTasks = 6s;
constexpr troupe::Duration kLongestCommit = 10min;  // after another failure
constexpr troupe::Duration kBetweenLooks = 200ms;
constexpr troupe::Duration kLook = 1s;  // from one look to the next at most; what is longer has not been spent waiting
constexpr troupe::Duration kSayWhoIsAwaited = 5s;
constexpr int kCoordinatorLives = 100;       // in a minute: each kill costs a few milliseconds

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool any_error(const troupe::TaskError&) { return true; }

/// The same error, with words before its message.
void raise_with(const std::string& words, const troupe::Error& error) {
  troupe::ErrorRecord record = error.record();
  record.message = words + record.message;
  const troupe::ErrorPtr all = troupe::Error::make(std::move(record));
  all->raise();
  std::terminate();  // raise() has thrown: the compiler does not see it behind the pointer
}

/// Another attempt may go well, though the runtime has given up, or does not know of it.
bool worth_another(troupe::ErrorCode code) {
  switch (code) {
    case troupe::ErrorCode::kDeadlineExceeded:
    case troupe::ErrorCode::kObjectLost:
    case troupe::ErrorCode::kOwnerDied:
    case troupe::ErrorCode::kNodeDied: return true;
    default: return false;
  }
}

struct OpenShard {
  troupe::ObjectRef<ShardOutcome> ref;
  std::uint64_t shard = 0;
  std::uint64_t tries = 0;  ///< before this one, by the driver
};

}  // namespace

class DatasetRun::Impl {
 public:
  Impl(fs::path out, DatasetFolder dataset, const RunSettings& settings, RunEvents events)
      : out_(std::move(out)), dataset_(std::move(dataset)), settings_(settings), events_(std::move(events)) {}

  void run() {
    const auto started = Clock::now();
    try {
      begin();
      report_.start_seconds = seconds_since(started);
      started_ = Clock::now();
      while (step()) {}
      report_.seconds = seconds_since(started_);
      end();
      const auto committed = Clock::now();
      finish();
      report_.finish_seconds = seconds_since(committed);
    } catch (const troupe::Error& error) {
      const troupe::ErrorPtr kept = troupe::Error::make(error.record());
      abandon();
      look_who_goes_on(*kept);
      kept->raise();
    } catch (...) {  // of a generator, a format or whoever listens to the events
      abandon();
      throw;
    }
  }
  [[nodiscard]] const RunReport& report() const { return report_; }

 private:
  void begin();
  void ask_nodes();
  void begin_token();
  void count_orphans();
  bool step();
  void send_shards();
  void send(std::uint64_t shard, std::uint64_t tries);
  void send_group();
  template <class T>
  T answer_of(const troupe::ObjectRef<T>& ref);
  void begin_patience();
  void look_after_coordinator();
  void wait_for_some();
  void take(OpenShard open);
  void take_answer();
  void abandon();
  void say(const std::string& text);
  void look_who_goes_on(const troupe::Error& failed);
  void end();
  void or_note(const char* what, const std::function<void()>& make);
  void finish();

  /// What the runtime begins of a task at most: `retries` after crashes and what is thrown, as many for want of memory.
  [[nodiscard]] std::uint64_t attempts_a_try() const { return 2 * settings_.retries + 1; }
  [[nodiscard]] bool is_done(std::uint64_t shard) const { return (done_[shard / 64] >> (shard % 64) & 1) != 0; }
  [[nodiscard]] std::string shard_words(std::uint64_t shard) {
    return fmt::format("shard {} of {}, {}: ", shard, report_.shards, job_->format().shard_name(job_->shard(shard)));
  }

  fs::path out_;
  DatasetFolder dataset_;
  RunSettings settings_;
  RunEvents events_;
  RunReport report_;
  std::optional<Job> job_;
  std::optional<RunToken> token_;
  std::uint64_t run_ = 0;          // a number that no other run has
  std::optional<std::uint64_t> epoch_before_;  // the newest one when it began
  std::set<std::string> folders_;  // of shards, below out_
  troupe::ActorHandle<Coordinator> coordinator_;
  RunPlace place_;
  troupe::ObjectRef<RunPlace> place_ref_;
  troupe::TaskFunction<&make_shard> task_;
  std::optional<Window> window_;
  std::vector<std::uint64_t> done_;
  std::unordered_map<std::uint64_t, Digest> committed_;  // of shards whose files are damaged or gone
  std::uint64_t next_ = 0;           // shard to look at
  std::vector<OpenShard> open_;
  std::vector<CommitEntry> made_;    // and not sent to the coordinator
  std::vector<CommitEntry> sent_;    // and not answered
  troupe::ObjectRef<std::uint64_t> answer_;
  troupe::Duration patience_ = settings_.commit_timeout, waited_{};  // DRN-4
  Clock::time_point looked_;
  bool abandoning_ = false;
  Clock::time_point started_;
};

void DatasetRun::Impl::begin() {
  job_.emplace(Job::make(dataset_.config).value());
  const Plan& plan = dataset_.config.plan;
  report_.shards = plan.shards();
  check_machine(dataset_.config).value();  // this one makes the generator's check, also where no shard is left to make
  for (std::uint64_t shard = 0; shard < report_.shards; ++shard)
    folders_.insert(fs::path(job_->format().shard_name(job_->shard(shard))).parent_path().string());
  const std::string home = troupe::runtime_context().node_id;
  std::random_device random;
  run_ = std::uint64_t{random()} << 32 | random();
  epoch_before_ = newest_epoch(out_ / "manifest").value().epoch;
  const CoordinatorOptions options{.config = dataset_.config.canonical(),
                                   .out = out_.string(),
                                   .run = run_,
                                   .epoch_before = *epoch_before_};
  coordinator_ = troupe::actor<Coordinator>
                     .options({.max_restarts = kCoordinatorLives,
                               .restart_backoff = {.initial = 5ms},
                               .max_task_retries = kCoordinatorLives,
                               .scheduling = troupe::NodeAffinity{.node_id = home}})
                     .remote(options);
  report_.first_epoch = answer_of(coordinator_.call<&Coordinator::epoch>());
  begin_token();
  const RunStart start = answer_of(
      coordinator_.call<&Coordinator::begin>(std::vector<std::string>(folders_.begin(), folders_.end())));
  for (const std::string& note : start.notes) events_.note(note);
  done_ = start.done;
  report_.shards_before = start.shards;
  report_.rows = start.rows;
  report_.bytes = start.bytes;
  report_.wasted_shards = start.temporaries;
  for (const ShardRecord& record : start.damaged) committed_.emplace(*plan.shard_of(record.range), record.sha256);
  count_orphans();
  place_ = {.config = options.config,
            .out = options.out,
            .token = token_->words(),
            .home = home,
            .epoch = report_.first_epoch};
  if (report_.shards_done() == report_.shards) return;
  place_ref_ = troupe::put(place_);
  ask_nodes();

  const double cpus = std::max(1.0, troupe::cluster_resources()["CPU"]);
  const std::uint64_t workers = settings_.workers > 0 ? settings_.workers : static_cast<std::uint64_t>(cpus);
  window_.emplace(WindowSettings{.workers = workers,
                                 .open_bytes = settings_.open_bytes,
                                 .ahead = static_cast<double>(workers) >= cpus});
  task_ = troupe::task<&make_shard>.options(
      {.name = "make_shard",
       .resources = {.cpus = std::min(1.0, cpus / static_cast<double>(workers))},
       .retry = {.max_retries = static_cast<int>(settings_.retries),
                 .max_oom_retries = static_cast<int>(settings_.retries),
                 .retry_error = &any_error},
       .timeout = settings_.shard_timeout});
}

void DatasetRun::Impl::begin_token() {
  auto token = RunToken::create(out_, report_.first_epoch, kOldTasks);
  token_.emplace(*std::move(token));
}

/// Each node says whether it shares the folder, and whether it makes the same bytes.
void DatasetRun::Impl::ask_nodes() {
  std::vector<troupe::ObjectRef<NodeAnswer>> answers;
  std::vector<std::string> asked;
  for (const troupe::NodeRow& node : troupe::nodes()) {
    if (node.state != "ALIVE") continue;
    asked.push_back(node.node_id);
    answers.push_back(troupe::task<&answer_for_node>
                          .options({.resources = {.cpus = 0},
                                    .scheduling = troupe::NodeAffinity{.node_id = node.node_id},
                                    .retry = {.max_oom_retries = static_cast<int>(settings_.retries)}})
                          .remote(place_ref_));
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto& ref = answers[i];
    // No deadline: a generator may load as long as it likes. Whoever waits is told for whom.
    for (bool said = false; troupe::wait({ref}, {.num_returns = 1, .timeout = kSayWhoIsAwaited}).ready.empty();
         said = true)
      if (!said) events_.note(fmt::format("waiting for node {} to make the generator ready", asked[i]));
    const auto answer = troupe::try_get(ref);
    if (!answer.ok()) {
      if (answer.error().code() != troupe::ErrorCode::kNodeDied &&
          answer.error().code() != troupe::ErrorCode::kInfeasible)
        answer.error().raise();
      events_.note(fmt::format("a node went away before the run: {}", answer.error().message()));
      continue;
    }
    if (!answer->problem.empty())
      throw troupe::RuntimeEnvError(fmt::format("node {}: {}", answer->node, answer->problem));
    if (answer->shared) continue;
    if (answer->node == place_.home)
      throw troupe::RuntimeEnvError(fmt::format("worker processes of this machine do not see {}", out_.string()));
    events_.note(fmt::format("node {} does not share {}: its shards travel through the store", answer->node,
                             out_.string()));
  }
}

/// Whole files of shards that no commit tells of: the run before made them, and they are made again.
void DatasetRun::Impl::count_orphans() {
  if (report_.first_epoch == 1) return;
  for (std::uint64_t shard = 0; shard < report_.shards; ++shard) {
    std::error_code error;
    if (!is_done(shard) && !committed_.contains(shard) &&
        fs::exists(out_ / job_->format().shard_name(job_->shard(shard)), error))
      ++report_.wasted_shards;
  }
}

/// False: everything is committed.
bool DatasetRun::Impl::step() {
  if (report_.shards_done() == report_.shards) return false;
  send_shards();
  send_group();
  wait_for_some();
  report_.seconds = seconds_since(started_);
  events_.progress(report_);
  return true;
}

void DatasetRun::Impl::send_shards() {
  const std::size_t most = window_->open_max();
  while (next_ < report_.shards && open_.size() + made_.size() + sent_.size() < most) {
    if (!is_done(next_)) send(next_, 0);
    ++next_;
  }
}

void DatasetRun::Impl::send(std::uint64_t shard, std::uint64_t tries) {
  // The runtime numbers its attempts from 0 each time; names of temporaries tell them all apart.
  const auto first = static_cast<std::uint32_t>(tries * attempts_a_try());
  const auto committed = committed_.find(shard);
  const ShardOrder order{.shard = shard,
                         .first_attempt = first,
                         .committed = committed == committed_.end() ? std::nullopt : std::optional(committed->second)};
  open_.push_back({.ref = task_.remote(place_ref_, order),
                   .shard = shard,
                   .tries = tries});
}

/// One group is under way at a time: while it is committed, the next one gathers.
void DatasetRun::Impl::send_group() {
  if (answer_ || made_.empty()) return;
  sent_ = std::exchange(made_, {});
  answer_ = coordinator_.call<&Coordinator::commit>(sent_, report_.first_epoch);
  begin_patience();
}

/// What the coordinator says before there are shards. DRN-4.
template <class T>
T DatasetRun::Impl::answer_of(const troupe::ObjectRef<T>& ref) {
  begin_patience();
  while (troupe::wait({ref}, {.num_returns = 1, .timeout = kBetweenLooks}).ready.empty()) look_after_coordinator();
  return troupe::get(ref);
}

void DatasetRun::Impl::begin_patience() {
  waited_ = {};
  looked_ = Clock::now();
}

/// DRN-4. While it is waited for.
void DatasetRun::Impl::look_after_coordinator() {
  const auto now = Clock::now();
  waited_ += std::min<troupe::Duration>(now - std::exchange(looked_, now), kLook);  // we may have stood still ourselves
  if (waited_ < patience_) return;
  events_.note(fmt::format("the coordinator has not answered for {:.3g} s: another one takes its place",
                           std::chrono::duration<double>(patience_).count()));
  troupe::kill(coordinator_, {.restart = true});
  if (patience_ < troupe::kForever / 2) patience_ *= 2;
  waited_ = {};
}

void DatasetRun::Impl::wait_for_some() {
  std::vector<troupe::AnyRef> refs;
  refs.reserve(open_.size() + 1);
  if (answer_) refs.emplace_back(answer_);
  for (const OpenShard& open : open_) refs.emplace_back(open.ref);
  auto first = troupe::wait(refs, {.num_returns = 1, .timeout = kBetweenLooks});
  if (answer_ && first.ready.empty()) look_after_coordinator();
  if (first.ready.empty()) return;
  if (!first.pending.empty()) {  // whatever else is there already
    auto more = troupe::wait(first.pending, {.num_returns = first.pending.size(), .timeout = troupe::Duration::zero()});
    first.ready.insert(first.ready.end(), more.ready.begin(), more.ready.end());
  }
  std::set<const void*> ready;
  for (const troupe::AnyRef& ref : first.ready) ready.insert(ref.pointer().get());
  if (answer_ && ready.contains(troupe::AnyRef(answer_).pointer().get())) take_answer();
  if (answer_) look_after_coordinator();
  std::vector<OpenShard> taken;
  const auto is_ready = [&](const OpenShard& open) { return ready.contains(troupe::AnyRef(open.ref).pointer().get()); };
  for (OpenShard& open : open_)
    if (is_ready(open)) taken.push_back(open);
  std::erase_if(open_, is_ready);
  for (OpenShard& open : taken) take(std::move(open));
}

void DatasetRun::Impl::take(OpenShard open) {
  const auto outcome = troupe::try_get(open.ref);
  if (!outcome.ok()) {
    const troupe::Error& error = outcome.error();
    if (worth_another(error.code()) && open.tries < settings_.retries) {
      ++report_.retries;
      ++report_.wasted_shards;
      events_.note(shard_words(open.shard) + error.message() + "; another attempt");
      return send(open.shard, open.tries + 1);
    }
    return raise_with(shard_words(open.shard), error);
  }
  const ShardRecord& record = outcome->record;
  window_->finished(outcome->seconds, record.bytes);
  report_.shard_seconds.push_back(static_cast<float>(outcome->seconds));
  report_.retries += record.attempt - open.tries * attempts_a_try();
  report_.wasted_shards += outcome->wasted;
  // the tries before were counted as they ended, and how many rows a shard has is known only now
  report_.wasted_rows += outcome->was_there ? record.rows : (open.tries + outcome->wasted) * record.rows;
  if (outcome->travelled) ++report_.travelled;
  ++report_.shards_of_node[outcome->node];
  made_.push_back({.record = record,
                   .folder_synced = outcome->folder_synced,
                   .travelled = outcome->travelled,
                   .bytes = outcome->bytes});
}

void DatasetRun::Impl::take_answer() {
  (void)troupe::get(answer_);
  answer_ = {};
  ++report_.commits;
  for (const CommitEntry& entry : std::exchange(sent_, {})) {
    ++report_.shards_made;
    report_.samples_made += entry.record.range.size();
    report_.rows_made += entry.record.rows;
    report_.bytes_made += entry.record.bytes;
    report_.rows += entry.record.rows;
    report_.bytes += entry.record.bytes;
  }
}

/// After a failure or Ctrl-C: what is made is committed, as far as that goes, and nothing is left behind (DRN-1).
void DatasetRun::Impl::abandon() {
  if (started_ != Clock::time_point() && report_.shards_done() < report_.shards)
    report_.seconds = seconds_since(started_);
  abandoning_ = true;
  try {
    for (const OpenShard& open : open_) troupe::cancel(open.ref, {.force = true});
    open_.clear();
    const auto deadline =
        Clock::now() + (troupe::runtime_context().cancelled() ? kLastCommit : std::min(patience_, kLongestCommit));
    while (answer_ || !made_.empty()) {
      send_group();
      const auto left = std::max(deadline - Clock::now(), Clock::duration::zero());
      if (troupe::wait({answer_}, {.num_returns = 1, .timeout = left}).ready.empty()) break;
      take_answer();
    }
  } catch (const troupe::Error&) {  // the first error is the one to tell
  }
  try {
    end();
  } catch (const troupe::Error& error) { say(error.message()); }
}

/// A note. While a run is being abandoned the first error is the one to tell, whoever listens.
void DatasetRun::Impl::say(const std::string& text) {
  try {
    events_.note(text);
  } catch (...) {
    if (!abandoning_) throw;
  }
}

/// A run that was taken over from may fail by anything: what it needs is removed or replaced under its hands.
void DatasetRun::Impl::look_who_goes_on(const troupe::Error& failed) {
  const auto newest = newest_epoch(out_ / "manifest");
  report_.taken_over = epoch_before_ && newest.ok() && newest->epoch > *epoch_before_ && newest->run != run_;
  if (report_.taken_over && failed.code() != troupe::ErrorCode::kCancelled &&
      failed.message().find("taken over") == std::string::npos)
    throw troupe::RuntimeEnvError(fmt::format("another run has taken over {} ({})", out_.string(), failed.message()));
}

void DatasetRun::Impl::end() {
  std::optional<troupe::ErrorPtr> interrupted;
  try {
    if (coordinator_) troupe::kill(std::exchange(coordinator_, {}));
  } catch (const troupe::CancelledError& error) {  // it is killed all the same
    interrupted = troupe::Error::make(error.record());
  } catch (const troupe::GetTimeoutError&) {  // the head is gone, which keeps it
  }
  if (!token_) {
    if (interrupted) (*interrupted)->raise();
    return;
  }
  try {
    if (!token_->close(kOwnTasks))
      say("a task of this run is still busy: the next run removes what it leaves");
  } catch (const troupe::CancelledError& error) { interrupted = troupe::Error::make(error.record()); }
  token_.reset();
  std::set<fs::path> folders;
  for (const std::string& folder : folders_) folders.insert(out_ / folder);
  (void)sweep_temporaries(folders, report_.first_epoch).value();
  if (interrupted) (*interrupted)->raise();
}

/// What is beside a data set that is whole: it would fail again whenever the data set goes on.
void DatasetRun::Impl::or_note(const char* what, const std::function<void()>& make) {
  std::string why;
  try {
    return make();
  } catch (const troupe::CancelledError&) {
    throw;
  } catch (const std::exception& error) { why = error.what(); }
  events_.note(fmt::format("{}: {}", what, why));
}

void DatasetRun::Impl::finish() {
  const ReadManifest read = read_shards(out_, dataset_, ShardNames::make(dataset_.config)).value();
  if (read.manifest.size() != report_.shards)
    throw troupe::SerializationError(fmt::format("the manifest has {} shards of {} after the last commit",
                                                 read.manifest.size(), report_.shards));
  const auto generator = job_->generator().make(job_->context()).value();
  FinishedDataset finished{.folder = out_,
                           .name = dataset_.name,
                           .schema = std::make_shared<const Schema>(generator->schema()),
                           .shards = {}};
  for (const ShardRecord& record : read.manifest.in_order())
    finished.shards.push_back({.name = record.name, .range = record.range, .rows = record.rows, .bytes = record.bytes});
  report_.files = job_->format().finish_dataset(finished).value();
  or_note("preview.png was not made", [&] {
    const std::string picture = job_->generator().picture(job_->context()).value();
    if (picture.empty()) return;
    apps::write_file(out_ / "preview.png", picture).value();
    report_.files.emplace_back("preview.png");
  });
  or_note("the samples could not be checked",
          [&] { report_.check_line = job_->generator().check_line(job_->context()).value(); });
  report_.digest = hex(read.manifest.digest());
  remove_made(out_ / "manifest", report_.first_epoch);
  events_.progress(report_);
}

DatasetRun::DatasetRun(fs::path out, DatasetFolder dataset, const RunSettings& settings, RunEvents events)
    : impl_(std::make_unique<Impl>(std::move(out), std::move(dataset), settings, std::move(events))) {}
DatasetRun::~DatasetRun() = default;

void DatasetRun::run() { impl_->run(); }
const RunReport& DatasetRun::report() const { return impl_->report(); }

}  // namespace datagen

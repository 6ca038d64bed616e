#include "apps/train/elastic/elastic.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::train {

namespace {

/// What a rank says when a group is formed.
std::vector<RankHeader> exchange(collective::Group& g, const RankHeader& own) {
  constexpr std::size_t kNumbers = sizeof(RankHeader) / sizeof(std::int64_t);
  std::vector<std::int64_t> mine(kNumbers), all(kNumbers * std::size_t(g.size()));
  std::memcpy(mine.data(), &own, sizeof own);
  g.all_gather(mine, all);
  std::vector<RankHeader> headers(static_cast<std::size_t>(g.size()));
  std::memcpy(static_cast<void*>(headers.data()), all.data(), all.size() * sizeof(std::int64_t));
  return headers;
}

/// One rank's word for what went wrong there, on all ranks; an empty one: nothing.
Status agree(collective::Group& g, const Status& own, int of = 0) {
  constexpr std::size_t kWords = 512;
  std::vector<std::uint8_t> text(kWords);
  if (g.rank() == of && !own.ok()) {
    const std::string& message = own.error().message();
    text[0] = std::uint8_t(own.error().code());
    std::memcpy(text.data() + 1, message.data(), std::min(message.size(), kWords - 2));
  }
  g.broadcast(text, of);
  if (text[0] == 0) return {};
  if (g.rank() == of) return own;
  return Error::make({ErrorCode(text[0]),
                      "rank " + std::to_string(of) + ": " + reinterpret_cast<const char*>(text.data() + 1),
                      {},
                      {},
                      {},
                      Outcome::kUnknown,
                      {}});
}

}  // namespace

template <class T>
Result<ElasticOutcome> ElasticRun<T>::run(collective::Group group) {
  for (int failures = 0;;) {
    Result<Next> next = run_in(group);
    if (next.ok() && *next == Next::kDone) {
      outcome_.steps = trainer_->steps_done();
      return outcome_;
    }
    if (!next.ok()) {
      if (next.error().code() != ErrorCode::kCollective || !options_.regroup) return next.error_ptr();
      why_ = next.error().message();
      if (++failures > options_.failures_max) return next.error_ptr();
    }
    try {
      auto formed = options_.regroup(group);
      if (!formed.ok()) return formed.error_ptr();
      group = *formed;
    } catch (const Error& error) { return Error::make(error.record()); }
  }
}

/// One group's life.
template <class T>
auto ElasticRun<T>::run_in(collective::Group group) -> Result<Next> {
  try {
    trainer_->bind(std::move(group));
    if (Status status = synchronize(); !status.ok()) return status.error_ptr();
    commits_.commit(*trainer_);  // EL-5
    return train();
  } catch (const CollectiveError& error) { return error; }
}

template <class T>
Status ElasticRun<T>::synchronize() {
  const Zero zero = trainer_->options().zero;
  RankHeader own = commits_.header(trained_);
  own.resumes = options_.resume ? 1 : 0;
  if (folder_)
    if (const auto steps = folder_->steps(); !steps.empty()) own.on_disk = steps.back();
  const std::vector<RankHeader> headers = exchange(trainer_->group(), own);
  if (const auto choice = choose_commit(headers, zero)) {
    commits_.restore(*trainer_, *choice);
    trained_ = true;
    report(Recovery::From::kCommit, "goes on from the commit of step " + std::to_string(choice->name.step));
    return {};
  }
  const bool lost = std::ranges::any_of(headers, [](const RankHeader& header) { return header.trained != 0; });
  // EL-1
  const bool resumes = std::ranges::any_of(headers, [](const RankHeader& header) { return header.resumes != 0; });
  const bool late = std::ranges::all_of(headers, [](const RankHeader& header) { return header.resumes != 0; });
  // A state that nobody has trained yet can be made again (EL-6); ranks that came late, alone, know of one that they
  // cannot make.
  if (lost || resumes) return from_disk(lost || (late && !folder_), headers);
  if (Status status = trainer_->start(); !status.ok()) return status;
  report(Recovery::From::kStart, "begins");
  return {};
}

/// The newest good one of this rank's disk.
template <class T>
Result<Snapshot<T>> ElasticRun<T>::load(bool lost, std::vector<std::string>& passed_over) const {
  auto loaded = folder_->load_newest<T>(trainer_->model().layout(), setting_of(*trainer_), &passed_over);
  if (loaded.ok() || !lost) return loaded;
  return ObjectLostError(
      "a shard and its copy in the partner's memory are both lost, and there is no checkpoint to go back to: " +
      loaded.error().message());
}

/// The rank with the newest checkpoint reads it, all take over what it has read (EL-3).
template <class T>
Status ElasticRun<T>::from_disk(bool lost, const std::vector<RankHeader>& headers) {
  collective::Group& g = trainer_->group();
  Status first;
  for (const int reader : checkpoint_readers(headers)) {
    Snapshot<T> snapshot;
    std::vector<std::string> passed_over;
    Status status;
    if (g.rank() == reader) {
      auto loaded = load(lost, passed_over);
      if (loaded.ok()) snapshot = std::move(*loaded);
      else status = loaded.error_ptr();
    }
    if (Status agreed = agree(g, status, reader); !agreed.ok()) {
      if (first.ok()) first = agreed;
      continue;
    }
    scatter_snapshot(*trainer_, snapshot, reader);
    trained_ = trained_ || lost;
    std::string text =
        lost ? "a shard and its copy in the partner's memory are both lost: goes back to the checkpoint of step "
             : "resumes the checkpoint of step ";
    text += std::to_string(trainer_->steps_done());
    for (const std::string& damaged : passed_over) text += "; passed over: " + damaged;
    report(Recovery::From::kCheckpoint, text);
    return {};
  }
  if (!first.ok() && first.error().code() != ErrorCode::kNotFound) return first;
  if (lost)
    return ObjectLostError(
        std::string(
            "a shard and its copy in the partner's memory are both lost, and there is no checkpoint to go back to") +
        (folder_ ? "" : ": no folder for checkpoints was named"));
  if (Status started = trainer_->start(); !started.ok()) return started;
  report(Recovery::From::kStart, "begins: there is no checkpoint to resume");
  return {};
}

template <class T>
auto ElasticRun<T>::train() -> Result<Next> {
  while (trainer_->steps_done() < options_.total_steps) {
    auto metrics = trainer_->step({.stop = options_.stop && trainer_->group().rank() == 0 && options_.stop()});
    if (!metrics.ok()) {
      const ErrorPtr error = metrics.error_ptr();
      const auto* diverged = dynamic_cast<const DivergedError*>(error.get());
      return diverged != nullptr && folder_ ? stopped_with_checkpoint(*diverged) : error;
    }
    trained_ = true;
    reached_ = std::max(reached_, metrics->step);
    if (options_.on_step) options_.on_step(*metrics);
    if (metrics->stop) {
      outcome_.stopped = true;
      break;
    }
    const bool last = trainer_->steps_done() == options_.total_steps;
    if (!last && folder_ && is_due(options_.checkpoint_every))
      if (Status saved = checkpoint(true); !saved.ok())  // EL-7
        warn("the checkpoint of step " + std::to_string(trainer_->steps_done()) +
             " was not written, training goes on: " + saved.error().message());
    if (last || !is_due(options_.commit_every)) continue;
    commits_.commit(*trainer_);
    if (options_.newcomer && ask(trainer_->group().rank() == 0 && options_.newcomer()) != 0) {
      why_.clear();
      return Next::kRegroup;  // EL-4
    }
  }
  if (folder_)
    if (Status saved = checkpoint(true); !saved.ok()) return saved.error_ptr();
  trainer_->group().barrier();  // nobody leaves while another may still need it
  return Next::kDone;
}

/// The error that ends the run, with what is left of it. Where nothing could be saved it says that, too.
template <class T>
ErrorPtr ElasticRun<T>::stopped_with_checkpoint(const DivergedError& diverged) {
  const std::string at = std::to_string(trainer_->steps_done());
  const Status saved = checkpoint(false);
  const std::string kept = saved.ok() ? "; the parameters before it are in the checkpoint of step " + at
                                      : "; the checkpoint of step " + at + " failed: " + saved.error().message();
  return make_error<DivergedError>(diverged.step(), diverged.loss(), diverged.message() + kept);
}

template <class T>
Status ElasticRun<T>::checkpoint(bool scored) {
  const std::optional<double> score = scored && options_.score ? options_.score() : std::nullopt;
  const Snapshot<T> snapshot = gather_snapshot(*trainer_);
  Status status;
  if (trainer_->group().rank() == 0)
    status = folder_->save(trainer_->model().layout(), snapshot, setting_of(*trainer_), score);
  return agree(trainer_->group(), status);
}

template <class T>
void ElasticRun<T>::warn(const std::string& text) const {
  if (options_.on_warning) options_.on_warning(text);
}

/// Rank 0's answer, on all ranks.
template <class T>
std::int64_t ElasticRun<T>::ask(std::int64_t answer) {
  std::array<std::int64_t, 1> word{answer};
  trainer_->group().broadcast(word, 0);
  return word[0];
}

template <class T>
void ElasticRun<T>::report(Recovery::From from, const std::string& text) {
  const std::int64_t step = trainer_->steps_done();
  Recovery recovery{.from = from,
                    .ranks = trainer_->group().size(),
                    .step = step,
                    .lost_steps = std::max<std::int64_t>(0, reached_ - step),
                    .why = why_,
                    .text = text};
  reached_ = step;
  if (options_.on_recovery) options_.on_recovery(recovery);
  outcome_.recoveries.push_back(std::move(recovery));
}

template class ElasticRun<float>;
template class ElasticRun<double>;

}  // namespace troupe::train

#include "apps/train/trainer/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/optimizer/optimizer.h"

namespace troupe::train {

namespace {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Status check(const TrainerOptions& o) {
  if (Status schedule = check(o.schedule); !schedule.ok()) return schedule;
  if (o.max_norm < 0) return InvalidArgumentError("the greatest norm of the gradient is negative");
  if (o.buckets.first_bytes == 0 || o.buckets.bytes == 0) return InvalidArgumentError("a bucket of no bytes");
  const OptimizerOptions& opt = o.optimizer;
  const auto share = [](double v) { return v >= 0 && v < 1; };
  if (!share(opt.beta1) || !share(opt.beta2) || !share(opt.momentum))
    return InvalidArgumentError("betas and momentum lie in [0, 1)");
  if (opt.weight_decay < 0 || opt.epsilon < 0) return InvalidArgumentError("weight decay and epsilon are not negative");
  return {};
}

Status check_layout(const Layout& layout, std::size_t count) {
  std::size_t at = 0;
  for (const Tensor& tensor : layout) {
    if (tensor.offset != at) return InvalidArgumentError("the layout has a gap before " + tensor.name);
    at += tensor.size;
  }
  if (at != count || count == 0)
    return InvalidArgumentError("the layout holds " + std::to_string(at) + " parameters, the model " +
                                std::to_string(count));
  return {};
}

/// Adds the time since its making to a sum.
class Stopwatch {
 public:
  Stopwatch(const std::function<double()>& clock, double& sum) : clock_(clock), sum_(sum), begun_(clock()) {}
  ~Stopwatch() { sum_ += clock_() - begun_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  const std::function<double()>& clock_;
  double& sum_;
  double begun_;
};

}  // namespace

/// A step under way. The works come last: they are waited for before the memory that they use is gone.
template <class T>
struct Trainer<T>::Running {
  explicit Running(const BucketPlan& plan) : gate(plan) {}
  StepMetrics metrics;
  BucketGate gate;
  double divisor = 0;
  std::vector<std::uint64_t> rows;
  std::array<double, 4> totals{};  // loss, counted, correct, ranks that ask to stop
  std::vector<collective::Work> works;
};

template <class T>
Trainer<T>::Trainer(Model<T>& model, Loader loader, Sampler sampler, TrainerOptions options)
    : model_(&model),
      loader_(std::move(loader)),
      sampler_(std::move(sampler)),
      options_(std::move(options)),
      count_(model.parameter_count()),
      watch_(options_.watch) {
  if (!options_.clock) options_.clock = steady_seconds;
}

template <class T>
Result<std::unique_ptr<Trainer<T>>> Trainer<T>::create(Model<T>& model, Loader loader, Sampler sampler,
                                                       TrainerOptions options) {
  if (Status status = check(options); !status.ok()) return status.error_ptr();
  if (Status status = check_layout(model.layout(), model.parameter_count()); !status.ok()) return status.error_ptr();
  if (!loader) return InvalidArgumentError("no loader");
  return std::unique_ptr<Trainer>(new Trainer(model, std::move(loader), std::move(sampler), std::move(options)));
}

template <class T>
void Trainer<T>::bind(collective::Group group) {
  whole_ = false;
  step_ended_.reset();
  group_ = std::move(group);
  plan_ = ShardPlan({.count = count_,
                     .element_bytes = sizeof(T),
                     .ranks = group_.size(),
                     .rank = group_.rank(),
                     .zero = options_.zero,
                     .buckets = options_.buckets});
  const std::size_t padded = plan_.buckets().padded;
  parameters_.resize(count_);  // first down to what means something: padding is zero (BK-3)
  parameters_.resize(padded);
  gradients_.assign(padded, T(0));
  moments_[0].assign(plan_.shard_size(), T(0));
  moments_[1].assign(options_.optimizer.rule == Rule::kAdamW ? plan_.shard_size() : 0, T(0));
  pieces_.clear();
  for (std::size_t b = 0; b < plan_.buckets().buckets.size(); ++b) pieces_.push_back(plan_.pieces(b, model_->layout()));
}

template <class T>
Status Trainer<T>::start() {
  if (group_.rank() == 0) model_->initialize(options_.seed, mutable_parameters());
  try {
    group_.broadcast(mutable_parameters(), 0);
  } catch (const CollectiveError& error) { return error; }
  restored(0, {});
  return {};
}

template <class T>
void Trainer<T>::install_moments(std::size_t which, std::size_t flat_begin, std::span<const T> values) {
  plan_.each_shared({flat_begin, flat_begin + values.size()}, [&](std::size_t from, std::size_t to, std::size_t size) {
    std::copy_n(values.begin() + std::ptrdiff_t(from), size, moments_[which].begin() + std::ptrdiff_t(to));
  });
}

template <class T>
void Trainer<T>::restored(std::int64_t steps_done, const DivergenceWatch::State& watch) {
  steps_done_ = steps_done;
  watch_.restore(watch);
  whole_ = true;
}

// ---------------------------------------------------------------------------------------------------------------------
// a step

template <class T>
Result<StepMetrics> Trainer<T>::step(StepOptions options) {
  if (!whole_) return InvalidArgumentError("the trainer has no whole state: start it, or restore one");
  try {
    return run_step(options);
  } catch (const CollectiveError& error) {
    whole_ = false;
    return error;
  } catch (const DivergedError& error) { return error; } catch (const std::exception& error) {
    whole_ = false;
    group_.abort(std::string("rank ") + std::to_string(group_.rank()) +
                 " threw in a step: " + error.what());  // the others wait for it
    throw;
  }
}

template <class T>
StepMetrics Trainer<T>::run_step(StepOptions options) {
  Running run(plan_.buckets());
  StepMetrics& metrics = run.metrics;
  run.totals[3] = options.stop ? 1 : 0;
  if (step_ended_) metrics.seconds.between = now() - *step_ended_;
  {
    Stopwatch total(options_.clock, metrics.seconds.total);
    tell(Event::kStepBegins);
    accumulate(run);
    metrics.gradient_norm = norm(run);
    metrics.counted = std::uint64_t(run.totals[1]);
    metrics.correct = std::uint64_t(run.totals[2]);
    metrics.stop = run.totals[3] > 0;
    metrics.loss = run.totals[1] > 0 ? run.totals[0] / run.totals[1] : 0;
    metrics.step = steps_done_ + 1;
    watch_.observe(metrics.step, metrics.loss, metrics.gradient_norm).value();
    update(run, metrics.gradient_norm);
    ++steps_done_;
  }
  step_ended_ = now();
  tell(Event::kStepEnds);
  return metrics;
}

/// How many targets the whole global batch counts.
template <class T>
double Trainer<T>::divisor(Running& run) {
  if (options_.targets_per_row != 0) return double(sampler_.batch() * options_.targets_per_row);
  std::array<std::int64_t, 1> counted{};
  if (!run.rows.empty()) {
    Stopwatch input(options_.clock, run.metrics.seconds.input);
    counted[0] = std::ranges::count_if(loader_(run.rows).targets, [](std::int32_t target) { return target >= 0; });
  }
  Stopwatch waiting(options_.clock, run.metrics.seconds.communication);
  group_.all_reduce(counted);
  run.metrics.bytes.control += 2.0 * (group_.size() - 1) / group_.size() * sizeof counted;
  return double(std::max<std::int64_t>(counted[0], 1));
}

template <class T>
void Trainer<T>::accumulate(Running& run) {
  sampler_.rows(steps_done_, part_of(sampler_.batch(), group_.rank(), group_.size()), run.rows);
  run.metrics.rows = run.rows.size();
  run.divisor = divisor(run);
  {
    Stopwatch compute(options_.clock, run.metrics.seconds.compute);
    std::fill(gradients_.begin(), gradients_.end(), T(0));
  }
  const std::size_t all = run.rows.size(),
                    at_once = options_.micro_rows == 0 ? std::max<std::size_t>(all, 1) : options_.micro_rows;
  for (std::size_t begin = 0; begin < all; begin += at_once) {
    const std::size_t end = std::min(all, begin + at_once);
    Batch batch;
    {
      Stopwatch input(options_.clock, run.metrics.seconds.input);
      batch = loader_(std::span<const std::uint64_t>(run.rows).subspan(begin, end - begin));
    }
    const Loss loss = backward(run, batch, end == all);
    run.totals[0] += loss.sum, run.totals[1] += double(loss.counted), run.totals[2] += double(loss.correct);
  }
  tell(Event::kBackwardEnds);
  release(run, 0);  // a rank without rows has had no backward pass
  Stopwatch waiting(options_.clock, run.metrics.seconds.communication);
  run.works.push_back(group_.all_reduce_async(run.totals));
  run.metrics.bytes.control += 2.0 * (group_.size() - 1) / group_.size() * sizeof run.totals;
  for (collective::Work& work : run.works) work.wait();
  run.works.clear();
  tell(Event::kReduced);
}

template <class T>
Loss Trainer<T>::backward(Running& run, const Batch& batch, bool last) {
  Stopwatch compute(options_.clock, run.metrics.seconds.compute);
  FinalFrom final_from;
  if (last) final_from = [&](std::size_t offset) { release(run, offset); };  // TR-3
  return model_->step(batch, parameters(), std::span<T>(gradients_).first(count_), run.divisor, final_from);
}

/// Sends off the buckets that are complete.
template <class T>
void Trainer<T>::release(Running& run, std::size_t offset) {
  const double others = double(group_.size() - 1) / group_.size();
  const auto [first, last] = run.gate.final_from(offset);
  for (std::size_t b = first; b < last; ++b) {
    const FlatRange whole = plan_.buckets().buckets[b];
    if (plan_.sharded()) {
      const FlatRange own = plan_.part(b);
      run.works.push_back(group_.reduce_scatter_async(std::span<const T>(gradients_).subspan(whole.begin, whole.size()),
                                                      std::span<T>(gradients_).subspan(own.begin, own.size())));
      run.metrics.bytes.gradients += others * double(whole.size() * sizeof(T));
    } else {
      const std::size_t size = std::min(whole.end, count_) - whole.begin;
      run.works.push_back(group_.all_reduce_async(std::span<T>(gradients_).subspan(whole.begin, size)));
      run.metrics.bytes.gradients += 2 * others * double(size * sizeof(T));
    }
    tell(Event::kReduceIssued, b);
  }
}

template <class T>
double Trainer<T>::norm(Running& run) {
  constexpr std::size_t kBlock = kernels::kNormBlock;
  const std::size_t blocks = plan_.buckets().padded / kBlock;
  std::vector<double> sums(blocks);
  if (!plan_.sharded()) {
    Stopwatch update(options_.clock, run.metrics.seconds.update);
    kernels::square_sums<T>(gradients_, sums);
    return std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0));
  }
  const std::size_t ranks = std::size_t(group_.size()), own_blocks = blocks / ranks;
  std::vector<double> own(own_blocks), all(blocks);
  {
    Stopwatch update(options_.clock, run.metrics.seconds.update);
    for (std::size_t b = 0; b < plan_.buckets().buckets.size(); ++b) {
      const FlatRange part = plan_.part(b);
      kernels::square_sums<T>(std::span<const T>(gradients_).subspan(part.begin, part.size()),
                              std::span(own).subspan(plan_.compact_begin(b) / kBlock, part.size() / kBlock));
    }
  }
  {
    Stopwatch waiting(options_.clock, run.metrics.seconds.communication);
    group_.all_gather(own, all);
    run.metrics.bytes.control += double(group_.size() - 1) / group_.size() * double(blocks * sizeof(double));
  }
  for (std::size_t b = 0; b < plan_.buckets().buckets.size(); ++b)  // back into block order
    for (std::size_t r = 0; r < ranks; ++r) {
      const FlatRange part = plan_.part(b, int(r));
      std::copy_n(all.begin() + std::ptrdiff_t(r * own_blocks + plan_.compact_begin(b) / kBlock), part.size() / kBlock,
                  sums.begin() + std::ptrdiff_t(part.begin / kBlock));
    }
  return std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0));
}

template <class T>
void Trainer<T>::update(Running& run, double norm) {
  StepMetrics& metrics = run.metrics;
  metrics.learning_rate = learning_rate(options_.schedule, steps_done_);
  const double scale = options_.max_norm > 0 ? kernels::clip_scale(norm, options_.max_norm) : 1.0;
  const double others = double(group_.size() - 1) / group_.size();
  whole_ = false;  // until all buckets are updated
  for (std::size_t b = 0; b < plan_.buckets().buckets.size(); ++b) {
    {
      Stopwatch update(options_.clock, metrics.seconds.update);
      update_bucket(b, metrics.learning_rate, scale);
    }
    tell(Event::kUpdated, b);
    if (!plan_.sharded()) continue;
    const FlatRange whole = plan_.buckets().buckets[b], own = plan_.part(b);
    run.works.push_back(group_.all_gather_async(std::span<const T>(parameters_).subspan(own.begin, own.size()),
                                                std::span<T>(parameters_).subspan(whole.begin, whole.size())));
    metrics.bytes.parameters += others * double(whole.size() * sizeof(T));
    tell(Event::kGatherIssued, b);
  }
  Stopwatch waiting(options_.clock, metrics.seconds.communication);
  for (collective::Work& work : run.works) work.wait();
  run.works.clear();
  whole_ = true;
}

template <class T>
void Trainer<T>::update_bucket(std::size_t bucket, double rate, double scale) {
  const OptimizerOptions& o = options_.optimizer;
  const kernels::Isa isa = kernels::best_isa();
  const std::int64_t step = steps_done_ + 1;
  for (const Piece& piece : pieces_[bucket]) {
    const auto parameters = std::span<T>(parameters_).subspan(piece.flat, piece.size);
    const auto gradients = std::span<const T>(gradients_).subspan(piece.flat, piece.size);
    const auto moment = [&](std::size_t which) {
      return std::span<T>(moments_[which]).subspan(piece.compact, piece.size);
    };
    const double decay = piece.decayed ? o.weight_decay : 0;
    if (o.rule == Rule::kSgd) {
      kernels::sgd_step<T>(isa, parameters, gradients, moment(0), step, scale,
                           {.learning_rate = rate, .momentum = o.momentum, .weight_decay = decay});
      continue;
    }
    kernels::adam_step<T>(
        isa, {parameters, gradients, moment(0), moment(1)}, step, scale,
        {.learning_rate = rate, .beta1 = o.beta1, .beta2 = o.beta2, .epsilon = o.epsilon, .weight_decay = decay});
  }
}

template <class T>
Result<Loss> Trainer<T>::evaluate(const Loader& loader, std::size_t count, std::size_t rows_at_once) {
  const Part part = part_of(count, group_.rank(), group_.size());
  std::array<double, 3> totals{};
  std::vector<std::uint64_t> rows;
  try {
    for (std::size_t begin = part.begin; begin < part.end; begin += rows.size()) {
      rows.resize(std::min(std::max<std::size_t>(rows_at_once, 1), part.end - begin));
      std::iota(rows.begin(), rows.end(), begin);
      const Loss loss = model_->evaluate(loader(rows), parameters());
      totals[0] += loss.sum, totals[1] += double(loss.counted), totals[2] += double(loss.correct);
    }
    group_.all_reduce(totals);
  } catch (const CollectiveError& error) { return error; }
  return Loss{totals[0], std::size_t(totals[1]), std::size_t(totals[2])};
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace troupe::train

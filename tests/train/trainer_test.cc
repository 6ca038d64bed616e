// A step of data-parallel training: what is summed, in which order, how many bytes travel, and what the ranks agree on.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "tests/train/tiny.h"

namespace troupe::train {
namespace {

using namespace testing;
using collective::Group;

struct Trace {
  std::vector<StepMetrics> metrics;
  std::vector<float> parameters;
  std::vector<std::pair<Event, std::size_t>> events;  // rank 0's
};

constexpr std::size_t kInputs = 5000, kClasses = 4, kCount = kClasses * (kInputs + 1);
const TinyData& data() {
  static const TinyData data(90, kInputs, kClasses);
  return data;
}

TrainerOptions options(Zero zero, std::size_t micro_rows = 0) {
  return {.seed = 1,
          .micro_rows = micro_rows,
          .targets_per_row = 1,
          .zero = zero,
          .buckets = {.first_bytes = 16 << 10, .bytes = 32 << 10},
          .optimizer = {.weight_decay = 0.1},
          .schedule = {.base_rate = 1e-2, .warmup_steps = 3},
          .max_norm = 0.5};
}

/// Trains on threads; rank 0's view, and the parameters of all ranks are compared on the way.
template <class T = float>
std::vector<Trace> train(int ranks, const TrainerOptions& o, int steps, std::size_t batch = 12) {
  std::vector<Trace> runs(static_cast<std::size_t>(ranks));
  on_threads(ranks, [&](Group g) {
    LinearModel<T> model(kInputs, kClasses);
    Trace& run = runs[std::size_t(g.rank())];
    TrainerOptions own = o;
    own.observer = [&](Event event, std::size_t bucket) { run.events.emplace_back(event, bucket); };
    auto trainer = make_trainer<T>(model, data(), batch, own);
    trainer->bind(g);
    ASSERT_TRUE(trainer->start().ok());
    for (int i = 0; i < steps; ++i) run.metrics.push_back(trainer->step().value());
    run.parameters.assign(trainer->parameters().begin(), trainer->parameters().end());
  });
  for (const Trace& run : runs) EXPECT_EQ(run.parameters, runs[0].parameters) << "replicas are bit-equal";
  return runs;
}

double largest_difference(const Trace& a, const Trace& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.parameters.size(); ++i)
    most = std::max(most, double(std::abs(a.parameters[i] - b.parameters[i])));
  return most;
}

// TR-1, BK-1: also where the optimizer is SGD.
TEST(TrainTrainer, Zero1EqualsZero0BitForBit) {
  for (const Rule rule : {Rule::kAdamW, Rule::kSgd})
    for (int ranks : {1, 2, 3}) {
      TrainerOptions zero0 = options(Zero::k0), zero1 = options(Zero::k1);
      zero0.optimizer.rule = zero1.optimizer.rule = rule;
      const Trace a = train(ranks, zero0, 6)[0], b = train(ranks, zero1, 6)[0];
      EXPECT_EQ(a.parameters, b.parameters) << ranks << " ranks";
      for (std::size_t i = 0; i < a.metrics.size(); ++i) {
        EXPECT_EQ(a.metrics[i].loss, b.metrics[i].loss);
        EXPECT_EQ(a.metrics[i].gradient_norm, b.metrics[i].gradient_norm);
      }
    }
}

// TR-2: also where the batch does not divide, and where a rank has no row at all.
TEST(TrainTrainer, RanksTimesPartsEqualOneRankWithTheWholeBatch) {
  const Trace one = train(1, options(Zero::k0), 8, 13)[0];
  EXPECT_LT(one.metrics.back().loss, one.metrics.front().loss) << "it learns";
  for (int ranks : {2, 3}) {
    const Trace many = train(ranks, options(Zero::k1), 8, 13)[0];
    EXPECT_LT(largest_difference(one, many), 1e-5);
    for (std::size_t i = 0; i < one.metrics.size(); ++i) EXPECT_NEAR(one.metrics[i].loss, many.metrics[i].loss, 1e-6);
  }
  EXPECT_LT(largest_difference(train(1, options(Zero::k0), 4, 2)[0], train(3, options(Zero::k0), 4, 2)[0]), 1e-5);
}

TEST(TrainTrainer, InDoubleTheRanksAgreeWithOneTo1e12) {
  const Trace one = train<double>(1, options(Zero::k0), 5)[0], two = train<double>(2, options(Zero::k1), 5)[0];
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(one.metrics[i].loss, two.metrics[i].loss, 1e-12);
}

// TR-3, TR-2: accumulation is the batch in pieces, and the pieces before the last send nothing.
TEST(TrainTrainer, AccumulationEqualsTheWholeBatchAndIsSilent) {
  const Trace whole = train(2, options(Zero::k0), 5)[0];
  const Trace pieces = train(2, options(Zero::k0, 2), 5)[0];
  EXPECT_LT(largest_difference(whole, pieces), 1e-5);
  EXPECT_EQ(whole.metrics[0].bytes.gradients, pieces.metrics[0].bytes.gradients);
  EXPECT_EQ(whole.events, pieces.events);
}

// Issue's words: with 256 KiB buckets the first reduction is issued before the backward pass ends. Buckets go in order.
TEST(TrainTrainer, TheFirstReductionIsIssuedBeforeTheBackwardPassEnds) {
  on_threads(2, [](Group g) {
    constexpr std::size_t kWide = 100'000;  // 4 classes: 1.6 MB, seven buckets
    const TinyData wide(8, kWide, 4);
    LinearModel<float> model(kWide, 4);
    std::vector<std::pair<std::string, std::size_t>> record;
    model.after_step = [&] { record.emplace_back("model done", 0); };
    TrainerOptions o = options(Zero::k1);
    o.buckets = {.first_bytes = 256 << 10, .bytes = 256 << 10};
    o.observer = [&](Event event, std::size_t bucket) {
      if (event == Event::kReduceIssued) record.emplace_back("reduce", bucket);
    };
    auto trainer = make_trainer<float>(model, wide, 8, o);
    trainer->bind(g);
    ASSERT_TRUE(trainer->start().ok());
    ASSERT_TRUE(trainer->step().ok());
    ASSERT_EQ(record.size(), trainer->plan().buckets().buckets.size() + 1);
    EXPECT_EQ(record.front(), std::pair(std::string("reduce"), std::size_t(0)));
    EXPECT_EQ(record.back().first, "model done") << "the last layer's gradient is complete within the pass";
    for (std::size_t b = 0; b + 1 < record.size(); ++b) EXPECT_EQ(record[b], std::pair(std::string("reduce"), b));
  });
}

// What the ranks really ask of the wire, counted below the group and not by the trainer: 2(W-1)/W of the gradient a
// step.
class CountingCommunicator final : public collective::Communicator {
 public:
  struct Bytes {
    double data = 0, control = 0;
  };
  CountingCommunicator(std::unique_ptr<Communicator> inner, Bytes& bytes) : inner_(std::move(inner)), bytes_(bytes) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  collective::Backend backend() const override { return inner_->backend(); }
  std::uint64_t epoch() const override { return inner_->epoch(); }
  bool run(const collective::detail::Operation& operation, collective::Patience& patience) override {
    using collective::detail::Kind;
    const double share = double(size() - 1) / size();
    const bool data = operation.type == collective::detail::DType::kF32;
    double& sum = data ? bytes_.data : bytes_.control;
    const double element = data ? 4 : 8;
    if (operation.kind == Kind::kAllReduce) sum += 2 * share * element * double(operation.in_count);
    else if (operation.kind == Kind::kReduceScatter) sum += share * element * double(operation.in_count);
    else if (operation.kind == Kind::kAllGather) sum += share * element * double(operation.out_count);
    else ADD_FAILURE() << "an operation that a step has no use for";
    return inner_->run(operation, patience);
  }
  bool agree_on(const collective::Signature& what, collective::Patience& patience) override {
    return inner_->agree_on(what, patience);
  }
  void post(collective::Transfer& transfer) override { inner_->post(transfer); }
  bool pump() override { return inner_->pump(); }
  bool wait_messages(collective::Clock::time_point deadline, collective::Environment* environment) override {
    return inner_->wait_messages(deadline, environment);
  }
  void nudge() override { inner_->nudge(); }
  bool stale() override { return inner_->stale(); }
  void fail(const collective::Failure& failure) override { inner_->fail(failure); }
  std::optional<collective::Failure> failure() override { return inner_->failure(); }
  std::unique_ptr<Communicator> split(int color, int key, collective::Patience& patience) override {
    return inner_->split(color, key, patience);
  }

 private:
  std::unique_ptr<Communicator> inner_;
  Bytes& bytes_;
};

TEST(TrainTrainer, BytesOnTheWireAreThoseOfTheFormula) {
  for (int ranks : {1, 2, 3})
    for (Zero zero : {Zero::k0, Zero::k1}) {
      const auto segment = make_segment(ranks);
      std::vector<std::thread> threads;
      for (int r = 0; r < ranks; ++r)
        threads.emplace_back([&, r] {
          CountingCommunicator::Bytes bytes;
          auto communicator =
              std::make_unique<CountingCommunicator>(std::make_unique<collective::ShmCommunicator>(segment, r), bytes);
          const Group g = make_group(std::move(communicator));
          LinearModel<float> model(kInputs, kClasses);
          auto trainer = make_trainer<float>(model, data(), 12, options(zero));
          trainer->bind(g);
          model.initialize(1, trainer->mutable_parameters());
          trainer->restored(0, {});
          const StepMetrics metrics = trainer->step().value();
          const double elements = double(zero == Zero::k1 ? trainer->plan().buckets().padded : kCount);
          EXPECT_NEAR(bytes.data, 2.0 * (ranks - 1) / ranks * elements * 4, 1e-6) << ranks << " ranks";
          EXPECT_NEAR(metrics.bytes.gradients + metrics.bytes.parameters, bytes.data, 1e-6)
              << "the trainer's own account";
          EXPECT_NEAR(metrics.bytes.control, bytes.control, 1e-6);
          EXPECT_LT(bytes.control, 0.01 * elements * 4 + 100);
        });
      for (auto& thread : threads) thread.join();
    }
}

// TR-5
TEST(TrainTrainer, NaNStopsAllRanksAtTheSameStepBeforeAnythingIsChanged) {
  for (Zero zero : {Zero::k0, Zero::k1})
    on_threads(2, [&](Group g) {
      TinyData broken(90, kInputs, kClasses);
      LinearModel<float> model(kInputs, kClasses);
      auto trainer = make_trainer<float>(model, broken, 12, options(zero));
      trainer->bind(g);
      ASSERT_TRUE(trainer->start().ok());
      ASSERT_TRUE(trainer->step().ok());
      const std::vector<float> before(trainer->parameters().begin(), trainer->parameters().end());
      if (g.rank() == 1)  // one rank alone sees it
        for (float& x : broken.features()) x = std::numeric_limits<float>::quiet_NaN();
      const auto result = trainer->step();
      ASSERT_FALSE(result.ok());
      const auto* diverged = dynamic_cast<const DivergedError*>(&result.error());
      ASSERT_NE(diverged, nullptr) << result.error().what();
      EXPECT_EQ(diverged->step(), 2);
      EXPECT_TRUE(std::equal(before.begin(), before.end(), trainer->parameters().begin()));
      EXPECT_EQ(trainer->steps_done(), 1);
      EXPECT_TRUE(trainer->whole());
    });
}

TEST(TrainTrainer, TargetsThatDoNotCountAreLeftOutOfTheMeanOnAllRanks) {
  on_threads(2, [](Group g) {
    TinyData holes(12, kInputs, kClasses);
    for (std::size_t i = 0; i < 12; i += 3) holes.targets()[i] = -1;
    LinearModel<float> model(kInputs, kClasses);
    TrainerOptions o = options(Zero::k0);
    o.targets_per_row = 0;
    auto trainer = make_trainer<float>(model, holes, 12, o);
    trainer->bind(g);
    ASSERT_TRUE(trainer->start().ok());
    const StepMetrics metrics = trainer->step().value();
    EXPECT_EQ(metrics.counted, 8u);
    EXPECT_NEAR(metrics.loss, std::log(4.0), 1.5);
  });
}

TEST(TrainTrainer, AModelThatThrowsEndsTheStepOfAllRanks) {
  on_threads(2, [](Group g) {
    LinearModel<float> model(kInputs, kClasses);
    auto trainer = make_trainer<float>(model, data(), 12, options(Zero::k0));
    trainer->bind(g);
    ASSERT_TRUE(trainer->start().ok());
    if (g.rank() == 0) model.after_step = [] { throw std::runtime_error("no more"); };
    if (g.rank() == 0) {
      EXPECT_THROW((void)trainer->step(), std::runtime_error);
      return;
    }
    const auto result = trainer->step();
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code(), ErrorCode::kCollective);
    EXPECT_NE(std::string(result.error().what()).find("no more"), std::string::npos);
    EXPECT_FALSE(trainer->step().ok()) << "not whole";
  });
}

// MT-1: the parts of a step's time, by an injected clock that counts its readings.
TEST(TrainTrainer, TheSharesOfAStepAddUpToItsTime) {
  double ticks = 0;
  on_threads(1, [&](Group g) {
    LinearModel<float> model(kInputs, kClasses);
    TrainerOptions o = options(Zero::k1, 4);
    o.clock = [&] { return ticks += 1; };
    auto trainer = make_trainer<float>(model, data(), 12, o);
    trainer->bind(g);
    ASSERT_TRUE(trainer->start().ok());
    const StepSeconds s = trainer->step().value().seconds;
    EXPECT_EQ(s.between, 0) << "there was no step before it";
    EXPECT_EQ(s.input, 3) << "three micro-batches";
    EXPECT_GE(s.compute, 3);
    EXPECT_GT(s.communication, 0);
    EXPECT_GT(s.update, 0);
    EXPECT_LE(s.input + s.compute + s.communication + s.update, s.total);
    std::array<double, 1> mean{s.total};
    average(g, mean);
    EXPECT_EQ(mean[0], s.total);
    ticks += 1000;
    const StepSeconds next = trainer->step().value().seconds;
    EXPECT_GE(next.between, 1000);
    EXPECT_LT(next.total, 1000);
  });
}

TEST(TrainTrainer, AllRanksHearOfAStopInTheStepThatOneAsksItFor) {
  on_threads(3, [&](Group g) {
    LinearModel<float> model(kInputs, kClasses);
    auto trainer = make_trainer<float>(model, data(), 12, options(Zero::k1, 4));
    trainer->bind(g);
    ASSERT_TRUE(trainer->start().ok());
    EXPECT_FALSE(trainer->step().value().stop);
    EXPECT_TRUE(trainer->step({.stop = g.rank() == 1}).value().stop);
    EXPECT_FALSE(trainer->step().value().stop);
  });
}

TEST(TrainTrainer, OptionsThatCannotBeAreTypedErrors) {
  LinearModel<float> model(4, 2);
  const TinyData tiny(4, 4, 2);
  const auto refused = [&](const TrainerOptions& o, bool loader = true) {
    auto result = Trainer<float>::create(model, loader ? tiny.loader() : Loader(),
                                         Sampler::create({.rows = 4, .batch = 2}).value(), o);
    return !result.ok() && result.error().code() == ErrorCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused({.schedule = {.base_rate = -1}}));
  EXPECT_TRUE(refused({.max_norm = -1}));
  EXPECT_TRUE(refused({.buckets = {.first_bytes = 0}}));
  EXPECT_TRUE(refused({.optimizer = {.beta1 = 1}}));
  EXPECT_TRUE(refused({}, false));
}

}  // namespace
}  // namespace troupe::train

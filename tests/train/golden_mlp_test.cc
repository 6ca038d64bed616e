// MLP-1: losses and parameters of the digits runs equal the recordings, on one rank and on two; and the gates over own
// seeds.
#include <algorithm>
#include <fstream>
#include <numeric>
#include <random>

#include "apps/train/data/digits.h"
#include "apps/train/model/draws.h"
#include "apps/train/model/mlp.h"
#include "kernels/cpu/optimizer/optimizer.h"
#include "tests/train/golden.h"

namespace {

using namespace troupe::train;
using golden_train::Case;
using troupe::kernels::Isa;

const Digits& digits() {
  static const Digits kDigits = load_digits(std::filesystem::path(TROUPE_DATA_DIR) / "digits.csv").value();
  return kDigits;
}

// One of the runs below a case: a subfolder named by activation and optimizer.
std::vector<Case> runs_of(const Case& c) {
  std::vector<Case> out;
  for (const auto& entry : std::filesystem::directory_iterator(c.path())) {
    if (entry.is_directory()) out.emplace_back(entry.path());
  }
  return out;
}

MlpOptions options_of(const Case& c, const Case& run) {
  MlpOptions out{.sizes = {}, .activation = run.text("activation") == "tanh" ? Activation::kTanh : Activation::kRelu};
  for (const Tensor& t : c.layout()) {
    if (t.shape.size() != 2) continue;
    if (out.sizes.empty()) out.sizes.push_back(t.shape[1]);
    out.sizes.push_back(t.shape[0]);
  }
  return out;
}

template <class T>
class Optimizer {
 public:
  Optimizer(const Case& run, const Layout& layout, std::size_t count)
      : sgd_(run.text("optimizer") == "sgd"),
        learning_rate_(run.number("lr")),
        adamw_(layout, count,
               sgd_ ? troupe::kernels::AdamOptions{}
                    : troupe::kernels::AdamOptions{.beta1 = run.number("beta1"),
                                                   .beta2 = run.number("beta2"),
                                                   .epsilon = run.number("eps"),
                                                   .weight_decay = run.number("weight_decay")}),
        momentum_(sgd_ ? run.number("momentum") : 0),
        buffer_(count) {}
  void step(Isa isa, std::vector<T>& params, const std::vector<T>& grads) {
    if (!sgd_) return adamw_.step(isa, params, grads, 1, learning_rate_);
    troupe::kernels::sgd_step<T>(isa, params, grads, buffer_, ++done_, 1,
                                 {.learning_rate = learning_rate_, .momentum = momentum_});
  }

 private:
  bool sgd_;
  double learning_rate_;
  golden_train::AdamW<T> adamw_;
  double momentum_;
  std::vector<T> buffer_;
  std::int64_t done_ = 0;
};

// One batch over so many ranks; gives the mean loss.
template <class T>
double train_batch(Mlp<T>& model, Optimizer<T>& optimizer, Isa isa, std::span<const std::int32_t> rows,
                   std::size_t ranks, std::vector<T>& params) {
  std::vector<T> total(params.size());
  double sum = 0;
  const std::size_t part = rows.size() / ranks;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const DigitRows picked = digit_rows(digits(), rows.subspan(rank * part, part)).value();
    std::vector<T> grads(params.size());
    sum += model
               .step({.rows = part, .features = picked.features, .tokens = {}, .targets = picked.targets}, params,
                     grads, static_cast<double>(rows.size()), {})
               .sum;
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += grads[i];
  }
  optimizer.step(isa, params, total);
  return sum / static_cast<double>(rows.size());
}

template <class T>
void check_run(const Case& c, const Case& run, Isa isa, std::size_t ranks) {
  SCOPED_TRACE(run.name() + ", ranks " + std::to_string(ranks));
  Mlp<T> model(options_of(c, run), isa);
  golden_train::expect_layout(model.layout(), c.layout());
  auto params = c.values<T>("init");
  ASSERT_EQ(params.size(), model.parameter_count());
  Optimizer<T> optimizer(run, model.layout(), params.size());
  const auto order = c.integers("order");
  const auto losses = run.array(ranks == 1 ? "f64_losses" : "f64_dp2_losses");
  const std::size_t batch = run.size("batch");
  const bool single = std::is_same_v<T, float>;
  for (std::size_t step = 0; step < losses.size(); ++step) {
    const double loss =
        train_batch(model, optimizer, isa, std::span(order).subspan(step * batch, batch), ranks, params);
    EXPECT_NEAR(loss, losses[step], single ? 2e-5 : 1e-12) << "step " << step;
  }
  EXPECT_LE(golden_train::largest_difference<T>(params, run.array("f64_params_step50")), single ? 5e-6 : 1e-10);
}

template <class T>
void check_runs(Isa isa, std::size_t ranks) {
  SCOPED_TRACE(troupe::kernels::isa_name(isa));
  golden_train::for_cases("mlp_", [&](const Case& c) {
    const auto runs = runs_of(c);
    EXPECT_FALSE(runs.empty());
    for (const Case& run : runs) check_run<T>(c, run, isa, ranks);
  });
}

TEST(GoldenMlp, FiftyStepsInFloat) {
  for (const Isa isa : troupe::kernels::kAllIsas) {
    if (troupe::kernels::isa_supported(isa)) check_runs<float>(isa, 1);
  }
}
TEST(GoldenMlp, FiftyStepsInDouble) { check_runs<double>(Isa::kReference, 1); }
TEST(GoldenMlp, FiftyStepsOnTwoRanksInFloat) { check_runs<float>(troupe::kernels::best_isa(), 2); }
TEST(GoldenMlp, FiftyStepsOnTwoRanksInDouble) { check_runs<double>(Isa::kReference, 2); }

// Ten epochs from an own seed; gives the test accuracy.
double accuracy_of_seed(const Case& c, const Case& run, std::uint64_t seed) {
  Mlp<float> model(options_of(c, run));
  std::vector<float> params(model.parameter_count());
  model.initialize(seed, params);
  Optimizer<float> optimizer(run, model.layout(), params.size());
  const std::size_t train = run.size("train_rows"), batch = run.size("batch");
  std::vector<std::int32_t> order(train), rest(digits().rows() - train);
  std::iota(order.begin(), order.end(), 0);
  std::iota(rest.begin(), rest.end(), static_cast<std::int32_t>(train));
  std::mt19937_64 random(seed);
  for (std::size_t epoch = 0; epoch < run.size("epochs"); ++epoch) {
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t at = 0; at + batch <= train; at += batch)
      train_batch(model, optimizer, troupe::kernels::best_isa(), std::span(order).subspan(at, batch), 1, params);
  }
  const DigitRows test = digit_rows(digits(), rest).value();
  const Loss loss =
      model.evaluate({.rows = rest.size(), .features = test.features, .tokens = {}, .targets = test.targets}, params);
  return static_cast<double>(loss.correct) / static_cast<double>(loss.counted);
}

// gates.csv: activation,optimizer,mean accuracy,...
double recorded_accuracy(const Case& c, const std::string& activation, const std::string& optimizer) {
  std::ifstream in(c.path() / "gates.csv");
  const std::string start = activation + "," + optimizer + ",";
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(start)) return std::stod(line.substr(start.size()));
  }
  throw std::runtime_error("gates.csv has no line for " + start);
}

TEST(GoldenMlp, MeanAccuracyOfFiveSeedsIsTheRecordedOne) {
  golden_train::for_cases("mlp_", [](const Case& c) {
    for (const Case& run : runs_of(c)) {
      double sum = 0;
      for (std::uint64_t seed = 1; seed <= 5; ++seed) sum += accuracy_of_seed(c, run, seed);
      EXPECT_NEAR(sum / 5, recorded_accuracy(c, run.text("activation"), run.text("optimizer")), 0.025) << run.name();
    }
  });
}

}  // namespace

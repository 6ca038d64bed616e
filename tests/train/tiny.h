// A model, data and ranks small enough that a test of the trainer is about the trainer alone.
#pragma once
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/train/trainer/trainer.h"
#include "tests/train/ranks.h"

namespace troupe::train::testing {

/// Softmax regression: logits = w x + b, cut into several tensors so that layouts, buckets and parts do not fall
/// together. The gradient is announced class by class, from the last bias to the first weight.
template <class T>
class LinearModel final : public Model<T> {
 public:
  LinearModel(std::size_t inputs, std::size_t classes) : inputs_(inputs), classes_(classes) {
    for (std::size_t c = 0; c < classes; ++c)
      layout_.push_back({"w." + std::to_string(c), {1, inputs}, c * inputs, inputs, true});
    layout_.push_back({"b", {classes}, classes * inputs, classes, false});
  }
  const Layout& layout() const override { return layout_; }
  std::size_t parameter_count() const override { return classes_ * (inputs_ + 1); }
  void initialize(std::uint64_t seed, std::span<T> parameters) const override {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i] = T((double(random_word(seed, 7, i) >> 11) * 0x1p-53 - 0.5) * 0.2);
  }
  Loss step(const Batch& batch, std::span<const T> parameters, std::span<T> gradients, double divisor,
            const FinalFrom& final_from) override {
    std::vector<T> deltas(batch.rows * classes_);
    const Loss loss = run(batch, parameters, &deltas, divisor);
    const std::size_t biases = classes_ * inputs_;
    for (std::size_t r = 0; r < batch.rows; ++r)
      for (std::size_t c = 0; c < classes_; ++c) gradients[biases + c] += deltas[r * classes_ + c];
    if (final_from) final_from(biases);
    for (std::size_t c = classes_; c-- > 0;) {
      for (std::size_t r = 0; r < batch.rows; ++r)
        for (std::size_t i = 0; i < inputs_; ++i)
          gradients[c * inputs_ + i] += deltas[r * classes_ + c] * T(batch.features[r * inputs_ + i]);
      if (final_from) final_from(c * inputs_);
    }
    if (after_step) after_step();
    return loss;
  }
  Loss evaluate(const Batch& batch, std::span<const T> parameters) override {
    return run(batch, parameters, nullptr, 1);
  }
  double step_flops(std::size_t rows) const override { return 6.0 * double(rows * classes_ * inputs_); }

  std::function<void()> after_step;

 private:
  Loss run(const Batch& batch, std::span<const T> parameters, std::vector<T>* deltas, double divisor) const {
    Loss loss;
    std::vector<T> logits(classes_);
    for (std::size_t r = 0; r < batch.rows; ++r) {
      T most = T(-1e30);
      std::size_t best = 0;
      for (std::size_t c = 0; c < classes_; ++c) {
        T sum = parameters[classes_ * inputs_ + c];
        for (std::size_t i = 0; i < inputs_; ++i)
          sum += parameters[c * inputs_ + i] * T(batch.features[r * inputs_ + i]);
        logits[c] = sum;
        if (sum > most) most = sum, best = c;
      }
      const std::int32_t target = batch.targets[r];
      if (target < 0) continue;
      T total = 0;
      for (const T logit : logits) total += std::exp(logit - most);
      loss.sum += double(std::log(total) - (logits[std::size_t(target)] - most));
      ++loss.counted;
      loss.correct += best == std::size_t(target);
      for (std::size_t c = 0; deltas && c < classes_; ++c)
        (*deltas)[r * classes_ + c] =
            T(double(std::exp(logits[c] - most) / total - (c == std::size_t(target) ? T(1) : T(0))) / divisor);
    }
    return loss;
  }

  std::size_t inputs_, classes_;
  Layout layout_;
};

/// Rows made of random words; the class is what a hidden linear map says, so that there is something to learn.
class TinyData {
 public:
  TinyData(std::size_t rows, std::size_t inputs, std::size_t classes) : inputs_(inputs) {
    for (std::size_t i = 0; i < rows * inputs; ++i)
      features_.push_back(float(double(random_word(3, 1, i) >> 11) * 0x1p-52 - 1));
    for (std::size_t r = 0; r < rows; ++r) {
      std::size_t best = 0;
      for (std::size_t c = 1; c < classes; ++c)
        if (score(r, c) > score(r, best)) best = c;
      targets_.push_back(std::int32_t(best));
    }
  }
  std::size_t rows() const { return targets_.size(); }
  std::vector<std::int32_t>& targets() { return targets_; }
  std::vector<float>& features() { return features_; }
  /// A loader with a buffer of its own.
  Loader loader() const {
    return [this, features = std::make_shared<std::vector<float>>(),
            targets = std::make_shared<std::vector<std::int32_t>>()](std::span<const std::uint64_t> rows) {
      features->clear(), targets->clear();
      for (const std::uint64_t row : rows) {
        features->insert(features->end(), features_.begin() + std::ptrdiff_t(row * inputs_),
                         features_.begin() + std::ptrdiff_t((row + 1) * inputs_));
        targets->push_back(targets_[row]);
      }
      return Batch{.rows = rows.size(), .features = *features, .tokens = {}, .targets = *targets};
    };
  }

 private:
  float score(std::size_t row, std::size_t c) const {
    float sum = 0;
    for (std::size_t i = 0; i < inputs_; ++i)
      sum += features_[row * inputs_ + i] * float(double(random_word(4, c, i) >> 11) * 0x1p-52 - 1);
    return sum;
  }
  std::size_t inputs_;
  std::vector<float> features_;
  std::vector<std::int32_t> targets_;
};

template <class T>
std::unique_ptr<Trainer<T>> make_trainer(Model<T>& model, const TinyData& data, std::size_t batch,
                                         TrainerOptions options) {
  auto sampler = Sampler::create({.sampling = Sampling::kShuffled, .rows = data.rows(), .batch = batch, .seed = 11});
  return Trainer<T>::create(model, data.loader(), std::move(sampler).value(), std::move(options)).value();
}

}  // namespace troupe::train::testing

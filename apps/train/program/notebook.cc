#include "apps/train/program/notebook.h"

#include <utility>

namespace troupe::train {

void Notebook::add(const StepMetrics& m) {
  std::lock_guard lock(mutex_);
  if (news_.steps.size() == kLinesMax) news_.steps.erase(news_.steps.begin(), news_.steps.begin() + kLinesMax / 2);
  news_.steps.push_back(
      {.step = m.step, .loss = m.loss, .gradient_norm = m.gradient_norm, .learning_rate = m.learning_rate,
       .seconds = m.seconds.between + m.seconds.total});
  StepSeconds& sum = news_.seconds;
  sum.total += m.seconds.total;
  sum.input += m.seconds.input;
  sum.compute += m.seconds.compute;
  sum.communication += m.seconds.communication;
  sum.update += m.seconds.update;
  news_.bytes = m.bytes;
  ++news_.timed_steps;
}

void Notebook::add(const EvaluationLine& line) {
  std::lock_guard lock(mutex_);
  news_.evaluations.push_back(line);
}

void Notebook::add(const Recovery& recovery) {
  std::lock_guard lock(mutex_);
  news_.recoveries.push_back(recovery);
}

void Notebook::warn(const std::string& text) {
  std::lock_guard lock(mutex_);
  if (news_.warnings.size() < kWarningsMax) news_.warnings.push_back(text);
}

void Notebook::part(std::uint64_t epoch) {
  std::lock_guard lock(mutex_);
  news_.parted_epoch = epoch;
}

News Notebook::take() {
  std::lock_guard lock(mutex_);
  News out = std::move(news_);
  news_ = {
      .seconds = out.seconds, .bytes = out.bytes, .timed_steps = out.timed_steps, .parted_epoch = out.parted_epoch};
  return out;
}

}  // namespace troupe::train

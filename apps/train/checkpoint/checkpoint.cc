#include "apps/train/checkpoint/checkpoint.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include "apps/common/safetensors/safetensors.h"

namespace troupe::train {

namespace {

constexpr const char* kFormat = "troupe.train 1";
constexpr const char* kSetting = "setting.";
constexpr const char* kWord = "word.";

template <class T>
const char* dtype_of() {
  return sizeof(T) == 8 ? "F64" : "F32";
}

std::string moment_name(std::size_t which, const std::string& tensor) {
  return "moment." + std::to_string(which) + "." + tensor;
}

/// Exact: the bits of a double.
std::string bits(double value) { return std::to_string(std::bit_cast<std::uint64_t>(value)); }

template <class N>
bool parse(const std::map<std::string, std::string>& words, const std::string& key, N& value) {
  const auto found = words.find(key);
  if (found == words.end()) return false;
  const char* end = found->second.data() + found->second.size();
  const auto result = std::from_chars(found->second.data(), end, value);
  return result.ec == std::errc() && result.ptr == end;
}

bool parse_bits(const std::map<std::string, std::string>& words, const std::string& key, double& value) {
  std::uint64_t number = 0;
  if (!parse(words, key, number)) return false;
  value = std::bit_cast<double>(number);
  return true;
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::map<std::string, std::string> with_score(std::map<std::string, std::string> setting, std::optional<double> score) {
  if (score) setting["score"] = bits(*score);
  return setting;
}

template <class T>
Status copy_array(const apps::ArrayFile& file, const std::string& name, const Tensor& tensor, std::span<T> out) {
  const apps::ArrayFile::Entry* entry = file.find(name);
  if (entry == nullptr) return InvalidArgumentError("the checkpoint has no " + name + ": it is of another model");
  if (entry->dtype != dtype_of<T>() || entry->shape != tensor.shape || entry->size != out.size_bytes())
    return InvalidArgumentError("the checkpoint's " + name + " has another type or shape: it is of another model");
  std::memcpy(out.data(), file.bytes(*entry).data(), entry->size);
  return {};
}

Status compare(const std::map<std::string, std::string>& words, const std::map<std::string, std::string>& setting) {
  for (const auto& [key, value] : setting) {
    const auto found = words.find(kSetting + key);
    if (found == words.end() || found->second != value)
      return InvalidArgumentError("the checkpoint was made with another " + key + ": \"" +
                                  (found == words.end() ? "" : found->second) + "\", not \"" + value + "\"");
  }
  return {};
}

/// Is it the format of these files at all?
bool is_checkpoint(const std::map<std::string, std::string>& words) {
  const auto format = words.find("format");
  return format != words.end() && format->second == kFormat;
}

/// A larger model holds all arrays of a smaller one, and more.
Status check_arrays(const apps::ArrayFile& file, const Layout& layout) {
  for (const apps::ArrayFile::Entry& entry : file.entries) {
    std::string_view name = entry.name;
    if (name.starts_with("moment.")) name = name.substr(std::min(name.size(), name.find('.', 7) + 1));
    if (std::ranges::find(layout, name, &Tensor::name) == layout.end())
      return InvalidArgumentError("the checkpoint has " + entry.name +
                                  ", which this model has not: it is of another model");
  }
  return {};
}

/// Everything that can be wrong with the file of a step (TCK-3).
template <class T>
Result<Snapshot<T>> load_good(const std::filesystem::path& path, std::int64_t step, const Layout& layout,
                              const std::map<std::string, std::string>& setting) {
  auto snapshot = load_snapshot<T>(path, layout, setting);
  if (snapshot.ok() && snapshot->step != step)
    return SerializationError(path.string() + " holds step " + std::to_string(snapshot->step) +
                              ", not what its name says");
  return snapshot;
}

}  // namespace

template <class T>
std::map<std::string, std::string> setting_of(const Trainer<T>& trainer) {
  const TrainerOptions& o = trainer.options();
  const OptimizerOptions& opt = o.optimizer;
  const std::string rule = opt.rule == Rule::kAdamW
                               ? "adamw " + number(opt.beta1) + " " + number(opt.beta2) + " " + number(opt.epsilon)
                               : "sgd " + number(opt.momentum);
  return {{"sampler", trainer.sampler().describe()},
          {"schedule", describe(o.schedule)},
          {"optimizer", rule + " decay " + number(opt.weight_decay) + " clip " + number(o.max_norm)},
          {"seed", std::to_string(o.seed)}};
}

template <class T>
Status save_snapshot(const std::filesystem::path& path, const Layout& layout, const Snapshot<T>& snapshot,
                     const std::map<std::string, std::string>& setting) {
  std::map<std::string, std::string> words{{"format", kFormat},
                                           {"step", std::to_string(snapshot.step)},
                                           {"watch.average", bits(snapshot.watch.average)},
                                           {"watch.best", bits(snapshot.watch.best)},
                                           {"watch.seen", std::to_string(snapshot.watch.seen)},
                                           {"watch.above", std::to_string(snapshot.watch.above)}};
  for (const auto& [key, value] : setting) words[(key == "score" ? "" : kSetting) + key] = value;
  for (const auto& [key, value] : snapshot.words) words[kWord + key] = value;
  std::vector<apps::ArrayView> arrays;
  const auto add = [&](const Tensor& tensor, const std::string& name, const std::vector<T>& values) {
    arrays.push_back(
        {name, dtype_of<T>(), tensor.shape, std::as_bytes(std::span(values).subspan(tensor.offset, tensor.size))});
  };
  for (const Tensor& tensor : layout) add(tensor, tensor.name, snapshot.parameters);
  for (std::size_t which = 0; which < snapshot.moments.size(); ++which)
    if (!snapshot.moments[which].empty())
      for (const Tensor& tensor : layout) add(tensor, moment_name(which, tensor.name), snapshot.moments[which]);
  return apps::write_safetensors(path, words, arrays);
}

template <class T>
Result<Snapshot<T>> load_snapshot(const std::filesystem::path& path, const Layout& layout,
                                  const std::map<std::string, std::string>& setting) {
  auto file = apps::read_safetensors(path);
  if (!file.ok()) return file.error_ptr();
  const auto& words = file->metadata;
  Snapshot<T> snapshot;
  if (!is_checkpoint(words))
    return SerializationError(path.string() + " holds arrays, but is no checkpoint of a run");
  if (!parse(words, "step", snapshot.step) || snapshot.step < 0 || !parse(words, "watch.seen", snapshot.watch.seen) ||
      !parse(words, "watch.above", snapshot.watch.above) ||
      !parse_bits(words, "watch.average", snapshot.watch.average) ||
      !parse_bits(words, "watch.best", snapshot.watch.best))
    return SerializationError(path.string() + " is damaged: a number is missing in its metadata");
  if (Status status = compare(words, setting); !status.ok()) return status.error_ptr();
  for (const auto& [key, value] : words)
    if (key.starts_with(kWord)) snapshot.words[key.substr(std::strlen(kWord))] = value;
  std::size_t count = 0;
  for (const Tensor& tensor : layout) count += tensor.size;
  snapshot.parameters.resize(count);
  for (const Tensor& tensor : layout)
    if (Status status = copy_array<T>(*file, tensor.name, tensor,
                                      std::span(snapshot.parameters).subspan(tensor.offset, tensor.size));
        !status.ok())
      return status.error_ptr();
  for (std::size_t which = 0; which < snapshot.moments.size(); ++which) {
    if (layout.empty() || file->find(moment_name(which, layout.front().name)) == nullptr) continue;
    snapshot.moments[which].resize(count);
    for (const Tensor& tensor : layout)
      if (Status status = copy_array<T>(*file, moment_name(which, tensor.name), tensor,
                                        std::span(snapshot.moments[which]).subspan(tensor.offset, tensor.size));
          !status.ok())
        return status.error_ptr();
  }
  if (Status status = check_arrays(*file, layout); !status.ok()) return status.error_ptr();
  return snapshot;
}

// --------------------------------------------------------------------------------------------------------------------
// a folder

std::filesystem::path CheckpointFolder::file_of(std::int64_t step) const {
  char name[64];
  std::snprintf(name, sizeof name, "step-%09lld.safetensors", static_cast<long long>(step));
  return options_.path / name;
}

std::vector<std::int64_t> CheckpointFolder::steps() const {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (std::filesystem::directory_iterator at(options_.path, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::int64_t step = 0;
    if (!name.starts_with("step-")) continue;
    const auto result = std::from_chars(name.data() + 5, name.data() + name.size(), step);
    if (result.ec == std::errc() && step >= 0 && name == file_of(step).filename()) steps.push_back(step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::optional<std::string> CheckpointFolder::schedule() const {
  const std::vector<std::int64_t> all = steps();
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    const auto words = apps::read_metadata(file_of(*step));
    if (!words.ok() || !is_checkpoint(*words)) continue;
    if (const auto found = words->find(std::string(kSetting) + "schedule"); found != words->end()) return found->second;
  }
  return std::nullopt;
}

template <class T>
Status CheckpointFolder::save(const Layout& layout, const Snapshot<T>& snapshot,
                              const std::map<std::string, std::string>& setting, std::optional<double> score) {
  if (Status status = save_snapshot(file_of(snapshot.step), layout, snapshot, with_score(setting, score)); !status.ok())
    return status;
  if (const auto seen = look_at(snapshot.step)) good_[snapshot.step] = *seen;
  if (Status status = keep_best(snapshot.step, score, setting); !status.ok()) return status;
  remove_old(snapshot.step, [&](const std::filesystem::path& path, std::int64_t step) -> Status {
    const auto loaded = load_good<T>(path, step, layout, setting);
    return loaded.ok() ? Status() : Status(loaded.error_ptr());
  });
  return {};
}

/// A damaged file, or one of another run, is no best to compare with.
Status CheckpointFolder::keep_best(std::int64_t step, std::optional<double> score,
                                   const std::map<std::string, std::string>& setting) {
  if (!score || !std::isfinite(*score)) return {};
  if (const auto words = apps::read_metadata(best_file());
      words.ok() && is_checkpoint(*words) && compare(*words, setting).ok()) {
    double best = 0;
    if (parse_bits(*words, "score", best) && best <= *score) return {};
  }
  std::filesystem::path aside = best_file();
  aside += ".tmp." + std::to_string(::getpid());
  ::unlink(aside.c_str());
  if (::link(file_of(step).c_str(), aside.c_str()) != 0 || ::rename(aside.c_str(), best_file().c_str()) != 0)
    return RuntimeEnvError("cannot name the best checkpoint " + best_file().string() + ": " + std::strerror(errno));
  ::unlink(aside.c_str());  // rename does nothing when both are the same file
  return {};
}

std::optional<CheckpointFolder::Seen> CheckpointFolder::look_at(std::int64_t step) const {
  struct stat facts {};
  if (::stat(file_of(step).c_str(), &facts) != 0) return std::nullopt;
  return Seen{.inode = facts.st_ino,
              .size = static_cast<std::uint64_t>(facts.st_size),
              .changed_ns = std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec};
}

/// TCK-4. What this object did not write is read once, whole.
void CheckpointFolder::remove_old(std::int64_t saved, const Check& check) {
  std::vector<std::int64_t> counted;
  for (const std::int64_t step : steps()) {
    if (step > saved) break;
    const auto seen = look_at(step);
    if (!seen) continue;
    const auto known = good_.find(step);
    if (known == good_.end() || known->second != *seen) {
      good_.erase(step);
      if (!check(file_of(step), step).ok()) continue;
      good_[step] = *seen;
    }
    counted.push_back(step);
  }
  const std::size_t keep = std::max<std::size_t>(options_.keep_last, 1);
  std::error_code ignored;
  for (std::size_t i = 0; i + keep < counted.size(); ++i) {
    std::filesystem::remove(file_of(counted[i]), ignored);
    good_.erase(counted[i]);
  }
}

template <class T>
Result<Snapshot<T>> CheckpointFolder::load_newest(const Layout& layout,
                                                  const std::map<std::string, std::string>& setting,
                                                  std::vector<std::string>* passed_over) const {
  std::vector<std::int64_t> all = steps();
  ErrorPtr first;
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    auto snapshot = load_good<T>(file_of(*step), *step, layout, setting);
    if (snapshot.ok()) return snapshot;
    if (passed_over != nullptr)
      passed_over->push_back(file_of(*step).filename().string() + ": " + snapshot.error().message());
    if (!first) first = snapshot.error_ptr();
  }
  if (first) return first;
  return NotFoundError("no checkpoint in " + options_.path.string());
}

// -------------------------------------------------------------------------------------------------------------------
// all ranks

template <class T>
Snapshot<T> gather_snapshot(Trainer<T>& trainer) {
  collective::Group& g = trainer.group();
  const ShardPlan& plan = trainer.plan();
  const std::size_t count = trainer.parameters().size(), ranks = std::size_t(g.size());
  const bool root = g.rank() == 0;
  Snapshot<T> snapshot{
      .step = trainer.steps_done(), .parameters = {}, .moments = {}, .watch = trainer.watch().state(), .words = {}};
  if (root) snapshot.parameters.assign(trainer.parameters().begin(), trainer.parameters().end());
  for (std::size_t which = 0; which < Trainer<T>::kMoments; ++which) {
    const std::span<T> own = trainer.moments(which);
    std::vector<T>& flat = snapshot.moments[which];
    if (own.empty()) continue;
    if (!plan.sharded()) {
      if (root) flat.assign(own.begin(), own.begin() + std::ptrdiff_t(count));
      continue;
    }
    std::vector<T> shards(root ? own.size() * ranks : 0);
    g.gather(std::span<const T>(own), shards, 0);
    if (!root) continue;
    flat.resize(plan.buckets().padded);
    for (std::size_t b = 0; b < plan.buckets().buckets.size(); ++b)
      for (std::size_t r = 0; r < ranks; ++r) {
        const FlatRange part = plan.part(b, int(r));
        std::copy_n(shards.begin() + std::ptrdiff_t(r * own.size() + plan.compact_begin(b)), part.size(),
                    flat.begin() + std::ptrdiff_t(part.begin));
      }
    flat.resize(count);
  }
  return snapshot;
}

template <class T>
void scatter_snapshot(Trainer<T>& trainer, const Snapshot<T>& snapshot, int from) {
  collective::Group& g = trainer.group();
  const bool root = g.rank() == from;
  std::array<double, 2> averages{snapshot.watch.average, snapshot.watch.best};
  std::array<std::int64_t, 3> numbers{snapshot.step, snapshot.watch.seen, snapshot.watch.above};
  g.broadcast(averages, from);
  g.broadcast(numbers, from);
  if (root) std::ranges::copy(snapshot.parameters, trainer.mutable_parameters().begin());
  g.broadcast(trainer.mutable_parameters(), from);
  const std::size_t count = trainer.parameters().size();
  std::vector<T> values;
  for (std::size_t which = 0; which < Trainer<T>::kMoments; ++which) {
    if (trainer.moments(which).empty()) continue;
    for (const FlatRange& bucket : trainer.plan().buckets().buckets) {
      const std::size_t end = std::min(bucket.end, count);
      values.assign(end - bucket.begin, T(0));
      if (root && !snapshot.moments[which].empty())
        std::copy_n(snapshot.moments[which].begin() + std::ptrdiff_t(bucket.begin), values.size(), values.begin());
      g.broadcast(values, from);
      trainer.install_moments(which, bucket.begin, values);
    }
  }
  trainer.restored(numbers[0], {.average = averages[0], .best = averages[1], .seen = numbers[1], .above = numbers[2]});
}

#define TROUPE_TRAIN_FOR(T)                                                                                    \
  template std::map<std::string, std::string> setting_of<T>(const Trainer<T>&);                                \
  template Status save_snapshot<T>(const std::filesystem::path&, const Layout&, const Snapshot<T>&,            \
                                   const std::map<std::string, std::string>&);                                 \
  template Result<Snapshot<T>> load_snapshot<T>(const std::filesystem::path&, const Layout&,                   \
                                                const std::map<std::string, std::string>&);                    \
  template Status CheckpointFolder::save<T>(const Layout&, const Snapshot<T>&,                                 \
                                            const std::map<std::string, std::string>&, std::optional<double>); \
  template Result<Snapshot<T>> CheckpointFolder::load_newest<T>(                                               \
      const Layout&, const std::map<std::string, std::string>&, std::vector<std::string>*) const;              \
  template Snapshot<T> gather_snapshot<T>(Trainer<T>&);                                                        \
  template void scatter_snapshot<T>(Trainer<T>&, const Snapshot<T>&, int);
TROUPE_TRAIN_FOR(float)
TROUPE_TRAIN_FOR(double)
#undef TROUPE_TRAIN_FOR

}  // namespace troupe::train

#include "apps/datagen/run/makers.h"

#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <troupe/context.h>

namespace datagen {
namespace {

/// Those that nobody uses; of one configuration.
class Shelf {
 public:
  std::unique_ptr<Maker> take(const std::string& config) {
    const std::scoped_lock lock(mutex_);
    if (free_.empty() || free_.back()->config() != config) {
      free_.clear();
      return nullptr;
    }
    auto out = std::move(free_.back());
    free_.pop_back();
    return out;
  }
  void put(std::unique_ptr<Maker> maker) {
    const std::scoped_lock lock(mutex_);
    if (!free_.empty() && free_.back()->config() != maker->config()) free_.clear();
    free_.push_back(std::move(maker));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Maker>> free_;
};

Shelf& shelf() {
  static Shelf the_one;
  return the_one;
}

/// MKR-1: what the generator says of its files, and the driver said when the data set was begun.
troupe::Status check_identity(const JobConfig& config, const Schema& schema) {
  for (const auto& [name, value] : config.generator.more) {
    const auto here = schema.metadata.find(std::string(name));
    if (here == schema.metadata.end() || !value.is_string() || here->second == value.as_string()) continue;
    return troupe::RuntimeEnvError(fmt::format("{} of the generator {} is {} on this node, and was {} when the data "
                                               "set was begun: a file that it reads is another one",
                                               std::string_view(name), config.generator.name, here->second,
                                               std::string_view(value.as_string())));
  }
  return {};
}

}  // namespace

std::unique_ptr<Maker> Maker::make(const std::string& config) {
  const JobConfig wanted = job_from(config).value();
  check_machine(wanted).value();
  Job job = Job::make(wanted).value();
  auto generator = job.generator().make(job.context()).value();
  check_schema(generator->schema()).value();
  check_identity(wanted, generator->schema()).value();
  job.format().check(generator->schema()).value();
  return std::unique_ptr<Maker>(new Maker(config, std::move(job), std::move(generator)));
}

Maker::Made Maker::write(std::uint64_t shard, ByteSink& sink) {
  const ShardInfo info = job_.shard(shard);
  const auto writer = job_.format().open(schema_, info, sink).value();
  Made out;
  std::uint64_t samples = 0;
  generator_->generate(info.range, [&](const Table& table) {
    if (troupe::runtime_context().cancelled()) throw troupe::CancelledError("the shard is not wanted any more");
    table.check().value();
    samples += table.samples();
    out.rows += table.rows();
    writer->append(table);
  });
  if (samples != info.range.size())
    throw troupe::InvalidArgumentError(fmt::format("the generator {} gave {} samples of the {} from {} on",
                                                   job_.config().generator.name, samples, info.range.size(),
                                                   info.range.begin));
  writer->finish();
  return out;
}

LentMaker::LentMaker(const std::string& config)
    : maker_(shelf().take(config)), exceptions_(std::uncaught_exceptions()) {
  if (maker_ == nullptr) maker_ = Maker::make(config);
}

LentMaker::~LentMaker() {
  // What a generator was in the middle of when it threw is nothing to go on from.
  if (std::uncaught_exceptions() == exceptions_) shelf().put(std::move(maker_));
}

}  // namespace datagen

// Makers: generators and formats of this process, ready for the next shard of the same configuration.
//
// Any thread; a Maker belongs to one at a time.
//
// MKR-1  A generator that reads a file (a policy, a checkpoint) says its digest in the words of its schema under the
//        name that it has in identity(): a worker whose file is another one makes no shard.
#pragma once

#include <memory>
#include <string>

#include "apps/datagen/config/job.h"
#include "apps/datagen/manifest/journal.h"

namespace datagen {

class Maker {
 public:
  /// RuntimeEnvError on a machine that would make other bytes; InvalidArgumentError and NotFoundError as Job::make.
  static std::unique_ptr<Maker> make(const std::string& config);

  [[nodiscard]] const std::string& config() const { return config_; }
  [[nodiscard]] Job& job() { return job_; }
  /// Whose its shards are.
  [[nodiscard]] const JournalOwner& owner() const { return owner_; }
  [[nodiscard]] const std::shared_ptr<const Schema>& schema() const { return schema_; }

  struct Made {
    std::uint64_t rows = 0;
  };
  /// Generates the shard and writes it into the sink; throws what went wrong, CancelledError when it is cancelled.
  Made write(std::uint64_t shard, ByteSink& sink);

 private:
  Maker(std::string config, Job job, std::unique_ptr<Generator> generator)
      : config_(std::move(config)),
        job_(std::move(job)),
        owner_{.job = sha256(config_), .shards = job_.config().plan.shards()},
        generator_(std::move(generator)),
        schema_(std::make_shared<const Schema>(generator_->schema())) {}

  std::string config_;
  Job job_;
  JournalOwner owner_;
  std::unique_ptr<Generator> generator_;
  std::shared_ptr<const Schema> schema_;
};

/// A Maker of this process, kept for the next shard when this goes without an exception on its way.
class LentMaker {
 public:
  explicit LentMaker(const std::string& config);
  ~LentMaker();
  LentMaker(const LentMaker&) = delete;
  LentMaker& operator=(const LentMaker&) = delete;
  Maker& operator*() { return *maker_; }
  Maker* operator->() { return maker_.get(); }

 private:
  std::unique_ptr<Maker> maker_;
  int exceptions_;
};

}  // namespace datagen

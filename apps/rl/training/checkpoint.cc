#include "apps/rl/training/checkpoint.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include <xxhash.h>

#include "apps/common/output_file.h"

namespace rl {
namespace {

static_assert(std::endian::native == std::endian::little, "the file format is written by memory copy");

constexpr char kMagic[8] = {'T', 'R', 'O', 'U', 'P', 'E', 'R', 'L'};
constexpr std::uint32_t kVersion = 3;
constexpr std::uint32_t kPolicyKind = 1;
constexpr std::uint32_t kCheckpointKind = 2;

struct Head {
  char magic[8];
  std::uint32_t version, kind;
  std::uint64_t body_size, body_hash;
};
static_assert(sizeof(Head) == 32);

// Writer and Reader have the same members, so one function describes the layout for both directions.
class Writer {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  void number(const T& v) {
    using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;
    const Wide wide = static_cast<Wide>(v);
    append(&wide, sizeof wide);
  }
  void text(const std::string& s) { number(s.size()), append(s.data(), s.size()); }
  void floats(const std::vector<float>& v) { number(v.size()), append(v.data(), v.size() * sizeof(float)); }
  template <class T, class Item>
  void list(const std::vector<T>& v, Item item) {
    number(v.size());
    for (const T& x : v) item(x);
  }
  std::string take() { return std::move(out_); }

 private:
  void append(const void* data, std::size_t size) { out_.append(static_cast<const char*>(data), size); }
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}
  template <class T>
  requires std::is_arithmetic_v<T>
  void number(T& v) {
    std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t> wide{};
    copy(&wide, sizeof wide);
    v = static_cast<T>(wide);
  }
  void text(std::string& s) { s.resize(length(1)), copy(s.data(), s.size()); }
  void floats(std::vector<float>& v) { v.resize(length(sizeof(float))), copy(v.data(), v.size() * sizeof(float)); }
  template <class T, class Item>
  void list(std::vector<T>& v, Item item) {
    v.resize(length(8));
    for (T& x : v) item(x);
  }
  void refuse() { good_ = false; }
  /// False once anything was missing; the values read since are zero.
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return in_.empty(); }

 private:
  // A length that cannot be true, given what is left, ends the reading before memory is asked for.
  std::size_t length(std::size_t item_size) {
    std::uint64_t count = 0;
    number(count);
    if (count > in_.size() / item_size) good_ = false;
    return good_ ? count : 0;
  }
  void copy(void* to, std::size_t size) {
    if (size > in_.size()) good_ = false;
    if (!good_ || size == 0) return;
    std::memcpy(to, in_.data(), size);
    in_.remove_prefix(size);
  }
  std::string_view in_;
  bool good_ = true;
};

void spec_field(Writer& out, const PolicySpec& spec) { out.text(boost::json::serialize(to_json(spec))); }

void spec_field(Reader& in, PolicySpec& spec) {
  std::string text;
  in.text(text);
  boost::system::error_code failed;
  const boost::json::value json = boost::json::parse(text, failed);
  if (failed) return in.refuse();
  auto read = policy_from_json(json);
  if (!read.ok()) return in.refuse();
  spec = std::move(*read);
}

template <class IO, class P>
void policy_fields(IO& io, P& p) {
  io.text(p.env_id);
  spec_field(io, p.spec);
  io.floats(p.params);
  io.number(p.seed), io.number(p.steps), io.number(p.mean_return);
}

template <class IO, class C>
void checkpoint_fields(IO& io, C& c) {
  policy_fields(io, c.policy);
  io.number(c.config.seed), io.number(c.config.num_workers), io.number(c.config.num_envs), io.number(c.config.horizon);
  io.number(c.config.total_steps), io.number(c.config.stop_when_solved);
  io.floats(c.learner.first_moment), io.floats(c.learner.second_moment);
  io.number(c.learner.optimizer_steps), io.number(c.learner.env_steps);
  for (auto& word : c.learner.generator) io.number(word);
  io.number(c.log.threshold), io.number(c.log.steps), io.number(c.log.episodes), io.number(c.log.updates),
      io.number(c.log.seconds);
  io.floats(c.log.recent);
  io.list(c.log.curve, [&](auto& point) { io.number(point.steps), io.number(point.mean_return); });
  io.list(c.log.learning, [&](auto& point) {
    io.number(point.steps), io.number(point.kl), io.number(point.clip_fraction), io.number(point.entropy),
        io.number(point.learning_rate);
  });
  io.number(c.log.solved_steps), io.number(c.log.solved_seconds);
}

/// Its specification was checked when it was read.
bool sane(const Policy& p) {
  return p.params.size() == p.spec.networks.parameter_count();
}

/// Training goes on with the network that its configuration makes: another one's parameters would not fit it.
bool sane(const Checkpoint& c) {
  const auto between = [](std::size_t v, std::size_t most) { return v >= 1 && v <= most; };
  return sane(c.policy) && c.policy.spec == learner_options(c.config).policy &&
         c.learner.first_moment.size() == c.policy.params.size() &&
         c.learner.second_moment.size() == c.policy.params.size() && c.log.recent.size() <= kReturnWindow &&
         between(c.config.num_workers, 4096) && between(c.config.num_envs, 1 << 20) &&
         between(c.config.horizon, 1 << 20);
}

std::string with_head(std::uint32_t kind, const std::string& body) {
  Head head{{}, kVersion, kind, body.size(), XXH3_64bits(body.data(), body.size())};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + body;
}

struct Contents {
  std::uint32_t kind;
  std::string body;
};

troupe::Result<Contents> read_body(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return troupe::NotFoundError("cannot open " + path.string() + ": " + std::strerror(errno));
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const auto refuse = [&](const std::string& why) { return troupe::SerializationError(path.string() + " " + why); };
  if (bytes.size() < sizeof kMagic || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) {
    return refuse("is no policy or checkpoint of this program (foreign file)");
  }
  if (bytes.size() < sizeof(Head)) return refuse("is truncated: its head is incomplete");
  Head head;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.version != kVersion) {
    return refuse("has format version " + std::to_string(head.version) + "; this program reads version " +
                  std::to_string(kVersion));
  }
  const std::size_t have = bytes.size() - sizeof head;
  if (have < head.body_size) {
    return refuse("is truncated: " + std::to_string(have) + " of " + std::to_string(head.body_size) +
                  " bytes are there");
  }
  if (have > head.body_size) return refuse("is damaged: it is longer than its head says");
  if (XXH3_64bits(bytes.data() + sizeof head, have) != head.body_hash)
    return refuse("is damaged: its checksum does not match");
  return Contents{head.kind, bytes.substr(sizeof head)};
}

}  // namespace

troupe::Status save_policy(const std::filesystem::path& path, const Policy& policy) {
  Writer writer;
  policy_fields(writer, policy);
  return apps::write_file(path, with_head(kPolicyKind, writer.take()));
}

troupe::Result<Policy> load_policy(const std::filesystem::path& path) {
  const auto contents = read_body(path);
  if (!contents.ok()) return contents.error_ptr();
  if (contents->kind == kCheckpointKind) {
    auto checkpoint = load_checkpoint(path);
    if (!checkpoint.ok()) return checkpoint.error_ptr();
    return std::move(checkpoint->policy);
  }
  Reader reader(contents->body);
  Policy policy;
  policy_fields(reader, policy);
  if (contents->kind != kPolicyKind || !reader.good() || !reader.at_end() || !sane(policy)) {
    return troupe::SerializationError(path.string() + " is damaged: its contents make no policy");
  }
  return policy;
}

troupe::Status save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  Writer writer;
  checkpoint_fields(writer, checkpoint);
  return apps::write_file(path, with_head(kCheckpointKind, writer.take()));
}

troupe::Result<Checkpoint> load_checkpoint(const std::filesystem::path& path) {
  const auto contents = read_body(path);
  if (!contents.ok()) return contents.error_ptr();
  if (contents->kind == kPolicyKind) {
    return troupe::SerializationError(path.string() +
                                      " is a policy, not a checkpoint: it can be evaluated, not resumed");
  }
  Reader reader(contents->body);
  Checkpoint checkpoint;
  checkpoint_fields(reader, checkpoint);
  if (contents->kind != kCheckpointKind || !reader.good() || !reader.at_end() || !sane(checkpoint)) {
    return troupe::SerializationError(path.string() + " is damaged: its contents make no checkpoint");
  }
  checkpoint.learner.params = checkpoint.policy.params;
  return checkpoint;
}

}  // namespace rl

#include "apps/datagen/files/nondeterministic_error.h"

namespace datagen {
namespace {

constexpr const char* kName = "NondeterministicError";
constexpr std::size_t kDetails = 4;  // name of the class, shard, digests

troupe::ErrorRecord record_of(const std::string& shard, const std::string& was, const std::string& now) {
  troupe::ErrorRecord record;
  record.code = troupe::ErrorCode::kInvalidArgument;
  record.message = std::string(kName) + ": the bytes of shard " + shard + " are others at the second try: sha-256 " +
                   "was " + was + ", now " + now + ". A generator must draw from its sample's stream alone; if the " +
                   "file was damaged instead ('datagen verify' says so of committed ones), remove it: it is made again";
  record.details = {kName, shard, was, now};
  return record;
}

}  // namespace

NondeterministicError::NondeterministicError(const std::string& shard, const Digest& was, const Digest& now)
    : InvalidArgumentError(record_of(shard, hex(was), hex(now))) {}

std::optional<NondeterministicError> NondeterministicError::of(const troupe::Error& error) {
  const troupe::ErrorRecord& record = error.record();
  if (record.code != troupe::ErrorCode::kInvalidArgument || record.details.size() != kDetails ||
      record.details[0] != kName)
    return std::nullopt;
  return NondeterministicError(record);
}

}  // namespace datagen

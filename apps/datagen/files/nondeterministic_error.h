// NondeterministicError: a shard has come out with other bytes than before. Its generator draws from something else
// than its sample's stream, or the file was damaged in between.
//
// Immutable; any thread.
//
// NDE-1  Where it is thrown it is of this type. The runtime knows only its own classes: in another process it is the
//        InvalidArgumentError that it stands on, with all it knows in the record, and of() has it back.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include <troupe/error.h>

#include "apps/datagen/files/sha256.h"

namespace datagen {

class NondeterministicError : public troupe::InvalidArgumentError {
 public:
  /// `shard`: the name of its file; the digests of its bytes, as they were and as they are now.
  NondeterministicError(const std::string& shard, const Digest& was, const Digest& now);

  /// NDE-1; none: it is another error.
  [[nodiscard]] static std::optional<NondeterministicError> of(const troupe::Error& error);

  [[nodiscard]] const std::string& shard() const { return record().details[1]; }
  /// Digests as text: hex() of sha256.h.
  [[nodiscard]] const std::string& was() const { return record().details[2]; }
  [[nodiscard]] const std::string& now() const { return record().details[3]; }
  [[noreturn]] void raise() const override { throw *this; }

 private:
  explicit NondeterministicError(troupe::ErrorRecord record) : InvalidArgumentError(std::move(record)) {}
};

}  // namespace datagen

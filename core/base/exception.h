// From a C++ exception to a record: used in the one place that catches what users throw.
//
// Thread rule: describes the exception being handled on the calling thread (or fiber).
#pragma once
#include <cstddef>
#include <string>

#include <troupe/error.h>

namespace troupe {

/// The exception being handled, as data. Call it in a catch block.
///
/// A troupe::Error keeps its own record, whatever its class. Anything else becomes a TaskError's record: the demangled
/// type (`throw 42`: "int"), what() if there is one, and the mangled names of the type and of its public bases. What
/// was thrown by std::throw_with_nested keeps its own type; the types and texts of the inner ones follow in the
/// message, a line each. A message longer than kMessageMax is cut.
ErrorRecord describe_current_exception();

/// Shortens a message that is longer than kMessageMax, and says in it that it did: errors go whole in one frame.
void cut_message(std::string& message);
inline constexpr std::size_t kMessageMax = std::size_t{64} << 10;

/// The name a user would write for a mangled one; the mangled one itself when it is none.
std::string demangle(const char* mangled);

}  // namespace troupe

// Where libraries above base add their error classes, so that Error::make rebuilds them with their real type (ER-1).
//
// Thread rule: register_error is called while static objects are made, before any thread.
#pragma once
#include <memory>

#include <troupe/error.h>

namespace troupe::detail {

void register_error(ErrorCode code, const char* name, std::shared_ptr<const Error> (*maker)(ErrorRecord));

}  // namespace troupe::detail

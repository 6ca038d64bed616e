#include "apps/rl/spaces/rows.h"

namespace rl::detail {

void raise_dtype(DType wanted, DType actual) {
  troupe::InvalidArgumentError("these rows are " + std::string(name_of(actual)) + ", not " +
                               std::string(name_of(wanted)))
      .raise();
}

}  // namespace rl::detail

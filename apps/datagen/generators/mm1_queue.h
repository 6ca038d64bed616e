// mm1-queue: customers of a queue with one server, exponential times between arrivals and of service (Kendall's M/M/1):
// a row is one queue, its mean wait over so many customers, and what theory says.
//
//   arrival_rate, service_rate, utilization   float64; the service rate and the utilization are drawn from ranges
//   customers                                 int64
//   mean_wait, standard_error                 of the wait before service: Lindley's (1952) recursion, batch means
//   theory, error                             utilization / (service_rate - arrival_rate); mean_wait - theory
//
// MMQ-1  The first customer's wait is drawn from the stationary distribution, so that there is no warm-up: mean_wait's
//        expectation is `theory`.
#pragma once

#include "apps/datagen/generators/generator.h"

namespace datagen {

[[nodiscard]] GeneratorKind mm1_queue();

}  // namespace datagen

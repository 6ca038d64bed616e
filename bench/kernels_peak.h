// The machine's multiply-add peak: independent chains in registers, nothing else. Any thread.
#pragma once

namespace troupe::bench {

/// Floating-point operations a second of one thread in float (a multiply-add counts two), on the widest instruction set
/// that the kernels would use; measured for about that many seconds.
double multiply_add_peak(double seconds);

}  // namespace troupe::bench

// What user code prints in a worker: it reaches the log file and the driver's terminal when it is printed, not when a
// buffer is full.
//
// A worker's standard output is a pipe, so the C library would hold back 4 KiB, and a worker that is killed would never
// show them. It is line-buffered instead; what has no newline yet leaves at the end of the call that printed it, and
// when the daemon asks.
//
// Thread rule: any thread.
#pragma once

namespace troupe {

/// Of this process's standard output: a line leaves when it is complete. To be called before user code prints.
void line_buffer_output();
/// What was printed leaves now. At the end of a call, on the thread that ran it: costs a nanosecond when there is
/// nothing.
void flush_call_output();
/// The same from any other thread; what somebody is just printing is left to him. Not for std::cout where the user has
/// taken it off stdio: nobody but the thread that prints may touch that.
void flush_output();

}  // namespace troupe

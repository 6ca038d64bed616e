// Troupe: tasks, actors and objects for C++20. This header is all that most programs need; read the files in this
// order.
//
//   run.h          the program: run(argc, argv, &driver)
//   task.h         task<&f>.remote(...), submit(lambda, ...)
//   objects.h      put, get, try_get, wait, cancel, on_ready
//   array.h        Array, ArrayBuilder: shared memory, no copies
//   stream.h       RefStream, and generator.h: Generator
//   actor.h        actor<A>.remote(...), handles, names, kill, stop, monitor
//   error.h        the typed errors; result.h: Result and Status
//   options.h      option structs of all of them
//   context.h      runtime_context, sleep_for, yield
//   log.h          log lines that reach the driver
//
// Beside it: <troupe/sync.h>, <troupe/state.h>, <troupe/testing.h>.
//
// <algorithm> comes with it, though none of these headers needs it: programs sort and search what get() gives them, and
// those that were written when it came by itself go on to compile. Who wants less includes the headers one by one.
#pragma once
#include <algorithm>

#include <troupe/actor.h>
#include <troupe/array.h>
#include <troupe/context.h>
#include <troupe/duration.h>
#include <troupe/error.h>
#include <troupe/generator.h>
#include <troupe/log.h>
#include <troupe/object_ref.h>
#include <troupe/objects.h>
#include <troupe/options.h>
#include <troupe/result.h>
#include <troupe/run.h>
#include <troupe/serialize.h>
#include <troupe/stream.h>
#include <troupe/task.h>

# The executing side: tasks and actors that are hosted here.
troupe_library(executor
  SOURCES executor/call_runner.cc executor/checkpoints.cc executor/executor_threads.cc executor/host.cc
          executor/hosted_actor.cc executor/keyed_replies.cc executor/light_report.cc executor/replies.cc
  DEPENDS caller fmt::fmt Boost::headers)

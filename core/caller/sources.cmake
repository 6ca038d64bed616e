# The submitting side: tasks, actor calls, streams.
troupe_library(caller
  SOURCES caller/actor_clients.cc caller/actor_creation.cc caller/actor_deaths.cc caller/call_table.cc caller/caller.cc
          caller/lease_pool.cc caller/streams.cc caller/task_submitter.cc
  DEPENDS owner fmt::fmt Boost::headers)

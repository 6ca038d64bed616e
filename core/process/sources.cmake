# A driver or worker process as a whole: the parts wired together, the service thread, the public functions.
troupe_library(process
  SOURCES process/api.cc process/context_api.cc process/core.cc process/dispatcher.cc process/group_port.cc
          process/log_printer.cc process/process.cc process/run.cc process/run_options.cc process/state.cc
          process/state_rows.cc process/sync.cc process/wait_reason.cc
  DEPENDS executor node fmt::fmt Boost::headers Boost::json Threads::Threads)

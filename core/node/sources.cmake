# The node: its daemon, launchers, sessions, and how a driver or the troupe command starts and ends them.
troupe_library(node
  SOURCES
    node/boot_socket.cc
    node/daemon.cc
    node/daemon_actors.cc
    node/daemon_boot.cc
    node/daemon_config.cc
    node/daemon_data.cc
    node/daemon_death.cc
    node/daemon_links.cc
    node/daemon_mail.cc
    node/daemon_workers.cc
    node/launcher.cc
    node/log_filter.cc
    node/log_pump.cc
    node/loop.cc
    node/mail.cc
    node/process_table.cc
    node/roles.cc
    node/session.cc
    node/spawn.cc
    node/start.cc
    node/store_service.cc
    node/strays.cc
    node/test_cluster.cc
    node/testing.cc
  DEPENDS head net link scheduler objectstore base)

"""bench/run in parts: what rows mean (rows), how they are shown (tables), what is built and started (measures), the
command line (main). Rows and tables are pure; only measures and main touch the machine."""

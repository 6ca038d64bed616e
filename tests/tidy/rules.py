"""The rules of the house that a machine can check: which folder may include which, and which calls are banned.

Every exception stands here, with its reason. docs/architecture.md draws the same arrows.
"""

# The layers from the bottom to the top. A folder may include itself, the public headers (core/include/troupe, which
# name nothing but the standard library) and what is listed here; nothing points back. A name is a path below core/, or
# one of the top; the longest one that fits a file decides alone, so a sub-folder with a line of its own ("net/link")
# lists everything that it may include. A name in a list stands for all that lies below it.
LAYERS = {
    "base":        [],
    "kernels":     ["base"],
    "net":         ["base"],                            # below: base <- ring <- endpoint, base <- link, base <- data
    "net/base":    ["base"],
    "net/ring":    ["base", "net/base"],
    "net/endpoint": ["base", "net/base", "net/ring"],
    "net/link":    ["base", "net/base"],
    "net/data":    ["base", "net/base"],
    "wire":        ["base", "net"],                    # the control messages are payload of net's frames
    "exec":        ["base", "net"],                    # whoever waits serves the rings meanwhile
    "scheduler":   ["base", "wire"],
    "objectstore/arena":  ["base"],                    # shared memory, its layout and the words of both sides
    "objectstore/server": ["base", "objectstore/arena"],
    "objectstore/client": ["base", "objectstore/arena"],
    "boot":        ["base", "wire", "net"],            # the unix socket between a process and its daemon
    "rpc":         ["base", "wire", "net"],            # libtroupe_rpc: the one place that knows gRPC
    "head":        ["base", "wire", "net", "exec", "scheduler", "objectstore"],
    # base <- launcher, logs, session, store <- daemon <- roles
    "node/base":     ["base", "wire", "net", "boot", "scheduler", "objectstore"],
    "node/launcher": ["base", "wire", "net", "boot", "node/base"],
    "node/logs":     ["base", "wire", "node/base"],
    "node/session":  ["base", "wire", "node/base", "node/launcher"],
    "node/store":    ["base", "wire", "net", "scheduler", "objectstore", "node/base"],
    # base <- local, deaths, mail <- peers, workers; admission: and the daemon, which wires them
    "node/daemon":   ["base", "wire", "net", "exec", "boot", "scheduler", "objectstore", "head",
                      "node/base", "node/launcher", "node/logs", "node/session", "node/store"],
    "node/daemon/base":      ["base", "boot", "wire", "node/base", "node/launcher", "node/session"],
    "node/daemon/local":     ["base", "boot", "head", "net", "wire", "node/base", "node/session",
                              "node/daemon/base"],
    "node/daemon/deaths":    ["base", "net", "node/base", "node/launcher", "node/logs", "node/store"],
    "node/daemon/mail":      ["base", "net", "node/base", "wire"],
    "node/daemon/peers":     ["base", "net", "wire", "node/base", "node/store", "node/daemon/local",
                              "node/daemon/mail"],
    "node/daemon/workers":   ["base", "scheduler", "wire", "node/base", "node/launcher", "node/logs", "node/session",
                              "node/store", "node/daemon/base", "node/daemon/deaths", "node/daemon/local"],
    "node/daemon/admission": ["base", "net", "wire", "node/base", "node/store", "node/daemon/base"],
    "node/roles":    ["base", "wire", "net", "exec", "boot", "scheduler", "objectstore", "head",
                      "node/base", "node/launcher", "node/logs", "node/session", "node/store", "node/daemon"],
    # What every driver and worker has, each on the one before: what they share, refs, the submitting side, the
    # executing side.
    "runtime":     ["base", "wire", "net", "exec"],
    "owner":       ["base", "wire", "net", "exec", "runtime", "objectstore"],
    "caller":      ["base", "wire", "net", "exec", "runtime", "owner"],
    "executor":    ["base", "wire", "net", "exec", "runtime", "owner", "caller"],
    "process":     ["base", "wire", "net", "exec", "boot", "runtime", "owner", "caller", "executor", "objectstore",
                    "node"],
    "api":         [],                                 # public headers: the standard library and each other
    "collective":  ["base", "wire", "net", "exec", "kernels", "boot", "runtime", "owner", "caller", "executor",
                    "process"],
    # Groups stand on four ways for bytes; only `group` knows the runtime and what stands below it.
    "collective/base":     ["base", "kernels"],
    "collective/schedule": [],
    "collective/shm":      ["base", "kernels", "collective/base"],
    "collective/tcp":      ["base", "net/base", "kernels", "collective/base", "collective/schedule"],  # net/base: HMAC
    "collective/hier":     ["base", "kernels", "collective/base", "collective/schedule", "collective/shm",
                            "collective/tcp"],
    "collective/device":   ["base", "collective/base"],
    "collective/nccl":     ["base", "kernels", "collective/base", "collective/device"],
    "collective/cuda":     ["collective/device"],      # inside the CUDA plug-in: the table that device/ declares
    "apps":        ["collective", "kernels"],          # programs like those of any user
    "apps/common":           [],
    "apps/common/random": [],
    "apps/common/safetensors": [],
    "apps/common/settings": ["apps/common"],
    "apps/train/model":      ["kernels"],
    "apps/train/data":       [],
    "apps/train/trainer":    ["kernels", "apps/train/model"],
    "apps/train/checkpoint": ["apps/common/safetensors", "apps/train/trainer"],
    "apps/train/elastic":    ["apps/train/trainer", "apps/train/checkpoint"],
    "apps/train/program":    ["kernels", "apps/common", "apps/train"],
    "apps/rl":               ["collective", "kernels", "apps/common"],
    "apps/rl/program":       ["collective", "kernels", "apps/common", "apps/rl", "apps/datagen/read"],  # demonstrations
    # base <- generators, formats, manifest <- run <- program
    "apps/datagen/table":      [],
    "apps/datagen/random":     ["apps/common/random", "kernels"],
    "apps/datagen/files":      ["apps/common"],
    "apps/datagen/config":     ["apps/common", "kernels", "apps/datagen/files", "apps/datagen/formats",
                                "apps/datagen/generators"],
    "apps/datagen/manifest":   ["apps/common", "apps/datagen/files", "apps/datagen/generators"],
    "apps/datagen/formats":    ["apps/common", "apps/datagen/files", "apps/datagen/table", "apps/datagen/generators"],
    "apps/datagen/run":        ["apps/common", "apps/datagen/files", "apps/datagen/table", "apps/datagen/formats",
                                "apps/datagen/generators", "apps/datagen/manifest", "apps/datagen/config"],
    "apps/datagen/program":    ["apps/common", "kernels", "apps/datagen"],
    "apps/datagen/read":       ["apps/common", "apps/rl", "apps/datagen/files", "apps/datagen/table",
                                "apps/datagen/formats", "apps/datagen/manifest", "apps/datagen/run",
                                "apps/datagen/config"],
    "apps/datagen/generators": ["apps/common", "kernels", "apps/datagen/files", "apps/datagen/table",
                                "apps/datagen/random", "apps/rl", "apps/train"],
    "bench":       ["base", "wire", "net", "exec", "boot", "runtime", "owner", "caller", "executor", "process",
                    "scheduler", "objectstore", "head", "node", "collective", "kernels", "apps"],  # the layers too
    "tests":       None,                               # anything
}

# Single files that may include more than their folder: path prefix -> (folders, reason).
MORE_INCLUDES = {
    "apps/cli/": (["node", "base", "wire"], "the troupe command is the other face of core/node"),
}

PRODUCT = ("core/", "scheduler/", "objectstore/", "collective/", "kernels/", "apps/")
LIBRARIES = ("core/", "scheduler/", "objectstore/", "collective/", "kernels/")
PURE = ("scheduler/", "core/head/state/", "core/net/base/proof", "core/net/link/session",
        "collective/group/meeting_")


class Ban:
    """A call that has a better replacement. Looked for in code without comments and strings."""

    def __init__(self, name, pattern, instead, where=PRODUCT, allowed=None, headers_only=False):
        self.name, self.pattern, self.instead = name, pattern, instead
        self.where, self.allowed, self.headers_only = where, allowed or {}, headers_only


BANS = [
    Ban("sleep", r"\bstd::this_thread::sleep_(?:for|until)\b|\busleep\s*\(|\bnanosleep\s*\(|(?<![\w:.>])::sleep\s*\(",
        "wait for the event: exec::Waiter or a poll with a deadline; in a task or actor troupe::sleep_for"),
    Ban("boost fiber", r"\bboost::this_fiber\b|\bboost::fibers\b|#\s*include\s*<boost/fiber",
        "exec::Waiter inside, troupe::Mutex and its relatives in sync.h outside: only they keep the exception state "
        "over a switch",
        allowed={"core/exec/": "the one place where anything is suspended"}),
    Ban("boost fiber pools", r"\bwork_stealing\b|\bshared_work\b|fiber/cuda/waitfor",
        "one round_robin scheduler a thread: work_stealing crashes when a process builds a second pool, waitfor races"),
    Ban("getenv", r"\b(?:secure_)?getenv\s*\(|\bstd::getenv\b",
        "a field of an options struct, filled where the options are parsed",
        allowed={
            "core/base/environment": "the one reader of the environment",
            "core/process/run_options": "the options parser",
            "core/node/roles/": "the role of a process is given by its environment",
            "core/node/session/": "TROUPE_SESSION_ROOT and TMPDIR, read once",
            "core/node/launcher/strays": "writes a worker's serial over its inherited mark, in place",
            "core/node/launcher/launcher": "hands its environment to the workers that it forks",
            "apps/": "programs read their own settings; each once, at the start",
        }),
    Ban("subranges of std::ranges",
        r"\bstd::ranges::(?:unique|rotate|remove|remove_if|partition|search)\b|\bstd::views::",
        "the form with iterators: clang 14, which builds the fuzzers, cannot compile libstdc++'s subrange"),
    Ban("atomic wait", r"\bstd::atomic_(?:wait|notify)\w*|(?:\.|->)wait\s*\([^;]*memory_order",
        "net::Doorbell or a raw futex without FUTEX_PRIVATE_FLAG: std::atomic::wait does not wake another process"),
    Ban("fork", r"(?<![\w.>:])(?:::)?v?fork\s*\(\s*\)(?!\s*const)|\bposix_spawn\w*\s*\("
        r"|(?<![\w.>:])(?:std::|::)?system\s*\(\s*[^)]|\bpopen\s*\(",
        "the launcher: fork after gRPC was used hangs the child, and a child must be seen by pidfd",
        allowed={"core/node/": "launcher, daemon and embedded start are the processes' home",
                 "apps/cli/": "`troupe run` execs the program",
                 "apps/rl/envs/gym/host_process": "posix_spawn of a Python, seen by pidfd: rl works without the "
                                                  "runtime",
                 "apps/rl/program/child_process": "posix_spawn of the program itself, seen by pidfd"}),
    Ban("stdout in a library",
        r"(?<![\w:])(?:std::)?(?:printf|puts|putchar|vprintf)\s*\(|\bstd::cout\b|\bfprintf\s*\(\s*stdout",
        "troupe::log, or return the text: standard output belongs to the user's program", where=LIBRARIES,
        allowed={"core/base/output": "prints nothing: what the user printed in a worker leaves its buffers"}),
    Ban("using namespace in a header", r"^\s*using\s+namespace\b", "names in full, or using-declarations in the .cc",
        where=PRODUCT + ("bench/",), headers_only=True),
    Ban("parent-death signal", r"\bPR_SET_PDEATHSIG\b",
        "a pidfd of the parent: the signal fires when the forking thread exits",
        allowed={"core/node/launcher/launcher": "the launcher has one thread, which lives as long as it does",
                 "core/node/launcher/spawn": "only for a child of a process whose forking thread is its main thread"}),
    Ban("named shared memory", r"\bshm_open\s*\(|\bshmget\s*\(|\bsem_open\s*\(",
        "memfd_create: a named segment outlives a crash"),
    Ban("clock in a pure layer",
        r"\b(?:steady|system|high_resolution)_clock::now\b|\bclock_gettime\s*\(|\bgettimeofday\s*\(",
        "the injected clock: the time comes with the event", where=PURE,
        allowed={"core/head/service/server": "the shell around the state machine: where the time comes in"}),
    Ban("randomness in a pure layer",
        r"\bstd::random_device\b|\b(?:std::)?s?rand\s*\(\s*\)|\bgetrandom\s*\(", "the injected random source",
        where=PURE),
    Ban("detached thread", r"(?:\.|->)detach\s*\(\s*\)", "keep the thread and join it: nothing outlives its scope",
        allowed={"core/exec/boost_fibers": "fibers, which FiberThread counts and runs to their end",
                 "core/node/daemon/local/node": "local mode: a worker's thread that does not return from user code, "
                                                "two seconds after it should have ended"}),
    Ban("gRPC and protobuf", r"#\s*include\s*[<\"](?:grpc|google/protobuf|[\w/]+\.pb\.h)",
        "net's channel interface: linking gRPC costs every worker 6 ms of start",
        where=PRODUCT + ("bench/",), 
        allowed={"core/rpc/": "the plug-in libtroupe_rpc", "core/wire/proto/": "the messages' one home"}),
    Ban("unsafe temporary name", r"\b(?:tmpnam|mktemp|tempnam)\s*\(", "mkdtemp, mkostemp or memfd_create",
        where=PRODUCT + ("bench/", "tests/")),
]

# Headers that cannot compile alone, with the reason. Path prefix -> reason.
NOT_ALONE = {
    "apps/datagen/formats/minari/hdf5/": "needs the headers of HDF5: compiled with its plug-in, where they are",
    "apps/datagen/formats/parquet/arrow/": "needs the headers of Arrow: compiled with its plug-in, where they are",
    "core/rpc/": "needs generated files: compiled with its library",
    "core/wire/proto/": "needs generated files: compiled with its library",
}

# Words that look like the identifier of an invariant (two to four capitals, a hyphen, a number) and are none.
NO_PROMISES = {"AVX", "GPT", "SHA", "UTF"}

# Files of others that comments name, by their folder.
FOREIGN = ("fmt/", "boost/", "grpcpp/", "bits/")

COLUMNS = 120

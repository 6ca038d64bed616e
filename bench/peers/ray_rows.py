"""Ray's own rows, from Python, counted as ours: prints one JSON object a line. Runs in the peers' virtual environment."""
import argparse
import json
import re
import statistics
import time

import numpy
import ray


class Harness:
    def __init__(self, only, quick):
        self.only, self.scale = only, 0.1 if quick else 1.0

    def wants(self, row):
        return re.search(self.only, row) is not None

    def rate(self, step, multiplier=1):
        calls, start = 0, time.perf_counter()
        while time.perf_counter() - start < self.scale:
            step()
            calls += 1
        stride, trials = calls // 10 + 1, []
        for _ in range(4):
            done, start = 0, time.perf_counter()
            while True:
                elapsed = time.perf_counter() - start
                if elapsed >= 2 * self.scale:
                    break
                for _ in range(stride):
                    step()
                done += stride
            trials.append(multiplier * done / elapsed)
        return statistics.mean(trials)

    def report(self, row, measure):
        if self.wants(row):
            print(json.dumps({"row": row, "value": measure()}), flush=True)


@ray.remote
def ok():
    return b"ok"


@ray.remote
def make_refs():
    return [ray.put(i) for i in range(10_000)]


@ray.remote(num_cpus=0)
class Echo:
    def ok(self):
        return b"ok"

    def read_ms(self, refs):
        start = time.perf_counter()
        value = ray.get(refs[0])
        ms = (time.perf_counter() - start) * 1e3
        assert value[0] == 1
        return ms


def shrinking_wait():
    refs = [ok.remote() for _ in range(1000)]
    while refs:
        _, refs = ray.wait(refs)


def create_ms(count):
    start = time.perf_counter()
    actors = [Echo.remote() for _ in range(count)]
    ray.get([actor.ok.remote() for actor in actors])
    ms = (time.perf_counter() - start) * 1e3
    for actor in actors:
        ray.kill(actor)
    return ms


def one_node(harness):
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="error", object_store_memory=2560 << 20)
    echo = Echo.remote()
    ray.get(echo.ok.remote())
    zero, large = ray.put(0), numpy.zeros((200 if harness.scale < 1 else 800) << 17, dtype=numpy.int64)
    harness.report("task/sync", lambda: harness.rate(lambda: ray.get(ok.remote())))
    harness.report("task/async", lambda: harness.rate(lambda: ray.get([ok.remote() for _ in range(1000)]), 1000))
    harness.report("actor/sync_spin_us", lambda: 1e6 / harness.rate(lambda: ray.get(echo.ok.remote())))
    harness.report("actor/async", lambda: harness.rate(lambda: ray.get([echo.ok.remote() for _ in range(1000)]), 1000))
    harness.report("put/small", lambda: harness.rate(lambda: ray.put(0)))
    harness.report("get/small", lambda: harness.rate(lambda: ray.get(zero)))
    harness.report("put/large_gb_s", lambda: harness.rate(lambda: ray.put(large), large.nbytes / 1e9))
    harness.report("wait/1k_shrinking_ms", lambda: 1e3 / harness.rate(shrinking_wait))
    if harness.wants("refs/10k_in_object_ms"):
        refs = make_refs.remote()
        ray.get(refs)
        harness.report("refs/10k_in_object_ms", lambda: 1e3 / harness.rate(lambda: ray.get(refs)))
    harness.report("actor/process_create_ms", lambda: statistics.median(create_ms(1) for _ in range(5)))
    harness.report("actor/process_create_30_ms", lambda: create_ms(30))
    ray.shutdown()


def two_nodes(harness):
    from ray.cluster_utils import Cluster
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 1 << 30})
    other = cluster.add_node(num_cpus=1, object_store_memory=1 << 30)
    ray.init(address=cluster.address, logging_level="error")
    reader = Echo.options(scheduling_strategy=NodeAffinitySchedulingStrategy(other.node_id, soft=False)).remote()
    ray.get(reader.ok.remote())
    times = []
    for _ in range(2):
        array = numpy.zeros(256 << 20, dtype=numpy.uint8)
        array[0] = 1
        times.append(ray.get(reader.read_ms.remote([ray.put(array)])))
    harness.report("node/transfer_256MiB_ms", lambda: times[1])
    ray.shutdown()
    cluster.shutdown()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    harness = Harness(arguments.only, arguments.quick)
    one_node(harness)
    if harness.wants("node/transfer_256MiB_ms"):
        two_nodes(harness)


if __name__ == "__main__":
    main()

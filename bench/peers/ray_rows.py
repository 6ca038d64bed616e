"""Ray's own rows, from Python, counted as ours: prints one JSON object a line. Runs in the peers' virtual
environment."""
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


@ray.remote(num_cpus=0)
class Maker:
    def numbers(self, count):
        return [ray.put(i) for i in range(count)]

    def refs(self):
        start = time.perf_counter()
        made = [ray.put(i) for i in range(10_000)]
        self.making_ms = (time.perf_counter() - start) * 1e3
        return made

    def last_making_ms(self):
        return self.making_ms

    def large(self, count):
        return [ray.put(numpy.ones(count, dtype=numpy.float32))]


@ray.remote(num_cpus=0)
class Caller:
    def drive(self, targets, batches):
        for _ in range(batches):
            ray.get([targets[i % len(targets)].ok.remote() for i in range(1000)])
        return batches


@ray.remote(num_cpus=0)
class Echo:
    def ok(self):
        return b"ok"

    def take(self, value):
        return value

    def read_ms(self, refs):
        start = time.perf_counter()
        value = ray.get(refs[0])
        ms = (time.perf_counter() - start) * 1e3
        assert value[0] == value[-1] != 0
        return ms


def shrinking_wait():
    refs = [ok.remote() for _ in range(1000)]
    while refs:
        _, refs = ray.wait(refs)


def create_ms(count, environment=None):
    start = time.perf_counter()
    actors = [Echo.options(runtime_env=environment).remote() for _ in range(count)]
    ray.get([actor.ok.remote() for actor in actors])
    ms = (time.perf_counter() - start) * 1e3
    for actor in actors:
        ray.kill(actor)
    return ms


def asleep_us(echo, harness):
    """Calls 5 ms apart, as ours."""
    times = []
    for _ in range(60 if harness.scale < 1 else 400):
        time.sleep(0.005)
        start = time.perf_counter()
        ray.get(echo.ok.remote())
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def first_small(maker, harness):
    count, rates = 4_000 if harness.scale < 1 else 20_000, []
    for _ in range(6):
        refs = ray.get(maker.numbers.remote(count))
        start = time.perf_counter()
        for ref in refs:
            ray.get(ref)
        rates.append(count / (time.perf_counter() - start))
    return statistics.median(rates[1:])


def first_large_us(maker, harness):
    times = []
    for _ in range(3 if harness.scale < 1 else 5):
        refs = ray.get(maker.large.remote((64 if harness.scale < 1 else 1024) << 18))
        start = time.perf_counter()
        value = ray.get(refs[0])
        times.append((time.perf_counter() - start) * 1e6)
        del value, refs
    return statistics.median(times)


def new_object_ms(maker, harness):
    times = []
    for _ in range(3 if harness.scale < 1 else 15):
        start = time.perf_counter()
        refs = ray.get(maker.refs.remote())
        ms = (time.perf_counter() - start) * 1e3
        times.append(ms - ray.get(maker.last_making_ms.remote()))
        del refs
    return statistics.median(times)


def with_ref(echo):
    number = ray.put(7)
    ray.get([echo.take.remote(number) for _ in range(1000)])


def n_n_async(harness):
    targets, callers = [Echo.remote() for _ in range(2)], [Caller.remote() for _ in range(2)]
    return harness.rate(lambda: ray.get([caller.drive.remote(targets, 2) for caller in callers]), 4000)


def one_node(harness):
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="error",
             object_store_memory=2560 << 20)
    echo = Echo.remote()
    ray.get(echo.ok.remote())
    zero, large = ray.put(0), numpy.zeros((200 if harness.scale < 1 else 800) << 17, dtype=numpy.int64)
    harness.report("task/sync", lambda: harness.rate(lambda: ray.get(ok.remote())))
    harness.report("task/async", lambda: harness.rate(lambda: ray.get([ok.remote() for _ in range(1000)]), 1000))
    harness.report("actor/sync_spin_us", lambda: 1e6 / harness.rate(lambda: ray.get(echo.ok.remote())))
    harness.report("actor/async", lambda: harness.rate(lambda: ray.get([echo.ok.remote() for _ in range(1000)]), 1000))
    harness.report("put/small", lambda: harness.rate(lambda: ray.put(0)))
    harness.report("get/ready_local", lambda: harness.rate(lambda: ray.get(zero)))
    maker = Maker.remote()
    harness.report("actor/sync_us", lambda: asleep_us(echo, harness))
    harness.report("actor/async_with_ref", lambda: harness.rate(lambda: with_ref(echo), 1000))
    harness.report("actor/n_n_async", lambda: n_n_async(harness))
    harness.report("get/first_small", lambda: first_small(maker, harness))
    harness.report("get/first_large_us", lambda: first_large_us(maker, harness))
    harness.report("refs/10k_new_object_ms", lambda: new_object_ms(maker, harness))
    harness.report("put/large_gb_s", lambda: harness.rate(lambda: ray.put(large), large.nbytes / 1e9))
    harness.report("wait/1k_shrinking_ms", lambda: 1e3 / harness.rate(shrinking_wait))
    if harness.wants("refs/10k_same_object_ms"):
        refs = maker.refs.remote()
        ray.get(refs)
        harness.report("refs/10k_same_object_ms", lambda: 1e3 / harness.rate(lambda: ray.get(refs)))
    harness.report("actor/process_create_ms", lambda: statistics.median(create_ms(1) for _ in range(5)))
    # It keeps workers ready for tasks, none with an environment of its own.
    harness.report("actor/process_create_cold_ms", lambda: statistics.median(
        create_ms(1, {"env_vars": {"TROUPE_BENCH_COLD": str(i)}}) for i in range(5)))
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
    for i in range(3 if harness.scale < 1 else 6):
        array = numpy.full(256 << 20, 1 + i, dtype=numpy.uint8)
        times.append(ray.get(reader.read_ms.remote([ray.put(array)])))
    harness.report("node/transfer_256MiB_ms", lambda: statistics.median(times[1:]))
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

"""Rows: those of rows.json joined with what was measured, and what must be reached judged. Pure.

What must be reached, in rows.json:
  must, aim    a value in the row's unit. Where `scaled_by` names a property of the machine, it was set on a machine
               with that property as in STANDARD, and moves in proportion on one that is slower at the moment (never
               on a faster one).
  ratios       {peer: [must, aim]}: so many times as fast as that peer, in the same run. Not judged where the peer was
               not run.
  over         {row: [must, aim]}: so many times as fast as another row of the same run.

A row is met when everything that could be judged is.
"""
import re

KEYS = ["row", "unit", "better", "value", "spread", "floor", "peer", "must", "aim", "met"]
MORE_KEYS = ["peers", "ratios", "scale", "round_trip_ns", "copy_gb_s", "ping_pong_us"]  # only where there are such
STANDARD = {"round_trip_ns": (135, "lower"), "copy_gb_s": (55, "higher"), "ping_pong_us": (0.25, "lower")}
OF_THE_RUN = {"ping_pong_us": "machine/ping_pong"}  # properties that are a row of their own, measured once a run


def merge(known, seen, peers, only):
    """Rows in the order of rows.json, then the others; and the names that are missing. `peers`: {peer: {row:
    value}}."""
    table, missing = [], []
    by_name = {row["row"]: dict(row) for row in seen}
    for fixed in known:
        row = by_name.pop(fixed["row"], None)
        if row is not None:
            table.append({**row, **fixed})
        elif not only or re.search(only, fixed["row"]):
            missing.append(fixed["row"])
    table += by_name.values()
    for row in table:
        for key in KEYS:
            row.setdefault(key, None)
        add_peers(row, peers)
    values = {row["row"]: row["value"] for row in table}
    for row in table:
        name = row.get("scaled_by")
        if name in OF_THE_RUN and OF_THE_RUN[name] in values:
            row.setdefault(name, values[OF_THE_RUN[name]])
        judge(row, values)
    return table, missing


def add_peers(row, peers):
    """A measure may have run a peer itself, beside its own."""
    measured = {
        **row.get("peers", {}), **{name: values[row["row"]]
                                   for name, values in peers.items() if row["row"] in values}
    }
    if measured:
        row["peers"] = measured
        row["peer"] = max(measured.values()) if row["better"] == "higher" else min(measured.values())


def needed_of_the_run(known, only):
    """The rows of OF_THE_RUN that must be measured so that the wanted ones can be judged."""
    wanted = {row.get("scaled_by") for row in known if not only or re.search(only, row["row"])}
    return sorted(OF_THE_RUN[name] for name in wanted if name in OF_THE_RUN)


def scale_of(row):
    """How much slower the machine was than the one that the row's bars were set on; at least 1."""
    name = row.get("scaled_by")
    if not name or not row.get(name):
        return 1.0
    standard, better = STANDARD[name]
    return max(1.0, row[name] / standard if better == "lower" else standard / row[name])


def scaled(bar, row):
    """A bar in the row's unit, for the machine as it was."""
    if bar is None:
        return None
    return bar / row["scale"] if row["better"] == "higher" else bar * row["scale"]


def speed(row, other):
    """How many times as fast the row is as another value in the same unit."""
    return row["value"] / other if row["better"] == "higher" else other / row["value"]


def judge(row, values):
    """Adds `scale`, `ratios` and `met`."""
    row["scale"] = scale_of(row)
    met = []
    if row["must"] is not None:
        must = scaled(row["must"], row)
        met.append(row["value"] >= must if row["better"] == "higher" else row["value"] <= must)
    ratios = {}
    for wanted, others in ((row.pop("ratios", {}), row.get("peers", {})), (row.pop("over", {}), values)):
        for name, (must, aim) in wanted.items():
            if others.get(name):
                ratios[name] = {"value": speed(row, others[name]), "must": must, "aim": aim}
    if ratios:
        row["ratios"] = ratios
        met += [ratio["value"] >= ratio["must"] for ratio in ratios.values()]
    if row["scale"] == 1:
        del row["scale"]
    row["met"] = all(met) if met else None


def as_json(row):
    """What --json writes of a row."""
    return {key: row[key] for key in KEYS + [key for key in MORE_KEYS if key in row]}

"""How rows are shown: as text, as Markdown, between the marks of a page. Pure.

Marks of a page; what stands between one and the next `<!-- /bench -->` is written anew, where this run has it:
  <!-- bench REGEX -->         the fixed rows whose name matches, as a table
  <!-- bench-output NAME -->   what the measure NAME printed itself
  <!-- bench-about REGEX -->   the command, and the machine, of a run with rows whose name matches; without REGEX of any
                               run
"""
import re

MARK = re.compile(r"<!-- bench(?P<kind>|-output|-about)(?: (?P<what>\S+))? -->\n(?P<old>.*?)<!-- /bench -->", re.S)
STANDARD_NAMES = {"round_trip_ns": ("line round trip", "ns"), "copy_gb_s": ("copy", "GB/s"),
                  "ping_pong_us": ("ring ping-pong", "us")}


def number(value):
    if value is None:
        return ""
    magnitude = abs(value)
    if magnitude >= 1e6:
        return f"{value / 1e6:.3g} M"
    if magnitude >= 1e4:
        return f"{value / 1e3:.3g} k"
    return f"{value:.3g}"


def ratios_text(row):
    """"5.2 (4) x OpenMPI": reached, in brackets what must be."""
    return "; ".join(f"{ratio['value']:.2f} ({ratio['must']:g}) x {name}"
                     for name, ratio in row.get("ratios", {}).items())


def scale_text(row):
    """"x 1.9: line round trip 260 ns", or nothing: the bars hold as they are."""
    if "scale" not in row:
        return ""
    name, unit = STANDARD_NAMES[row["scaled_by"]]
    return f"x {row['scale']:.2f}: {name} {row[row['scaled_by']]:.3g} {unit}"


def without_empty(header, lines):
    """Leaves out the columns in which nothing stands."""
    kept = [column for column in range(len(header)) if any(line[column] for line in lines)]
    return [[line[column] for column in kept] for line in [header, *lines]]


def peer_names(rows):
    return sorted({name for row in rows for name in row.get("peers", {})})


def text_table(table):
    names = peer_names(table)
    header = ["row", "unit", "value", "spread", "floor", *names, "must", "aim", "ratio (must)", "bars scaled", "met"]
    lines = []
    for row in table:
        met = {None: "", True: "yes", False: "NO"}[row["met"]]
        lines.append([
            row["row"], row["unit"] or "",
            number(row["value"]),
            number(row["spread"] or None),
            number(row["floor"]), *[number(row.get("peers", {}).get(name)) for name in names],
            number(row["must"]),
            number(row["aim"]),
            ratios_text(row),
            scale_text(row), met
        ])
    shown = without_empty(header, lines)
    widths = [max(len(line[column]) for line in shown) for column in range(len(shown[0]))]
    return "".join("  ".join(
        text.ljust(width) if column < 2 else text.rjust(width)
        for column, (text, width) in enumerate(zip(line, widths))).rstrip() + "\n" for line in shown)


def markdown_table(rows):
    names = peer_names(rows)
    header = ["", "Troupe", "must", "aim", *names, "ratio (must)", "bars scaled", "met"]
    lines = []
    for row in rows:
        met = {None: "", True: "yes", False: "no"}[row["met"]]
        lines.append([
            f"{row['what']} (`{row['row']}`)", f"{number(row['value'])} {row['unit']}",
            number(row["must"]),
            number(row["aim"]), *[number(row.get("peers", {}).get(name)) for name in names],
            ratios_text(row),
            scale_text(row), met
        ])
    shown = without_empty(header, lines)
    return "".join("| " + " | ".join(line) + " |\n" for line in [shown[0], ["---"] * len(shown[0]), *shown[1:]])


class Run:
    """What one run has seen. `outputs`: what measures printed themselves, by name; `about`: lines on command and
    machine."""

    def __init__(self, table, missing, outputs, about):
        self.table, self.missing, self.outputs, self.about = table, missing, outputs, about

    def section(self, kind, what):
        """The text between the marks, or None: this run has nothing to say there."""
        if kind == "-about":
            if what and not any(re.search(what, row["row"]) for row in self.table):
                return None
            return "".join(line + "\n" for line in self.about)
        if kind == "-output":
            return f"```\n{self.outputs[what].rstrip()}\n```\n" if self.outputs.get(what) else None
        rows = [row for row in self.table if "what" in row and re.search(what, row["row"])]
        if not rows or any(re.search(what, name) for name in self.missing):
            return None
        return markdown_table(rows)


def fill_page(text, run):
    """The page with the figures of this run, and the marks that were left as they were."""
    left = []

    def replace(match):
        new = run.section(match["kind"], match["what"])
        if new is None:
            left.append(match.group(0).split("\n")[0])
            return match.group(0)
        return match.group(0).split("\n")[0] + "\n" + new + "<!-- /bench -->"

    return MARK.sub(replace, text), left

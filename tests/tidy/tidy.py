"""Checks the rules of the house (rules.py) on the source tree:

  arrows    a folder includes only folders below it
  public    a header in core/include names only the standard library and <troupe/...>
  alone     every header compiles by itself, without a warning. One that some .cc includes first is compiled so by the
            preset dev, and is left out here without --every-header
  banned    calls that have a better replacement
  columns   no line is longer than 120
  names     a file of ours that a comment names is there
  promises  an identifier of an invariant is declared once; what is cited anywhere is declared

and prints the ten longest files and functions: a list to think about, not a failure. Exit code: 0 clean, 1 violations,
2 wrong usage. Needs Python 3 and a C++ compiler, nothing else.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rules  # noqa: E402

TOP = ("core", "scheduler", "objectstore", "collective", "kernels", "apps", "tests", "bench")
SOURCES = (".h", ".cc", ".inc", ".cu", ".cuh")
PUBLIC = ("core/include/", "kernels/include/", "collective/include/")  # what is installed
SKIPPED = ("tests/golden", "apps/data")  # no code
CONTROL = re.compile(r"^(?:if|for|while|switch|do|else|catch|try|return|namespace|extern|enum|union|case|default)\b")


def blank(text):
    """The code with comments and the insides of strings turned into spaces; lines stay where they are."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.S)

    def replace(match):
        token = match.group(0)
        if token[0] == '"' and re.search(r"#\s*include\s*$", text[max(0, match.start() - 40):match.start()]):
            return token
        return re.sub(r"[^\n]", " ", token)

    return pattern.sub(replace, text)


def folder_of(path):
    """The layer of a file or of an include: the longest prefix of its path that the table has, or None."""
    parts = path.split("/")[:-1]
    if parts[:1] == ["core"]:
        parts = ["api"] if parts[1:2] == ["include"] else parts[1:]
    while parts and "/".join(parts) not in rules.LAYERS:
        parts.pop()
    return "/".join(parts) or None


def covers(names, layer):
    """Whether one of these names is the layer, or a folder above it."""
    parts = layer.split("/")
    return any("/".join(parts[:end]) in names for end in range(1, len(parts) + 1))


def target_of(include):
    """The layer that an #include names, or None when it is not ours."""
    if include.startswith("troupe/"):
        return "api"
    return folder_of(include) if include.split("/")[0] in TOP else None


class Tree:
    """The files of a source tree with their text, read once."""

    def __init__(self, root):
        self.root, self.text, self.code, self.docs = root, {}, {}, {}
        for top in TOP:
            for folder, folders, names in os.walk(os.path.join(root, top)):
                folders[:] = [
                    name for name in folders
                    if name not in ("build",
                                    "__pycache__") and os.path.relpath(os.path.join(folder, name), root) not in SKIPPED
                ]
                for name in sorted(names):
                    if name.endswith(SOURCES):
                        path = os.path.relpath(os.path.join(folder, name), root)
                        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
                            self.text[path] = file.read()
                        self.code[path] = blank(self.text[path])

        self.patches = {}
        for folder, _, names in os.walk(os.path.join(root, "tests")):
            for path in (os.path.relpath(os.path.join(folder, name), root) for name in sorted(names)
                         if name.endswith(".patch")):
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    self.patches[path] = file.read()
        self.scripts = {}
        for top in TOP:
            for folder, _, names in os.walk(os.path.join(root, top)):
                for path in (os.path.relpath(os.path.join(folder, name), root) for name in sorted(names)
                             if name.endswith(".py")):
                    with open(os.path.join(root, path), encoding="utf-8") as file:
                        self.scripts[path] = file.read()
        for folder, _, names in os.walk(os.path.join(root, "docs")):
            for name in sorted(names):
                if name.endswith(".md"):
                    path = os.path.relpath(os.path.join(folder, name), root)
                    with open(os.path.join(root, path), encoding="utf-8") as file:
                        self.docs[path] = file.read()

    def includes(self, path):
        for number, line in enumerate(self.code[path].split("\n"), 1):
            match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if match:
                yield number, match.group(1), match.group(2)


def check_arrows(tree):
    problems = []
    for path in tree.text:
        layer = folder_of(path)
        if layer not in rules.LAYERS:
            problems.append(f"{path}: its folder is not in the table of layers (tests/tidy/rules.py)")
            continue
        allowed = rules.LAYERS[layer]
        if allowed is None or path.startswith("core/include/"):
            continue
        allowed = set(allowed) | {layer, "api"}
        for prefix, (more, _) in rules.MORE_INCLUDES.items():
            if path.startswith(prefix):
                allowed |= set(more)
        for line, _, include in tree.includes(path):
            target = target_of(include)
            if target is not None and not covers(allowed, target):
                problems.append(
                    f"{path}:{line}: {layer} may not include {include}: the arrows go from {layer} "
                    f"to {', '.join(sorted(allowed - {layer}))} only"
                )
    return problems


def check_public(tree):
    problems = []
    for path in tree.text:
        if not path.startswith(PUBLIC):
            continue
        for line, quote, include in tree.includes(path):
            if quote != "<" or not (include.startswith("troupe/") or re.fullmatch(r"[a-z_0-9]+", include)):
                problems.append(
                    f"{path}:{line}: a public header includes {include}: "
                    "only the standard library and <troupe/...> are allowed"
                )
    return problems


def check_banned(tree):
    problems = []
    for path, code in tree.code.items():
        for ban in rules.BANS:
            if not path.startswith(ban.where) or any(path.startswith(prefix) for prefix in ban.allowed):
                continue
            if ban.headers_only and not path.endswith((".h", ".inc")):
                continue
            for match in re.finditer(ban.pattern, code, re.M):
                line = code.count("\n", 0, match.start()) + 1
                problems.append(f"{path}:{line}: banned ({ban.name}): {match.group(0).strip()}; instead: {ban.instead}")
    return problems


NAMED_FILE = re.compile(r"(?<![\w/.<\"-])((?:[a-z_0-9]+/)+[a-z_0-9]+\.(?:h|cc|cuh|inc|cu))\b")


def check_names(tree):
    """Names with a folder only: `frame.h` may be anybody's."""
    problems = []
    for path, text in tree.text.items():
        for number, line in enumerate(text.split("\n"), 1):
            comment = line[line.index("//"):] if "//" in line else ""
            for name in NAMED_FILE.findall(comment):
                ours = any(("/" + known).endswith("/" + name) for known in tree.text)
                if not ours and not name.startswith(rules.FOREIGN):
                    problems.append(f"{path}:{number}: a comment names {name}, which is not there")
    return problems


def check_columns(tree):
    problems = []
    for path, text in (tree.text | tree.scripts).items():
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > rules.COLUMNS:
                problems.append(f"{path}:{number}: {len(line)} columns, more than {rules.COLUMNS}")
    return problems


DECLARED = re.compile(
    r"\s*//+\s*([A-Z]{2,4}-\d+)  +(?!\()")  # `//   AB-1  Text`; `//   AB-1  (file.h)` points to another contract
CITED = re.compile(r"(?<![\w-])([A-Z]{2,4})-(\d+)(?![\w.])")
NAMED = re.compile(r"(?:(?<=[\s,(_])|(?<=\.))([A-Z]{2,4})(\d+)(?=_)")  # in the name of a test: RW2_ARowHas...


def check_promises(tree):
    problems, declared = [], {}
    for path, text in tree.text.items():
        for number, line in enumerate(text.split("\n"), 1):
            match = DECLARED.match(line)
            if match:
                declared.setdefault(match.group(1), []).append(f"{path}:{number}")
    for name, places in sorted(declared.items()):
        if len(places) > 1:
            problems.append(
                f"{places[1]}: {name} is declared in {places[0]} as well: "
                "an invariant's identifier is unique in the tree"
            )
    for path, text in (tree.text | tree.docs).items():
        for number, line in enumerate(text.split("\n"), 1):
            found = CITED.findall(line)
            if re.match(r"\s*TEST(?:_F|_P)?\(", line) or path in tree.docs:
                found += NAMED.findall(line)
            for letters, digits in found:
                name = f"{letters}-{digits}"
                if letters not in rules.NO_PROMISES and name not in declared:
                    problems.append(
                        f"{path}:{number}: {name} is declared nowhere (`//   {name}  what holds` in a contract)")
    return problems


HUNK = re.compile(r"^@@ [^\n]*\n((?:[ +-][^\n]*\n?|\n)*)", re.M)


def check_patches(tree):
    """A mutation must apply to the code as it is: what it expects stands in its file, once at least."""
    problems = []
    for path, patch in tree.patches.items():
        for part in re.split(r"^--- ", patch, flags=re.M)[1:]:
            name = re.search(r"^\+\+\+ b/(\S+)", part, re.M)
            text = tree.text.get(name.group(1)) if name else None
            hunks = HUNK.findall(part)
            if text is None or not hunks:
                problems.append(f"{path}: patches {name.group(1) if name else 'nothing'}, which is not there")
                continue
            for hunk in hunks:
                before = "".join(line[1:] for line in hunk.splitlines(keepends=True) if line[0] in " -")
                if before not in text:
                    problems.append(f"{path}: does not apply any more to {name.group(1)}")
    return problems


def digest(root, paths):
    total = hashlib.sha256()
    for path in sorted(paths):
        try:
            with open(os.path.join(root, path), "rb") as file:
                total.update(path.encode() + b"\0" + hashlib.sha256(file.read()).digest())
        except OSError:
            return None
    return total.hexdigest()


def compile_alone(root, compiler, flags, path):
    """Compiles a file that includes nothing but this header. Returns (errors, the files of ours that it reads)."""
    public = path.startswith(PUBLIC)
    include = f"<{path.split('/include/', 1)[1]}>" if public else f'"{path}"'
    own = [f"-I{folder}" for folder in PUBLIC] + ([] if public else ["-I."])
    with tempfile.NamedTemporaryFile(suffix=".d") as depends:
        command = [compiler, *flags, *own, "-fsyntax-only", "-MMD", "-MF", depends.name, "-x", "c++", "-"]
        done = subprocess.run(command, input=f"#include {include}\n", cwd=root, text=True, capture_output=True)
        names = re.sub(r"\\\n", " ", depends.read().decode()).split(":", 1)[-1].split()
    ours = [os.path.relpath(os.path.join(root, name), root) for name in names if name != "-"]
    return (done.stderr if done.returncode else ""), [name for name in ours if not name.startswith("..")]


def first_included(tree):
    """The headers that a .cc includes before anything else."""
    found = set()
    for path in (path for path in tree.text if path.endswith(".cc")):
        include = re.search(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', tree.text[path], re.M)
        if include:
            beside = os.path.join(os.path.dirname(path), include.group(1))
            found.update(name for name in (include.group(1), beside, *(top + include.group(1) for top in PUBLIC))
                         if name in tree.text)
    return found


def check_alone(tree, compiler, flags, cache_file, jobs, every=True):
    """Compiles every header whose text, or that of what it includes, has changed since it last passed. `every`: also
    those that a .cc includes first."""
    cache = {}
    if cache_file and os.path.exists(cache_file):
        try:
            with open(cache_file, encoding="utf-8") as file:
                cache = json.load(file)
        except ValueError:
            cache = {}
    # Without its first word, the name by which the compiler was called: c++ and g++ are one.
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    version = said.split(" ", 1)[-1] + " " + " ".join(flags)
    left_out = set() if every else first_included(tree)
    headers = [
        path for path in tree.text if path.endswith(".h") and path not in left_out
        and not any(path.startswith(prefix) for prefix in rules.NOT_ALONE)
    ]
    todo = []
    for path in headers:
        known = cache.get(path)
        if not known or known["version"] != version or digest(tree.root, known["reads"]) != known["digest"]:
            todo.append(path)
    problems = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for path, (errors, reads) in zip(todo,
                                         pool.map(lambda name: compile_alone(tree.root, compiler, flags, name), todo)):
            cache.pop(path, None)
            if errors:
                first = "\n    ".join([line for line in errors.split("\n") if "error" in line or "warning" in line][:3])
                problems.append(f"{path}: does not compile alone:\n    {first}")
            else:
                cache[path] = {"version": version, "reads": reads, "digest": digest(tree.root, reads)}
    if cache_file:
        with open(cache_file, "w", encoding="utf-8") as file:
            json.dump(cache, file)
    print(f"{len(headers)} headers compile alone ({len(headers) - len(todo)} unchanged since they last did), "
          f"{len(left_out)} are the first that a .cc includes"
          if not problems else f"{len(problems)} of {len(headers)} headers do not compile alone")
    return problems


def functions(code):
    """(lines, first line, head) of every function body that is not inside another one."""
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda match: re.sub(r"[^\n]", " ", match.group(0)), code,
                  flags=re.M)
    found, stack, start = [], [], 0
    for match in re.finditer(r"[{};]", code):
        at, sign = match.start(), match.group(0)
        if sign == "{":
            head = " ".join(code[start:at].split())
            head = re.sub(r"^(?:public|private|protected)\s*:\s*", "", head)
            inside = any(kind == "function" for kind, _, _ in stack)
            plain = "(" in head and not CONTROL.match(head) and not re.match(
                r"^(?:template\s*<[^()]*>\s*)?(?:class|struct)\b[^()]*$", head)
            initializer = re.search(r"(?:=|\breturn|,|\()\s*$", head) is not None
            kind = "function" if plain and not inside and not initializer else "other"
            first = code.count("\n", 0, start + len(code[start:at]) - len(code[start:at].lstrip())) + 1
            stack.append((kind, first, head))
            start = at + 1
        elif sign == "}":
            if stack:
                kind, first, head = stack.pop()
                if kind == "function":
                    found.append((code.count("\n", 0, at) + 2 - first, first, head))
            start = at + 1
        else:
            start = at + 1
    return found


def print_longest(tree):
    product = [path for path in tree.text if not path.startswith("tests/")]
    files = sorted(((tree.text[path].count("\n"), path) for path in product), reverse=True)[:10]
    print("longest files:")
    for lines, path in files:
        print(f"  {lines:5d}  {path}")
    bodies = sorted(
        ((lines, path, first, head) for path in product for lines, first, head in functions(tree.code[path])),
        reverse=True)[:10]
    print("longest functions:")
    for lines, path, first, head in bodies:
        name = re.search(r"([\w:~]+|operator\S+)\s*\(", head)
        print(f"  {lines:5d}  {path}:{first}  {name.group(1) if name else head[:40]}")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(prog="tests/tidy", description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(here)), help="the source tree")
    parser.add_argument("--compiler", default=os.environ.get("CXX", "g++"))
    parser.add_argument("--cache", help="file that remembers which headers compiled")
    parser.add_argument("--no-compile", action="store_true", help="only the checks that need no compiler")
    parser.add_argument("--every-header", action="store_true", help="compile also those that a .cc includes first")
    parser.add_argument("-j", "--jobs", type=int, default=min(os.cpu_count() or 2, 16))
    arguments = parser.parse_args()
    root = os.path.abspath(arguments.root)
    if not os.path.isdir(root):
        parser.error(f"no such folder: {root}")
    tree = Tree(root)
    problems = [*check_arrows(tree), *check_public(tree), *check_banned(tree), *check_columns(tree), *check_names(tree),
                *check_promises(tree), *check_patches(tree)]
    if not arguments.no_compile:
        flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror"]
        problems += check_alone(tree, arguments.compiler, flags, arguments.cache, arguments.jobs,
                                arguments.every_header)
    print_longest(tree)
    for problem in problems:
        print(problem)
    print(f"tidy: {len(tree.text)} files, {len(problems)} violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
